"""What a training job keeps and moves per parameter, by recipe, optimizer and adapters."""

from __future__ import annotations

from planner.engine.job.defaults import Chooser
from planner.engine.job.engine import Engine
from planner.engine.job.weight_storage import GPTQ_UNPACKED_BYTES, UNPACK_HOST_S, UNPACKED_BYTES, stored_bytes
from planner.engine.memory.activations import Manner
from planner.engine.memory.footprint import footprint
from planner.engine.records.footprint import Footprint
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.matrices import adapter_parameters
from planner.workload.optimizers import OPTIMIZERS
from planner.workload.tasks import Workload

RECIPES: dict[str, tuple[float, float, float, float]] = {
    # name: bytes per parameter of weights, gradients, master copy, and of autocast's cast copies of linear weights
    "fp32": (4, 4, 0, 0),
    "amp": (4, 4, 0, 2),
    "mixed": (2, 4, 4, 0),
    "bf16": (2, 2, 0, 0),
}


def training_numbers(workload: Workload, architecture: Architecture, choose: Chooser, problems: Problems) -> dict[str, float]:
    """Bytes per parameter of weights, gradients, states and copies, and what a step moves."""
    recipe = choose("recipe", "bf16" if workload.lora or workload.task == "finetune" else "mixed")
    optimizer = OPTIMIZERS[choose("optimizer", "adamw")]
    weight, gradient, master, cast = RECIPES[recipe]
    linear = other = weight
    packed, adapters, base = 0.0, 0.0, workload.lora.base if workload.lora else ""
    if workload.lora is not None:
        if workload.lora.rank <= 0:
            problems.add("lora.rank", f"{workload.lora.rank} is not accepted; it has to be above 0.")
        adapters = float(adapter_parameters(architecture, workload.lora.rank, workload.lora.adapted))
        linear, other, packed = stored_bytes(base, "lora.base", architecture, problems)
        sixteen = recipe == "bf16" and base not in {"nf4", "nf4-dq", "fp4", "int8"}
        gradient, cast = (2.0 if sixteen else 4.0), 0.0
        master = gradient  # the adapters' own weights, which stand beside the frozen base
    width = 2.0 if recipe == "bf16" and workload.lora is None else 4.0
    if not optimizer.updates:
        gradient, master, cast = 0.0, 0.0, 0.0
    return {
        "adapters": adapters,
        "linear_bytes": linear,
        "other_bytes": other,
        "weight_bits_packed": packed,
        "unpacked_bytes": GPTQ_UNPACKED_BYTES if base.startswith("gptq") else UNPACKED_BYTES,
        "keeps_unpacked": float(base.startswith("gptq")),
        "unpack_host_s": UNPACK_HOST_S.get(base, 0.0),
        "gptq": 0.0,
        "kv_bytes": 0.0,
        "gradient_bytes": gradient,
        "master_bytes": master,
        "cast_bytes": cast,
        "state_bytes": optimizer.state_bytes(width, architecture),
        "state_traffic": optimizer.step_traffic_bytes(width, architecture),
        "autocast": float(recipe == "amp"),
        "in_backward": float(bool(workload.optimizer_in_backward)),
        "offload_optimizer": float(choose("offload", "none") in {"optimizer", "parameters"}),
        "offload_parameters": float(workload.offload == "parameters"),
        "offload_activations": float(workload.offload == "activations"),
    }


def footprint_of(
    workload: Workload, architecture: Architecture, choose: Chooser, engine: Engine, parts: dict[str, float]
) -> Footprint[float]:
    """What the job keeps; adapters on a packed base are FP32 and multiplied under autocast, as `peft` prepares them."""
    recipe, lora = choose("recipe", choose.assumed.get("recipe")), workload.lora
    packed = parts["weight_bits_packed"] > 0
    manner = Manner(
        wide=4.0 if recipe == "fp32" else 2.0,
        residual=4.0 if recipe == "fp32" or (recipe == "amp" and lora is None) else 2.0,
        autocast=recipe == "amp" or packed,
        fused=bool(engine.fused_elementwise or workload.compile),
        eager=bool(parts["eager"]),
        sequence=float(choose("sequence", 2048)),
        all_inputs=lora is not None and lora.base in UNPACK_HOST_S and engine.packed_keep_inputs,
        adapted=None if lora is None else frozenset(lora.adapted),
        rank=float(lora.rank if lora else 0),
        adapter_bytes=parts["gradient_bytes"] if lora else 2.0,
    )
    optimizer = OPTIMIZERS[choose("optimizer", choose.assumed.get("optimizer"))]
    return footprint(architecture, manner, recipe=recipe, optimizer=optimizer, loss=choose("loss", "full"))
