"""How a value of the form is typed and shown, and where it goes in the workload."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from planner.units import is_known
from planner.workload import tasks

Kind = Literal["choice", "switch", "count", "number", "percent", "lengths", "crowd", "text"]
"""What a field holds."""

AUTO = ""
"""What an empty field means: choose for me."""
NO, YES = "no", "yes"
"""The choices of a switch."""

_SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


def get(workload: Mapping[str, Any], dotted: str) -> Any:
    """The value at a dotted key, or None."""
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
    """A copy with `value` at a dotted key; None takes the key out, and a table left empty with it."""
    changed: dict[str, Any] = copy.deepcopy(dict(workload))
    *tables, last = dotted.split(".")
    table = changed
    for name in tables:
        inner = table.get(name)
        if not isinstance(inner, dict):
            inner = table[name] = {}
        table = inner
    if value is None:
        table.pop(last, None)
        if tables and (not table or dotted == "lora.rank"):
            changed.pop(tables[0], None)
    else:
        table[last] = value
    return changed


def parse(kind: Kind, text: str) -> Any:
    """The value typed, or None for an empty field; raises ValueError with what is accepted."""
    text = text.strip()
    if text == AUTO:
        return None
    if kind == "switch":
        return text == YES
    if kind in {"choice", "text"}:
        return text
    if kind == "lengths":
        return _parse_lengths(text)
    if kind == "crowd" and text.casefold() == "max":
        return "max"
    number = parse_number(text)
    if kind in {"count", "crowd"}:
        if number != int(number) or number < 0:
            such = "512, 4k or max" if kind == "crowd" else "512 or 4k"
            raise ValueError(f"{text!r} is no whole number, such as {such}.")
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
        return {"mean": numbers[0]}
    return int(numbers[0])


def parse_number(text: str) -> float:
    """'1,000', '4k', '1.5B', '15T', '3e9'; raises ValueError with what is accepted."""
    plain = text.strip().replace(",", "").replace("_", "").replace(" ", "")
    scale = _SUFFIXES.get(plain[-1:].casefold(), 1.0)
    try:
        number = float(plain[:-1] if scale != 1.0 else plain) * scale
    except ValueError:
        raise ValueError(f"{text!r} is no number; 1,000, 4k, 1.5B and 3e9 are.") from None
    if not is_known(number):
        raise ValueError(f"{text!r} is no number; 1,000, 4k, 1.5B and 3e9 are.")
    return float(f"{number:.15g}")


def show(kind: Kind, value: Any) -> str:
    """A value as the form types it; the opposite of `parse`."""
    if value is None:
        return AUTO
    if kind == "switch":
        return YES if value else NO
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
