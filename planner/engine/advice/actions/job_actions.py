"""Actions on the job that runs on a GPU: its batch, its number formats, its checkpointing."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.advice.advice import Action
from planner.engine.advice.case import Case
from planner.engine.advice.cheaper_gpu import changed
from planner.engine.advice.diagnosis import SM_HIGH
from planner.engine.answers.answer import Answer
from planner.units import bytes_text, percent_text
from planner.workload.tasks import Workload, trains

EIGHT_BIT = ("fp8", "int8")
CODE_AHEAD = "Larger batches, more workers that load data, CUDA graphs or torch.compile"
BATCH_UNKNOWN = "Counters do not show how much faster that is; --preset NAME lets the engine predict it."


def batch(case: Case) -> Iterator[Action]:
    """Give each launch more work, where the host cannot keep up or weights are read for too few tokens."""
    if case.judgement.limiter == "launch/host":
        active = case.seen.sm_active or 0.0
        saves = case.saving(1 - active / SM_HIGH, f"(1 - {active:.4f} ÷ {SM_HIGH:.2f})", at_most=True)
        text = f"{CODE_AHEAD}: the GPU waits. The same work in as few hours as if SM active rose to {percent_text(SM_HIGH)}."
        yield Action(kind="batch", text=text, saves=saves)
        return
    text = "Larger batches: each read of the weights then serves more tokens."
    if case.inputs.workload is None or case.here is None:
        yield Action(kind="batch", text=text, note=BATCH_UNKNOWN)
        return
    larger = _larger_batch(case.inputs.workload)
    if larger is not None and case.gpu is not None:
        name, value = larger
        answer = changed(case.inputs.workload, case.gpu.name, case.inputs.estimate, **{name: value})
        yield from _faster(case, "batch", f"{name} {value}: {text}", answer)


def _larger_batch(workload: Workload) -> tuple[str, int] | None:
    """Field that doubles the batch, and its value."""
    if workload.batch:
        return "batch", 2 * workload.batch
    if isinstance(workload.concurrency, int):
        return "concurrency", 2 * workload.concurrency
    return ("micro_batch", 2 * workload.micro_batch) if workload.micro_batch else None


def quantise(case: Case) -> Iterator[Action]:
    """Store weights in fewer bytes: faster where bandwidth is the limit, smaller where memory is; for arithmetic only the engine can tell."""
    workload = case.inputs.workload
    full = case.judgement.limiter == "memory capacity"
    if workload is not None and case.gpu is not None and case.here is not None:
        if trains(workload.task) or (workload.weight_dtype or "bf16") not in {"bf16", "fp16", "fp32"}:
            return
        for stored in EIGHT_BIT:
            answer = changed(workload, case.gpu.name, case.inputs.estimate, weight_dtype=stored)
            if answer is not None:
                yield from _faster(case, "quantise", f"Weights in {stored}", answer)
                return
        return
    if case.judgement.limiter == "compute":
        return
    if full:
        text = "Weights in 8 bits, if they are in 16: half their bytes. In training: the optimizer's state in 8 bits."
        yield Action(
            kind="quantise",
            text=text,
            note="Counters do not show how many bytes are weights; --preset NAME lets the engine predict it.",
        )
        return
    saves = case.saving(1 / 2, "(1 - 1 ÷ 2)", at_most=True)
    text = "Weights in 8 bits, if they are in 16: at most twice the tokens for the same bytes."
    yield Action(kind="quantise", text=text, saves=saves)


def _faster(case: Case, kind: str, text: str, answer: Answer | None) -> Iterator[Action]:
    """An action by which the engine expects more tokens: the same work in fewer hours; and the bytes it frees."""
    here = case.here
    if answer is None or here is None or answer.tokens_per_s is None or here.tokens_per_s is None:
        return
    ratio = answer.tokens_per_s.value / here.tokens_per_s.value
    freed = here.memory_bytes.total.value - answer.memory_bytes.total.value if here.memory_bytes and answer.memory_bytes else 0.0
    checks = [f"engine: {ratio:.2f} × the tokens/s"] + ([f"{bytes_text(freed)} less memory"] if freed > 0 else [])
    saves = case.saving(1 - 1 / ratio, f"(1 - 1 ÷ {ratio:.4f})")
    if kind == "batch" and ratio > 1:
        yield Action(kind="batch", text=text, saves=saves, checks=checks)
    elif kind == "quantise" and (ratio > 1 or freed > 0):
        yield Action(kind="quantise", text=text, saves=saves if ratio > 1 else None, checks=checks)


def checkpoint(case: Case) -> Iterator[Action]:
    """Recompute activations instead of keeping them, in training."""
    workload = case.inputs.workload
    if workload is None:
        text = "In training: activation checkpointing, about 40 % less memory for 20 to 30 % more time. In serving: fewer sequences at once."
        yield Action(kind="checkpoint", text=text, note="It keeps the job alive; it saves nothing by itself.")
        return
    if not trains(workload.task) or workload.checkpointing == "full" or case.gpu is None or case.here is None:
        return
    answer = changed(workload, case.gpu.name, case.inputs.estimate, checkpointing="full")
    if answer is None or answer.memory_bytes is None or case.here.memory_bytes is None or not answer.step_s or not case.here.step_s:
        return
    freed = case.here.memory_bytes.total.value - answer.memory_bytes.total.value
    slower = answer.step_s.value / case.here.step_s.value - 1
    checks = [f"engine: {bytes_text(freed)} less memory, {percent_text(slower)} slower"]
    yield Action(
        kind="checkpoint",
        text="Activation checkpointing.",
        checks=checks,
        note="It keeps the job alive; it saves nothing by itself.",
    )
