"""Times and rates of rows, as the fields of their answers: each figure with its range and its basis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from planner.engine.answers.figure import Basis, Figure, Percentiles
from planner.engine.columns import Flags, Floats, added, positive, records
from planner.engine.evaluate.chosen_rows import Chosen, ReleaseEnds
from planner.engine.explain.open_waits import OpenWaits
from planner.engine.explain.range_ends import Unstated, limits_of
from planner.engine.performance.operators.power import drawn_w
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import Latency
from planner.engine.performance.simulation.load import replicas_at_work
from planner.engine.performance.training import StepColumns
from planner.workload.published.spreads import OF_A_BATCH

BUSY_FACTOR, OTHER_FACTOR = 1.15, 1.5
"""Half width of the power a GPU draws where products are the limit, and where anything else is, as factors. Assumptions."""
FOR_HOST, FOR_LINKS = ("launch", "host", "bubble"), ("communication", "new weights")
"""Operator classes in which a GPU waits for its host or other stages, and for links."""
SHARES = Percentiles.__struct_fields__
NO_RELEASES: Mapping[str, ReleaseEnds] = {}
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
"""Operator class -> what limits it; products are limited by compute or bandwidth."""


def figures(value: Floats, low: Floats, high: Floats, basis: Sequence[Basis]) -> list[Figure]:
    """A figure for each row."""
    return list(map(Figure, value.tolist(), low.tolist(), high.tolist(), basis))


class _Range(NamedTuple):
    """Range of the figures of one kind: factors of each row from the value to its ends, for a time and for a rate."""

    faster: Floats
    slower: Floats
    basis: Sequence[Basis]

    @classmethod
    def of(cls, rows: Chosen, kind: str, releases: Mapping[str, ReleaseEnds] = NO_RELEASES) -> _Range:
        """Range of figures of `kind` over other `releases` of an engine; for an assumed engine it includes the range with that engine named."""
        ranges = rows.e.ranges
        factor, of_named = (np.exp(rows(one.half_width(kind))) for one in (ranges, ranges.if_named or ranges))
        faster, slower = (np.maximum(factor, of_named * end) for end in releases.get(kind, (1.0, 1.0)))
        return cls(faster, slower, [chip.basis for chip in rows.chips])

    def with_waits(self, waits: OpenWaits) -> _Range:
        """Range of first tokens, from independent causes: the formulas, and how prompts meet."""
        ends = (self.faster, waits.apart), (self.slower, waits.together)
        faster, slower = (np.where(end > 0, np.exp(np.hypot(np.log(one), end)), one) for one, end in ends)
        return self._replace(faster=faster, slower=slower)

    def __call__(self, value: Floats) -> list[Figure]:
        """Figures with these values."""
        return figures(value, value / self.faster, value * self.slower, self.basis)

    def seconds(self, value: Floats, least: Floats, wait_s: Floats | float = 0.0) -> list[Figure]:
        """Times that cannot be below `least`, and may be `wait_s` longer in addition to their range."""
        low = np.minimum(value, np.maximum(least, value / self.faster))
        return figures(value, low, value * self.slower + wait_s, self.basis)

    def rate(self, value: Floats, most: Floats) -> list[Figure]:
        """Rates that cannot be above `most`."""
        high = np.maximum(value, np.minimum(most, value * self.faster))
        return figures(value, value / self.slower, high, self.basis)


Fields = dict[str, list[Any]]
"""Field of an answer -> its value in each row; None if a row has none."""


def train_figures(rows: Chosen, step: StepColumns, unstated: Unstated) -> Fields:
    """Fields of answers for training."""
    plain = _Range.of(rows, "training speed")
    faster = np.where(unstated.sums, plain.faster * unstated.faster, np.maximum(plain.faster, unstated.faster))
    figure = plain._replace(faster=faster, slower=plain.slower * unstated.slower)
    seconds, tokens, flop, gpus = rows(step.step_s), rows(step.tokens), rows(step.model_flop), rows(rows.e.table.layout.gpus)
    peak = rows(rows.e.table.chip.peak_flop_per_s) * gpus
    least_s = flop / peak / unstated.peak
    rate, most = tokens / seconds, tokens / least_s
    every = gpus + rows(rows.e.table.job.rollout_gpus)
    return {
        "flop_per_token": (flop / tokens).tolist(),
        "step_s": figure.seconds(seconds, least_s),
        "tokens_per_s": figure.rate(rate, most),
        "tokens_per_s_per_gpu": figure.rate(rate / every, most / every),
        "mfu": figure.rate(flop / seconds / peak, np.ones(1)),  # what runs as TF32 has the peak of TF32
        **_of_classes(rows, step, rate, figure, np.ones(1)),
    }


def serve_figures(rows: Chosen, s: ServeColumns, waits: OpenWaits, releases: Mapping[str, ReleaseEnds]) -> Fields:
    """Fields of answers for generating, prefilling and serving."""
    layout, job, limits, served = rows.e.table.layout, rows.e.table.job, limits_of(rows), rows.jobs[0].task == "serve"
    replicas, gpus, output_tokens = rows(layout.dp), rows(layout.gpus), rows(job.output_tokens)
    prefills = np.array([one.task == "prefill" for one in rows.jobs])

    def latency(kind: str, times: Latency, least_s: Floats, *, cold: bool = True) -> list[Percentiles]:
        figure = _Range.of(rows, kind if served else OF_A_BATCH[kind], releases)
        figure = figure.with_waits(waits) if kind == "time to first token" else figure
        late_s = waits.cold_s if cold else dict.fromkeys(SHARES, 0.0)
        return records(
            Percentiles, {share: figure.seconds(rows(getattr(times, share)), least_s, late_s[share]) for share in SHARES}
        )

    batch = np.array([one.batch for one in rows.jobs])
    prompts = np.ones(1) if served else -(-batch // replicas)  # sequences of the fullest replica in a fixed batch
    busy = replicas_at_work(rows.jobs, replicas) if served else batch / prompts
    requests, most = rows(s.requests_per_s) * busy, limits.requests_per_s * busy
    made = np.where(prefills, rows(job.input_tokens), output_tokens)
    full, asked = requests * made, np.array([one.request_rate_per_s or np.inf for one in rows.jobs])
    # the rate served is the rate of arrivals; the rest is room for bursts
    requests, most = np.minimum(requests, asked), np.minimum(most, asked)
    tokens = requests * made
    rate = _Range.of(rows, "serving throughput" if served else "batch throughput", releases)
    at_work = np.minimum(1.0, np.divide(tokens, full, out=np.ones(full.size), where=full > 0))
    fields: Fields = {
        "flop_per_token": rows(s.flop_per_token).tolist(),
        "prefill_s": _Range.of(rows, "prefill", releases).seconds(rows(s.prefill_s), prompts * limits.prompt_s),
        "ttft_s": latency("time to first token", s.ttft_s, limits.prompt_s),
        "requests_per_s": rate.rate(requests, most),
        "tokens_per_s": rate.rate(tokens, most * made),
        "tokens_per_s_per_gpu": rate.rate(tokens / gpus, most * made / gpus),
        **_of_classes(rows, s, tokens, rate, at_work),
        **_most_in_cache(rows),
    }
    if prefills.all():
        return fields
    between = latency("time per output token", s.tpot_s, limits.token_s, cold=False)
    fields["tpot_s"] = _where(~prefills & (output_tokens > 1) & (rows(s.tpot_s.mean) > 0), between)
    fields["decode_tokens_per_s"] = [one and one.mean.inverse(1.0) for one in fields["tpot_s"]]
    fields["output_tokens_per_s"] = _where(~prefills, fields["tokens_per_s"])
    whole = latency("request time", s.request_s, limits.prompt_s + (output_tokens - 1) * limits.token_s)
    queue = rows.e.queue
    if queue is None:
        return fields | {"request_s": _where(~prefills, whole)}
    ends: Flags = ~rows(queue.saturated)
    measured = ends & (rows(queue.samples) > 0)
    return fields | {
        "ttft_s": _where(ends, fields["ttft_s"]),
        "request_s": _where(ends, whole),
        "wait_s": _where(measured, latency("time to first token", queue.wait_s, np.zeros(1))),
        "utilisation": _where(measured, [one.capped(1.0) for one in rate(rows(queue.utilisation))]),
    }


def _where(there: Flags, found: Sequence[Any]) -> list[Any]:
    """Values `found` in the rows `there`, None in other rows."""
    return [one if known else None for one, known in zip(found, there.tolist(), strict=True)]


def _of_classes(rows: Chosen, timed: StepColumns | ServeColumns, tokens_per_s: Floats, figure: _Range, busy: Floats) -> Fields:
    """Seconds by operator class, the limit, and the resulting power of the GPUs, which work for the share `busy` of the time."""
    by_class = {name: np.maximum(rows(column), 0.0) for name, column in timed.by_class.items()}
    compute_s, classes, chip = rows(timed.compute_bound), positive(by_class), rows.e.table.chip.take(rows.numbers)
    products, host, links = _shares(by_class, compute_s)
    factor = np.array([BUSY_FACTOR**share * OTHER_FACTOR ** (1 - share) for share in products.tolist()])
    gpus = rows(rows.e.table.layout.gpus)
    watts = drawn_w(chip, products=products, host=host, links=links, busy=busy) * gpus
    most = np.minimum(chip.power_w, chip.power_limit_w) * gpus
    known = np.isfinite(chip.power_w) & np.array([bool(seconds) for seconds in classes])
    spec: list[Basis] = ["spec"] * len(classes)
    energy = _Range(figure.faster * factor, figure.slower * factor, spec)
    works = tokens_per_s > 0
    return {
        "bottleneck": _bottlenecks(by_class, compute_s),
        "seconds_by_class": classes,
        "power_w": _where(known, _Range(factor, factor, spec).rate(watts, most)),
        "energy_j_per_token": _where(known & works, energy(watts / np.where(works, tokens_per_s, 1.0))),
    }


def _shares(by_class: Mapping[str, Floats], compute_s: Floats) -> tuple[Floats, Floats, Floats]:
    """Shares of the time in which products are the limit, and in which a GPU waits for its host and for links."""
    seconds = added(by_class.values())
    seconds = np.where(seconds > 0, seconds, 1.0)
    products = np.minimum(1.0, compute_s / seconds)
    none = np.zeros(seconds.size)
    host, links = (added(by_class.get(name, none) for name in names) / seconds for names in (FOR_HOST, FOR_LINKS))
    waits = np.minimum(1.0, np.divide(1 - products, host + links, out=np.ones(seconds.size), where=host + links > 0))
    return products, host * waits, links * waits


def _most_in_cache(rows: Chosen) -> Fields:
    """Longest context of one sequence alone and the most sequences at once, where the cache limits them."""
    m, job = rows.e.memory, rows.e.table.job
    per_sequence, free = rows(m.kv_per_sequence), rows(m.usable) - (rows(m.total) - rows(m.kv_cache))
    prefix, length = rows(m.kv_shared) / np.maximum(1.0, rows(job.prefixes)), rows(job.input_tokens + job.output_tokens)
    grows = np.array([not (one.architecture.cached_window or one.architecture.state) for one in rows.jobs])
    limited = grows & (per_sequence > 0) & (free > 0)
    context = free / np.where(limited, (per_sequence + prefix) / length, 1.0)
    longest = np.array([one.architecture.max_context or np.inf for one in rows.jobs])
    most = rows(m.max_sequences)
    replicas = rows(rows.e.table.layout.dp)
    return {
        "max_context": _whole(np.where(limited, np.minimum(np.floor(context), longest), np.nan)),
        "max_concurrency": _whole(np.where(np.isfinite(most), np.floor(np.minimum(most, 1e6)) * replicas, np.nan)),
    }


def _whole(numbers: Floats) -> list[int | None]:
    """Whole numbers; None for NaN."""
    return [None if math.isnan(number) else int(number) for number in numbers.tolist()]


def _bottlenecks(by_class: Mapping[str, Floats], compute_s: Floats) -> list[str]:
    """Resource that takes most of the time of each row; products count as compute or bandwidth, whichever limits them."""
    none = np.zeros(compute_s.size)
    products = by_class.get("matmul", none) + by_class.get("head", none)
    words = {"compute": np.minimum(compute_s, products)}
    words["bandwidth"] = products - words["compute"]
    for name, seconds in by_class.items():
        if name in CLASS_WORDS:
            words[CLASS_WORDS[name]] = words.get(CLASS_WORDS[name], none) + seconds
    names = [*words]
    return [names[place] for place in np.argmax([*words.values()], axis=0).tolist()]
