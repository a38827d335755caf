"""Times and rates of one row, as the fields of its answer: each figure with its range and its basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.engine.answers.figure import Basis, Figure, Percentiles
from planner.engine.answers.layout import LayoutAnswer
from planner.engine.evaluate.ranges import FIRST_TOKEN_SPREAD, MODEL_SPREAD, STREAM_SPREAD, formulas_share
from planner.engine.explain.row import Row
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import Latency
from planner.engine.performance.training import StepColumns

FROZEN_SHARE = 2 / 3
"""Share of the model FLOPs that a step does whose weights are frozen: their gradients are left out. The rest bounds a range by the data sheet."""
ENERGY_FACTOR = 1.3
"""Half width of the power a GPU draws beside the range of its time, as a factor. An assumption."""
CLASS_WORDS = {
    "attention": "attention",
    "elementwise": "bandwidth",
    "optimizer": "bandwidth",
    "communication": "link",
    "latency": "kernel latency",
    "launch": "host launches",
    "host": "engine overhead",
    "bubble": "pipeline bubble",
}
"""Operator class -> what binds it; products are bound by compute or bandwidth."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Makes figures of the same spread and the same basis."""

    factor: float
    basis: Basis

    @classmethod
    def of(cls, row: Row) -> _Range:
        """The range of the times of `row`."""
        return cls(float(np.exp(row(row.e.spread))), row.chip.basis)

    def __call__(self, value: float) -> Figure:
        return Figure(value, value / self.factor, value * self.factor, self.basis)


def train_figures(row: Row, step: StepColumns, layout: LayoutAnswer) -> dict[str, Any]:
    """The fields of an answer that training has."""
    figure, chip = _Range.of(row), row.chip
    seconds, tokens, flop = row(step.step_s), row(step.tokens), row(step.model_flop)
    rate, most_flop_per_s = tokens / seconds, chip.peak_flop_per_s * layout.gpus
    fast = max(1.0, min(figure.factor, seconds * most_flop_per_s / (flop * (FROZEN_SHARE if row.job.adapters else 1.0))))

    def at_most(value: float) -> Figure:
        return Figure(value, value / figure.factor, value * fast, figure.basis)

    by_class = _by_class(row, step)
    return {
        "bottleneck": _bottleneck(by_class, row(step.compute_bound)),
        "flop_per_token": flop / tokens,
        "step_s": Figure(seconds, seconds / fast, seconds * figure.factor, figure.basis),
        "tokens_per_s": at_most(rate),
        "tokens_per_s_per_gpu": at_most(rate / layout.gpus),
        "mfu": at_most(flop / seconds / most_flop_per_s),
        "energy_j_per_token": _energy(row, layout, rate, figure),
        "seconds_by_class": by_class,
    }


def serve_figures(row: Row, s: ServeColumns, layout: LayoutAnswer) -> dict[str, Any]:
    """The fields of an answer that generating, prefilling and serving have."""
    job, queue, figure = row.job, row.e.queue, _Range.of(row)
    busy = layout.dp if job.task == "serve" else min(layout.dp, job.batch)  # a small fixed batch leaves replicas idle
    requests = row(s.requests_per_s) * busy
    tokens = requests * (job.input_tokens if job.task == "prefill" else job.output_tokens)
    first = _Range(figure.factor * float(np.exp(FIRST_TOKEN_SPREAD * (job.task == "serve"))), figure.basis)
    by_class = _by_class(row, s)
    fields: dict[str, Any] = {
        "bottleneck": _bottleneck(by_class, row(s.compute_bound)),
        "flop_per_token": row(s.flop_per_token),
        "prefill_s": figure(row(s.prefill_s)),
        "ttft_s": _percentiles(row, s.ttft_s, first),
        "requests_per_s": figure(requests),
        "tokens_per_s": figure(tokens),
        "tokens_per_s_per_gpu": figure(tokens / layout.gpus),
        "energy_j_per_token": _energy(row, layout, tokens, figure) if tokens else None,
        "seconds_by_class": by_class,
        **_most_in_cache(row, layout),
    }
    if job.task == "prefill":
        return fields
    tpot = row(s.tpot_s.mean) if job.output_tokens > 1 else 0.0
    if tpot > 0:
        stream = _stream_range(row, figure)
        fields |= {"tpot_s": _percentiles(row, s.tpot_s, stream), "decode_tokens_per_s": stream(1 / tpot)}
    if queue is not None and queue.endless(row.number):
        del fields["ttft_s"]
    else:
        fields["request_s"] = _percentiles(row, s.request_s, figure)
        if queue is not None and queue.measured(row.number):
            fields["wait_s"] = _percentiles(row, queue.wait_s, first)
            fields["utilisation"] = figure(row(queue.utilisation)).capped(1.0)
    return fields | {"output_tokens_per_s": figure(tokens)}


def _percentiles(row: Row, latency: Latency, figure: _Range) -> Percentiles:
    return Percentiles(**{share: figure(row(seconds)) for share, seconds in vars(latency).items()})


def _stream_range(row: Row, figure: _Range) -> _Range:
    """The range of the time between tokens: wider where one stream is timed, which nothing averages out."""
    if row.job.task != "generate":
        return figure
    further = (STREAM_SPREAD**2 - MODEL_SPREAD["generate"] ** 2) * formulas_share(row.chip) ** 2
    return _Range(float(np.exp(np.sqrt(np.log(figure.factor) ** 2 + further))), figure.basis)


def _energy(row: Row, layout: LayoutAnswer, tokens_per_s: float, figure: _Range) -> Figure | None:
    """Joules a token at the power limit; None where that is not known."""
    watts = row.chip.power_w * layout.gpus
    return _Range(figure.factor * ENERGY_FACTOR, "spec")(watts / tokens_per_s) if np.isfinite(watts) else None


def _most_in_cache(row: Row, layout: LayoutAnswer) -> dict[str, int]:
    """The longest context of one sequence alone and the most sequences at once, where the cache limits them."""
    m, job = row.e.memory, row.job
    found: dict[str, int] = {}
    per_sequence, free = row(m.kv_per_sequence), row(m.usable) - float(m.total[row.number] - m.kv_cache[row.number])
    if not (job.architecture.cached_window or job.architecture.state) and per_sequence > 0 and free > 0:
        context = int(free / (per_sequence / (job.input_tokens + job.output_tokens)))
        found["max_context"] = min(context, job.architecture.max_context or context)
    most = row(m.max_sequences)
    if np.isfinite(most):
        found["max_concurrency"] = int(min(most, 1e6)) * layout.dp
    return found


def _by_class(row: Row, timed: StepColumns | ServeColumns) -> dict[str, float]:
    """Seconds by operator class, of those that take any."""
    return {name: seconds for name, column in timed.by_class.items() if (seconds := row(column)) > 0}


def _bottleneck(by_class: dict[str, float], compute_bound: float) -> str:
    """The resource that takes most of the time; products count as compute or bandwidth by what binds them."""
    words: dict[str, float] = {}
    products = by_class.get("matmul", 0.0) + by_class.get("head", 0.0)
    words["compute"] = min(compute_bound, products)
    words["bandwidth"] = products - words["compute"]
    for name, seconds in by_class.items():
        if name in CLASS_WORDS:
            words[CLASS_WORDS[name]] = words.get(CLASS_WORDS[name], 0.0) + seconds
    return max(words, key=words.__getitem__)
