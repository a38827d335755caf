"""Inputs of a workload that decide which GPU ranks first, and how much each may change before another one does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.answers.figure import value_of
from planner.engine.answers.plan import Flip, Plan, PlanRow
from planner.engine.evaluate.task import Supply, Task
from planner.engine.search.plan import solutions
from planner.errors import UserError
from planner.workload.tasks import Lengths, Workload, trains
from planner.workload.weights import FORMATS

REACH = 2.0
"""Inputs are tried from half to twice their value."""
HALVINGS = 2
"""Steps that search for the factor at which the first row changes: it is known within a fifth of `REACH`."""
CONTENDERS = 5
"""Number of GPUs that may win: the first of the ranking."""
TRAINING = ("sequence", "global_batch", "micro_batch")
SERVING = ("input_tokens", "output_tokens", "request_rate_per_s", "concurrency")
PRECISIONS = ("bf16", "fp8", "gptq-int4")
"""Formats of stored weights that are tried while generating; training is tried in BF16 and FP8."""
FEWER_BITS = 0.75
"""Share of the published model's bits below which other formats are tried: nobody stores it in as many bits, or more."""


def flips_of(task: Task, supply: Supply, plan: Plan) -> list[Flip]:
    """Smallest changes of each input that put another GPU first; empty if nothing fits or nothing else is known.

    Services at a rate are compared by closed formulas, and only where these agree with the plan on the first GPU.
    """
    rows = [row for row in plan.rows if row.rank]
    gpus = list(dict.fromkeys(row.gpu for row in rows))[:CONTENDERS]
    if len(gpus) < 2:
        return []
    narrow = replace(task, workload=msgspec.structs.replace(task.workload, gpus_considered=gpus))
    if _winner(narrow, supply, {}) != rows[0].gpu:
        return [*_by_price(rows, task.workload)]
    found = [flip for key in _keys(task.workload) for flip in _by_amount(narrow, supply, key, rows[0].gpu)]
    return [*_by_price(rows, task.workload), *found, *_by_precision(narrow, supply, rows[0].gpu)]


def _keys(workload: Workload) -> tuple[str, ...]:
    """Inputs for which the workload gives a number."""
    keys = TRAINING if trains(workload.task) else SERVING
    return tuple(key for key in keys if isinstance(getattr(workload, key), (int, float, Lengths)))


def _winner(task: Task, supply: Supply, change: dict[str, Any]) -> str | None:
    """The GPU that ranks first after `change`; None if nothing fits or the change is not possible."""
    try:
        changed = replace(task, workload=msgspec.structs.replace(task.workload, **change))
        found = solutions(changed, supply, simulated=False)
    except UserError:
        return None
    return found[0].node_type.gpu.name if found else None


def _by_amount(task: Task, supply: Supply, key: str, now: str) -> Iterator[Flip]:
    """Smallest change of `key`, up and down, that puts another GPU than `now` first."""
    given = getattr(task.workload, key)
    for way in (REACH, 1 / REACH):
        stays, flips = 0.0, math.log(way)
        winner = _winner(task, supply, {key: _times(given, way)})
        if winner in {now, None}:
            continue
        for _ in range(HALVINGS):
            middle = (stays + flips) / 2
            at_middle = _winner(task, supply, {key: _times(given, math.exp(middle))})
            if at_middle in {now, None}:
                stays = middle
            else:
                flips, winner = middle, at_middle
        value = _times(given, math.exp(flips))
        yield Flip(key=key, factor=math.exp(flips), value=value.mean if isinstance(value, Lengths) else value, gpu=str(winner))


def _times(given: float | Lengths, factor: float) -> Any:
    """`given` times `factor`; whole numbers stay whole."""
    if isinstance(given, Lengths):
        return Lengths(**{name: getattr(given, name) and getattr(given, name) * factor for name in ("mean", "p50", "p95")})
    return max(1, round(given * factor)) if isinstance(given, int) else given * factor


def formats_tried(stored_as: str) -> Sequence[str]:
    """Formats of weights that are tried for a model published in `stored_as` ('': 16 bit)."""
    published = FORMATS.get(stored_as)
    below = FEWER_BITS * published.bits if published else math.inf
    return [name for name in PRECISIONS if FORMATS[name].bits < below or name == stored_as]


def _by_precision(task: Task, supply: Supply, now: str) -> Iterator[Flip]:
    """Other formats of weights, or of products in training, that put another GPU first."""
    training = trains(task.workload.task)
    key, formats = ("dtype", PRECISIONS[:2]) if training else ("weight_dtype", formats_tried(task.models.main.stored_as))
    for name in formats:
        winner = _winner(task, supply, {key: name}) if getattr(task.workload, key) != name else now
        if winner not in {now, None}:
            yield Flip(key=key, value=name, gpu=str(winner))


def _by_price(rows: list[PlanRow], workload: Workload) -> Iterator[Flip]:
    """Factor by which the price of the first may rise before another GPU is as cheap."""
    if workload.objective not in {"cheapest", "flop-per-usd"} or rows[0].usd_per_h is None:
        return
    other = next((row for row in rows if row.gpu != rows[0].gpu and row.verdict == rows[0].verdict), None)
    costs = [_cost(row, workload) for row in (rows[0], other) if row is not None]
    if len(costs) == 2 and costs[0] and costs[1] and other is not None and costs[1] / costs[0] <= REACH:
        factor = costs[1] / costs[0]
        yield Flip(key="usd_per_h", factor=factor, value=rows[0].usd_per_h.value * factor, gpu=other.gpu)


def _cost(row: PlanRow, workload: Workload) -> float | None:
    """Figure that the objective compares, proportional to the price."""
    by_hour = workload.request_rate_per_s is not None and workload.objective == "cheapest"
    return value_of(row.usd_per_h if by_hour else row.answer.usd_per_million_tokens)
