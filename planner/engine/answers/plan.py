"""The ranked answer for one workload: a row for each candidate shown, and changes that would make it fit or make it cheaper."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.engine.answers.answer import Answer, TermPrice
from planner.engine.answers.figure import Basis, Figure
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.time import TimeDetail

LeverCost = Literal["time", "precision", "margin", "hardware", "target", "interruptions", "commitment", "job"]
"""Price of a lever: time with the same result; a rounding; what is kept in reserve; more or other GPUs; a looser target; work that is lost
when a node is taken away; years that are paid for whatever is used; another job."""
Verdict = Literal["fits", "may-not-fit", "misses-target", "does-not-fit", "not-supported"]
SOLUTIONS: tuple[Verdict, ...] = ("fits", "may-not-fit")
"""Verdicts of rows that have a rank."""
PRICE_UNIT = " a token"
"""Unit after a price where rows are ranked by dollars a token, because dollars a month stand beside it."""


class LeverState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First row before a change, or after it."""

    gpu: str
    gpus: int
    usd_per_h: float
    usd_per_month: float | None = None
    job_usd: float | None = None
    job_h: float | None = None
    usd_per_million_tokens: float | None = None
    offer: str | None = None


class Lever(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes a workload fit, or cheaper, and its cost."""

    change: dict[str, Any]
    """Keys of the workload and their new values."""
    text: str
    gpu: str | None = None
    """The GPU on which the changed workload has a solution; None: on none."""
    gpus: int | None = None
    """Number of GPUs of that solution."""
    costs: LeverCost | None = None
    """The dearest price among its changes."""
    saves_bytes: float | None = None
    """Bytes on the fullest GPU: the same layout without the change, less with it."""
    slowdown: float | None = None
    """Time for the same work (a trained token, an answered request) with the change ÷ without it, on the same GPUs in the same
    layout as if it had the memory, minus one; of a change of hardware, against the closest GPU had it the memory."""
    before: LeverState | None = None
    """First row without the change, where something fits already; the change makes it cheaper."""
    after: LeverState | None = None
    """First row of the plan with the change."""


class OwnedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Costs of the GPUs of a row that is not rented. An hour of it is `running_usd_per_h` + `depreciation_usd_per_h`."""

    bought: bool = False
    """Whether it is to be bought for this; otherwise it is there already."""
    gpus: int
    price_usd: float | None = None
    """Price of all of them with their share of servers and network; None: not known, so that their loss in value is left out."""
    power_w: float
    """Draw of one GPU, around the clock."""
    running_usd_per_h: float
    """Power and place of all of them."""
    depreciation_usd_per_h: float | None = None
    """Loss of value."""
    nvlink: bool | None = None
    """Whether NVLink joins them, where that was said."""
    power_limit_w: float | None = None
    """Power cap of each of them, where there is one."""
    words: str = ""
    """Basis of the costs."""


class OfferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price a row rests on."""

    provider: str
    kind: str | None = None
    """'hyperscaler', 'gpu-cloud', 'marketplace' or 'peer-to-peer'; None: nothing is known of the provider."""
    instance: str
    region: str
    countries: list[str] = []
    """Countries of the region, or of all the provider has where the offer names none; empty: not known."""
    gpus: int
    """GPUs of one instance."""
    instances: int
    usd_per_h: float
    """Price of all instances."""
    market: str
    """Term it is rented on."""
    vcpus: float | None = None
    """Virtual processors of one instance; where the price is per GPU, in proportion to `gpus`."""
    memory_bytes: float | None = None
    """Memory of its host, likewise."""
    interruption_notice_s: float | None = None
    """Warning before a spot instance is taken away."""
    billing_s: float | None = None
    """Time that is billed at a time."""
    egress_usd_per_gb: float | None = None
    as_of: str
    source: str
    note: str = ""


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ranked candidate. `rank` is None for rows that are no solution."""

    rank: int | None
    gpu: str
    verdict: Verdict
    why: str
    """Reason for its place, or the smallest change that would make it a solution."""
    answer: Answer
    probability_fits: float | None = None
    """Probability that the memory is enough, by its range."""
    probability_meets: float | None = None
    """Probability that the memory is enough and every target is met."""
    probability_first_better: float | None = None
    """Probability that the first row is truly better by the objective than this one, their errors having causes in common; None for the
    first, for rows far behind it, and where a price is missing."""
    here: bool = False
    """The GPU (or CPU) of this machine."""
    basis: Basis
    offer: OfferAnswer | None = None
    power_limit_w: float | None = None
    """Limit in force of this machine's GPU, where it is below the vendor's."""
    other_offers: int = 0
    owned: OwnedAnswer | None = None
    """Present for GPUs that are one's own or would be bought."""
    usd_per_h: Figure | None = None
    usd_per_month: Figure | None = None
    job_h: Figure | None = None
    """Hours of the whole job without failures."""
    expected_job_h: Figure | None = None
    """Hours with failures, restarts and checkpoints, where they add a hundredth or more."""
    job_usd: Figure | None = None
    terms: list[TermPrice] = []
    """Prices of these nodes on every term that this offer has one for."""
    spec_answer: Answer | None = None
    """Answer from the vendor's figures alone, when a measurement changed it."""
    memory_detail: MemoryDetail | None = None
    """Present where details were requested."""
    time_detail: TimeDetail | None = None
    """Present where details were requested."""


class Flip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of one input that puts another GPU first."""

    key: str
    """A key of the workload; 'usd_per_h': the price of the first row."""
    value: float | str
    """The state afterwards."""
    factor: float | None = None
    """New over present value; None for an input that is no amount."""
    gpu: str
    """Ranks first then."""


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
    flips: list[Flip] = []
    """Nearest changes of the inputs that put another GPU first; present in `plan` for people and in `report`."""
    prices_as_of: str | None = None
    """Oldest price date among the shown rows."""
    notes: list[str] = []
    version: str = ""

    @property
    def best(self) -> PlanRow | None:
        """The row that ranks first; None where nothing is a solution."""
        return next((row for row in self.rows if row.rank), None)
