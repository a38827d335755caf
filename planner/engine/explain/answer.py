"""One row of evaluated candidates as an `Answer`: its layout, memory, times and rates, each figure with its range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import planner
from planner.engine.answers.answer import Answer, ParameterCounts
from planner.engine.answers.figure import Figure
from planner.engine.answers.layout import LayoutAnswer
from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.ranges import LENGTHS, NETWORK
from planner.engine.explain.figures import serve_figures, train_figures
from planner.engine.explain.row import Row
from planner.engine.explain.unseen import without_source
from planner.engine.explain.unstated import unstated_of
from planner.engine.memory.total import COMING_AND_GOING, GROWING, MAY_DIVIDE, MAY_FLATTEN, TRANSIENT, growing_share
from planner.engine.performance.operators.chip import measured_between
from planner.engine.performance.operators.experts import imbalance
from planner.engine.records.layout import CHECKPOINTING
from planner.units import bytes_text, digits, percent_text
from planner.workload.published.spreads import PROGRAM_OPEN

FIXED = ("weights", "optimizer", "kv_cache")
"""Components of memory that are there whatever happens: no range goes below them."""
DEGREES = ("gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "virtual_stages")
"""Columns of a layout that are whole numbers in every answer."""


def answer_of(e: Evaluated, number: int) -> Answer:
    """The answer for row `number`."""
    row = Row.of(e, number)
    job, layout, fits = row.job, _layout(row), bool(e.memory.fits[number])
    trainable = int(job.adapters) or job.architecture.total
    return Answer(
        fits=fits,
        reason=None if fits else _shortfall(row),
        memory_bytes=_memory(row),
        host_memory_bytes=row(e.memory.host) or None,
        parameters=ParameterCounts(
            total=job.architecture.total,
            active=job.architecture.active,
            embedding=job.architecture.embedding,
            trainable=trainable if job.train else 0,
        ),
        evidence=_evidence(row),
        assumed=job.assumed
        | _balance(row)
        | _padding(row)
        | _method_of_percentiles(row)
        | measured_between(row.chip, layout.nodes)
        | _own_results(row)
        | without_source(row),
        layout=layout,
        version=planner.__version__,
        **(train_figures(row, e.step, layout) if e.step else serve_figures(row, e.serve, layout) if e.serve else {}),
    )


def _evidence(row: Row) -> dict[str, float]:
    """Causes that make the ranges wider, and the amount of each."""
    m, ranges = row.e.memory, row.e.ranges
    transient = sum(row(getattr(m, name)) for name in COMING_AND_GOING) / row(m.total)
    grows = 0.0 if row.job.train else row.job.engine.cache_grows
    growing = float(growing_share(np.array(grows), np.array(row(m.kv_cache) / row(m.total))))
    facts = {name: row(column) for name, column in ranges.facts.items()}
    divided = -math.log1p(-row(m.may_divide) / row(m.total))
    flattened = math.log1p(row(m.may_flatten) / row(m.total))
    of_memory = {
        TRANSIENT: transient,
        GROWING: growing,
        MAY_DIVIDE: divided,
        MAY_FLATTEN: flattened,
        PROGRAM_OPEN: row.job.program_open,
    }
    of_time = unstated_of(row, row.e.step).evidence() if row.e.step else {}
    every = of_memory | of_time | {NETWORK: row(ranges.network), LENGTHS: row(ranges.lengths), **facts}
    return {name: round(amount, 3) for name, amount in sorted(every.items()) if amount > 0}


def _own_results(row: Row) -> dict[str, str]:
    """Change of the ranges by this user's own results, in words."""
    changed = [f"{kind} × {digits(factor)}" for kind, factor in sorted(row.chip.own_ranges.items())]
    return {"ranges_by_own_results": f"{', '.join(changed)} ({row.chip.own_results} results)"} if changed else {}


def _balance(row: Row) -> dict[str, float]:
    """Imbalance of experts that the workload does not state, where ranks share them."""
    t = row.e.table
    return {"expert_imbalance": round(row(imbalance(t)), 2)} if row(t.layout.ep) > 1 and not row.job.expert_imbalance else {}


def _padding(row: Row) -> dict[str, str]:
    """Share of the computed tokens that are padding, where documents of a known length share sequences."""
    if row.e.step is None or not row.job.document_tokens:
        return {}
    return {
        "padding": f"{percent_text(row(row.e.step.padding))} of the tokens that are computed or waited for; tokens/s are those of documents"
    }


def _method_of_percentiles(row: Row) -> dict[str, str]:
    """Method of the percentiles of requests that come at a rate, or differ in length."""
    queue, serve = row.e.queue, row.e.serve
    if queue is not None and serve is not None and (queue.measured(row.number) or queue.endless(row.number)):
        most_per_s = row(serve.requests_per_s) * row(row.e.table.layout.dp)
        return {"percentiles": queue.words(row.number, most_per_s)}
    return {"percentiles": "by formula"} if row.job.request_rate_per_s > 0 else {}


def _shortfall(row: Row) -> str:
    """Reason why a row does not fit, in words: the need and its largest part, the memory there is, and the shortfall."""
    m = row.e.memory
    needed, usable = row(m.total), row(m.usable)
    size, most = max((row(getattr(m, name)), name) for name in MEMORY_COMPONENTS)
    part = f"{most.replace('_', ' ').replace('kv', 'KV')} {bytes_text(size)}"
    return f"does not fit: {bytes_text(needed)} needed ({part}), {bytes_text(usable)} usable, {bytes_text(needed - usable)} short"


def _layout(row: Row) -> LayoutAnswer:
    """The layout columns of a row as whole numbers."""
    s, job = row.e.table.layout, row.job
    degrees: dict[str, Any] = {name: round(row(getattr(s, name))) for name in DEGREES}
    nodes = -(-degrees["gpus"] // max(1, degrees["gpus_per_node"]))
    if job.train:
        stage = ("none", "zero1", "zero2", "zero3")[round(row(s.zero))]
        return LayoutAnswer(
            nodes=nodes,
            sharding="hsdp" if job.workload.sharding == "hsdp" else stage,
            checkpointing=[*CHECKPOINTING][round(row(s.checkpointing))],
            micro_batch=round(row(s.micro_batch)),
            **degrees,
        )
    pools = round(row(s.prefill)) if job.workload.disaggregated else 0
    return LayoutAnswer(nodes=nodes, batch=round(row(s.sequences)), prefill_replicas=pools, **degrees)


def _memory(row: Row) -> MemoryBytes:
    m = row.e.memory
    total = row(m.total)
    parts = {name: row(getattr(m, name)) for name in MEMORY_COMPONENTS}
    known = sum(parts[name] for name in FIXED)
    divided = row(m.may_divide)
    low = max(known - divided, (total - divided) * math.exp(-row(m.below)))
    high = (total + row(m.may_flatten)) * math.exp(row(m.above))
    figure = Figure(total, min(total, low), high, "spec")
    return MemoryBytes(**parts, total=figure, capacity=row(row.e.table.chip.capacity_bytes))
