"""Memory of all candidates at once: every different layout on every different kind of device is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from planner.engine.columns import Flags, Rows
from planner.engine.columns.limits import is_huge, is_small
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.probability import room_for
from planner.engine.job.job import Job
from planner.engine.memory import MemoryColumns, memory_of, share_beside, usable_of
from planner.engine.performance.operators.chip import Chip
from planner.engine.search.layouts import Layouts


class Screened(msgspec.Struct, frozen=True):
    """Every candidate that fits, and for every node type the one that fills its GPU least, without needless recomputation; shape [rows]."""

    node_index: Rows
    layout_index: Rows
    memory: MemoryColumns
    fit: int
    """Number of all candidates that fit."""


def screen(jobs: Sequence[Job], job_index: Rows, chips: Sequence[Chip], layouts: Layouts) -> Screened:
    """`layouts` screened by their memory; `job_index` and `chips` are those of each node type."""
    kinds: dict[tuple[object, ...], int] = {}
    kind = [
        kinds.setdefault((int(job), *_memory_key(chip, jobs[job])), len(kinds)) for job, chip in zip(job_index, chips, strict=True)
    ]
    sizes: Rows = np.array([own.size for own in layouts.of_node])
    ends: Rows = np.cumsum(sizes)
    needs, row = _needs(jobs, job_index, chips, layouts, kind)
    usable = np.array([usable_of(chip, jobs[job]) for job, chip in zip(job_index.tolist(), chips, strict=True)])
    beside = np.array([share_beside(job, job.engine) for job in jobs])[job_index]
    node_index, layout_index = np.repeat(np.arange(sizes.size), sizes), np.concatenate(layouts.of_node)
    row = row[np.array(kind)[node_index], layout_index]
    total = needs.total[row]
    usable = usable[node_index] + beside[node_index] * (total - needs.kv_cache[row])
    keep = total <= usable
    fit = np.add.reduceat(keep, ends - sizes, dtype=np.int64)
    surely = usable / (1 - jobs[0].headroom) >= total * np.exp(needs.above[row] * room_for(jobs[0].workload.confidence))
    keep &= ~_needlessly_recomputed(layouts, surely)
    for node in np.flatnonzero(fit == 0):
        begin = ends[node] - sizes[node]
        keep[begin + np.argmin(total[begin : ends[node]] / usable[begin : ends[node]])] = True
    return Screened(node_index[keep], layout_index[keep], needs.at(row[keep], usable[keep]), int(fit.sum()))


def _needlessly_recomputed(layouts: Layouts, surely: Flags) -> Flags:
    """Rows that recompute more than another row that fits `surely` and is never slower."""
    there = np.full(layouts.distinct.gpus.size, -1, dtype=np.int64)
    found, begin = np.zeros(surely.size, dtype=bool), 0
    if (layouts.recomputing_less < 0).all():
        return found
    for own in layouts.of_node:
        there[own] = np.arange(begin, begin + own.size)
        less = layouts.recomputing_less[own]
        found[begin : begin + own.size] = (less >= 0) & surely[there[less]]
        begin += own.size
    return found


def _needs(
    jobs: Sequence[Job], job_index: Rows, chips: Sequence[Chip], layouts: Layouts, kind: Sequence[int]
) -> tuple[MemoryColumns, Rows]:
    """Memory of every existing layout on devices of each kind, and which of its rows each kind and layout has: [kind, layout]."""
    there = np.zeros((max(kind) + 1, layouts.distinct.gpus.size), dtype=bool)
    for number, own in zip(kind, layouts.of_node, strict=True):
        there[number, own] = True
    of_kind, layout_index = np.nonzero(there)
    node_index = np.array([kind.index(number) for number in range(len(there))])[of_kind]  # any device of the kind
    candidates = Candidates(jobs, job_index[node_index], chips, node_index, layouts.without_node(layout_index))
    return memory_of(candidates.table()), np.cumsum(there).reshape(there.shape) - 1


def _memory_key(chip: Chip, job: Job) -> tuple[object, ...]:
    """Attributes of a device that memory depends on, apart from its size; limits of engines depend on the size only in generation."""
    of_size = () if job.train else (bool(is_small(chip)), bool(is_huge(chip)))
    return str(chip.context_bytes), str(chip.allocator_slack), chip.is_cpu, *of_size
