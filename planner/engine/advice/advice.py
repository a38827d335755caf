"""Advice for the GPUs of a window: a verdict and actions for each, with the monthly saving of each action."""

from __future__ import annotations

from typing import Literal

import msgspec

from planner.engine.advice.diagnosis import Judgement
from planner.engine.advice.observation import Observed
from planner.engine.advice.ownership import BreakEven, Quote
from planner.units import UNKNOWN, usd_text

ActionKind = Literal[
    "release", "consolidate", "batch", "mig", "quantise", "checkpoint", "cheaper", "larger", "spot", "reserve", "power", "cool", "link",
    "benchmark", "stay",
]  # fmt: skip


class Saving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars per month; negative: it costs more."""

    usd_per_month: float
    how: str
    """Calculation with its numbers."""
    at_most: bool = False


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recommended change."""

    kind: ActionKind
    text: str
    saves: Saving | None = None
    """None: not known from what was observed; `note` is the reason."""
    note: str = ""
    gpu: str | None = None
    profile: str | None = None
    checks: list[str] = []

    @property
    def saving_text(self) -> str:
        """'saves ≤ 606 $/month'."""
        if self.kind == "stay":
            return ""
        if self.saves is None:
            return f"saves {UNKNOWN}"
        word = "costs" if self.saves.usd_per_month < 0 else "saves"
        return f"{word} {'≤ ' if self.saves.at_most else ''}{usd_text(abs(self.saves.usd_per_month))} $/month"


class RightSizing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU: its state, and what to do about it."""

    observed: Observed
    judgement: Judgement
    price: Quote | None
    """Assumed price; None: no offer in the catalogue, and no price given."""
    actions: list[Action]
    rent_or_buy: BreakEven | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one verdict, host or job."""

    name: str
    gpus: int
    busy: float | None
    """Mean share of the time in use, of the GPUs for which it is known."""
    usd_per_month: float | None
    """Cost of the GPUs that have a price; None: none has."""
    waste_usd_per_month: float
    at_most: bool
    """True if a part of the waste is an upper bound."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is slow or sick, and why."""

    host: str
    index: int
    gpu: str
    job: str
    why: str


class FleetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet in groups, the most wasteful first."""

    by_verdict: list[Group]
    by_host: list[Group]
    by_job: list[Group]
    suspects: list[Suspect]


class Advice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every GPU of the window, and findings about several of them."""

    gpus: list[RightSizing]
    together: list[Action] = []
    usd_per_month: float | None = None
    """Present cost of all GPUs that have a price."""
    prices_as_of: str | None = None
    fleet: FleetSummary | None = None
    """Present where several GPUs of a fleet were observed."""
    notes: list[str] = []
    version: str = ""
