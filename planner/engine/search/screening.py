"""Memory of all candidates at once: every different way on every different kind of device, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from planner.engine.columns import Flags, Floats, LayoutColumns, Rows
from planner.engine.evaluate import Candidates
from planner.engine.job.jobs import Job
from planner.engine.memory import MemoryColumns, memory_of, usable_bytes
from planner.engine.search.layouts import Layouts
from planner.engine.speed.chips import Chip


@dataclass(frozen=True)
class Screened:
    """What candidates need of their GPUs' memory; shape [candidates] unless said."""

    needs: MemoryColumns
    """Of the different ones."""
    need_index: Rows
    """Which of those each candidate is."""
    fits: Flags
    filled: Floats
    """What it needs ÷ what it may take."""

    def memory(self, candidates: Candidates, keep: Rows) -> MemoryColumns:
        """In full; `candidates` are the rows `keep` of those screened."""
        return self.needs.at(self.need_index[keep], candidates.table())


def screen(jobs: Sequence[Job], site_job: Rows, chips: Sequence[Chip], layouts: Layouts) -> Screened:
    """Memory of `layouts`; `site_job` and `chips` are those of each site."""
    kinds: dict[tuple[object, ...], int] = {}
    kind = np.array([kinds.setdefault((int(job), *_deciding(chip)), len(kinds)) for job, chip in zip(site_job, chips, strict=True)])
    first_site = np.array([kind.tolist().index(number) for number in range(len(kinds))])
    ways = layouts.ways.gpus.size
    asked = kind[layouts.site_index] * ways + layouts.way_index
    different = np.zeros(len(kinds) * ways, dtype=bool)
    different[asked] = True
    place = np.flatnonzero(different)
    site, way = first_site[place // ways], place % ways
    spread = LayoutColumns(**{item.name: getattr(layouts.ways, item.name)[way] for item in fields(LayoutColumns)})
    needs = memory_of(Candidates(jobs, site_job[site], chips, site, spread).table())
    need_index = (np.cumsum(different) - 1)[asked]
    sites = Candidates(jobs, site_job, chips, np.arange(len(chips)), spread).table()
    total, usable = needs.total[need_index], usable_bytes(sites)[layouts.site_index]
    return Screened(needs, need_index, total <= usable, total / usable)


def _deciding(chip: Chip) -> tuple[object, ...]:
    """All of a device that memory depends on, beside how much it has."""
    return str(chip.context_bytes), str(chip.allocator_slack), chip.is_cpu
