"""Every sensible way to spread one job, as the layout columns of a table.

A `Site` is somewhere the job could run: a GPU in nodes of a size, over a link. Each site is combined with degrees of
parallelism, sharding stages, checkpointing and batch sizes that the architecture admits and the workload leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from planner.engine.columns import Floats, LayoutColumns, Rows
from planner.engine.estimate import CHECKPOINTING, ZERO_STAGE
from planner.engine.job.jobs import Job
from planner.engine.speed.chips import fabric_of, link_of
from planner.hardware.gpus import Gpu
from planner.hardware.offers import Offer

MOST_TENSOR_PARALLEL = 8
PIPELINES = (1, 2, 4, 8, 16)
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
IN_FLIGHT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LARGE_MODEL_PARAMETERS = 10e9
"""Below this a pipeline over nodes is not worth its bubble; above it a few sequences fill the device."""
LARGEST_MEMORY_BYTES = 300e9
"""More than any part of the catalogue has: counts whose share of the state is larger need not be looked at."""
HOST_SHARE = 0.9
"""Of a host's memory, for what is offloaded: the rest is the system's and the processes' own. An assumption."""
DEFAULT_MOST_GPUS = {"train": 64, "finetune": 16, "generate": 8, "prefill": 8, "serve": 64}


@dataclass(frozen=True)
class Site:
    """A GPU in nodes of `per_node`; `most` of them can be had."""

    gpu: Gpu
    per_node: int
    nvlink: bool | None
    most: int
    here: bool = False
    usd_per_h: float = float("nan")
    """Of `billed` GPUs; NaN: no offer in the asked market."""
    billed: int = 1
    """GPUs that are paid for together: a whole instance, or one."""
    offer: Offer | None = None
    dearer: tuple[tuple[float, Offer], ...] = ()
    """(USD/h of one node, offer) of the same node elsewhere, cheapest first."""
    largest: bool = True
    """The largest node this GPU comes in: jobs over several nodes are only built from these."""

    @property
    def host_bytes_per_gpu(self) -> float:
        """What a job may take of the offered instance's memory, for each of its GPUs; NaN where the offer does not say."""
        if self.offer is None or self.offer.memory_bytes is None:
            return float("nan")
        return HOST_SHARE * self.offer.memory_bytes / self.offer.gpus


@dataclass(frozen=True)
class Layouts:
    """Candidates of all sites: where each row runs, in which of the ways, and its layout columns."""

    site_index: Rows
    way_index: Rows
    ways: LayoutColumns
    """Every different way to spread the job once; what depends on the site alone is 0."""
    columns: LayoutColumns


_NAMES = [item.name for item in fields(LayoutColumns)]
_OF_SITE = ("nvlink", "link_bytes_per_s", "fabric_bytes_per_s")
"""Columns that depend on the site alone."""
_PLAIN = dict.fromkeys(_NAMES, 0.0) | dict.fromkeys(
    ("cp", "ep", "virtual_stages", "shard", "micro_batch", "sequences", "dp", "pp"), 1.0
)
_PLACE = {name: place for place, name in enumerate(_NAMES)}


def enumerate_layouts(job: Job, sites: Sequence[Site]) -> Layouts:
    """All candidates of `job` at all sites."""
    blocks: dict[tuple[int, int], Floats] = {}
    begins: dict[tuple[int, int], int] = {}
    per_site = []
    for site in sites:
        most = site.most if site.largest or job.task == "serve" else min(site.most, site.per_node)
        keys = _counts(job, site.per_node, most) if job.train else [(site.per_node, most)]
        for key in keys:
            if key not in blocks:
                found = list(_training(job, *key) if job.train else _inference(job, *key))
                begins[key] = sum(len(block) for block in blocks.values())
                blocks[key] = np.array(found, dtype=np.float64).reshape(-1, len(_NAMES))
        spans = [np.arange(begins[key], begins[key] + len(blocks[key])) for key in keys]
        per_site.append(np.concatenate(spans) if spans else np.empty(0, dtype=np.int64))
    way_index = np.concatenate(per_site)
    site_index = np.repeat(np.arange(len(sites)), [ways.size for ways in per_site])
    ways = np.concatenate(list(blocks.values())).T if blocks else np.empty((len(_NAMES), 0))
    columns = {name: column[way_index] for name, column in zip(_NAMES, ways, strict=True)}
    for name, values in zip(_OF_SITE, _links(sites), strict=True):
        columns[name] = values[site_index]
    unplaced = {name: np.ascontiguousarray(column) for name, column in zip(_NAMES, ways, strict=True)}
    return Layouts(site_index, way_index, LayoutColumns(**unplaced), LayoutColumns(**columns))


def _links(sites: Sequence[Site]) -> Floats:
    """Shape [`_OF_SITE`, sites]."""
    found = []
    for site in sites:
        link, link_rate = link_of(site.gpu, None, nvlink=site.nvlink)
        found.append((float(link == "nvlink"), link_rate, fabric_of(site.gpu, None, site.per_node)[1]))
    return np.array(found).reshape(-1, len(_OF_SITE)).T


def _powers(most: int) -> Iterator[int]:
    value = 1
    while value <= most:
        yield value
        value *= 2


def _tensor_degrees(job: Job, per_node: int) -> list[int]:
    """Powers of two inside a node that divide the heads; small models gain nothing from it."""
    a = job.architecture
    most = min(per_node, MOST_TENSOR_PARALLEL) if a.total > 1e9 else 1
    return [tp for tp in _powers(most) if a.heads % tp == 0]


def _row(**given: float) -> list[float]:
    row = list(_PLAIN.values())
    for name, value in given.items():
        row[_PLACE[name]] = value
    return row


def _counts(job: Job, per_node: int, most: int) -> list[tuple[int, int]]:
    """(GPUs, those of them in a node) among which training may be spread: one node in powers of two, or whole nodes."""
    a = job.architecture
    bytes_held = a.total * job.linear_bytes + (job.adapters or a.total) * (job.state_bytes + job.master_bytes)
    return [
        (count, min(per_node, count))
        for count in _powers(most)
        if (count <= per_node or count % per_node == 0) and (count == 1 or bytes_held / count < LARGEST_MEMORY_BYTES)
    ]


def _training(job: Job, gpus: int, per_node: int) -> Iterator[list[float]]:
    a, workload = job.architecture, job.workload
    large = a.total > LARGE_MODEL_PARAMETERS
    pipelines = PIPELINES if large and not job.adapters else (1,)
    for tp, pp in product(_tensor_degrees(job, per_node), pipelines):
        dp = gpus // (tp * pp)
        if dp < 1 or dp * tp * pp != gpus or pp > a.layers or (pp > 1 and gpus <= per_node):
            continue
        for sharding, checkpointing, micro in product(
            _stages(job, dp), _checkpointing(workload.checkpointing), _micro_batches(job, dp)
        ):
            yield _row(
                gpus=gpus,
                gpus_per_node=per_node,
                tp=tp,
                pp=pp,
                dp=dp,
                zero=sharding,
                checkpointing=checkpointing,
                shard=min(dp, per_node) if workload.sharding == "hsdp" else dp,
                micro_batch=micro,
            )


def _stages(job: Job, dp: int) -> Iterable[float]:
    if job.workload.sharding is not None:
        return (ZERO_STAGE[job.workload.sharding],)
    if dp == 1:
        return (0.0,)
    return (0.0, 3.0) if job.adapters else (1.0, 3.0)


def _checkpointing(asked: str | None) -> Iterable[float]:
    return (CHECKPOINTING[asked],) if asked else (0.0, 2.0)


def _micro_batches(job: Job, dp: int) -> Iterable[int]:
    if job.micro_batch:
        return (int(job.micro_batch),)
    per_rank = job.global_batch / dp if job.global_batch else float("inf")
    sizes = [size for size in MICRO_BATCHES if size <= 4] if job.architecture.total > LARGE_MODEL_PARAMETERS else MICRO_BATCHES
    return [size for size in sizes if size <= per_rank and (not job.global_batch or per_rank % size == 0)]


def _inference(job: Job, per_node: int, most: int) -> Iterator[list[float]]:
    """One replica a row for `serve` (their number follows from the load); a fixed batch runs on one replica."""
    for tp in _tensor_degrees(job, per_node):
        if tp > most:
            continue
        base = {"gpus": tp, "gpus_per_node": min(per_node, most), "tp": tp}
        if job.task != "serve":
            yield _row(**base, sequences=job.batch)
        elif job.concurrency and np.isfinite(job.concurrency) and not job.request_rate_per_s and not job.workload.disaggregated:
            for replicas in _powers(max(1, min(most // tp, int(job.concurrency)))):
                per_replica = -(-int(job.concurrency) // replicas)
                yield _row(**base | {"gpus": tp * replicas}, dp=replicas, sequences=per_replica)
        else:
            for sequences in IN_FLIGHT:
                yield _row(**base, sequences=sequences)
