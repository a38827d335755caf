"""Rows of evaluated candidates as `Answer`s: their layout, memory, times and rates, each figure with its range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

import planner
from planner.engine.answers.answer import Answer, LayoutAnswer, ParameterCounts
from planner.engine.answers.figure import Figure
from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.engine.columns import Floats, added, positive, records
from planner.engine.evaluate.chosen_rows import Chosen, ReleaseEnds, release_ends
from planner.engine.evaluate.chosen_rows import evidence as releases_evidence
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.ranges import HOST_OPEN, LENGTHS, NETWORK
from planner.engine.explain.figures import figures, serve_figures, train_figures
from planner.engine.explain.open_waits import open_waits
from planner.engine.explain.range_ends import unstated_of, without_source
from planner.engine.job.compute_capability import attention_kernel
from planner.engine.job.job import Job
from planner.engine.memory.total import COMING_AND_GOING, GROWING, MAY_DIVIDE, MAY_KEEP, TRANSIENT
from planner.engine.performance.operators.chip import Chip, measured_between
from planner.engine.performance.operators.experts import imbalance
from planner.engine.records.layout import CHECKPOINTING
from planner.units import SECONDS_PER_HOUR, bytes_text, digits, percent_text

FIXED = ("weights", "optimizer", "kv_cache")
"""Components of memory that are certain: no range goes below their sum."""
DEGREES = ("gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "virtual_stages")
"""Columns of a layout that are whole numbers in every answer."""


def answers_of(e: Evaluated, numbers: Sequence[int]) -> list[Answer]:
    """Answers for the rows `numbers`."""
    rows = Chosen.of(e, numbers)
    return answers_of_chosen(rows, release_ends([rows])[0])


def answers_of_chosen(rows: Chosen, releases: Mapping[str, ReleaseEnds]) -> list[Answer]:
    """Answers for `rows`, with ranges up to `releases` where the release of the engine is open."""
    e, numbers = rows.e, rows.numbers.tolist()
    fits, layouts = rows(e.memory.fits).tolist(), _layouts(rows)
    timed, open_ends = _timed(rows, releases)
    fields: dict[str, list[Any]] = {
        "fits": fits,
        "reason": [None if enough else _shortfall(e, number) for number, enough in zip(numbers, fits, strict=True)],
        "memory_bytes": _memory(rows),
        "host_memory_bytes": [held or None for held in rows(e.memory.host).tolist()],
        "parameters": [_parameters(job) for job in rows.jobs],
        "evidence": [{name: round(amount, 3) for name, amount in causes.items()} for causes in _evidence(rows, open_ends)],
        "assumed": list(_assumed(rows, layouts)),
        "layout": layouts,
        **timed,
    }
    return records(Answer, fields | {"version": [planner.__version__] * len(fits)})


def _parameters(job: Job) -> ParameterCounts:
    a = job.architecture
    trainable = (int(job.adapters) or a.total) if job.train else 0
    return ParameterCounts(total=a.total, active=a.active, embedding=a.embedding, trainable=trainable)


def _timed(rows: Chosen, releases: Mapping[str, ReleaseEnds]) -> tuple[dict[str, list[Any]], dict[str, Floats]]:
    """(times and rates, causes that widen their ranges); empty if there are none."""
    e = rows.e
    if e.step:
        unstated = unstated_of(rows, e.step)
        return train_figures(rows, e.step, unstated), unstated.evidence()
    if e.serve:
        waits = open_waits(rows, e.serve)
        causes = waits.evidence(rows(e.serve.ttft_s.mean)) | releases_evidence(releases)
        return serve_figures(rows, e.serve, waits, releases), causes
    return {}, {}


def _evidence(rows: Chosen, open_ends: dict[str, Floats]) -> list[dict[str, float]]:
    """Causes that widen the ranges of each row, and the amount of each; `open_ends`: those of its times."""
    m, ranges = rows.e.memory, rows.e.ranges
    total = rows(m.total)
    kept = MAY_KEEP if rows.e.table.job.train[0] else GROWING
    every = {
        TRANSIENT: added(rows(getattr(m, name)) for name in COMING_AND_GOING) / total,
        MAY_DIVIDE: -np.log1p(-rows(m.may_divide) / total),
        kept: np.log1p(rows(m.may_keep) / total),
        **open_ends,
        NETWORK: rows(ranges.network),
        LENGTHS: rows(ranges.lengths),
        HOST_OPEN: rows(ranges.host),
        **{name: rows(column) for name, column in ranges.facts.items()},
    }
    return positive(dict(sorted(every.items())))


def _assumed(rows: Chosen, layouts: Sequence[LayoutAnswer]) -> Iterator[dict[str, Any]]:
    """Every default that each row uses, and other assumptions behind its figures."""
    t, padding = rows.e.table, rows(rows.e.step.padding).tolist() if rows.e.step else None
    busiest = rows(imbalance(t)).tolist()
    for place, (number, job, chip, layout) in enumerate(zip(rows.numbers.tolist(), rows.jobs, rows.chips, layouts, strict=True)):
        found = dict(job.assumed)
        if "attention" in found:
            found["attention"] = attention_kernel(chip.gpu, job, found["attention"])
        if layout.ep > 1 and not job.expert_imbalance:
            found["expert_imbalance"] = round(busiest[place], 2)
        if padding and job.document_tokens:
            share = percent_text(padding[place])
            found["padding"] = f"{share} of the tokens that are computed or waited for; tokens/s are those of documents"
        if method := _method_of_percentiles(rows.e, number, job):
            found["percentiles"] = method
        yield found | measured_between(chip, layout.nodes) | _own_results(chip) | without_source(rows.e, number, job)


def _own_results(chip: Chip) -> dict[str, str]:
    """Words on how this user's own results changed the ranges."""
    changed = [f"{kind} × {digits(factor)}" for kind, factor in sorted(chip.own_ranges.items())]
    return {"ranges_by_own_results": f"{', '.join(changed)} ({chip.own_results} results)"} if changed else {}


def _method_of_percentiles(e: Evaluated, number: int, job: Job) -> str:
    """Method for the percentiles of requests that arrive at a rate, or differ in length; '' if there are none."""
    queue, serve = e.queue, e.serve
    if queue is not None and serve is not None and (queue.measured(number) or queue.endless(number)):
        most_per_s = np.broadcast_to(serve.requests_per_s * e.table.layout.dp, e.table.rows)[number]
        return queue.words(number, float(most_per_s))
    return "by formula" if job.request_rate_per_s > 0 else ""


def _shortfall(e: Evaluated, number: int) -> str:
    """Reason why a row does not fit, in words: the memory needed and its largest part, the memory available, and the shortfall."""
    row = Chosen.of(e, [number])
    needed, usable = row(e.memory.total).item(), row(e.memory.usable).item()
    size, most = max((row(getattr(e.memory, name)).item(), name) for name in MEMORY_COMPONENTS)
    part = f"{most.replace('_', ' ').replace('kv', 'KV')} {bytes_text(size)}"
    return f"does not fit: {bytes_text(needed - usable)} short ({bytes_text(needed)} needed, {bytes_text(usable)} usable; {part})"


def _layouts(rows: Chosen) -> list[LayoutAnswer]:
    """Layout columns as whole numbers, and the names of sharding and checkpointing."""

    def whole(name: str) -> list[int]:
        numbers: list[int] = np.rint(rows(getattr(rows.e.table.layout, name))).astype(np.int64).tolist()
        return numbers

    found: dict[str, list[Any]] = {name: whole(name) for name in DEGREES}
    found["nodes"] = [-(-gpus // max(1, each)) for gpus, each in zip(found["gpus"], found["gpus_per_node"], strict=True)]
    if rows.e.step is None:
        pools = zip(rows.jobs, whole("prefill"), strict=True)
        found["prefill_replicas"] = [replicas if job.workload.disaggregated else 0 for job, replicas in pools]
        return records(LayoutAnswer, found | {"batch": whole("sequences")})
    stages, kinds = ("none", "zero1", "zero2", "zero3"), [*CHECKPOINTING]
    sharded = zip(rows.jobs, whole("zero"), strict=True)
    found["sharding"] = ["hsdp" if job.workload.sharding == "hsdp" else stages[number] for job, number in sharded]
    found["checkpointing"] = [kinds[number] for number in whole("checkpointing")]
    return records(LayoutAnswer, found | {"micro_batch": whole("micro_batch")})


def _memory(rows: Chosen) -> list[MemoryBytes]:
    m = rows.e.memory
    parts = {name: rows(getattr(m, name)) for name in MEMORY_COMPONENTS}
    total, divided = rows(m.total), rows(m.may_divide)
    known = added(parts[name] for name in FIXED)
    low = np.minimum(total, np.maximum(known - divided, (total - divided) * np.exp(-rows(m.below))))
    high = total * np.exp(rows(m.above))
    totals = figures(total, low, high, ["spec"] * total.size)
    found: dict[str, list[Any]] = {name: part.tolist() for name, part in parts.items()}
    capacity = rows(rows.e.table.chip.capacity_bytes)
    share = (rows(m.usable) / capacity).tolist()
    return records(MemoryBytes, found | {"total": totals, "capacity": capacity.tolist(), "usable_share": share})


def priced(answer: Answer, usd_per_h: float | None, peak: float = 1.0) -> Answer:
    """`answer` with its `price_figures`."""
    found = price_figures(answer, usd_per_h, peak)
    return msgspec.structs.replace(answer, **found) if found else answer


def price_figures(answer: Answer, usd_per_h: float | None, peak: float = 1.0) -> dict[str, Figure | None]:
    """Dollars per million tokens and FLOPs per dollar, at the price of the whole deployment; nothing where price or rate is not known.

    USD/M tokens = 1e6 · USD/h ÷ 3600 ÷ tokens/s; FLOP/USD = FLOP/token · tokens/s · 3600 ÷ USD/h. `peak`: tokens/s of the answer, which are
    those of the busiest hour, ÷ tokens/s of the mean hour, which are paid for.
    """
    rate = answer.tokens_per_s
    if usd_per_h is None or rate is None or rate.value <= 0:
        return {}
    flop = answer.flop_per_token
    return {
        "usd_per_million_tokens": rate.inverse(1e6 * usd_per_h * peak / SECONDS_PER_HOUR),
        "flop_per_usd": rate.scaled(flop * SECONDS_PER_HOUR / usd_per_h / peak) if flop else None,
    }
