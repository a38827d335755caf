"""A workload with every default filled in that does not depend on hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from planner.engine.job.beside import companion_numbers, draft_of, generating, rollout_numbers, with_documents
from planner.engine.job.bounds import check_consistency
from planner.engine.job.context_length import positions_assumed
from planner.engine.job.defaults import Defaults
from planner.engine.job.encoders import USUAL_ENGINE, as_read, check_encoder, encoder_assumed
from planner.engine.job.engine import Engine
from planner.engine.job.engines import ENGINES, GENERIC, find_engine, usual_name, without_graphs
from planner.engine.job.inference import inference_numbers, picture_numbers, request_numbers
from planner.engine.job.job import Job
from planner.engine.job.people import people_assumed
from planner.engine.job.training import footprint_of, training_numbers
from planner.engine.job.weight_storage import BITSANDBYTES
from planner.engine.records.footprint import Footprint
from planner.errors import Problems
from planner.workload.architecture import Architecture, Models
from planner.workload.tasks import Workload, trains
from planner.workload.weights import DTYPE_BYTES

W = TypeVar("W", bound=Workload)

TRAINING_SHARE = 0.98
"""Share of the driver's memory that training may fill: three published jobs on A100 ran out of memory where 98 to 100 % was predicted
(fms-acceleration's benchmarks, BLOOM's chronicles), because blocks of several sizes leave gaps at the end."""


def resolve(workload: Workload, models: Models, where: str = "", *, headroom: float = 0.0) -> Job:
    """Fill in every default; `headroom` is used for a workload that states none.

    Raises `UserError` naming each value that is missing, out of range or contradictory.
    """
    if workload.engine:
        workload = msgspec.structs.replace(workload, engine=usual_name(workload.engine))
    problems, defaults, architecture = Problems(where), Defaults(workload), models.main
    train = trains(workload.task)
    check_consistency(workload, problems)
    workload = with_documents(workload, defaults.assumed)
    if architecture.encoder:
        workload = as_read(workload, architecture, defaults.assumed, problems)
    check_encoder(workload, architecture, problems)
    engine = _engine(workload, architecture, defaults, problems)
    encoder_assumed(architecture, engine, defaults)
    architecture = _as_run(architecture, engine, defaults.assumed)
    workload = _with_turned_on(workload, architecture, engine, defaults.assumed)
    defaults = Defaults(workload, defaults.assumed)
    dtype = defaults.given_or("dtype", "fp32" if train and workload.recipe == "fp32" else "bf16")
    if train:
        numbers = training_numbers(workload, architecture, defaults, problems, engine)
    else:
        numbers = inference_numbers(architecture, defaults, problems, dtype, fp8_cache=engine.fp8_cache)
        numbers |= picture_numbers(workload, architecture, defaults, problems)
        numbers |= request_numbers(workload, defaults, architecture.source_tokens)
    numbers |= companion_numbers(workload, models, problems) | rollout_numbers(workload, models)
    draft = draft_of(workload, models.companions, defaults, problems)
    problems.raise_if_any()
    if architecture.taken_as:
        defaults.assumed["model"] = architecture.taken_as
    defaults.assumed |= positions_assumed(workload, architecture) | people_assumed(workload)
    defaults.assumed |= _windows_assumed(workload, architecture, engine, numbers) | _recurrences_assumed(architecture, engine)
    memory_fraction = TRAINING_SHARE if train else _memory_fraction(workload, defaults, engine)
    numbers |= _attention_numbers(workload, architecture, engine, defaults)
    eager = bool(numbers["eager_attention"])
    compiled = defaults.given_or("compile", default=False) if train else workload.compile
    given_headroom = workload.targets.headroom
    return Job(
        task=workload.task,
        train=float(train),
        engine_open=float(train and not workload.engine),
        program_open=float(train and bool(workload.engine) and not engine.peaks_compared),
        dtype=dtype,
        stored=_stored(workload, defaults),
        activation_bytes=DTYPE_BYTES[dtype] if dtype in {"fp32", "tf32"} else 2.0,
        narrow_bytes=DTYPE_BYTES[dtype] if dtype in {"fp8", "int8", "fp4"} else 0.0,
        compiled=float(bool(compiled)),
        expert_imbalance=workload.expert_imbalance or 0.0,
        memory_fraction=memory_fraction,
        headroom=headroom if given_headroom is None else given_headroom,
        engine=engine,
        workload=workload,
        architecture=architecture,
        footprint=footprint_of(workload, architecture, defaults, engine, numbers, dtype=dtype, eager=eager)
        if train
        else Footprint(),
        assumed=defaults.assumed,
        rollout=resolve(generating(workload), Models(models.main), where) if workload.rollout else None,
        draft=draft,
        draft_tokens=draft.tokens if draft else 0.0,
        acceptance=draft.acceptance if draft else 0.0,
        **numbers,
    )


def _engine(workload: Workload, architecture: Architecture, defaults: Defaults, problems: Problems) -> Engine:
    """Named engine, or the usual one. Raises `UserError` for an unknown engine."""
    engine = find_engine(defaults.given_or("engine", _usual_engine(workload, architecture)), problems.where)
    if engine.latent_as and architecture.latent_rank:
        engine = find_engine(engine.latent_as)
    if trains(workload.task) and not engine.trains:
        able = ", ".join(name for name, records in ENGINES.items() if records[0].trains)
        problems.add("engine", f"{workload.engine!r} does not train; it has to be one of {able}.")
    if engine.runs:
        defaults.assumed["engine_runs"] = engine.runs
    if engine.release and "@" not in (workload.engine or ""):
        defaults.assumed["engine_release"] = engine.release
    if workload.cuda_graphs is False:
        eager = without_graphs(engine)
        if eager is engine:
            defaults.assumed["cuda_graphs"] = f"the cost of {engine.label} without CUDA graphs is not known; timed with its default"
        return eager
    return engine


def _as_run(architecture: Architecture, engine: Engine, assumed: dict[str, Any]) -> Architecture:
    """`architecture` with its matrices joined or separate as in `engine`; remarks go into `assumed`."""
    if engine.joins_projections:
        copied = msgspec.structs.replace(architecture.block, repeated_keys=True)
        architecture = msgspec.structs.replace(architecture, fused_qkv=not architecture.latent_rank, block=copied)
    if engine.head_apart and architecture.tied:
        architecture = msgspec.structs.replace(architecture, tied=False)
        assumed["head"] = f"{engine.label} keeps embedding and head apart"
    return architecture


def _attention_numbers(workload: Workload, architecture: Architecture, engine: Engine, defaults: Defaults) -> dict[str, float]:
    """Attention kernels, given or usual, as numbers of the job."""
    stores_scores = engine.stores_scores(architecture)
    attention = defaults.given_or("attention", "eager" if stores_scores else "flash-2" if engine.ampere_attention else "flash")
    if attention == "flash" and engine.ampere_attention:
        attention = "flash-2"
    fused, given = attention != "eager" or not architecture.scored_share, workload.attention
    return {
        "eager_attention": float(not fused),
        "ampere_attention": float(attention in {"flash-2", "memory-efficient"}),
        "triton_attention": float(engine.triton_attention and fused and given not in {"flash-2", "flash-3"}),
        "masks_windows": float(engine.masks_windows and given in {None, "eager", "memory-efficient"}),
        "torch_attention": float(engine.torch_attention and fused),
    }


def _windows_assumed(
    workload: Workload, architecture: Architecture, engine: Engine, numbers: Mapping[str, float]
) -> dict[str, str]:
    """Remark on windows that are masks; empty if a kernel is given or no window is exceeded."""
    longest = max(numbers.get("sequence", 0.0), numbers.get("input_tokens", 0.0))
    if not engine.masks_windows or workload.attention or not architecture.windowed_layers or longest <= (architecture.window or 0):
        return {}
    return {
        "windows": "masks, behind which PyTorch's attention computes whole squares; attention = flash asks for FlashAttention, which does not"
    }


def _recurrences_assumed(architecture: Architecture, engine: Engine) -> dict[str, str]:
    """Remark on kernels of recurrences that have to be installed; empty if a model has none or an engine includes them.

    A step of Qwen3.5 0.8B without them took 12 times as long on an H100, and 27 % more memory (docs/evidence/h200.md).
    """
    if not engine.recurrences_apart or not any(one.scan_flop for one in architecture.attention):
        return {}
    return {
        "recurrences": "kernels of flash-linear-attention, mamba-ssm and causal-conv1d, where a model uses them; without these packages a step may take ten times as long"
    }


def _with_turned_on(workload: W, architecture: Architecture, engine: Engine, assumed: dict[str, Any]) -> W:
    """`workload` with the settings of `engine` for absent keys; they are listed in `assumed`."""
    turned_on = {key: value for key, value in engine.turns_on.items() if getattr(workload, key) is None}
    if workload.weight_dtype or trains(workload.task):
        stored = engine.stores.get(workload.weight_dtype or "")
    else:
        stored = (engine.fetches or engine.stores).get(architecture.stored_as)
    if stored:
        turned_on["weight_dtype"] = stored
    assumed |= turned_on
    return msgspec.structs.replace(workload, **turned_on) if turned_on else workload


def _usual_engine(workload: Workload, architecture: Architecture) -> str:
    """Engine of a workload that names none.

    Transformer Engine (in Megatron) trains in FP8; the Trainer of transformers, and PEFT on it, tune models; vLLM serves, whatever the
    format of the weights; transformers runs a batch with weights of bitsandbytes.
    """
    if trains(workload.task):
        return (
            "megatron" if workload.dtype == "fp8" else "transformers" if workload.lora or workload.task == "finetune" else "torch"
        )
    if workload.task == "serve" and not architecture.source:
        return "vllm"
    if workload.weight_dtype in BITSANDBYTES:
        return "transformers"
    if architecture.source:
        return USUAL_ENGINE if workload.task == "serve" else "transformers"
    return GENERIC


def _memory_fraction(workload: Workload, defaults: Defaults, engine: Engine) -> float:
    """Share of the GPU that an inference engine may use; 1 if its memory grows as needed."""
    if workload.memory_fraction is None and engine.pool_fraction is None:
        return 1.0
    return float(defaults.given_or("memory_fraction", engine.pool_fraction))


def _stored(workload: Workload, defaults: Defaults) -> str:
    """Storage format of the linear weights."""
    if trains(workload.task):
        return workload.lora.base if workload.lora else "bf16"
    return workload.weight_dtype or str(defaults.assumed["weight_dtype"])
