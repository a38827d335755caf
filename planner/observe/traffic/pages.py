"""Pages of metrics that an engine serves: totals and histograms of requests since it started."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from planner.errors import Problem, UserError
from planner.observe.telemetry.exposition import Sample, read_samples
from planner.paths import read_shipped_part
from planner.reading import read_text
from planner.workload.tasks import Lengths
from planner.workload.traffic.summary import Traffic

FIRST_TOKENS = "time_to_first_token_seconds_count"
"""Count of first tokens, which some engines have instead of a count of completed requests."""


LEAST, MOST = 1e-6, 1e18
"""Smallest total above 0, and largest, that is plausible."""


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of one engine's metrics; empty: it has none."""

    name: str
    prefix: str
    inputs: str
    """Histogram of input tokens of a request, or their total."""
    outputs: str
    requests: str
    """Total of completed requests."""
    waiting: str
    hits: str = ""
    """Total of input tokens found in the cache."""
    asked: str = ""
    """Total of input tokens looked up in the cache."""


ENGINES = read_shipped_part(tuple[Engine, ...], "engines", "telemetry", "engine_pages.toml")


def is_page(text: str) -> bool:
    """True if `text` begins like a page of metrics of one of the engines."""
    return any(engine.prefix in text or engine.prefix.replace(":", "_") in text for engine in ENGINES)


class MetricsPage:
    """Metrics of one page, those of all ranks and models added up."""

    def __init__(self, path: Path) -> None:
        samples = read_samples(read_text(path), str(path))
        found = next((engine for engine in ENGINES if any(_is_of(engine, sample) for sample in samples)), None)
        if found is None:
            names = ", ".join(engine.name for engine in ENGINES)
            raise UserError(Problem(str(path), "", f"has no metric of {names}."))
        self.engine = found
        self.totals: dict[str, float] = defaultdict(float)
        self.buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        """Histogram -> upper bound -> requests up to it."""
        read = tuple(name for name in (*msgspec.structs.astuple(found)[2:], FIRST_TOKENS) if name)
        for sample in samples:
            name = sample.name[len(found.prefix) :]
            if not _is_of(found, sample) or not name.startswith(read):
                continue
            try:
                bound = float(sample.labels["le"]) if name.endswith("_bucket") else 0.0
            except (KeyError, ValueError):
                bound = math.nan
            if math.isnan(bound) or not (sample.value == 0 or LEAST <= sample.value <= MOST):
                raise UserError(
                    Problem(
                        str(path),
                        sample.name,
                        f"{sample.value!r} of {dict(sample.labels)!r} is not a number of requests or tokens.",
                    )
                )
            if name.endswith("_bucket"):
                self.buckets[name.removesuffix("_bucket")][bound] += sample.value
            else:
                self.totals[name] += sample.value

    def total(self, name: str) -> float | None:
        """Metric `name` over all labels; None if the page lacks it."""
        return self.totals[name] if name and name in self.totals else None


def _is_of(engine: Engine, sample: Sample) -> bool:
    return sample.name.startswith((engine.prefix, engine.prefix.replace(":", "_")))


def read_pages(paths: Sequence[Path], seconds: float | None) -> Traffic:
    """Traffic between two pages, `seconds` apart, or from one page since the engine started; raises `UserError`."""
    pages = [MetricsPage(path) for path in paths]
    first, last = (None, pages[0]) if len(pages) == 1 else (pages[0], pages[-1])
    engine, where = last.engine, str(paths[-1])
    if len(pages) > 2 or (first is not None and first.engine is not engine):
        raise UserError(Problem(where, "", "give one page, or an earlier and a later one of the same engine."))

    def passed(name: str) -> float | None:
        now, before = last.total(name), first.total(name) if first else 0.0
        return None if now is None else now - (before or 0.0)

    try:
        inputs, outputs = (_lengths(first, last, name, passed) for name in (engine.inputs, engine.outputs))
    except ValueError as error:
        raise UserError(Problem(where, engine.prefix + engine.inputs, f"is no histogram: {error}.")) from None
    count = passed(engine.requests) or passed(f"{engine.outputs}_count") or passed(FIRST_TOKENS)
    if count is None or count < 0:
        raise UserError(
            Problem(where, engine.prefix + engine.requests, "is missing, or less than before: was the engine restarted?")
        )
    asked, hits = passed(engine.asked), passed(engine.hits)
    share = hits / asked if hits is not None and asked else None
    notes = [] if seconds else ["a page has no time stamps: give --seconds, the time between two pages or since the engine started"]
    if inputs is not None and inputs.p50 is not None:
        notes.append("percentiles of lengths are interpolated inside the engine's buckets")
    return Traffic(
        source=f"{engine.name}'s metrics",
        requests=int(count),
        seconds=seconds,
        rate_per_s=count / seconds if seconds else None,
        input_tokens=inputs,
        output_tokens=outputs,
        prefix_tokens=share * inputs.mean if share is not None and inputs is not None else None,
        prefix_basis=f"{share:.0%} of the prompts' tokens were found in the cache" if share is not None else "",
        waiting=last.total(engine.waiting),
        notes=notes,
    )


def _lengths(first: MetricsPage | None, last: MetricsPage, name: str, passed: Callable[[str], float | None]) -> Lengths | None:
    """Lengths from a histogram, else the mean from totals; None if the page has neither, or no request arrived."""
    count = passed(f"{name}_count")
    if not count:
        total, requests = passed(name), passed(last.engine.requests) or passed(FIRST_TOKENS)
        return Lengths(mean=round(total / requests, 1)) if total and requests else None
    mean = (passed(f"{name}_sum") or 0.0) / count
    before = first.buckets.get(name, {}) if first else {}
    bounds = sorted(last.buckets.get(name, {}))
    below = [last.buckets[name][bound] - before.get(bound, 0.0) for bound in bounds]
    p50, p95 = (_percentile(bounds, below, share * count) for share in (0.5, 0.95))
    if p50 is None or p95 is None:
        return Lengths(mean=round(mean, 1))
    return Lengths(mean=round(mean, 1), p50=round(min(p50, 2 * mean), 1), p95=round(min(p95, 20 * mean), 1))


def _percentile(bounds: Sequence[float], below: Sequence[float], rank: float) -> float | None:
    """Length that `rank` requests stay below, linear inside a bucket; None in an open last bucket."""
    low = count = 0.0
    for bound, up_to in zip(bounds, below, strict=True):
        if up_to >= rank:
            if math.isinf(bound):
                return None
            return low + (bound - low) * (rank - count) / max(up_to - count, 1e-9)
        low, count = bound, up_to
    return None
