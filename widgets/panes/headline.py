"""The top line: what is planned, on what, at which prices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widgets import Static

from widgets.drawing.formatting import device_name, load_summary, model_name
from widgets.drawing.text import shorten_end

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan


class Headline(Static):
    """What is planned, the age of the prices, and whether this machine was measured; parts go from the right of each side."""

    def __init__(self) -> None:
        super().__init__(id="headline")
        self._left: Sequence[str] = ()
        self._right: Sequence[str] = ()

    def show(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Set the parts of both sides, most telling first."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        room = self.content_size.width
        if not room or not self._left:
            return
        right = "   ".join(self._right)
        for kept in range(len(self._right), -1, -1):
            right = "   ".join(self._right[:kept])
            if len(right) + 3 + len("  ·  ".join(self._left)) <= room:
                break
        rest = " · ".join(self._left[1:])
        head = self._left[0]
        space = room - len(head) - len(right) - 3
        rest = _fit_parts(self._left[1:], space)
        gap = room - len(head) - 2 - len(rest) - len(right)
        self.update(
            Content.assemble((head, "bold $accent"), "  ", (rest, "$foreground"), " " * max(1, gap), (right, "$quiet")),
            layout=False,
        )


def _fit_parts(parts: Sequence[str], room: int) -> str:
    """As many whole parts as there is room for; a first one that is too long is cut."""
    for kept in range(len(parts), 0, -1):
        text = " · ".join(parts[:kept])
        if len(text) <= room:
            return text
    return shorten_end(parts[0], max(0, room)) if parts else ""


def headline_parts(
    preset: str, task: Mapping[str, Any], plan: Plan | None, here: str, today: dt.date
) -> tuple[list[str], list[str]]:
    """The left side (what is planned) and the right side (this machine, the prices), most telling first."""
    left = [preset, model_name(task), *load_summary(task)]
    right = []
    measured = [row.gpu for row in plan.rows if row.here and row.basis == "measured"] if plan is not None else []
    if measured or here:
        right.append(f"{device_name(measured[0])} measured here" if measured else here)
    if plan is not None and plan.prices_as_of:
        right.append(f"prices {plan.prices_as_of}{_age(plan.prices_as_of, today)}")
    return left, right


def _age(as_of: str, today: dt.date) -> str:
    try:
        days = (today - dt.date.fromisoformat(as_of[:10])).days
    except ValueError:
        return ""
    return f", {days} d old" if days > 0 else ""
