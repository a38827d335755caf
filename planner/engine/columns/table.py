"""The table of candidates: a row a candidate, every attribute a column."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from planner.engine.columns.arrays import Columns, Flags, Rows
from planner.engine.columns.chip import ChipColumns
from planner.engine.columns.engine import EngineColumns
from planner.engine.columns.footprint import FootprintColumns
from planner.engine.columns.job import DraftColumns, JobColumns
from planner.engine.columns.layout import LayoutColumns
from planner.engine.columns.model import ModelColumns


@dataclass(frozen=True)
class Table:
    """Candidates, a row each."""

    model: ModelColumns
    job: JobColumns
    footprint: FootprintColumns
    engine: EngineColumns
    chip: ChipColumns
    layout: LayoutColumns
    draft_model: ModelColumns | None = None
    """Draft models, and the model itself in rows without one; None where no row has a draft that is timed."""
    draft: DraftColumns | None = None

    @property
    def rows(self) -> int:
        """Number of candidates."""
        return int(self.layout.gpus.size)

    def take(self, keep: Flags | Rows) -> Table:
        """The candidates `keep`."""
        parts: dict[str, Columns | None] = {item.name: getattr(self, item.name) for item in fields(Table)}
        taken: dict[str, Any] = {name: part and part.take(keep) for name, part in parts.items()}
        return Table(**taken)
