"""Latency of the highlighted row against its load: p50 and p95 up to where requests outrun it, with the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import Latency, UnderLoad
from planner.present.cells import Section
from planner.present.choice.latency_by_load import LATENCY_WORDS
from planner.present.choice.sentence import count_and_device
from widgets.background import questions
from widgets.base_app import BaseApp
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings

LATENCIES: Mapping[str, Latency | None] = {"latency asked for": None, **{words: name for name, words in LATENCY_WORDS.items()}}
TURNS = (Turn("l", "other latencies", tuple(LATENCIES)),)


def open_screen(app: BaseApp) -> None:
    """Show how the highlighted row bears more and less load."""
    row = app.table.highlighted
    if row is not None:
        app.push_screen(LoadScreen(app, row))


class LoadScreen(TurningScreen):
    """Latencies of a row by load."""

    TURNS = TURNS
    ENTITLED = True
    BINDINGS: ClassVar[list[BindingType]] = [*turn_bindings(TURNS), Binding("Q", "dismiss", "back", show=False)]

    def __init__(self, app: BaseApp, row: PlanRow) -> None:
        super().__init__(app, f"Latency against load · {count_and_device(row)}")
        self._row = row
        self._found: UnderLoad | None = None
        self._asked = False

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """Sentences, the chart and the table; simulated once."""
        from planner.present.choice.latency_by_load import load_sections

        row = self._row
        if not self._asked:
            self._found = await self._planner.search(questions.under_load, row)
            self._asked = True
        return load_sections(row, self._found, LATENCIES[chosen["other latencies"]])
