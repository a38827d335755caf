"""Bytes a training job keeps and moves per parameter, by recipe, optimizer and adapters."""

from __future__ import annotations

from msgspec.structs import replace

from planner.engine.job.beside import adapters_of
from planner.engine.job.defaults import Defaults
from planner.engine.job.encoders import USUAL_SEQUENCE, source_numbers
from planner.engine.job.engine import Engine
from planner.engine.job.weight_storage import GPTQ_UNPACKED_BYTES, UNPACK_HOST_S, UNPACKED_BYTES, uniform_bytes, weight_numbers
from planner.engine.memory.footprint import RECIPES, footprint
from planner.engine.memory.layers.layer_execution import LayerExecution
from planner.engine.records.footprint import Footprint
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.matrices import adapted, adapter_parameters
from planner.workload.optimizers import OPTIMIZERS
from planner.workload.tasks import Lora, Workload
from planner.workload.traffic.lengths import documents_of

GATHERED_IN_16_BIT = {"zero3", "hsdp"}
"""Shardings under which weights in FP32 are cast before they are gathered, instead of by autocast (FSDP's MixedPrecisionPolicy)."""

PEFT_PREPARES = "in FP32 under autocast, as PEFT prepares them: each keeps a copy of its input, which takes more than packing saves at large batches"


def training_numbers(
    workload: Workload, architecture: Architecture, defaults: Defaults, problems: Problems, engine: Engine
) -> dict[str, float]:
    """Bytes per parameter of weights, gradients, states and copies, what a step moves, and the sizes of its batches."""
    recipe = RECIPES[_recipe(workload, defaults, engine)]
    optimizer = OPTIMIZERS[_optimizer(workload, defaults, engine)]
    lora = workload.lora
    gptq = lora is not None and lora.base.startswith("gptq")
    numbers = {
        **uniform_bytes(recipe.weight_bytes),
        "weight_bits_packed": 0.0,
        "unpack_host_s": 0.0,
        "unpacked_bytes": GPTQ_UNPACKED_BYTES if gptq else UNPACKED_BYTES,
        "keeps_unpacked": float(gptq),
        "gradient_bytes": 2.0 if recipe.master_bytes and engine.gradients_16_bit else recipe.gradient_bytes,
        "master_bytes": recipe.master_bytes,
        "cast_bytes": 0.0 if workload.sharding in GATHERED_IN_16_BIT else recipe.cast_bytes,
        "autocast": float(recipe.autocast and workload.sharding not in GATHERED_IN_16_BIT),
    }
    state_bytes = recipe.state_bytes
    if lora is not None:
        prepared = engine.prepares_adapters and lora.base in UNPACK_HOST_S
        gradient_bytes = 4.0 if prepared else recipe.gradient_bytes
        if prepared:
            defaults.assumed["adapters_on_packed_weights"] = PEFT_PREPARES
        state_bytes = 4.0
        numbers |= weight_numbers(lora.base, "lora.base", architecture, problems)
        if _widens(workload, engine):
            numbers |= {"other_bytes": 4.0, "autocast": 1.0}
        numbers |= {
            "adapter_traffic": _adapter_traffic(architecture, lora, fused=bool(engine.fused_elementwise or workload.compile)),
            "adapter_products": sum(one.layers for one in adapted(architecture, lora.adapted)) / _layers(architecture),
            "adapters": float(adapters_of(architecture, lora, problems)),
            "expert_adapters": float(adapter_parameters(architecture, lora.rank, lora.adapted, experts=True)),
            "gradient_bytes": gradient_bytes,
            "master_bytes": gradient_bytes,  # the adapters' own weights, which stand beside the frozen base
            "cast_bytes": 0.0,
        }
    sequence = _sequence(defaults, architecture)
    numbers |= source_numbers(workload, architecture, defaults, sequence)
    if not optimizer.updates:
        numbers |= dict.fromkeys(("gradient_bytes", "master_bytes", "cast_bytes"), 0.0)
    on_host = float(defaults.given_or("offload", "none") in {"optimizer", "parameters"})
    return numbers | {
        "gptq": 0.0,  # its kernels are for inference
        "state_bytes": optimizer.state_bytes(state_bytes, architecture),
        "state_traffic": optimizer.step_traffic_bytes(state_bytes, architecture, fused=bool(on_host)),
        "state_flop": 0.0 if lora else optimizer.step_flop(architecture),  # adapters' matrices are narrow
        "in_backward": float(bool(workload.optimizer_in_backward)),
        "predicts_tokens": float(not _classifies(workload, architecture)),
        "offload_optimizer": on_host,
        "offload_parameters": float(workload.offload == "parameters"),
        "offload_activations": float(workload.offload == "activations"),
        "sequence": float(sequence),
        **_documents(workload, sequence, architecture, defaults),
        "global_batch": float(workload.global_batch or 0),
        "micro_batch": float(workload.micro_batch or 0),
    }


def footprint_of(
    workload: Workload,
    architecture: Architecture,
    defaults: Defaults,
    engine: Engine,
    numbers: dict[str, float],
    *,
    dtype: str,
    eager: bool,
) -> Footprint[float]:
    """Bytes the job keeps per token and per parameter; `numbers`: those of `training_numbers`.

    Adapters on a packed base are multiplied under autocast where the engine prepares them so.
    """
    recipe, lora = RECIPES[_recipe(workload, defaults, engine)], workload.lora
    if workload.sharding in GATHERED_IN_16_BIT and recipe.autocast and lora is None:
        recipe = replace(RECIPES["bf16"], gradient_bytes=recipe.gradient_bytes, state_bytes=recipe.state_bytes)
    how = LayerExecution(
        product_bytes=recipe.product_bytes,
        residual_bytes=4.0 if _widens(workload, engine) else recipe.residual_bytes if lora is None or not recipe.autocast else 2.0,
        autocast=recipe.autocast or (engine.prepares_adapters and numbers["weight_bits_packed"] > 0),
        fused=bool(engine.fused_elementwise or workload.compile),
        compiled=bool(workload.compile),
        fused_loss=bool(workload.compile) and engine.loss_compiled != "never",
        eager=eager,
        sequence=numbers["sequence"],
        source=numbers.get("input_tokens", 0.0),
        all_inputs=lora is not None and lora.base in UNPACK_HOST_S and engine.packed_keep_inputs,
        drops_inputs=lora is not None and engine.drops_adapter_inputs,
        adapted=None if lora is None else frozenset(lora.adapted),
        rank=float(lora.rank if lora else 0),
        adapter_bytes=numbers["gradient_bytes"] if lora else 2.0,
        input_bytes=1.0 if engine.keeps_8_bit_inputs and dtype == "fp8" else 0.0,
        weighs_inside=engine.recomputes_modules,
        by_modules=engine.recomputes_modules,
    )
    optimizer = OPTIMIZERS[_optimizer(workload, defaults, engine)]
    loss = defaults.given_or("loss", "fused" if workload.compile and engine.loss_compiled == "always" else "full")
    if loss == "fused" and workload.compile and engine.loss_compiled == "never":
        loss, defaults.assumed["loss_kernel"] = "full", f"{engine.label} of that month compiles the layers, not the loss"
    if loss == "fused" and workload.compile and engine.loss_compiled != "no":
        loss, defaults.assumed["loss_kernel"] = "compiled", "torch.compile fuses the loss; the logits remain"
    if loss == "fused" and engine.fuses_whole_loss and workload.sharding in GATHERED_IN_16_BIT:
        loss, defaults.assumed["loss_kernel"] = "full", f"{engine.label} does not fuse the loss under FSDP"
    if _classifies(workload, architecture):
        loss, defaults.assumed["head"] = "none", "an encoder is tuned for another task than words: its head is small"
    other_loss = (
        {"full": "compiled", "compiled": "full"}.get(loss) if workload.compile and engine.loss_compiled == "asked" else None
    )
    return footprint(architecture, how, recipe=recipe, optimizer=optimizer, loss=loss, other_loss=other_loss)


def _widens(workload: Workload, engine: Engine) -> bool:
    """The residual stream under adapters is FP32, as embedding and norms of a packed base were made so."""
    lora = workload.lora
    return (
        engine.widens_residual and lora is not None and lora.base in UNPACK_HOST_S and workload.sharding not in GATHERED_IN_16_BIT
    )


def _documents(workload: Workload, sequence: int, architecture: Architecture, defaults: Defaults) -> dict[str, float]:
    """Lengths of documents and how they share sequences; empty if the workload does not state them."""
    if workload.document_tokens is None:
        return {}
    packing = defaults.given_or("packing", "longest" if workload.task == "finetune" or architecture.encoder else "joined")
    documents = documents_of(workload.document_tokens, sequence)
    return {
        "document_tokens": documents.mean,
        "document_context": documents.context,
        "document_log_mean": documents.log_mean,
        "document_log_spread": documents.log_spread,
        "one_document": float(packing in {"padded", "longest"}),
        "to_longest": float(packing == "longest"),
        "separate_documents": float(packing == "separate"),
    }


def _classifies(workload: Workload, architecture: Architecture) -> bool:
    """The output is no word of the vocabulary: fine-tuned encoders label sequences and spans."""
    return architecture.encoder and workload.task == "finetune"


def _adapter_traffic(architecture: Architecture, lora: Lora, *, fused: bool) -> float:
    """Bytes per token and layer, the mean over both stacks where there are two: the input read by the narrow factor; what the wide one writes, scaled and added to the product.

    PEFT's result + B(A(x)) · scale: write, read and write, two reads and a write of each output; fused: read while the product is written.
    """
    each = 1.0 if fused else 6.0
    moved = 0.0
    for one in adapted(architecture, lora.adapted):
        often = architecture.experts_per_token if one.part == "experts" else 1
        moved += one.layers * often * (one.inputs + each * one.outputs)
    return 2.0 * moved / _layers(architecture)


def _layers(architecture: Architecture) -> int:
    """Layers of both stacks, where there are two."""
    return architecture.layers + (architecture.source.layers if architecture.source else 0)


def _recipe(workload: Workload, defaults: Defaults, engine: Engine) -> str:
    """Recipe as given; else 16 bit in fine-tuning, but what accelerate makes of it under FSDP."""
    tuned = "amp" if engine.accelerates and workload.sharding in GATHERED_IN_16_BIT and not workload.lora else "bf16"
    return str(defaults.given_or("recipe", tuned if workload.lora or workload.task == "finetune" else "mixed"))


def _optimizer(workload: Workload, defaults: Defaults, engine: Engine) -> str:
    """Optimizer as given; else AdamW in one kernel, as programs that train have it, but what a library has that is named itself."""
    unfused = engine.unfused_optimizer and workload.engine
    return str(defaults.given_or("optimizer", "adamw" if unfused else "adamw-fused"))


def _sequence(defaults: Defaults, architecture: Architecture) -> int:
    """Tokens of a training sequence; of the decoder where an encoder reads beside it."""
    usual = 2048 if architecture.source is None else min(USUAL_SEQUENCE, architecture.max_context or USUAL_SEQUENCE)
    return int(defaults.given_or("sequence", usual))
