"""Training on answers that the model itself generates (GRPO, RLOO, PPO): the job that generates them, and the passes beside the update."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

from planner.workload.architecture import Models
from planner.workload.tasks import Lengths, Rollout, Workload
from planner.workload.traffic.lengths import sigma_of

W = TypeVar("W", bound=Workload)
USUAL_ANSWERS = 8
"""Answers to a prompt where the workload does not say: TRL's GRPOConfig (num_generations)."""
USUAL_ENGINE = "vllm"
LONGEST_DEVIATIONS = 2.326
"""Standard deviations to the 99th percentile, at which answers are cut where the workload gives no length of sequences."""


def generating(workload: Workload) -> Workload:
    """The workload of generating answers: a service with as many at once as fit, in 16 bit."""
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
    """`workload` with prompts and answers as the documents it trains on, and sequences of the longest, where it says nothing of them."""
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
    median, late = (None if of is None else prompt + of for of in (answer.p50, answer.p95))
    return Lengths(mean=prompt + answer.mean, p50=median, p95=late)


def _longest(rollout: Rollout) -> int:
    """Tokens of a prompt with the 99th percentile of its answers."""
    answer, spread = rollout.answer_tokens, sigma_of(rollout.answer_tokens)
    mean = answer.mean if isinstance(answer, Lengths) else answer
    return rollout.prompt_tokens + math.ceil(mean * math.exp(LONGEST_DEVIATIONS * spread - spread**2 / 2))


def rollout_numbers(workload: Workload, models: Models) -> dict[str, float]:
    """Numbers of the rollout by the names of `JobNumbers`; none where there is none.

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
