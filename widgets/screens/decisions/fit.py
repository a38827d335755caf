"""Models that given GPUs can run, each in its best precision, with context, users and speed; Enter plans one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from planner.engine.answers.fit import FitRow, Order
from planner.engine.fit.variants import LLAMA_CPP
from planner.engine.job.engines import usual_name
from planner.present.cells import Section
from planner.present.names import device_name
from planner.workload.tasks import trains
from widgets.base_app import BaseApp
from widgets.drawing.sections import Block, section_blocks
from widgets.drawing.symbols import ASCII
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings
from widgets.screens.overlay import GAP

MOST_ROWS = 1000
TASKS = ("serve", "generate", "prefill", "train", "finetune")
ORDERS: Mapping[str, Order] = {"by size": "size", "by speed": "speed", "by users": "users", "by context": "context"}
SPEEDS: Mapping[str, float] = {"10 tok/s": 10.0, "20 tok/s": 20.0, "5 tok/s": 5.0, "any speed": 0.0}
"""Least that each user of a service gets."""
TURNS = (
    Turn("b", "by", tuple(ORDERS)),
    Turn("t", "task", TASKS),
    Turn("p", "precisions", ("best precision", "every precision")),
    Turn("s", "speed", tuple(SPEEDS)),
)
MOST_GPUS = 8192
LENGTHS = ("input_tokens", "output_tokens", "sequence")
"""Keys of the form that count for other models too."""


def open_screen(app: BaseApp) -> None:
    """Open the models that as many of the highlighted GPU can run."""
    row = app.table.highlighted
    if row is not None:
        open_fit(app, row.gpu, row.answer.gpus)


def open_fit(app: BaseApp, gpu: str, gpus: int) -> None:
    """Open the models that this number of a GPU can run."""
    app.push_screen(FitScreen(app, gpu, gpus, app.form.workload))


async def plan_row(app: BaseApp, row: FitRow) -> None:
    """Plan the model of `row` in its precision: one change of the form, which undo takes back.

    The engine of the form stays where the row is of no engine in particular, unless it is one that loads files of its own alone.
    """
    now = app.form.workload
    task = str(row.request.get("task", now.get("task")))
    keys = ("recipe", "lora") if trains(task) else ("weight_dtype", "engine")
    changes = {key: row.request.get(key) for key in ("task", "model", *keys)} | {"model": row.model}
    if task == now.get("task"):
        del changes["task"]
    if not changes.get("engine") and usual_name(str(now.get("engine") or "")) != LLAMA_CPP:
        changes.pop("engine", None)
    await app.form.change(changes, f"model {row.model}")


def _names(row: FitRow | None) -> tuple[str, str, str] | None:
    """Names that tell the models of two answers apart."""
    return (row.model, row.weight_dtype, row.method) if row is not None else None


def _lines_before_rows(blocks: Sequence[Block]) -> int:
    return sum(len(lines) for _, lines in takewhile(lambda block: block[0] is None, blocks))


class FitScreen(TurningScreen):
    """Models that run on a number of equal GPUs."""

    WIDTH = 176
    TURNS = TURNS
    KEYS = "enter plans · + - GPUs · esc back"
    DEFAULT_CSS = """
    FitScreen #text {
        text-wrap: nowrap; text-overflow: ellipsis; background: $surface; background-tint: transparent;
        & > .option-list--option-disabled { color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *turn_bindings(TURNS),
        ("plus", "more", "more GPUs: the next power of two"),
        ("minus", "fewer", "fewer GPUs: the power of two before"),
        ("F", "dismiss", "back"),
    ]

    def __init__(self, app: BaseApp, gpu: str, gpus: int, workload: Mapping[str, Any]) -> None:
        super().__init__(app, "")
        self._gpu, self._gpus, self._workload = gpu, gpus, workload
        task = str(workload.get("task"))
        self._chosen[1] = TASKS.index(task) if task in TASKS else 0
        self._rows: list[FitRow | None] = []
        """Row of each option of the list; None: lines above and below the rows."""
        self._around = (0, 0)
        """Numbers of lines above the first row and below the last."""

    def body(self) -> ComposeResult:
        """List of models, with the lines above and below it."""
        yield OptionList(Option(Content.styled(self.WAITING, "$quiet"), disabled=True), id="text", classes="text", compact=True)

    @property
    def scrolled(self) -> OptionList:
        """List."""
        return self.query_one(OptionList)

    def action_scroll(self, step: int) -> None:
        """Go to the next model or the one before."""
        (self.scrolled.action_cursor_down if step > 0 else self.scrolled.action_cursor_up)()

    def action_page(self, direction: int) -> None:
        """Go down or up by a page."""
        (self.scrolled.action_page_down if direction > 0 else self.scrolled.action_page_up)()  # type: ignore[no-untyped-call]  # of Textual's

    def action_end(self, bottom: bool) -> None:
        """Go to the first or the last model."""
        (self.scrolled.action_last if bottom else self.scrolled.action_first)()

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

    @property
    def chosen(self) -> dict[str, str]:
        """Choice of each key; the speed of users only where there are any."""
        chosen = super().chosen
        return {label: choice for label, choice in chosen.items() if label != "speed" or chosen["task"] == "serve"}

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """Table of models."""
        from planner.present.fit.sections import fit_sections, shown_rows

        fields, order, gpu, gpus, basis = (
            self._asked(chosen["task"]),
            ORDERS[chosen["by"]],
            self._gpu,
            self._gpus,
            self._planner.basis,
        )
        speed = SPEEDS[chosen.get("speed", "any speed")]

        found = await self._planner.ask(
            lambda session: session.fit(fields, gpu, gpus, order=order, basis=basis, each_tokens_per_s=speed)
        )
        rows = shown_rows(found, every=chosen["precisions"] == "every precision")
        return fit_sections(found, rows[:MOST_ROWS], len(rows))

    def _asked(self, task: str) -> dict[str, Any]:
        """Task, with the lengths of the form where it is the form's; of lengths that vary, their mean."""
        if task != self._workload.get("task"):
            return {"task": task}
        given = {key: self._workload[key] for key in LENGTHS if self._workload.get(key)}
        means = {key: round(value["mean"]) for key, value in given.items() if isinstance(value, Mapping)}
        return {"task": task} | given | means

    def draw(self) -> None:
        """List the models; the cursor stays on its model, or goes to the first."""
        if not self.is_open:
            return
        listing = self.scrolled
        width = listing.scrollable_content_region.width - GAP
        if width <= 0 or not (self._sections or self._problems):
            return
        kept = self._under_cursor()
        blocks = list(self._blocks(max(self.LEAST_WIDTH, width)))
        self._rows = [row for row, _ in blocks]
        listing.set_options(Option(Content("\n").join(lines), disabled=row is None) for row, lines in blocks)
        self._around = (_lines_before_rows(blocks), _lines_before_rows(blocks[::-1]))
        places = [place for place, row in enumerate(self._rows) if row is not None]
        same = (place for place in places if kept is not None and _names(self._rows[place]) == _names(kept))
        listing.highlighted = next(same, places[0] if places else None)
        self.call_after_refresh(self._show_around)  # its own scrolling may have been for another size

    def _blocks(self, width: int) -> Iterator[Block]:
        if self._problems:
            yield None, list(self.lines(width))
        else:
            yield from section_blocks(self._sections, width, ascii_only=self._planner.symbols is ASCII)

    def _under_cursor(self) -> FitRow | None:
        place = self.scrolled.highlighted
        return self._rows[place] if place is not None and place < len(self._rows) else None

    @on(OptionList.OptionHighlighted)
    def _show_around(self) -> None:
        """Show what is above the first model with it, and what is below the last, where there is room."""
        listing, place, (above, below) = self.scrolled, self.scrolled.highlighted, self._around
        if place is None:
            return
        if not any(self._rows[:place]) and above < listing.size.height:
            listing.scroll_home(animate=False)
        elif not any(self._rows[place + 1 :]) and below < listing.size.height:
            listing.scroll_end(animate=False)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        row = self._rows[event.option_index]
        if row is not None:
            self.dismiss()
            self._planner.run_worker(plan_row(self._planner, row), group="model", exit_on_error=False)
