"""Values of the form: how they are typed and shown, and their place in the workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from planner.numbers import written_number
from planner.workload import tasks
from planner.workload.changes import ABSENT, with_one_load, with_settings
from widgets.drawing.text import shorten_middle
from widgets.panes.workload.machines import machines_text, parse_machines, with_details

Kind = Literal["choice", "switch", "count", "number", "percent", "lengths", "crowd", "text", "names", "prices", "machines"]
"""Value of a field."""

AUTO = ""
"""Meaning of an empty field: choose for me."""
NO, YES = "no", "yes"
"""Choices of a switch."""

MOST_REPEATED = 24
"""Cells of a typed text that are repeated in a message about it: a paste may have thousands."""


def get(workload: Mapping[str, Any], dotted: str) -> Any:
    """Value at a dotted key, or None."""
    value: Any = workload
    for name in dotted.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def turned_to(workload: Mapping[str, Any], task: str) -> dict[str, Any]:
    """A copy for another task; an engine that was named stays only where both train, or neither does."""
    changed = put(workload, "task", task)
    if tasks.trains(task) != tasks.trains(get(workload, "task")):
        changed.pop("engine", None)
    return changed


def put(workload: Mapping[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    """A copy with `value` at a dotted key; None takes the key out, and a table left empty with it. A load replaces one given in another way."""
    if dotted == "own" and value:
        value = with_details(value, get(workload, "own") or [])
    changed = with_settings(workload, {dotted: ABSENT if value is None else value})
    table, _, _ = dotted.rpartition(".")
    if value is None and table and (not get(changed, table) or dotted == "lora.rank"):
        changed.pop(table.split(".")[0])
    return with_one_load(changed, (dotted,))


def parse(kind: Kind, text: str) -> Any:
    """Value typed, or None for an empty field; raises ValueError with what is accepted."""
    text = text.strip()
    if text == AUTO:
        return None
    if kind == "switch":
        return text == YES
    if kind in {"choice", "text"}:
        return text
    if kind == "names":
        return [name for part in text.split(",") if (name := part.strip())] or None
    if kind == "prices" and (" " in text or "=" in text):
        return _parse_prices(text)
    if kind == "machines":
        return parse_machines(text)
    if kind == "lengths":
        return _parse_lengths(text)
    if kind == "crowd" and text.casefold() == "max":
        return "max"
    number = parse_number(text)
    if kind in {"count", "crowd"}:
        if number != int(number) or number < 0:
            such = "512, 4k or max" if kind == "crowd" else "512 or 4k"
            raise ValueError(f"{text!r} is not a whole number, such as {such}.")
        return int(number)
    if number < 0:
        raise ValueError(f"{text!r} is below 0.")
    if kind == "percent":
        return number / 100
    return int(number) if number == int(number) else number


def _parse_lengths(text: str) -> Any:
    """'600' -> 600; '600/1500' -> mean and p95."""
    mean, slash, p95 = text.partition("/")
    numbers = [parse_number(part) for part in ((mean, p95) if slash else (mean,))]
    if slash:
        return {"mean": numbers[0], "p95": numbers[1]}
    if numbers[0] != int(numbers[0]):
        raise ValueError(f"{text!r} is not a whole number; a fraction is accepted as a mean with its p95: 1.5/4.")
    return int(numbers[0])


def _parse_prices(text: str) -> dict[str, float]:
    """'L40S 0.9, H100 SXM = 2.1' -> the price of each GPU that is named; a name may hold spaces, a price none."""
    prices = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, price = part.replace("=", " ").rpartition(" ")
        if not name.strip():
            raise ValueError(f"{part!r} is not a GPU with a price; write L40S 0.9, or one price for all: 1.8.")
        prices[name.strip()] = parse_number(price)
    return prices


def parse_number(text: str) -> float:
    """'1,000', '4k', '1.5B', '15T', '3e9'; raises ValueError with what is accepted."""
    number = written_number(text)
    if number is None:
        shown = shorten_middle(text, MOST_REPEATED)
        raise ValueError(f"{shown!r} is not a number; write 1,000, 4k, 1.5B or 3e9.")
    return number


STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
"""Leading digits of the values that `+` and `-` go through."""
BY_ONE = 10
"""Counts up to this change by one."""


def stepped(kind: Kind, text: str, direction: int) -> str:
    """Next sensible value up (1) or down (-1) from the one typed; a power of two of tokens or sequences doubles or halves.

    Lengths keep their spread. Raises ValueError where the text is no number.
    """
    mean, slash, p95 = text.partition("/")
    value = parse_number(mean)
    new = _stepped(value, direction, whole=kind in {"count", "crowd", "lengths"})
    if not slash or not value:
        return number_text(new)
    return f"{number_text(new)}/{number_text(round(parse_number(p95) * new / value))}"


def _stepped(value: float, direction: int, *, whole: bool) -> float:
    if whole and (value < BY_ONE or (value == BY_ONE and direction < 0)):
        return max(0.0, value + direction)
    if whole and value.is_integer() and int(value) & (int(value) - 1) == 0:
        return value * 2 if direction > 0 else value / 2
    if value <= 0:
        return 1.0 if direction > 0 else 0.0
    decade = 10.0 ** math.floor(math.log10(value) + 1e-12)
    ladder = [float(f"{step * scale:.12g}") for scale in (decade / 10, decade, decade * 10) for step in STEPS]
    if direction > 0:
        return next(step for step in ladder if step > value * (1 + 1e-9))
    return next(step for step in reversed(ladder) if step < value * (1 - 1e-9))


def show(kind: Kind, value: Any) -> str:
    """A value as the form types it; the opposite of `parse`."""
    if value is None:
        return AUTO
    if kind == "switch":
        return YES if value else NO
    if kind == "names":
        return ", ".join(map(str, value))
    if kind == "machines":
        return machines_text(value)
    if kind == "prices" and isinstance(value, Mapping):
        return ", ".join(f"{name} {number_text(price)}" for name, price in value.items())
    if kind == "lengths" and isinstance(value, Mapping):
        mean, p95 = value.get("mean"), value.get("p95")
        return number_text(mean) + (f"/{number_text(p95)}" if p95 else "")
    if isinstance(value, Mapping):
        return str(value.get("_name_or_path") or value.get("model_type") or "own config")
    if kind == "percent":
        return number_text(float(f"{value * 100:.12g}"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return str(value)


def number_text(value: float | None) -> str:
    """A number the way people type it: 15000000000000 -> '15T', 16.7 -> '16.7', 8192 -> '8192'."""
    if value is None:
        return AUTO
    for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= scale and round(value / scale, 4) == value / scale:
            return f"{value / scale:.12g}{suffix}"
    return f"{int(value)}" if value == int(value) else f"{value:.6g}"
