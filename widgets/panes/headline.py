"""What the top line says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from widgets.drawing.formatting import device_name, load_summary, model_name

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan


def parts(preset: str, task: Mapping[str, Any], plan: Plan | None, here: str, today: dt.date) -> tuple[list[str], list[str]]:
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
