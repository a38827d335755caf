"""What the top line says."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from .formatting import load_summary, model_name

if TYPE_CHECKING:
    from planner.engine.answers import Plan
    from planner.workload.presets import Preset


def parts(preset: Preset, plan: Plan, here: str, today: dt.date) -> tuple[list[str], list[str]]:
    """The left side (what is planned) and the right side (this machine, the prices), most telling first."""
    left = [preset.name, model_name(plan.task), *load_summary(plan.task)]
    right = []
    if here:
        measured = any(row.here and row.basis == "measured" for row in plan.rows)
        right.append(f"{here}, measured" if measured else here)
    if plan.prices_as_of:
        right.append(f"prices {plan.prices_as_of}{_age(plan.prices_as_of, today)}")
    return left, right


def _age(as_of: str, today: dt.date) -> str:
    try:
        days = (today - dt.date.fromisoformat(as_of[:10])).days
    except ValueError:
        return ""
    return f", {days} d old" if days > 0 else ""
