"""Rows of evaluated candidates that become answers, and their times with an older release of an engine where no release is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.candidates import Candidates, joined_candidates
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.job.engine import Engine
from planner.engine.job.engines import ENGINES, oldest_in_use, without_graphs
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.workload.published.spreads import OF_A_BATCH
from planner.workload.tasks import Request

T = TypeVar("T", bound=np.generic)


class Chosen(NamedTuple):
    """Rows `numbers` of `e`; calling it with a column of `e` returns the cells of these rows."""

    e: Evaluated
    numbers: Rows
    jobs: list[Job]
    """Job of each row."""
    chips: list[Chip]
    """Chip of each row."""

    @classmethod
    def of(cls, e: Evaluated, rows: Sequence[int]) -> Chosen:
        """Rows `rows` of `e`."""
        c, index = e.candidates, np.array(rows, dtype=np.int64)
        jobs, chips = c.job_index[index].tolist(), c.chip_index[index].tolist()
        return cls(e, index, [c.jobs[number] for number in jobs], [c.chips[number] for number in chips])

    def __call__(self, column: NDArray[T]) -> NDArray[T]:
        """Cells of `column` in these rows; a column of length 1 is shared by all rows."""
        return column[self.numbers] if column.size > 1 else np.full(self.numbers.size, column.item(), dtype=column.dtype)


class ReleaseEnds(NamedTuple):
    """Factors of at least 1 by which times of a kind are shorter and longer with an older release (`_older`) of the engine of each row."""

    faster: Floats
    slower: Floats


def names_of(kind: str) -> tuple[str, str]:
    """Names, in the evidence of an answer, of the logarithms of the factors by which figures of `kind` are faster and slower in an older release."""
    return f"{kind}: faster in an older release", f"{kind}: slower in an older release"


def release_ends(parts: Sequence[Chosen]) -> list[dict[str, ReleaseEnds]]:
    """Kind of figure -> its factors, for the rows of each of `parts`, which share their jobs; empty in training, and where no release is open.

    The older release serves as many sequences at once as today's, on the same layout, unless that number is open and its default was
    another.
    """
    places = [np.flatnonzero([rows.e.serve is not None and _release_open(job) for job in rows.jobs]) for rows in parts]
    ends = np.cumsum([numbers.size for numbers in places])
    if not any(numbers.size for numbers in places):
        return [{} for _ in parts]
    served = parts[0].jobs[0].task == "serve"
    older = _times(serve_of(_at_older(parts, places).table(), continuous=served), served=served)
    return [
        _ends(rows, numbers, {kind: column[end - numbers.size : end] for kind, column in older.items()}, served=served)
        for rows, numbers, end in zip(parts, places, ends, strict=True)
    ]


def _ends(rows: Chosen, places: Rows, older: Mapping[str, Floats], *, served: bool) -> dict[str, ReleaseEnds]:
    """Factors of `rows`; rows at `places` take `older` seconds in the older release."""
    assert rows.e.serve is not None
    found = {}
    for kind, today in _times(rows.e.serve, served=served).items():
        ratio, seconds = np.ones(rows.numbers.size), rows(today)[places]
        ratio[places] = np.divide(older[kind], seconds, out=np.ones(places.size), where=(seconds > 0) & (older[kind] > 0))
        found[kind] = ReleaseEnds(1 / np.minimum(1.0, ratio), np.maximum(1.0, ratio))
    return found


def evidence(ends: Mapping[str, ReleaseEnds]) -> dict[str, Floats]:
    """Cause of a wider range -> the logarithm of its factor."""
    return {name: np.log(end) for kind, both_ends in ends.items() for name, end in zip(names_of(kind), both_ends, strict=True)}


def _release_open(job: Job) -> bool:
    """True if the engine of `job` has several releases and none is named."""
    return len(ENGINES.get(job.workload.engine or job.engine.name, ())) > 1 and not job.workload.disaggregated


def _at_older(parts: Sequence[Chosen], places: Sequence[Rows]) -> Candidates:
    """Rows of `parts` at their `places`, one part after the other, with the older release of their engines."""
    joined = joined_candidates([(rows.e.candidates, rows.numbers[numbers]) for rows, numbers in zip(parts, places, strict=True)])
    jobs = [_by_older(job) if _release_open(job) else job for job in joined.jobs]
    divides = np.array([may_divide_matrices(job) for job in joined.jobs])[joined.job_index]
    s = joined.layout
    layout = replace(s, tp=np.where(divides, s.pp, s.tp), pp=np.where(divides, s.tp, s.pp))
    return replace(joined, jobs=jobs, layout=layout)


def may_divide_matrices(job: Job) -> bool:
    """True if layers are whole only because no layout or release is given: an older release gives each GPU a part of every matrix."""
    w = job.workload
    is_open = isinstance(w, Request) and w.pp is None and w.dp is None and (w.tp or 1) == 1
    return is_open and _release_open(job) and job.engine.layer_split and not _older(job).layer_split


def _older(job: Job) -> Engine:
    """Oldest release of the job's engine; for a service, the oldest release in use, because nobody plans a service with an unmaintained one."""
    return oldest_in_use(job.engine.name) if job.task == "serve" else ENGINES[job.engine.name][0]


def _by_older(job: Job) -> Job:
    """`job` with an older release of its engine."""
    engine = without_graphs(_older(job)) if job.workload.cuda_graphs is False else _older(job)
    eager = float(engine.stores_scores(job.architecture))
    if job.workload.attention is not None:
        return replace(job, engine=engine)
    ampere, triton = (float(runs and not eager) for runs in (engine.ampere_attention, engine.triton_attention))
    return replace(job, engine=engine, eager_attention=eager, ampere_attention=ampere, triton_attention=triton)


def _times(s: ServeColumns, *, served: bool) -> dict[str, Floats]:
    """Kind of figure -> its seconds, or those of a request where the figure is a rate."""
    rate = "serving throughput" if served else "batch throughput"
    latencies = {"time to first token": s.ttft_s, "time per output token": s.tpot_s, "request time": s.request_s}
    times = {kind if served else OF_A_BATCH[kind]: latency.mean for kind, latency in latencies.items()}
    return {"prefill": s.prefill_s} | times | {rate: 1 / s.requests_per_s}
