"""Every default of a workload filled in, hardware aside."""

from __future__ import annotations

from planner.engine.job.bounds import check_numbers
from planner.engine.job.companions import Held, held
from planner.engine.job.context_length import context_assumed
from planner.engine.job.defaults import Chooser
from planner.engine.job.draft_model import draft_of
from planner.engine.job.engines import ENGINES, find_engine
from planner.engine.job.inference import inference_numbers, lengths_of
from planner.engine.job.job import Job
from planner.engine.job.training import footprint_of, training_numbers
from planner.engine.job.weight_storage import UNPACK_HOST_S
from planner.engine.records.footprint import Footprint
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload
from planner.workload.weights import DTYPE_BYTES


def resolve(workload: Workload, architecture: Architecture, where: str = "", *, headroom: float = 0.0) -> Job:
    """Fill in every default. Raises `UserError` naming each value that is missing, out of range or contradictory."""
    problems = Problems(where)
    choose = Chooser(workload)
    train = workload.task in {"train", "finetune"}
    check_numbers(workload, problems)
    if architecture.encoder and workload.task in {"generate", "serve"}:
        name = architecture.family
        problems.add(
            "task",
            f"{workload.task!r} is not possible: {name} is an encoder and generates nothing; use train, finetune or prefill.",
        )
    engine = find_engine(choose("engine", usual_engine(workload)), where)
    if train and not engine.trains:
        able = ", ".join(name for name, records in ENGINES.items() if records[0].trains)
        problems.add("engine", f"{workload.engine!r} does not train; it has to be one of {able}.")
    if engine.release and "@" not in (workload.engine or ""):
        choose.assumed["engine_release"] = engine.release
    dtype = choose("dtype", "fp32" if train and workload.recipe == "fp32" else "bf16")
    parts = (
        training_numbers(workload, architecture, choose, problems)
        if train
        else inference_numbers(architecture, choose, problems, dtype, fp8_cache=engine.fp8_cache)
    )
    lengths = lengths_of(workload, choose, problems, train=train)
    beside = held(workload, architecture, problems)
    draft = draft_of(workload, architecture, choose, problems)
    problems.raise_if_any()
    choose.assumed |= context_assumed(workload, architecture)
    fraction = workload.memory_fraction if workload.memory_fraction is not None else engine.pool_fraction
    if not train and fraction is not None and workload.memory_fraction is None:
        choose.assumed["memory_fraction"] = fraction
    asked = workload.targets.headroom
    stores_scores = engine.eager_attention or (engine.eager_by_family and architecture.eager_attention)
    eager = choose("attention", "eager" if stores_scores else "flash") == "eager"
    return Job(
        task=workload.task,
        train=float(train),
        dtype=dtype,
        activation_bytes=DTYPE_BYTES[dtype] if dtype in {"fp32", "tf32"} else 2.0,
        narrow_bytes=DTYPE_BYTES[dtype] if dtype in {"fp8", "int8", "fp4"} else 0.0,
        eager_attention=float(eager),
        compiled=float(choose("compile", default=False)) if train else float(bool(workload.compile)),
        memory_fraction=1.0 if train or fraction is None else fraction,
        headroom=headroom if asked is None else asked,
        engine=engine,
        workload=workload,
        architecture=architecture,
        footprint=footprint_of(workload, architecture, choose, engine, parts | {"eager": eager}) if train else Footprint(),
        assumed=choose.assumed,
        stored=workload.lora.base
        if train and workload.lora
        else "bf16"
        if train
        else workload.weight_dtype or choose.assumed["weight_dtype"],
        draft=draft,
        draft_tokens=draft.tokens if draft else 0.0,
        acceptance=draft.acceptance if draft else 0.0,
        **_beside(beside),
        **parts,
        **lengths,
    )


def _beside(found: Held) -> dict[str, float]:
    return {
        "frozen_bytes": found.frozen_bytes,
        "trained_beside": found.trained,
        "draft_cached": found.cached_per_token,
        "adapter_bytes": found.adapter_bytes,
    }


def usual_engine(workload: Workload) -> str:
    """What runs a workload that does not say.

    Transformer Engine (in Megatron) trains in FP8, PEFT on transformers tunes adapters and runs bitsandbytes' formats, vLLM serves.
    """
    if workload.task in {"train", "finetune"}:
        return "megatron" if workload.dtype == "fp8" else "transformers" if workload.lora else "torch"
    if workload.weight_dtype in UNPACK_HOST_S:
        return "transformers"
    return "vllm" if workload.task == "serve" else "generic"
