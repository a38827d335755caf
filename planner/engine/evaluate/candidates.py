"""Candidates before evaluation: jobs, chips and layouts, and which of them each row of a table uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np

from planner.engine.answers.answer import LayoutAnswer, Network
from planner.engine.columns import Floats, LayoutColumns, Rows, Table, full
from planner.engine.columns.table import ChipColumns, DraftColumns, EngineColumns, FootprintColumns, JobColumns, ModelColumns
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip, chip_over, fabric_of, link_of
from planner.engine.records.layout import Layout, spread
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import fabric_kind

R = TypeVar("R")


class Candidates(msgspec.Struct, frozen=True):
    """Records, and which of them each row uses (index arrays of shape [rows])."""

    jobs: Sequence[Job]
    job_index: Rows
    chips: Sequence[Chip]
    chip_index: Rows
    layout: LayoutColumns

    def table(self) -> Table:
        """Candidates as columns; a record that all rows use stays shared."""
        jobs, job_index = _used(self.jobs, self.job_index)
        chips, chip_index = _used(self.chips, self.chip_index)
        encodes = any(job.architecture.source for job in jobs)
        looks = any(job.pictures for job in jobs)
        drafting = [job.draft or job for job in jobs] if any(job.draft for job in jobs) else []
        rolling = [job.rollout or job for job in jobs] if any(job.rollout for job in jobs) else []
        return Table(
            rollout_job=JobColumns.gather(rolling, job_index) if rolling else None,
            rollout_engine=EngineColumns.gather([job.engine for job in rolling], job_index) if rolling else None,
            draft_model=ModelColumns.gather([draft.architecture for draft in drafting], job_index) if drafting else None,
            draft=DraftColumns.gather(drafting, job_index) if drafting else None,
            model=ModelColumns.gather([job.architecture for job in jobs], job_index),
            source=ModelColumns.gather([job.architecture.source or job.architecture for job in jobs], job_index)
            if encodes
            else None,
            tower=ModelColumns.gather([job.architecture.tower or job.architecture for job in jobs], job_index) if looks else None,
            job=JobColumns.gather(jobs, job_index),
            footprint=FootprintColumns.gather([job.footprint for job in jobs], job_index),
            engine=EngineColumns.gather([job.engine for job in jobs], job_index),
            chip=ChipColumns.gather(chips, chip_index),
            layout=self.layout,
        )

    def take(self, keep: Rows) -> Candidates:
        """Rows `keep`."""
        return Candidates(self.jobs, self.job_index[keep], self.chips, self.chip_index[keep], self.layout.take(keep))


def joined_candidates(parts: Sequence[tuple[Candidates, Rows]]) -> Candidates:
    """Rows (which may repeat) of several sets of candidates with the same jobs and chips, one set after the other; no layout column is shared."""
    first, _ = parts[0]

    def column(name: str) -> Floats:
        return np.concatenate([full(getattr(part.layout, name), part.job_index.size)[rows] for part, rows in parts])

    return Candidates(
        first.jobs,
        np.concatenate([part.job_index[rows] for part, rows in parts]),
        first.chips,
        np.concatenate([part.chip_index[rows] for part, rows in parts]),
        LayoutColumns(**{name: column(name) for name in LayoutColumns.__struct_fields__}),
    )


def side_by_side(parts: Sequence[Candidates]) -> Candidates:
    """Several sets of candidates with their own jobs and chips, one after the other."""
    first_job, first_chip = (np.cumsum([0, *sizes[:-1]]) for sizes in ([len(p.jobs) for p in parts], [len(p.chips) for p in parts]))
    columns = {
        name: np.concatenate([full(getattr(part.layout, name), part.job_index.size) for part in parts])
        for name in LayoutColumns.__struct_fields__
    }
    return Candidates(
        [job for part in parts for job in part.jobs],
        np.concatenate([part.job_index + first for part, first in zip(parts, first_job, strict=True)]),
        [chip for part in parts for chip in part.chips],
        np.concatenate([part.chip_index + first for part, first in zip(parts, first_chip, strict=True)]),
        LayoutColumns(**columns),
    )


def _used(records: Sequence[R], index: Rows) -> tuple[Sequence[R], Rows]:
    """Records in use, and which of them each row uses; all records where there are no fewer rows."""
    if index.size >= len(records):
        return records, index
    used = sorted(set(index.tolist()))
    return [records[number] for number in used], np.searchsorted(used, index)


def candidate_of(
    job: Job, chip: Chip, layout: LayoutAnswer, *, nvlink: bool | None = None, network: Network | None = None
) -> Candidates:
    """`job` on `chip` in `layout`; `nvlink` and `network` (None: the usual one) do not affect memory."""
    one = np.zeros(1, dtype=np.int64)
    if network is not None:
        chip = chip_over(chip, fabric_kind(network.fabric))
    return Candidates([job], one, [chip], one, LayoutColumns.gather([_spread(job, chip.gpu, layout, nvlink, network)], one))


def _spread(job: Job, gpu: Gpu, layout: LayoutAnswer, nvlink: bool | None, network: Network | None) -> Layout[float]:
    return spread(
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        cp=layout.cp,
        ep=layout.ep,
        virtual_stages=layout.virtual_stages,
        gpus_per_node=layout.gpus_per_node,
        sharding=layout.sharding or "none",
        checkpointing=layout.checkpointing or "none",
        micro_batch=float(layout.micro_batch or job.micro_batch or 1),
        sequences=float(layout.batch or 1),
        prefill=layout.prefill_replicas,
        link=link_of(gpu, None, nvlink=nvlink),
        fabric_bytes_per_s=(network and network.bytes_per_s) or fabric_of(gpu, None, layout.gpus_per_node)[1],
    )
