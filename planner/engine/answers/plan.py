"""The ranked answer for one workload, a row for each candidate shown."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Basis, Figure
from planner.engine.answers.lever import Lever
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.time import TimeDetail

Verdict = Literal["fits", "may-not-fit", "misses-target", "does-not-fit", "not-supported"]
SOLUTIONS: tuple[Verdict, ...] = ("fits", "may-not-fit")
"""Verdicts of rows that have a rank."""


class OfferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price a row rests on."""

    provider: str
    instance: str
    region: str
    gpus: int
    """GPUs of one instance."""
    instances: int
    usd_per_h: float
    """Price of all instances."""
    market: str
    as_of: str
    source: str
    note: str = ""


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ranked candidate. `rank` is None for rows that are no solution."""

    rank: int | None
    gpu: str
    verdict: Verdict
    why: str
    """Why it is where it is, or the smallest change that would make it a solution."""
    answer: Answer
    probability_fits: float | None = None
    """Probability that the memory is enough, by its range."""
    probability_meets: float | None = None
    """Probability that the memory is enough and every target is met."""
    here: bool = False
    """The GPU (or CPU) of this machine."""
    basis: Basis
    offer: OfferAnswer | None = None
    other_offers: int = 0
    usd_per_h: Figure | None = None
    usd_per_month: Figure | None = None
    job_h: Figure | None = None
    job_usd: Figure | None = None
    spec_answer: Answer | None = None
    """Answer from the vendor's figures alone, when a measurement changed it."""
    memory_detail: MemoryDetail | None = None
    """Present where details were requested."""
    time_detail: TimeDetail | None = None
    """Present where details were requested."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of candidates."""

    considered: int
    fit: int
    shown: int


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ranked answer for one workload."""

    task: dict[str, Any]
    """The workload as given, with every default that was filled in."""
    rows: list[PlanRow]
    counts: Counts
    levers: list[Lever] = []
    prices_as_of: str | None = None
    """Oldest price date among the shown rows."""
    notes: list[str] = []
    version: str = ""
