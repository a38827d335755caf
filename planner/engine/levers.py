"""When nothing fits: the smallest changes of the workload that make it fit somewhere, judged by the same engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from planner.engine.answers import Lever, Plan, PlanRow
from planner.engine.layouts import DEFAULT_MOST_GPUS
from planner.errors import UserError
from planner.units import bytes_text, percent_text
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lora, Workload

if TYPE_CHECKING:
    from planner.engine.plan import Sources

MOST_GPUS = 16384
"""Where the search for more GPUs ends."""


def levers_for(
    workload: Workload, architecture: Architecture, sources: Sources, rows: list[PlanRow], make_plan: Callable[..., Plan]
) -> list[Lever]:
    """Every single change that yields a solution; for the others how much they save on the closest row; else all together.

    Each lever's `change` is complete: applied to the workload as given, it does what its text says.
    """
    closest = next((row for row in rows if row.answer.memory_bytes is not None), None)
    levers: list[Lever] = []
    basis: dict[str, Any] = {}
    if closest is None and workload.dtype is not None:
        levers, basis, closest = _other_dtype(workload, architecture, sources, make_plan)
    together: dict[str, Any] = dict(basis)
    enough_gpus = False
    for change, text in _changes(workload):
        if "max_gpus" in change and enough_gpus:
            continue
        found = _lever(workload, basis | change, text, architecture, sources, closest, make_plan)
        if found is None:
            continue
        enough_gpus = enough_gpus or ("max_gpus" in change and found.gpu is not None)
        levers = [lever for lever in levers if "max_gpus" not in change or "max_gpus" not in lever.change]
        levers.append(found)
        together |= {} if "lora" in change else change
    if not any(lever.gpu for lever in levers) and len(together) > 1:
        found = _lever(workload, together, "all of these but adapters together", architecture, sources, closest, make_plan)
        levers += [found] if found is not None and found.gpu else []
    return sorted(levers, key=lambda lever: lever.gpu is None)


def _lever(
    workload: Workload,
    change: dict[str, Any],
    text: str,
    architecture: Architecture,
    sources: Sources,
    closest: PlanRow | None,
    make_plan: Callable[..., Plan],
) -> Lever | None:
    """What `change` does: where the workload fits then, or what it saves on the closest row; None when it does nothing."""
    try:
        plan = make_plan(_changed(workload, change), architecture, sources, levers=False)
    except UserError:
        return None
    best = next((row for row in plan.rows if row.rank), None)
    if best is not None:
        gpus = best.answer.layout.gpus if best.answer.layout else 1
        return Lever(
            change=change, text=f"{text}: then {gpus:,} × {best.gpu} fits", gpu=best.gpu, slowdown=_slowdown(closest, best)
        )
    saved = _saved(closest, plan) if closest is not None else 0.0
    if closest is None or saved <= 0:
        return None
    return Lever(change=change, text=f"{text}: saves {bytes_text(saved)} on {closest.gpu}, not enough alone", saves_bytes=saved)


def with_hints(
    workload: Workload, architecture: Architecture, sources: Sources, rows: list[PlanRow], make_plan: Callable[..., Plan]
) -> list[PlanRow]:
    """`rows` with the first single change that would make each unsolved GPU a solution, judged by the same engine."""
    pending = {row.gpu for row in rows if row.rank is None and not row.here and row.answer.memory_bytes is not None}
    hints: dict[str, str] = {}
    for change, text in _changes(workload, adapters=workload.task == "finetune"):
        if not pending:
            break
        if "gpus_considered" in change:
            continue
        try:
            plan = make_plan(_changed(workload, change | {"gpus_considered": sorted(pending)}), architecture, sources, levers=False)
        except UserError:
            continue
        for row in plan.rows:
            if row.rank and row.gpu in pending and not row.here:
                count = row.answer.layout.gpus if row.answer.layout else 1
                hints[row.gpu] = f"{text} would do, on {count}"
                pending.discard(row.gpu)
    return [
        msgspec.structs.replace(row, why=f"{row.why} → {hints[row.gpu]}")
        if row.rank is None and row.gpu in hints and not row.here
        else row
        for row in rows
    ]


def _other_dtype(
    workload: Workload, architecture: Architecture, sources: Sources, make_plan: Callable[..., Plan]
) -> tuple[list[Lever], dict[str, Any], PlanRow | None]:
    """A compute dtype the GPUs have, as the first lever and as the basis of the others, and the closest row with it."""
    rows = make_plan(msgspec.structs.replace(workload, dtype=None), architecture, sources, levers=False).rows
    closest = next((row for row in rows if row.answer.memory_bytes is not None), None)
    if closest is None:
        return [], {}, None
    change = {"dtype": closest.answer.assumed.get("dtype", "fp16")}
    result = f"then {closest.gpu} fits" if closest.rank else f"then {closest.gpu} {closest.why}"
    lever = Lever(change=change, text=f"compute in {change['dtype']}: {result}", gpu=closest.gpu if closest.rank else None)
    return [lever], change, closest


def _changed(workload: Workload, change: dict[str, Any]) -> Workload:
    return msgspec.convert(msgspec.to_builtins(workload) | msgspec.to_builtins(change), Workload)


def _saved(closest: PlanRow, plan: Plan) -> float:
    same = next((row for row in plan.rows if row.gpu == closest.gpu and row.answer.memory_bytes), None)
    if same is None or same.answer.memory_bytes is None or closest.answer.memory_bytes is None:
        return 0.0
    return closest.answer.memory_bytes.total.value - same.answer.memory_bytes.total.value


def _slowdown(closest: PlanRow | None, best: PlanRow) -> float | None:
    """Only comparable on the same GPU and count."""
    if closest is None or closest.gpu != best.gpu or not closest.answer.tokens_per_s or not best.answer.tokens_per_s:
        return None
    same = closest.answer.layout and best.answer.layout and closest.answer.layout.gpus == best.answer.layout.gpus
    return closest.answer.tokens_per_s.value / best.answer.tokens_per_s.value - 1 if same else None


def _changes(workload: Workload, *, adapters: bool = True) -> Iterator[tuple[dict[str, Any], str]]:
    """From the cheapest in quality and time to the dearest; `adapters`: also to another kind of job."""
    train = workload.task in {"train", "finetune"}
    if train:
        if workload.checkpointing in {"none", "selective"}:
            yield {"checkpointing": "full"}, "recompute activations (about a third more compute)"
        if workload.micro_batch is not None and workload.micro_batch > 1:
            yield {"micro_batch": 1}, "micro batch 1"
        if workload.loss in {None, "full"}:
            yield {"loss": "chunked"}, "chunked loss (logits never whole)"
        if workload.optimizer in {None, "adamw"}:
            yield {"optimizer": "adamw-8bit"}, "8-bit AdamW"
        if workload.recipe != "bf16":
            yield {"recipe": "bf16"}, "all training state in 16 bit (costs accuracy of the update)"
        if workload.sharding not in {None, "zero3"}:
            yield {"sharding": "zero3"}, "shard weights, gradients and states (ZeRO 3)"
        if workload.lora is None and adapters:
            yield (
                {"task": "finetune", "recipe": "bf16", "lora": Lora(rank=16, base="nf4")},
                "QLoRA: train adapters on 4-bit weights",
            )
    else:
        for stored in ("fp8", "int4"):
            if workload.weight_dtype in {None, "bf16", "fp16", "fp32"} or (stored == "int4" and workload.weight_dtype == "fp8"):
                yield {"weight_dtype": stored}, f"{stored} weights"
        if workload.kv_dtype in {None, "bf16", "fp16"}:
            yield {"kv_dtype": "fp8"}, "8-bit KV cache"
        if isinstance(workload.input_tokens, int) and workload.input_tokens > 1024:
            yield {"input_tokens": workload.input_tokens // 2}, "half the context"
    if workload.gpus_considered:
        yield {"gpus_considered": []}, "any GPU of the catalogue"
    most = workload.max_gpus or DEFAULT_MOST_GPUS[workload.task]
    while most < MOST_GPUS:
        most = min(MOST_GPUS, most * 8)
        yield {"max_gpus": most}, f"up to {most:,} GPUs"
    if workload.targets.headroom is None:
        yield {"targets": msgspec.structs.replace(workload.targets, headroom=0.02)}, f"headroom of {percent_text(0.02)}"
