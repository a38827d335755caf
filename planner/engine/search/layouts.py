"""Every sensible layout of one job, as the layout columns of a table.

Each node type is combined with the degrees of parallelism, sharding stages, checkpointing and batch sizes that the architecture
admits and the workload leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, LayoutColumns, Rows
from planner.engine.job.job import Job
from planner.engine.records.layout import CHECKPOINTING, ZERO_STAGE
from planner.engine.search.supply.node_types import NodeType

MOST_TENSOR_PARALLEL = 8
PIPELINES = (1, 2, 4, 8, 16)
SERVED_BY_NODES = (2, 4)
"""Nodes that one replica of a model may span."""
SHARED_BY_NODES = (2, 4, 8)
"""Nodes whose replicas of the attention may share one copy of the experts: DeepSeek reads prompts over 4 and decodes over 18 (its overview
of inference, 2025-03), SGLang's published deployment over 4 and 9."""
WEIGHTS_OF_ONE_GPU_BYTES = 10e9
"""Share of the weights per GPU of a node below which a model is not spread over several nodes."""
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
IN_FLIGHT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LARGE_MODEL_PARAMETERS = 10e9
"""Model size below which a pipeline over nodes is not worth its bubble, and above which a few sequences fill the device."""
SHARED_SEQUENCE = 4096
"""Tokens below which a rank's part of a sequence is not divided further."""
MOST_EXPERT_PARALLEL = 64
MOST_VIRTUAL = 8
LARGEST_MEMORY_BYTES = 300e9
"""More bytes than any GPU of the catalogue has: GPU counts with a larger share of the state are left out."""


class Layouts(msgspec.Struct, frozen=True):
    """Layouts of a job on each node type. Index arrays of shape [rows] give the node type and the layout of each row."""

    distinct: LayoutColumns
    """Every different layout once; values that depend on the node type are 0, and `gpus_per_node` is the most that it can use."""
    of_node: Sequence[Rows]
    """Numbers of the layouts in `distinct` that each node type can have."""
    recomputing_less: Rows
    """Number of the layout that differs from each of `distinct` only in recomputing less; -1: there is none."""
    node_columns: dict[str, Floats]
    """Name of a layout column -> its value at each node type; for `gpus_per_node`, its maximum."""

    @property
    def candidates(self) -> int:
        """Total number of layouts of all node types."""
        return sum(own.size for own in self.of_node)

    def without_node(self, layout_index: Rows) -> LayoutColumns:
        """Layout columns of each row, without what depends on the node type."""
        return LayoutColumns(**{name: getattr(self.distinct, name)[layout_index] for name in _NAMES})

    def columns(self, node_index: Rows, layout_index: Rows) -> LayoutColumns:
        """Layout columns of each row."""
        layout = self.without_node(layout_index)
        placed = {name: values[node_index] for name, values in self.node_columns.items()}
        placed["gpus_per_node"] = np.minimum(placed["gpus_per_node"], layout.gpus_per_node)
        return replace(layout, **placed)

    def pass_group(self, node_index: Rows, layout_index: Rows) -> Rows:
        """A number for each row, equal for rows with the same node type, micro batch and degrees apart from dp and virtual stages."""
        d = self.distinct
        _, group = np.unique(np.stack((d.tp, d.pp, d.cp, d.ep, d.micro_batch)), axis=1, return_inverse=True)
        return node_index * (1 + group.max(initial=0)) + group.reshape(-1)[layout_index]


_NAMES = LayoutColumns.__struct_fields__


class _Spread(NamedTuple):
    """Layouts that differ only in the columns `_CHOSEN`; names as in `LayoutColumns`."""

    gpus: float
    gpus_per_node: float
    tp: float
    pp: float = 1
    dp: float = 1
    shard: float = 1
    sequences: float = 1
    cp: float = 1
    ep: float = 1
    virtual_stages: float = 1


_CHOSEN = ("zero", "checkpointing", "micro_batch")


def enumerate_layouts(job: Job, node_types: Sequence[NodeType]) -> Layouts:
    """All candidates of `job` on all node types."""
    catalogue = _Catalogue(job)
    of_node = []
    for node in node_types:
        apart = job.task == "serve" and not job.workload.disaggregated
        most = node.most if apart else node.most_joined
        of_node.append(catalogue.among(node.per_node, most, several=node.cluster > 1))
    nvlink, link, fabric = np.array([node.links for node in node_types]).reshape(-1, 3).T
    inside = np.array([min(node.per_node, node.most) for node in node_types], dtype=np.float64)
    node_columns = {"gpus_per_node": inside, "nvlink": nvlink, "link_bytes_per_s": link, "fabric_bytes_per_s": fabric}
    return Layouts(catalogue.columns(), of_node, catalogue.recomputing_less(), node_columns)


class _Catalogue:
    """Different layouts of a job, numbered in order of appearance; nodes of several sizes share most of them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.count = 0
        self.numbers: dict[_Spread, Rows] = {}
        self.choices: dict[tuple[float, float, bool], Floats] = {}
        """By `_key`: rows of `_CHOSEN`."""
        self.known: dict[tuple[int, int, bool], Rows] = {}

    def among(self, per_node: int, most: int, *, several: bool) -> Rows:
        """Numbers of the layouts over up to `most` GPUs in nodes of `per_node`; with `several`, nodes may hold one replica together."""
        key = per_node, most, several
        if key not in self.known:
            found = _training(self.job, per_node, most) if self.job.train else _inference(self.job, per_node, most, several=several)
            self.known[key] = np.concatenate([self._numbered(spread) for spread in found])
        return self.known[key]

    def _numbered(self, spread: _Spread) -> Rows:
        if (known := self.numbers.get(spread)) is None:
            begin, self.count = self.count, self.count + len(self._choices_of(spread))
            known = self.numbers[spread] = np.arange(begin, self.count)
        return known

    def _choices_of(self, spread: _Spread) -> Floats:
        key = _key(spread)
        if key not in self.choices:
            self.choices[key] = _choices(self.job, spread)
        return self.choices[key]

    def columns(self) -> LayoutColumns:
        """Layout columns of all of them."""
        chosen = [self._choices_of(spread) for spread in self.numbers]
        spreads = np.repeat(np.array([*self.numbers], dtype=np.float64).T, [len(rows) for rows in chosen], axis=1)
        columns = {name: np.zeros(self.count) for name in _NAMES}
        columns |= zip(_Spread._fields, spreads, strict=True)
        columns |= zip(_CHOSEN, np.concatenate(chosen).T.copy(), strict=True)
        return LayoutColumns(**columns)

    def recomputing_less(self) -> Rows:
        """`Layouts.recomputing_less`: choices are ordered by what is recomputed, and each has all micro batches."""
        if not self.job.train:
            return np.full(self.count, -1, dtype=np.int64)
        back = {key: _rows_back(choices) for key, choices in self.choices.items()}
        rows = np.concatenate([back[_key(spread)] for spread in self.numbers])
        return np.where(rows > 0, np.arange(self.count) - rows, -1)


def _key(spread: _Spread) -> tuple[float, float, bool]:
    """Parts of a layout that its choices depend on: dp, cp and whether it is a pipeline."""
    return spread.dp, spread.cp, spread.pp > 1


def _rows_back(choices: Floats) -> Rows:
    """Distance in rows from each of `choices` back to the one that differs only in recomputing less; 0: there is none."""
    more = choices[:, 1] != choices[:1, 1]
    return more * more.nonzero()[0][:1].sum()


def _powers(most: int) -> Iterator[int]:
    value = 1
    while value <= most:
        yield value
        value *= 2


def _tensor_degrees(job: Job, per_node: int) -> list[int]:
    """Powers of two inside a node that divide the heads; small models gain nothing from tensor parallelism."""
    a = job.architecture
    most = min(per_node, MOST_TENSOR_PARALLEL) if a.total > 1e9 else 1
    return [tp for tp in _powers(most) if a.heads % tp == 0]


def _counts(job: Job, per_node: int, most: int) -> list[tuple[int, int]]:
    """Pairs (GPUs, GPUs per node) over which training may be spread: one node in powers of two, or whole nodes."""
    a = job.architecture
    bytes_held = a.total * job.linear_bytes + (job.adapters or a.total) * (job.state_bytes + job.master_bytes)
    return [
        (count, min(per_node, count))
        for count in _powers(most)
        if (count <= per_node or count % per_node == 0) and (count == 1 or bytes_held / count < LARGEST_MEMORY_BYTES)
    ]


def _training(job: Job, per_node: int, most: int) -> Iterator[_Spread]:
    """Layouts of training. Adapters on packed weights have no tensor parallelism.

    bitsandbytes stores a packed matrix as one flat run of blocks (`Params4bit`), which transformers' plan by columns and rows cannot divide
    (huggingface/transformers#38122, 2025-05); FSDP shards it as it is.
    """
    a = job.architecture
    refused = ZERO_STAGE[job.workload.sharding or "none"] > job.engine.most_pipelined_zero
    refused = refused or a.source is not None  # stages of equal layers are only known for a single stack
    pipelines = PIPELINES if a.total > LARGE_MODEL_PARAMETERS and not job.adapters and not refused else (1,)
    whole = job.adapters > 0 and job.weight_bits_packed > 0  # such weights are not split, see the docstring
    contexts, virtual = cache(partial(_context_degrees, job)), {pp: _virtual(job, pp) for pp in pipelines}
    for gpus, inside in _counts(job, per_node, most):
        for tp, pp in product([1] if whole else _tensor_degrees(job, inside), pipelines):
            ranks = gpus // (tp * pp)
            if ranks < 1 or ranks * tp * pp != gpus or pp > a.layers or (pp > 1 and gpus <= inside):
                continue
            shard = min(ranks, inside) if job.workload.sharding == "hsdp" else ranks
            for cp, ep in product(contexts(ranks), _expert_degrees(job, inside, tp * ranks)):
                yield _Spread(gpus, gpus, tp, pp, ranks // cp, shard, cp=cp, ep=ep, virtual_stages=virtual[pp])


def _context_degrees(job: Job, ranks: int) -> list[int]:
    """Numbers of ranks that share a sequence: one, or as many as leave each at least `SHARED_SEQUENCE` tokens, if there are enough sequences."""
    if job.architecture.source is not None:
        return [1]
    most = min(ranks, job.sequence / (SHARED_SEQUENCE if job.architecture.total > LARGE_MODEL_PARAMETERS else 4 * SHARED_SEQUENCE))
    few = [cp for cp in (1, 2, 4, 8, 16) if cp == 1 or most / 4 <= cp <= most]
    return [cp for cp in few if not job.global_batch or ranks // cp <= job.global_batch] or few[-1:]


def _expert_degrees(job: Job, inside: int, ranks: int) -> list[int]:
    """Numbers of parts into which the experts may be divided: one, those of a node, and the most that are useful over several nodes."""
    a = job.architecture
    if a.experts == 0 or a.total < LARGE_MODEL_PARAMETERS:
        return [1]
    return [
        1,
        *(ep for ep in sorted({inside, min(MOST_EXPERT_PARALLEL, ranks)}) if 1 < ep <= ranks and a.experts % ep == ranks % ep == 0),
    ]


def _virtual(job: Job, pp: int) -> int:
    """Virtual stages of a pipeline: as many as a stage has layers, up to `MOST_VIRTUAL`, which minimises idle time."""
    return min(MOST_VIRTUAL, -(-job.architecture.layers // pp)) if pp > 1 else 1


def _choices(job: Job, spread: _Spread) -> Floats:
    """Rows with the columns of `_CHOSEN`."""
    if not job.train:
        return np.array([(0.0, 0.0, 1.0)])
    stages, recomputed = _stages(job, spread), _checkpointing(job)
    return np.array([*product(stages, recomputed, _micro_batches(job, spread.dp))], dtype=np.float64).reshape(-1, len(_CHOSEN))


def _stages(job: Job, spread: _Spread) -> Iterable[float]:
    """ZeRO stages: not 3 for a pipeline, which would gather the weights again for every micro batch, and only 3 for long sequences."""
    if job.workload.sharding is not None:
        return (ZERO_STAGE[job.workload.sharding],)
    if spread.dp * spread.cp == 1:
        return (0.0,)
    least = 0.0 if job.adapters else 1.0
    return (least,) if spread.pp > 1 else (3.0,) if spread.cp > 1 else (least, 3.0)


def _checkpointing(job: Job) -> Iterable[float]:
    """Kind of checkpointing that is given, or all kinds; checkpointing by operators only for models with one stack."""
    given = job.workload.checkpointing
    kinds = ("none", "full") if job.architecture.source else ("none", "selective-op", "full")
    return (CHECKPOINTING[given],) if given else tuple(CHECKPOINTING[name] for name in kinds)


def _micro_batches(job: Job, dp: float) -> Iterable[int]:
    if job.micro_batch:
        return (int(job.micro_batch),)
    per_rank = job.global_batch / dp if job.global_batch else float("inf")
    sizes = [size for size in MICRO_BATCHES if size <= 4] if job.architecture.total > LARGE_MODEL_PARAMETERS else MICRO_BATCHES
    return [size for size in sizes if size <= per_rank and (not job.global_batch or per_rank % size == 0)]


def _attention_replicas(job: Job, per_node: int, most: int, *, several: bool) -> list[int]:
    """Numbers of replicas of the attention that share one copy of the experts: those of a node, and of several joined nodes where weights fill GPUs.

    Empty where sharing gains nothing, or the engine or the number of experts does not allow it.
    """
    a = job.architecture
    if (
        a.experts == 0
        or a.total <= LARGE_MODEL_PARAMETERS
        or per_node < 2
        or job.workload.disaggregated
        or not job.engine.expert_parallel
    ):
        return []
    wide = several and a.experts_total * job.linear_bytes / per_node > WEIGHTS_OF_ONE_GPU_BYTES
    ranks = (per_node * nodes for nodes in (1, *SHARED_BY_NODES * wide))
    return [shared for shared in ranks if shared <= most and a.experts % shared == 0]


def _replicas(job: Job, per_node: int, most: int, *, several: bool) -> Iterator[tuple[int, int]]:
    """Pairs (tp, pp) of one replica: inside a node, or over several whole nodes if the model is large enough, divided either way."""
    a = job.architecture
    for tp in _tensor_degrees(job, per_node):
        if tp <= most:
            yield tp, 1
        if not several or tp != per_node or a.total * job.linear_bytes / tp < WEIGHTS_OF_ONE_GPU_BYTES:
            continue
        for nodes in SERVED_BY_NODES:
            if tp * nodes <= most:
                yield tp, nodes
                if a.heads % (tp * nodes) == 0:
                    yield tp * nodes, 1


def _inference(job: Job, per_node: int, most: int, *, several: bool) -> Iterator[_Spread]:
    """One replica per row for `serve` (their number follows from the load); a fixed batch runs on one replica."""
    whole = float("inf")  # other replicas use the rest of a node
    clients = job.concurrency if job.concurrency and np.isfinite(job.concurrency) and not job.request_rate_per_s else 0
    for shared in _attention_replicas(job, per_node, most, several=several) if job.task == "serve" else ():
        if clients and clients < shared:
            continue  # some ranks would be idle
        for sequences in [-(-int(clients) // shared)] if clients else IN_FLIGHT:
            yield _Spread(shared, whole, 1, dp=shared, ep=shared, sequences=sequences)
    for tp, pp in _replicas(job, per_node, most, several=several):
        gpus = tp * pp
        if job.task != "serve":
            yield _Spread(gpus, whole, tp, pp, sequences=job.batch)
        elif clients and not job.workload.disaggregated:
            for replicas in _powers(max(1, min(most // gpus, int(clients)))):
                per_replica = -(-int(clients) // replicas)
                yield _Spread(gpus * replicas, whole, tp, pp, dp=replicas, sequences=per_replica)
        else:
            for replicas, sequences in product(_replica_counts(job, gpus, per_node, most), IN_FLIGHT):
                yield _Spread(gpus * replicas, whole, tp, pp, dp=replicas, sequences=sequences)


def _replica_counts(job: Job, gpus: int, per_node: int, most: int) -> list[int]:
    """Numbers of replicas of `gpus` each: a single one where a rate, a deadline or pools determine how many are needed.

    Else as many as fill the node, which is paid for as a whole, and for the objective `fastest` every power of two up to the most.
    """
    workload = job.workload
    if job.request_rate_per_s or workload.disaggregated or (workload.requests and workload.targets.deadline_h):
        return [1]
    powers = _powers(most // gpus) if workload.objective == "fastest" else ()
    return sorted({1, min(max(1, per_node // gpus), max(1, most // gpus)), *powers})
