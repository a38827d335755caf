"""Ranges of times: the error of a kind of figure by published measurements, wider where less is known about the question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Table, added
from planner.engine.evaluate.candidates import Candidates
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.training import StepColumns
from planner.workload.published.spreads import ENGINE_OPEN, PROGRAM_OPEN, RELEASE_OPEN, Classes, published_spreads
from planner.workload.traffic.lengths import drawn_outputs

NETWORK_SPREAD = math.log(2)
"""Half width for time spent between nodes over a network that is assumed to be the usual one of the GPU: half or twice as fast. An
assumption."""
MEASURED_SHARE = 0.5
"""Share of a half width that remains when compute and bandwidth were measured on the device itself. An assumption."""
NETWORK = "network between nodes not measured"
HOST_OPEN = "host time of an engine not named"
"""Fact whose amount is a half width."""
OTHER_HOSTS, OTHER_SERVERS = 16.0, 8.0
"""Factor by which the host of another engine may take longer, in batches and in services. vLLM without CUDA graphs takes 0.35 ms a layer
and 3 ms: 14 ms for 32 layers, where 1 ms is predicted for an engine that is not named. Eight times 2 ms was the best of 1, 2, 4, 8 and
16 by the interval score of decoding, each source left out (2026-11-25). A service that names no engine uses vLLM's."""
OTHER_LAUNCHES = 0.5
"""Part of a launch's half width that is added to the published ranges in generation, whose hosts differ, too: of 0, 0.5 and 1 the value
with the best coverage of decoding at the lowest interval score, each source left out (2026-11-27)."""
HOST_TIME = "time of the engine on the host"
"""Fact whose amount is the host's share of the time. The constants behind it (host time of a step and of a sequence, launches) were each
fitted on one engine's release and one GPU model, and change by a third and more where a source is left out
(docs/decisions/068-constants-of-the-host.md)."""
LENGTHS_SPREAD = math.log(2.0)
"""Half width for requests that all run at once and for whose answers only a mean length is given. If all answers are equally long, no few
long ones run almost alone at the end; where lengths are cut off (sigma 0.3 in place of 0.8), fifty at once take half as long
(docs/decisions/077-answers-differ-in-runs-that-end.md)."""
LENGTHS = "lengths of answers given as a mean alone, in a run that ends"
SEVERAL, PCIE = "several GPUs", "PCIe between GPUs"
"""Facts on GPUs that generate each token together. GPUs that hold layers one after the other hand over a few kilobytes, and one stream of
llama.cpp is predicted as well on eight of them as on one (docs/decisions/213-what-a-left-out-source-alone-tells.md)."""
SHAPES = ("dense models", "mixtures of experts")
"""Classes of models: without and with experts."""


class Ranges(msgspec.Struct, frozen=True, dict=True):
    """Evidence behind the ranges of a table of times; columns of shape [rows] or [1]."""

    facts: Mapping[str, Floats]
    """Cause of a wider range, or engine -> its amount in each row, 0: none."""
    network: Floats
    """Half width that the network between nodes adds to every time."""
    left: Floats
    """Share of the half widths that remains where the device was measured."""
    own: Mapping[str, Floats] = msgspec.field(default_factory=dict)
    """Kind of figure -> factor on its half width from this user's own results."""
    limit: Floats | float = 0.0
    """Half width that a power limit adds to every time, to the extent that products decide it."""
    lengths: Floats = msgspec.field(default_factory=lambda: np.zeros(1))
    """Half width for lengths that may all be equal, in a load that ends."""
    host: Floats = msgspec.field(default_factory=lambda: np.zeros(1))
    """Half width for the host of an engine that is not named."""
    processor: Floats = msgspec.field(default_factory=lambda: np.zeros(1))
    """Half width of the rates that a processor reaches. No published measurement is of a processor, so the range consists of the ranges of
    its ceilings."""
    classes: tuple[Classes, ...] = ()
    """Architecture of the GPU, shape of the model, and engine of a service."""
    if_named: Ranges | None = None
    """Ranges of the same rows if assumed engines were named without a release; None if all engines are named."""

    @cached_property
    def _known(self) -> dict[str, Floats]:
        return {}

    def half_width(self, kind: str) -> Floats:
        """Half width of the logarithm of figures of `kind`, one of `published.spreads.KINDS`."""
        if kind not in self._known:
            fitted = published_spreads().half_width(kind, self.facts) * self._unseen(kind) * self.left * self.own.get(kind, 1.0)
            beside = self.network**2 + self.limit**2 + self.lengths**2 + self.host**2 + self.processor**2
            self._known[kind] = np.sqrt(fitted**2 + beside)
        return self._known[kind]

    def _unseen(self, kind: str) -> Floats:
        """Factor for rows whose GPU, model or engine is of a class without published values of `kind`: the largest of the three."""
        spreads, factor = published_spreads(), np.ones(1)
        for classes in self.classes:
            factors = {name: spreads.class_factor(kind, name) for name in set(classes.names)}
            if max(factors.values()) > 1:
                factor = np.maximum(factor, np.array([factors[name] for name in classes.names])[classes.rows])
        return factor


def ranges_of(candidates: Candidates, t: Table, timed: StepColumns | ServeColumns) -> Ranges:
    """Ranges of the times of `candidates`, whose table is `t`."""
    if isinstance(timed, StepColumns) or all(job.workload.engine for job in candidates.jobs):
        return _ranges_of(candidates, t, timed)
    named = [replace(job, workload=replace(job.workload, engine=job.workload.engine or job.engine.name)) for job in candidates.jobs]
    return replace(_ranges_of(candidates, t, timed), if_named=_ranges_of(replace(candidates, jobs=named), t, timed))


def _ranges_of(candidates: Candidates, t: Table, timed: StepColumns | ServeColumns) -> Ranges:
    seconds, s, job = seconds_of(timed), t.layout, t.job
    share = np.clip(timed.compute_bound / np.where(seconds > 0, seconds, 1.0), 0, 1)
    ceilings = np.hypot(share * t.chip.flop_spread, (1 - share) * t.chip.bandwidth_spread)
    several = np.where(job.train > 0, s.gpus, np.maximum(s.tp * s.cp, s.ep)) > 1
    facts = {
        "what the GPU reaches is known roughly": ceilings,
        "mixture of experts": t.model.experts > 0,
        SEVERAL: several,
        PCIE: several & (s.nvlink == 0),
        "weights below 16 bit": job.linear_bytes < 2,
        HOST_TIME: host_share(timed),
        PROGRAM_OPEN: job.program_open,
    }
    by_job = [_facts_of_job(job) for job in candidates.jobs]
    for name in dict.fromkeys(name for job_facts in by_job for name in job_facts):
        amounts = [job_facts.get(name, 0.0) for job_facts in by_job]
        facts[name] = np.array(amounts)[candidates.job_index] if len({*amounts}) > 1 else np.array(amounts[:1])
    others = np.where(job.serves > 0, OTHER_SERVERS, OTHER_HOSTS)
    unnamed = (others - 1) * facts[HOST_TIME] * facts.get(ENGINE_OPEN, 0.0)
    host = np.log1p(
        np.maximum(unnamed, (np.exp(OTHER_LAUNCHES * t.chip.launch_spread) - 1) * launch_share(timed)) * (job.train <= 0)
    )
    left = np.array([_left(chip) for chip in candidates.chips])[candidates.chip_index]
    own = {
        kind: np.array([chip.own_ranges.get(kind, 1.0) for chip in candidates.chips])[candidates.chip_index]
        for kind in {kind for chip in candidates.chips for kind in chip.own_ranges}
    }
    ending = np.array([_requests_of_means(job) for job in candidates.jobs])[candidates.job_index]
    lengths = LENGTHS_SPREAD * np.minimum(1.0, t.layout.sequences * t.layout.dp / ending)
    known = {name: column * 1.0 for name, column in facts.items()}
    limit, processor = share * t.chip.power_doubt, np.where(t.chip.is_cpu > 0, ceilings, 0.0)
    return Ranges(known, network_spread(t, timed), left, own, limit, lengths, host, processor, _classes(candidates, t))


def _classes(candidates: Candidates, t: Table) -> tuple[Classes, ...]:
    """Architecture of each row's GPU, the shape of its model, and the engine that serves it."""
    architectures = Classes([chip.gpu.architecture for chip in candidates.chips], candidates.chip_index)
    engines = Classes([_serving_engine(job) for job in candidates.jobs], candidates.job_index)
    return architectures, Classes(SHAPES, np.asarray(t.model.experts > 0, dtype=int)), engines


def _serving_engine(job: Job) -> str | None:
    """The engine whose scheduler serves; None in fixed batches, and where no engine is named, which has a range of its own."""
    return job.engine.label if job.task == "serve" and job.workload.engine else None


def _left(chip: Chip) -> float:
    return MEASURED_SHARE if chip.basis == "measured" else 1.0


def _requests_of_means(job: Job) -> float:
    """Requests of a load that ends, with answers that may all have the same length; infinite for any other load. The fewer run at once, the less it matters."""
    w = job.workload
    if job.task != "serve" or not w.requests or drawn_outputs(w) == w.output_tokens:
        return math.inf
    return w.requests


def _facts_of_job(job: Job) -> dict[str, float]:
    """Facts about the engine, its unknowns, and the arrival of its load."""
    engine, serves = job.workload.engine, job.task == "serve"
    return {
        job.engine.label if engine else ENGINE_OPEN: float(not engine or not job.train),
        RELEASE_OPEN: float(engine is not None and "@" not in engine and not job.train),
        "requests at a rate": float(serves and job.request_rate_per_s > 0),
        "as many requests at once as there are": float(serves and (math.isinf(job.concurrency) or bool(job.workload.requests))),
    }


def seconds_of(timed: StepColumns | ServeColumns) -> Floats:
    """Seconds of one step, or of one request."""
    return timed.step_s if isinstance(timed, StepColumns) else timed.request_s.mean


def launch_share(timed: StepColumns | ServeColumns) -> Floats:
    """Share of a step's or a request's time in which the device waits for launches."""
    seconds = seconds_of(timed)
    return np.clip(timed.by_class.get("launch", np.zeros(1)) / np.where(seconds > 0, seconds, 1.0), 0.0, 1.0)


def host_share(timed: StepColumns | ServeColumns) -> Floats:
    """Share of a step's or a request's time that the host takes, for launches or between passes."""
    seconds = seconds_of(timed)
    host: Floats = added([timed.by_class[name] for name in ("launch", "host") if name in timed.by_class] or [np.zeros(1)])
    return np.clip(host / np.where(seconds > 0, seconds, 1.0), 0.0, 1.0)


def network_spread(t: Table, timed: StepColumns | ServeColumns) -> Floats:
    """Spread that the network between nodes adds to a step's or a request's time; 0 inside a node or where the network was measured.

    In training it applies to waiting for exchanges among replicas and stages, in inference to tensor parallelism over nodes.
    """
    s, seconds = t.layout, seconds_of(timed)
    if isinstance(timed, StepColumns):
        apart, spent_s = s.gpus > s.gpus_per_node, added(timed.exposed.values())
    else:
        apart, spent_s = s.tp * s.cp > s.gpus_per_node, timed.by_class["communication"]
    share = np.where(apart & (t.chip.measured_nodes_few == 0), spent_s / np.where(seconds > 0, seconds, 1.0), 0.0)
    return NETWORK_SPREAD * np.minimum(share, 1.0)
