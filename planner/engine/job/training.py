"""What a training job keeps and moves per parameter, by recipe, optimizer and adapters."""

from __future__ import annotations

from planner.engine.job.defaults import Defaults
from planner.engine.job.engine import Engine
from planner.engine.job.weight_storage import GPTQ_UNPACKED_BYTES, UNPACK_HOST_S, UNPACKED_BYTES, weight_numbers
from planner.engine.memory.activations import LayerExecution
from planner.engine.memory.footprint import footprint
from planner.engine.memory.recipes import RECIPES
from planner.engine.records.footprint import Footprint
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.matrices import adapter_parameters
from planner.workload.optimizers import OPTIMIZERS
from planner.workload.tasks import Workload


def training_numbers(workload: Workload, architecture: Architecture, defaults: Defaults, problems: Problems) -> dict[str, float]:
    """Bytes per parameter of weights, gradients, states and copies, what a step moves, and the sizes of its batches."""
    recipe = RECIPES[_recipe(workload, defaults)]
    optimizer = OPTIMIZERS[_optimizer(defaults)]
    lora = workload.lora
    gptq = lora is not None and lora.base.startswith("gptq")
    numbers = {
        "linear_bytes": recipe.weight_bytes,
        "other_bytes": recipe.weight_bytes,
        "weight_bits_packed": 0.0,
        "unpack_host_s": 0.0,
        "unpacked_bytes": GPTQ_UNPACKED_BYTES if gptq else UNPACKED_BYTES,
        "keeps_unpacked": float(gptq),
        "gradient_bytes": recipe.gradient_bytes,
        "master_bytes": recipe.master_bytes,
        "cast_bytes": recipe.cast_bytes,
        "autocast": float(recipe.autocast),
    }
    state_bytes = recipe.state_bytes
    if lora is not None:
        gradient_bytes = 4.0 if lora.base in UNPACK_HOST_S else recipe.gradient_bytes
        state_bytes = 4.0
        numbers |= weight_numbers(lora.base, "lora.base", architecture, problems)
        numbers |= {
            "adapters": float(adapter_parameters(architecture, lora.rank, lora.adapted)),
            "gradient_bytes": gradient_bytes,
            "master_bytes": gradient_bytes,  # the adapters' own weights, which stand beside the frozen base
            "cast_bytes": 0.0,
        }
    if not optimizer.updates:
        numbers |= dict.fromkeys(("gradient_bytes", "master_bytes", "cast_bytes"), 0.0)
    return numbers | {
        "gptq": 0.0,  # its kernels are for inference
        "state_bytes": optimizer.state_bytes(state_bytes, architecture),
        "state_traffic": optimizer.step_traffic_bytes(state_bytes, architecture),
        "in_backward": float(bool(workload.optimizer_in_backward)),
        "offload_optimizer": float(defaults.given_or("offload", "none") in {"optimizer", "parameters"}),
        "offload_parameters": float(workload.offload == "parameters"),
        "offload_activations": float(workload.offload == "activations"),
        "sequence": float(_sequence(defaults)),
        "global_batch": float(workload.global_batch or 0),
        "micro_batch": float(workload.micro_batch or 0),
    }


def footprint_of(
    workload: Workload, architecture: Architecture, defaults: Defaults, engine: Engine, numbers: dict[str, float], *, eager: bool
) -> Footprint[float]:
    """What the job keeps per token and per parameter; `numbers`: those of `training_numbers`.

    Adapters on a packed base are FP32 and multiplied under autocast, as PEFT prepares them.
    """
    recipe, lora = RECIPES[_recipe(workload, defaults)], workload.lora
    how = LayerExecution(
        product_bytes=recipe.product_bytes,
        residual_bytes=recipe.residual_bytes if lora is None or not recipe.autocast else 2.0,
        autocast=recipe.autocast or numbers["weight_bits_packed"] > 0,
        fused=bool(engine.fused_elementwise or workload.compile),
        eager=eager,
        sequence=float(_sequence(defaults)),
        all_inputs=lora is not None and lora.base in UNPACK_HOST_S and engine.packed_keep_inputs,
        adapted=None if lora is None else frozenset(lora.adapted),
        rank=float(lora.rank if lora else 0),
        adapter_bytes=numbers["gradient_bytes"] if lora else 2.0,
    )
    optimizer = OPTIMIZERS[_optimizer(defaults)]
    return footprint(architecture, how, recipe=recipe, optimizer=optimizer, loss=defaults.given_or("loss", "full"))


def _recipe(workload: Workload, defaults: Defaults) -> str:
    return str(defaults.given_or("recipe", "bf16" if workload.lora or workload.task == "finetune" else "mixed"))


def _optimizer(defaults: Defaults) -> str:
    return str(defaults.given_or("optimizer", "adamw"))


def _sequence(defaults: Defaults) -> int:
    return int(defaults.given_or("sequence", 2048))
