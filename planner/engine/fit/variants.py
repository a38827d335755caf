"""Requests of one model on given GPUs: every weight precision, training method and layout that is worth a look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec

from planner.engine.job.compute_capability import USUAL
from planner.engine.job.engines import ENGINES, usual_name
from planner.engine.job.engines.catalogue import STAND_INS
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import linked_gpus
from planner.hardware.catalogue.mig import split_name
from planner.workload.architecture import Architecture
from planner.workload.checkpoints.gguf import MIXES
from planner.workload.tasks import Dtype, Lora, Recipe, Request, trains
from planner.workload.weights import FORMATS

SERVED_IN = ("fp8", "gptq-int8", "awq", "nvfp4", "mxfp4", "q4_k_m")
"""Weight formats beside 16 bit: those vLLM loads, and the most downloaded one of llama.cpp."""
FEWER_BITS = 0.75
"""Share of the bits of the published weights below which another format is worth a look."""
LLAMA_CPP = "llama.cpp"
SMALL_PARAMETERS = 1e9
"""A model below this gains nothing from tensor parallelism."""
MOST_TENSOR_PARALLEL = 8
STAGED_PARAMETERS, MOST_STAGES = 50e9, 16
"""Parameters above which a model may be divided into pipeline stages, each of one node's tensor-parallel GPUs; and the most stages."""
TRAINED_AS: tuple[Recipe, ...] = ("mixed", "amp", "bf16")
"""Recipes of training all parameters."""
WEIGHTS_OF_RECIPE = {"fp32": "fp32", "amp": "fp32", "mixed": "bf16", "bf16": "bf16"}
ADAPTED_AS = ("bf16", "nf4")
"""Storage of the frozen weights under adapters."""
ADAPTER_RANK = 16
MICRO_BATCHES = (1, 8)


class Variant(NamedTuple):
    """One candidate: a request, and the row it competes for."""

    request: Request
    weight_dtype: str
    method: str = ""


def variants_of(base: Request, gpu: Gpu, gpus: int, model: Architecture) -> Iterator[Variant]:
    """Every candidate of `base`, whose model is `model`, on `gpus` of `gpu`; what `base` states stays as it is."""
    for method in _trained(base, gpu) if trains(base.task) else _stored(base, gpu, model):
        for layout in _layouts(base, gpu, gpus, model, method.request.engine):
            yield method._replace(request=msgspec.structs.replace(method.request, **layout))


def _stored(base: Request, gpu: Gpu, model: Architecture) -> Iterator[Variant]:
    """Weight formats of an inference job."""
    dtype = _computed_in(base, gpu)
    plain = dtype if dtype in USUAL else "bf16"
    for name in _formats(base, gpu, model, plain):
        engine = base.engine or (LLAMA_CPP if name in MIXES else None)
        yield Variant(msgspec.structs.replace(base, weight_dtype=name, dtype=dtype, engine=engine), name)


def _computed_in(base: Request, gpu: Gpu) -> Dtype | None:
    """Compute dtype of the request; None if `base` leaves it open and the usual one, BF16, is possible."""
    usual = next((name for name in USUAL if name in gpu.compute_flop_per_s), None)
    return base.dtype or (None if usual == "bf16" else usual)


def _formats(base: Request, gpu: Gpu, model: Architecture, plain: str) -> Sequence[str]:
    """Format of the published checkpoint, and those of clearly fewer bits: nobody stores a model in as many as it was published in, or more."""
    if base.weight_dtype is not None:
        return (base.weight_dtype,)
    engine = _engine(base.engine)
    published = model.stored_as if model.stored_as in FORMATS else plain
    first = ENGINES[engine][0].stores.get(published, published) if engine in ENGINES else published
    fewer = (name for name in _packed_for(engine, gpu, model) if FORMATS[name].bits < FEWER_BITS * FORMATS[first].bits)
    return (first, *fewer)


def _packed_for(engine: str, gpu: Gpu, model: Architecture) -> Iterator[str]:
    """Formats below 16 bit that `engine` ('': any) loads, and that the GPU has a use for."""
    if engine == LLAMA_CPP:
        yield from ("q8_0", "q4_k_m")
    elif engine and engine not in {"vllm", "sglang", "tensorrt-llm"}:
        yield from ("int8", "nf4")
    else:
        left_out = {
            name for name, usable in (("nvfp4", "fp4" in gpu.compute_flop_per_s), ("mxfp4", model.experts > 0)) if not usable
        }
        yield from (name for name in SERVED_IN if name not in left_out and (name not in MIXES or not engine))


def _trained(base: Request, gpu: Gpu) -> Iterator[Variant]:
    """Training of all parameters in every recipe, and of adapters."""
    base = msgspec.structs.replace(base, dtype=_computed_in(base, gpu))
    if base.task == "train" or base.recipe is not None:
        recipes: Sequence[Recipe] = (base.recipe,) if base.recipe else TRAINED_AS
    else:
        recipes = ("mixed", "bf16")
    if base.lora is None:
        for recipe in recipes:
            yield Variant(msgspec.structs.replace(base, recipe=recipe), WEIGHTS_OF_RECIPE[recipe], f"all parameters, {recipe}")
    if base.task == "finetune" and base.recipe is None:
        for stored in ADAPTED_AS if base.lora is None else (base.lora.base,):
            lora = msgspec.structs.replace(base.lora or Lora(rank=ADAPTER_RANK), base=stored)
            yield Variant(msgspec.structs.replace(base, lora=lora), stored, f"LoRA rank {lora.rank}")


def _layouts(base: Request, gpu: Gpu, gpus: int, model: Architecture, engine: str | None) -> Iterator[dict[str, Any]]:
    """Degrees and batches that `base` leaves open, as fields of a request."""
    for tp, pp, dp in _degrees(base, gpu, gpus, model, engine):
        degrees = {"gpus": gpus, "tp": tp, "pp": pp, "dp": dp}
        if not trains(base.task):
            yield degrees
            continue
        shardings = (base.sharding,) if base.sharding or dp == 1 else ("zero1", "zero3")
        recomputed = (base.checkpointing,) if base.checkpointing else ("none", "full")
        sizes = (base.micro_batch,) if base.micro_batch else MICRO_BATCHES
        for sharding, checkpointing, size in product(shardings, recomputed, sizes):
            if base.global_batch is None or base.global_batch % (size * dp) == 0:
                yield degrees | {"sharding": sharding, "checkpointing": checkpointing, "micro_batch": size}


def is_load_open(base: Request) -> bool:
    """True if a service takes as many requests at once as it can."""
    return base.task == "serve" and base.concurrency is None and base.request_rate_per_s is None and base.daily_users is None


def _degrees(base: Request, gpu: Gpu, gpus: int, model: Architecture, engine: str | None) -> Iterator[tuple[int, int, int]]:
    """(tp, pp, dp) on all GPUs: replicas of one size, which tensor parallelism holds inside a node and stages over nodes."""
    if base.tp or base.pp or base.dp or base.cp:
        rest = max(1, gpus // ((base.pp or 1) * (base.cp or 1)))
        tp = base.tp or (max(1, rest // base.dp) if base.dp else 1)
        yield tp, base.pp or 1, base.dp or max(1, rest // tp)
        return
    if split_name(gpu.name) is not None:  # slices hold replicas alone
        yield 1, 1, gpus
        return
    per_node = base.gpus_per_node or linked_gpus(gpu, gpus)
    if _engine(engine) == LLAMA_CPP:
        yield from ((1, stages, gpus // stages) for stages in _divisors(min(gpus, per_node)) if stages <= model.layers)
        return
    for tp in _divisors(gpus):
        inside = tp <= min(per_node, MOST_TENSOR_PARALLEL) and model.heads % tp == 0
        if inside and (tp == 1 or model.total > SMALL_PARAMETERS):
            yield tp, 1, gpus // tp
            if tp == min(per_node, MOST_TENSOR_PARALLEL) and model.total > STAGED_PARAMETERS:
                rest = gpus // tp
                yield from (
                    (tp, stages, rest // stages) for stages in _divisors(rest) if 1 < stages <= min(MOST_STAGES, model.layers)
                )


def _engine(named: str | None) -> str:
    """The engine whose record counts for `named`, without its release; '' for none."""
    name = usual_name(named or "").partition("@")[0]
    return STAND_INS[name].engine if name in STAND_INS else name


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
