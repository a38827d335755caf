"""Models beside the one that is run: further ones and adapters on the same GPUs, a draft, and the generation of answers to train on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from planner.engine.job.defaults import Defaults
from planner.engine.job.weight_storage import weight_numbers
from planner.engine.records.job import StoredWeights
from planner.errors import Problems, nearest_names
from planner.workload.architecture import Architecture, Models
from planner.workload.matrices import adapter_parameters
from planner.workload.tasks import Companion, Lengths, Lora, Rollout, Workload, trains
from planner.workload.traffic.lengths import sigma_of
from planner.workload.weights import FORMATS

SERVED_ADAPTER_BYTES = 2.0
"""Bytes of one adapter parameter while serving: adapters are kept in 16 bit."""
USUAL_DRAFT_TOKENS = 4
"""Tokens proposed at once where the workload does not say: Leviathan et al. (arXiv:2211.17192) find 3 to 7 best, vLLM's examples ask for 3 to 5."""
W = TypeVar("W", bound=Workload)
USUAL_ANSWERS = 8
"""Answers to a prompt where the workload does not say: TRL's GRPOConfig (num_generations)."""
USUAL_ENGINE = "vllm"
LONGEST_DEVIATIONS = 2.326
"""Standard deviations to the 99th percentile, at which answers are cut where the workload gives no length of sequences."""


def companion_numbers(workload: Workload, models: Models, problems: Problems) -> dict[str, float]:
    """Totals over all companions before they are divided among GPUs, by the names of `JobNumbers`.

    Every companion or adapter that cannot be is added to `problems`.
    """
    frozen_bytes = trained = cached = 0.0
    for number, (companion, other) in enumerate(zip(workload.companions, models.companions, strict=True)):
        _check(companion, f"companions[{number}]", problems, train=trains(workload.task))
        if companion.role == "critic":
            trained += other.total
        elif companion.weight_dtype in FORMATS:
            frozen_bytes += FORMATS[companion.weight_dtype].stored(other).total_bytes
        if companion.role == "draft":
            cached += other.cached_all + other.cached_window
    return {
        "frozen_bytes": frozen_bytes,
        "trained_beside": trained,
        "draft_cached": cached,
        "adapter_bytes": _adapter_bytes(workload, models.main, problems),
        "served_adapters": 0.0 if workload.lora is None or trains(workload.task) else float(workload.adapters or 1),
    }


def _check(companion: Companion, key: str, problems: Problems, *, train: bool) -> None:
    if (companion.role == "draft") == train:
        with_it = "generating and serving" if companion.role == "draft" else "training"
        problems.add(f"{key}.role", f"{companion.role!r} is only held while {with_it}.")
    if companion.weight_dtype not in FORMATS:
        near = nearest_names(companion.weight_dtype, FORMATS)
        problems.add(
            f"{key}.weight_dtype", f"{companion.weight_dtype!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", near
        )


def _adapter_bytes(workload: Workload, architecture: Architecture, problems: Problems) -> float:
    """Bytes of the adapters that are loaded while generating or serving."""
    if workload.adapters is not None:
        if trains(workload.task):
            problems.add("adapters", "counts adapters loaded while generating or serving; `lora` alone says what is trained.")
        elif workload.lora is None:
            problems.add("adapters", f"{workload.adapters} adapters without a size; `lora` has to give rank and targets.")
    if workload.lora is None or trains(workload.task):
        return 0.0
    return (workload.adapters or 1) * adapters_of(architecture, workload.lora, problems) * SERVED_ADAPTER_BYTES


def adapters_of(architecture: Architecture, lora: Lora, problems: Problems) -> int:
    """Parameters of one set of adapters, which has to have some: training without any would be training of every weight."""
    found = adapter_parameters(architecture, lora.rank, lora.adapted)
    if not found:
        problems.add(
            "lora.targets", f"the model has none of {', '.join(lora.adapted)}; 'all-linear' adapts the projections it has."
        )
    return found


class Draft(StoredWeights[float], frozen=True, kw_only=True):
    """A model that proposes tokens; it computes in the types of the workload."""

    architecture: Architecture
    tokens: float
    """Tokens proposed for each pass of the model."""
    acceptance: float


def draft_of(workload: Workload, companions: Sequence[Architecture], defaults: Defaults, problems: Problems) -> Draft | None:
    """Draft whose acceptance is given; None if there is none. Contradictions are added to `problems`."""
    timed = None
    for number, (companion, model) in enumerate(zip(workload.companions, companions, strict=True)):
        key = f"companions[{number}]"
        if not _checked(companion, key, problems):
            continue
        if timed is not None:
            problems.add(f"{key}.acceptance", "only one draft can be timed.")
            continue
        timed = _draft(companion, model, defaults)
        if workload.disaggregated:
            problems.add(
                f"{key}.acceptance",
                "a draft is not timed for disaggregated replicas; without one only its memory counts.",
            )
    return timed


def _checked(companion: Companion, key: str, problems: Problems) -> bool:
    """True if the passes of `companion` are to be timed; contradictions are added to `problems`."""
    given = {name: getattr(companion, name) for name in ("acceptance", "draft_tokens")}
    if companion.role != "draft":
        for name, value in given.items():
            if value is not None:
                problems.add(f"{key}.{name}", f"{value} is of a draft; {companion.role!r} proposes no tokens.")
        return False
    if companion.acceptance is None:
        if companion.draft_tokens is not None:
            problems.add(f"{key}.acceptance", f"missing; {companion.draft_tokens} draft tokens are timed by how many are accepted.")
        return False
    return True


def _draft(companion: Companion, model: Architecture, defaults: Defaults) -> Draft:
    """Draft to be timed; a storage format that does not exist is reported by `companion_numbers`."""
    if companion.draft_tokens is None:
        defaults.assumed["draft_tokens"] = USUAL_DRAFT_TOKENS
    return Draft(
        architecture=model,
        tokens=float(companion.draft_tokens or USUAL_DRAFT_TOKENS),
        acceptance=float(companion.acceptance or 0.0),
        **weight_numbers(companion.weight_dtype, "weight_dtype", model, Problems()),
    )


def generating(workload: Workload) -> Workload:
    """Workload of generating answers: a service with as many at once as fit, in 16 bit."""
    rollout = workload.rollout
    assert rollout is not None
    return Workload(
        model=workload.model,
        task="serve",
        dtype="fp16" if workload.dtype == "fp16" else "bf16",
        engine=rollout.engine or USUAL_ENGINE,
        input_tokens=rollout.prompt_tokens,
        output_tokens=rollout.answer_tokens,
        concurrency="max",
    )


def with_documents(workload: W, assumed: dict[str, Any]) -> W:
    """`workload` with prompts and answers as the documents it trains on, and sequences as long as the longest, where it does not state them."""
    rollout = workload.rollout
    if rollout is None or workload.document_tokens is not None:
        return workload
    filled: dict[str, Any] = {"document_tokens": _whole(rollout)}
    if workload.sequence is None:
        filled["sequence"] = assumed["sequence"] = _longest(rollout)
    return msgspec.structs.replace(workload, **filled)


def _whole(rollout: Rollout) -> int | Lengths:
    """Tokens of a prompt with its answer."""
    prompt, answer = rollout.prompt_tokens, rollout.answer_tokens
    if not isinstance(answer, Lengths):
        return prompt + answer
    median, late = (None if tokens is None else prompt + tokens for tokens in (answer.p50, answer.p95))
    return Lengths(mean=prompt + answer.mean, p50=median, p95=late)


def _longest(rollout: Rollout) -> int:
    """Tokens of a prompt with the 99th percentile of its answers."""
    answer, spread = rollout.answer_tokens, sigma_of(rollout.answer_tokens)
    mean = answer.mean if isinstance(answer, Lengths) else answer
    return rollout.prompt_tokens + math.ceil(mean * math.exp(LONGEST_DEVIATIONS * spread - spread**2 / 2))


def rollout_numbers(workload: Workload, models: Models) -> dict[str, float]:
    """Numbers of the rollout by the names of `JobNumbers`; none if there is none.

    The model's own probabilities of an answer are computed once more by the program that trains, as those of the engine differ; a reference, a
    reward model and a critic read each answer once. A companion's pass takes as long as it has active parameters.
    """
    rollout = workload.rollout
    if rollout is None:
        return {}
    sizes = {"critic": 0.0, "frozen": 0.0}
    for companion, model in zip(workload.companions, models.companions, strict=True):
        sizes["critic" if companion.role == "critic" else "frozen"] += model.active / models.main.active
    answer, spread = rollout.answer_tokens, sigma_of(rollout.answer_tokens)
    return {
        "rolls": 1.0,
        "answer_log_mean": math.log(answer.mean if isinstance(answer, Lengths) else answer) - spread**2 / 2,
        "answer_log_spread": spread,
        "rollout_answers": float(rollout.answers or USUAL_ANSWERS),
        "rollout_steps": float(rollout.steps or 1),
        "rollout_tp": float(rollout.tp or 0),
        "rollout_share": rollout.memory_share or 0.0,
        "rollout_gpus": float(rollout.gpus or 0),
        "scored": 1.0 + sizes["frozen"] + sizes["critic"],
        "critic_steps": sizes["critic"],
    }
