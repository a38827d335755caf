"""Time axis below histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

if TYPE_CHECKING:
    from widgets.panes.machine.gpu import Drawing

MOST_TICKS = 6


def time_axis(drawing: Drawing) -> Content:
    """Time axis of the histories above: ages of the cells, and the time that one covers."""
    room = drawing.width - drawing.left
    return Content.styled(f"{scale_text(drawing):<{drawing.left}}{ages(drawing, room)}", "$quiet")


def scale_text(drawing: Drawing) -> str:
    """Scale of the histories, and the time of a cell."""
    scale, unit = _unit_of(drawing.step_s)
    return f"0 to 100 %, {drawing.step_s / scale:.4g} {unit} a cell"


def ages(drawing: Drawing, room: int) -> str:
    """Ages of the cells of a history, below them, all in one unit."""
    whole = (
        12 if drawing.step_s % 600 == 0 or drawing.step_s % 30 == 5 else 10
    )  # so that ages are whole hours and minutes, or tens of seconds
    step = max(whole, -(-room // MOST_TICKS) // whole * whole)
    scale, unit = _unit_of(step * drawing.step_s, least=1.0)
    line = [" "] * room
    for back in range(0, room, step):
        text = f"-{back * drawing.step_s / scale:.4g} {unit}" if back else "now"
        begin, end = room - back - len(text), room - back
        if begin >= 0 and not "".join(line[max(0, begin - 1) : end]).strip():
            line[begin:end] = text
    return "".join(line)


def _unit_of(seconds: float, least: float = 2.0) -> tuple[float, str]:
    """Seconds and name of the largest unit of which `seconds` is `least` or more, in whole or half ones."""
    found = (
        (scale, unit) for scale, unit in ((3600.0, "h"), (60.0, "min")) if seconds >= least * scale and seconds % (scale / 2) == 0
    )
    return next(found, (1.0, "s"))
