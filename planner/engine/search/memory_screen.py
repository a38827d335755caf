"""Memory of all candidates at once: every different way on every different kind of device, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Rows
from planner.engine.evaluate.evaluation import Candidates
from planner.engine.job.job import Job
from planner.engine.memory import MemoryColumns, memory_of, usable_bytes
from planner.engine.performance.operators.chip import Chip
from planner.engine.search.layouts import Layouts


@dataclass(frozen=True)
class Screened:
    """Every candidate that fits, and of every site the one that fills its GPU least; shape [rows]."""

    site_index: Rows
    way_index: Rows
    memory: MemoryColumns
    fit: int
    """How many of all candidates fit."""


def screen(jobs: Sequence[Job], site_job: Rows, chips: Sequence[Chip], layouts: Layouts) -> Screened:
    """`layouts` by their memory; `site_job` and `chips` are those of each site."""
    kinds: dict[tuple[object, ...], int] = {}
    kind = [kinds.setdefault((int(job), *_deciding(chip)), len(kinds)) for job, chip in zip(site_job, chips, strict=True)]
    needs, row = _needs(jobs, site_job, chips, layouts, kind)
    usable = usable_bytes(Candidates(jobs, site_job, chips, np.arange(len(chips)), layouts.ways).table())
    sites, kept, fit = [], [], 0
    for site, own in enumerate(layouts.of_site):
        total = needs.total[row[kind[site], own]]
        keep = total <= usable[site]
        fit += int(np.count_nonzero(keep))
        keep[np.argmin(total / usable[site])] = True
        kept.append(own[keep])
        sites.append(np.full(kept[-1].size, site))
    site_index, way_index = np.concatenate(sites), np.concatenate(kept)
    memory = needs.at(row[np.array(kind)[site_index], way_index], usable[site_index])
    return Screened(site_index, way_index, memory, fit)


def _needs(
    jobs: Sequence[Job], site_job: Rows, chips: Sequence[Chip], layouts: Layouts, kind: Sequence[int]
) -> tuple[MemoryColumns, Rows]:
    """Memory of every way there is on devices of each kind, and where in it that is: [kind, way]."""
    there = np.zeros((max(kind) + 1, layouts.ways.gpus.size), dtype=bool)
    for number, own in zip(kind, layouts.of_site, strict=True):
        there[number, own] = True
    of_kind, way = np.nonzero(there)
    site = np.array([kind.index(number) for number in range(len(there))])[of_kind]  # any of the kind
    needs = memory_of(Candidates(jobs, site_job[site], chips, site, layouts.spread(way)).table())
    return needs, np.cumsum(there).reshape(there.shape) - 1


def _deciding(chip: Chip) -> tuple[object, ...]:
    """All of a device that memory depends on, beside how much it has."""
    return str(chip.context_bytes), str(chip.allocator_slack), chip.is_cpu
