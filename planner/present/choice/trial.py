"""A change that is tried out, and the difference it makes to the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from planner.engine.answers.figure import value_of
from planner.present.choice.sentence import cost_text, count_and_device
from planner.units import change_text

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow

ALIKE = 0.005
"""Relative difference below which two prices read the same."""


class Trial(msgspec.Struct, frozen=True):
    """A change of the workload that is tried out."""

    change: str
    """Change in words."""
    before: Plan
    """The plan without it."""
    difference: str = ""

    @property
    def text(self) -> str:
        """The change and the difference it makes."""
        return f"{self.change}: {self.difference}" if self.difference else self.change

    def compared(self, after: Plan) -> Trial:
        """This trial with the difference between the plan without it and `after`."""
        return replace(self, difference=difference(self.before, after))


def difference(before: Plan, after: Plan) -> str:
    """Difference of the first solution of `after` from that of `before`: '9,640 → 6,200 $/month (-36 %)'."""
    was, now = before.best, after.best
    if now is None:
        return "nothing fits with it either" if was is None else "nothing fits any more"
    if was is None:
        return f"now {count_and_device(now)} fits"
    old, new = _price(was), _price(now)
    if old is not None and new is None:
        return "nobody lists a price for that"
    moved = f"{count_and_device(was)} → {count_and_device(now)}" if count_and_device(was) != count_and_device(now) else ""
    if old is None or new is None or not old:
        return moved or "the same answer"
    if abs(new / old - 1) < ALIKE:
        return moved or "the same price"
    return f"{cost_text(was).split(' ')[0]} → {cost_text(now)} ({change_text(new / old - 1)})"


def _price(row: PlanRow) -> float | None:
    return value_of(row.job_usd or row.usd_per_month or row.usd_per_h)
