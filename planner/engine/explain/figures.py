"""Times and rates of one row, as the fields of its answer: each figure with its range and its basis."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np

from planner.engine.answers.figure import Basis, Figure, Percentiles
from planner.engine.answers.layout import LayoutAnswer
from planner.engine.explain.open_waits import NONE, OpenWaits, open_waits
from planner.engine.explain.physical_limits import limits_of, step_floor_s
from planner.engine.explain.row import Row
from planner.engine.explain.unstated import Unstated, unstated_of
from planner.engine.performance.operators.power import drawn_w
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import Latency
from planner.engine.performance.training import StepColumns
from planner.workload.published.spreads import OF_A_BATCH

BUSY_FACTOR, OTHER_FACTOR = 1.15, 1.5
"""Half width of the power a GPU draws where products bind, and where anything else does, as factors. Assumptions."""
WAITING = ("communication", "launch", "host", "bubble")
"""Operator classes in which a GPU waits."""
CLASS_WORDS = {
    "attention": "attention",
    "elementwise": "bandwidth",
    "optimizer": "bandwidth",
    "communication": "link",
    "latency": "kernel latency",
    "launch": "host launches",
    "host": "engine overhead",
    "bubble": "pipeline bubble",
    "rollout": "bandwidth",
    "new weights": "link",
    "scoring": "compute",
}
"""Operator class -> what binds it; products are bound by compute or bandwidth."""


class _Range(msgspec.Struct, frozen=True):
    """Makes figures of one kind, of the same width and the same basis."""

    faster: float
    slower: float
    """Factors from the value to the ends of the range, of a time and of a rate."""
    basis: Basis

    @classmethod
    def of(cls, row: Row, kind: str, unstated: Unstated | None = None) -> _Range:
        """The range of figures of `kind`, as far as the ends that rest on what is `unstated`."""
        factor = float(np.exp(row(row.e.ranges.half_width(kind))))
        faster, slower = (unstated.faster, unstated.slower) if unstated else (1.0, 1.0)
        return cls(max(factor, faster), factor * slower, row.chip.basis)

    def with_waits(self, waits: OpenWaits) -> _Range:
        """The range of first tokens, as far as independent causes reach: the formulas, and how prompts meet."""
        if waits == NONE:
            return self
        faster, slower = (
            math.exp(math.hypot(math.log(one), end)) for one, end in ((self.faster, waits.apart), (self.slower, waits.together))
        )
        return _Range(faster, slower, self.basis)

    def __call__(self, value: float) -> Figure:
        return Figure(value, value / self.faster, value * self.slower, self.basis)

    def seconds(self, value: float, least: float, wait_s: float = 0.0) -> Figure:
        """A time that cannot be below `least`, and may be `wait_s` longer beside what its range says."""
        low = min(value, max(least, value / self.faster))
        return Figure(value, low, value * self.slower + wait_s, self.basis)

    def rate(self, value: float, most: float) -> Figure:
        """A rate that cannot be above `most`."""
        return Figure(value, value / self.slower, max(value, min(most, value * self.faster)), self.basis)


def train_figures(row: Row, step: StepColumns, layout: LayoutAnswer) -> dict[str, Any]:
    """The fields of an answer that training has."""
    unstated, chip = unstated_of(row, step), row.chip
    figure = _Range.of(row, "training speed", unstated)
    seconds, tokens, flop = row(step.step_s), row(step.tokens), row(step.model_flop)
    least_s = step_floor_s(row, flop, layout.gpus) / unstated.peak
    rate, most, peak = tokens / seconds, tokens / least_s, chip.peak_flop_per_s * layout.gpus
    by_class = _by_class(row, step)
    every = layout.gpus + row.job.rollout_gpus
    return {
        "bottleneck": _bottleneck(by_class, row(step.compute_bound)),
        "flop_per_token": flop / tokens,
        "step_s": figure.seconds(seconds, least_s),
        "tokens_per_s": figure.rate(rate, most),
        "tokens_per_s_per_gpu": figure.rate(rate / every, most / every),
        "mfu": figure.rate(flop / seconds / peak, flop / least_s / peak),
        "seconds_by_class": by_class,
        **(drawn.fields(rate) if (drawn := _power(row, layout, by_class, row(step.compute_bound), figure)) else {}),
    }


def serve_figures(row: Row, s: ServeColumns, layout: LayoutAnswer) -> dict[str, Any]:
    """The fields of an answer that generating, prefilling and serving have."""
    job, queue, limits, served = row.job, row.e.queue, limits_of(row), row.job.task == "serve"

    waits = open_waits(row, s)

    def latency(kind: str, of: Latency, least_s: float, waits: OpenWaits = NONE) -> Percentiles:
        figure = _Range.of(row, kind if served else OF_A_BATCH[kind]).with_waits(waits)
        values = {share: row(seconds) for share, seconds in msgspec.structs.asdict(of).items()}
        return Percentiles(
            **{share: figure.seconds(value, least_s, waits.cold_s.get(share, 0.0)) for share, value in values.items()}
        )

    prompts = 1.0 if served else -(-job.batch // layout.dp)  # of a fixed batch the fullest replica has so many sequences
    busy = layout.dp if served else job.batch / prompts
    requests = row(s.requests_per_s) * busy
    made = job.input_tokens if job.task == "prefill" else job.output_tokens
    full, most = requests * made, limits.requests_per_s * busy
    if job.request_rate_per_s > 0:  # what is answered is what comes, the rest is room for bursts
        requests, most = min(requests, job.request_rate_per_s), min(most, job.request_rate_per_s)
    tokens = requests * made
    rate = _Range.of(row, "serving throughput" if served else "batch throughput")
    by_class = _by_class(row, s)
    at_work = min(1.0, tokens / full) if full > 0 else 1.0
    fields: dict[str, Any] = {
        "bottleneck": _bottleneck(by_class, row(s.compute_bound)),
        "flop_per_token": row(s.flop_per_token),
        "prefill_s": _Range.of(row, "prefill").seconds(row(s.prefill_s), prompts * limits.prompt_s),
        "ttft_s": latency("time to first token", s.ttft_s, limits.prompt_s, waits),
        "requests_per_s": rate.rate(requests, most),
        "tokens_per_s": rate.rate(tokens, most * made),
        "tokens_per_s_per_gpu": rate.rate(tokens / layout.gpus, most * made / layout.gpus),
        "seconds_by_class": by_class,
        **(drawn.fields(tokens) if (drawn := _power(row, layout, by_class, row(s.compute_bound), rate, at_work)) else {}),
        **_most_in_cache(row, layout),
    }
    if job.task == "prefill":
        return fields
    tpot = row(s.tpot_s.mean) if job.output_tokens > 1 else 0.0
    if tpot > 0:
        between = latency("time per output token", s.tpot_s, limits.token_s)
        fields |= {"tpot_s": between, "decode_tokens_per_s": between.mean.inverse(1.0)}
    if queue is not None and queue.endless(row.number):
        del fields["ttft_s"]
    else:
        least_s = limits.prompt_s + (job.output_tokens - 1) * limits.token_s
        fields["request_s"] = latency("request time", s.request_s, least_s, OpenWaits(cold_s=waits.cold_s))
        if queue is not None and queue.measured(row.number):
            fields["wait_s"] = latency("time to first token", queue.wait_s, 0.0, waits)
            fields["utilisation"] = rate(row(queue.utilisation)).capped(1.0)
    return fields | {"output_tokens_per_s": rate.rate(tokens, most * made)}


def _power(
    row: Row, layout: LayoutAnswer, by_class: dict[str, float], compute_s: float, figure: _Range, busy: float = 1.0
) -> _Drawn | None:
    """Power of the GPUs by the limit that binds, `busy` of the time; None where their limit is not known."""
    seconds = sum(by_class.values())
    if not np.isfinite(row.chip.power_w) or seconds <= 0:
        return None
    products, waiting = min(1.0, compute_s / seconds), sum(by_class.get(name, 0.0) for name in WAITING) / seconds
    watts = drawn_w(row.chip, products=products, waiting=min(waiting, 1 - products), busy=busy) * layout.gpus
    factor = BUSY_FACTOR**products * OTHER_FACTOR ** (1 - products)
    spread = _Range(factor, factor, "spec")
    most = min(row.chip.power_w, row.chip.power_limit_w) * layout.gpus
    return _Drawn(spread.rate(watts, most), _Range(figure.faster * factor, figure.slower * factor, "spec"))


class _Drawn(NamedTuple):
    """Power of all GPUs, and the range of energies that go with it."""

    watts: Figure
    energy: _Range

    def fields(self, tokens_per_s: float) -> dict[str, Figure]:
        """The fields of an answer, at so many tokens a second."""
        return {"power_w": self.watts} | (
            {"energy_j_per_token": self.energy(self.watts.value / tokens_per_s)} if tokens_per_s > 0 else {}
        )


def _most_in_cache(row: Row, layout: LayoutAnswer) -> dict[str, int]:
    """The longest context of one sequence alone and the most sequences at once, where the cache limits them."""
    m, job = row.e.memory, row.job
    found: dict[str, int] = {}
    per_sequence, free = row(m.kv_per_sequence), row(m.usable) - float(m.total[row.number] - m.kv_cache[row.number])
    if not (job.architecture.cached_window or job.architecture.state) and per_sequence > 0 and free > 0:
        length = job.input_tokens + job.output_tokens
        prefix = row(m.kv_shared) / max(1.0, job.prefixes)
        context = int(free / ((per_sequence + prefix) / length))
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
