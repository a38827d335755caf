"""Models that the GPUs of the highlighted row can run, each in its best precision, with context, users and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from planner.engine.fit.ranking import Order
from planner.present.names import device_name
from widgets.base_app import BaseApp
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings

if TYPE_CHECKING:
    from planner.present.cells import Section

MOST_ROWS = 1000
TASKS = ("serve", "generate", "prefill", "train", "finetune")
ORDERS: Mapping[str, Order] = {"by size": "size", "by speed": "speed", "by users": "users", "by context": "context"}
TURNS = (
    Turn("b", "by", tuple(ORDERS)),
    Turn("t", "task", TASKS),
    Turn("p", "precisions", ("best precision", "every precision")),
)
MOST_GPUS = 8192


def open_screen(app: BaseApp) -> None:
    """Open the models that as many of the highlighted GPU can run."""
    row = app.table.highlighted
    if row is not None:
        open_fit(app, row.gpu, row.answer.gpus)


def open_fit(app: BaseApp, gpu: str, gpus: int) -> None:
    """Open the models that this number of a GPU can run."""
    app.push_screen(FitScreen(app, gpu, gpus, str(app.form.workload.get("task"))))


class FitScreen(TurningScreen):
    """Models that run on a number of equal GPUs."""

    WIDTH = 176
    TURNS = TURNS
    KEYS = "+ - GPUs · j k scroll · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        *turn_bindings(TURNS),
        ("plus", "more", "more GPUs: the next power of two"),
        ("minus", "fewer", "fewer GPUs: the power of two before"),
        ("F", "dismiss", "back"),
    ]

    def __init__(self, app: BaseApp, gpu: str, gpus: int, task: str) -> None:
        super().__init__(app, "")
        self._gpu, self._gpus = gpu, gpus
        self._chosen[1] = TASKS.index(task) if task in TASKS else 0

    def action_more(self) -> None:
        """Go to the next power of two: 6 -> 8."""
        self._ask_for(1 << self._gpus.bit_length())

    def action_fewer(self) -> None:
        """Go to the power of two before: 6 -> 4."""
        self._ask_for(1 << (self._gpus - 1).bit_length() >> 1)

    def _ask_for(self, gpus: int) -> None:
        self._gpus = min(MOST_GPUS, max(1, gpus))
        self.ask_again()

    @property
    def subject(self) -> str:
        """Title of the screen: GPU and number."""
        return f"What {self._gpus:,} × {device_name(self._gpu)} can run"

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """The table of models."""
        from planner.present.fit.sections import fit_sections, shown_rows

        fields, order, gpu, gpus, basis = {"task": chosen["task"]}, ORDERS[chosen["by"]], self._gpu, self._gpus, self._planner.basis

        found = await self._planner.ask(lambda session: session.fit(fields, gpu, gpus, order=order, basis=basis))
        rows = shown_rows(found, every=chosen["precisions"] == "every precision")
        return fit_sections(found, rows[:MOST_ROWS], len(rows))
