"""Training memory as the planner predicts it beside what PyTorch holds, over all cases."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine_sample import candidate, chip
from memory_cases import Case, Held, cases, held

from planner.engine.memory import memory_of
from planner.engine.records.layout import CHECKPOINTING


def predicted(case: Case) -> tuple[float, float]:
    """(bytes one layer keeps, bytes at the peak of the step), as the planner has them."""
    lora: dict[str, Any] = {"lora": {"rank": case.rank, "targets": list(case.targets) or "all-linear"}} if case.rank else {}
    one = candidate(
        chip("H100-SXM-80GB"),
        {"checkpointing": CHECKPOINTING[case.checkpointing]},
        model=case.model,
        task="finetune" if case.rank else "train",
        recipe=case.recipe,
        optimizer="adamw-fused" if case.fused else case.optimizer,
        attention=case.attention,
        loss=case.loss,
        micro_batch=case.micro_batch,
        sequence=case.sequence,
        global_batch=case.micro_batch * case.accumulated,
        optimizer_in_backward=case.in_backward,
        engine="torch",
        **lora,
    )
    kept = one.jobs[0].footprint
    stored = kept.attention + kept.scores
    attention = min(kept.attention_recomputed, stored) if case.checkpointing == "selective" else stored
    found = memory_of(one.table())
    layer = case.micro_batch * case.sequence * (kept.norms + attention + kept.mlp + kept.dropout)
    return layer, float((found.total - found.overhead)[0])


@cache
def compared() -> list[tuple[Case, Held, float, float]]:
    """Each case with what PyTorch holds, and the planner's bytes of a layer and of the peak."""
    return [(case, held(case), *predicted(case)) for case in cases()]
