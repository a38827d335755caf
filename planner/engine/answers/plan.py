"""Ranked answer for one workload: a row for each candidate shown, and changes that would make it fit or cheaper."""

from typing import Any, Literal

import msgspec

from planner.engine.answers.answer import Answer, TermPrice
from planner.engine.answers.figure import Basis, Figure
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.time import TimeDetail

LeverCost = Literal["time", "precision", "margin", "hardware", "target", "interruptions", "commitment", "job"]
"""Price of a lever: time with the same result; a rounding; reserves; more or other GPUs; a looser target; work that is lost when a node is
taken away; years that have to be paid whether used or not; another job."""
Verdict = Literal["fits", "may-not-fit", "misses-target", "does-not-fit", "not-supported"]
SOLUTIONS: tuple[Verdict, ...] = ("fits", "may-not-fit")
"""Verdicts of rows that have a rank."""
SURE = 0.9
"""Probability to fit and to meet every target from which an answer needs no surer one beside it."""
PRICE_UNIT = " a token"
"""Unit after a price where rows are ranked by dollars per token, because dollars per month are shown next to it."""


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
    """GPU on which the changed workload has a solution; None: there is none."""
    gpus: int | None = None
    """Number of GPUs of that solution."""
    costs: LeverCost | None = None
    """Dearest price among its changes."""
    saves_bytes: float | None = None
    """Bytes saved on the fullest GPU in the same layout."""
    slowdown: float | None = None
    """Extra time for the same work (a trained token, an answered request): time with the change ÷ time without it, minus one, on the same
    GPUs in the same layout as if they had enough memory; for a change of hardware, compared with the closest GPU as if that had enough
    memory."""
    before: LeverState | None = None
    """First row without the change, where something fits already and the change makes it cheaper."""
    after: LeverState | None = None
    """First row of the plan with the change."""


class OwnedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Costs of the GPUs of a row that is not rented. An hour costs `running_usd_per_h` + `depreciation_usd_per_h`."""

    bought: bool = False
    """True: to be bought for this workload; False: owned already."""
    gpus: int
    price_usd: float | None = None
    """Price of all GPUs with their share of servers and network; None: not known, so that depreciation is left out."""
    power_w: float
    """Power of one GPU, around the clock."""
    running_usd_per_h: float
    """Power and hosting of all GPUs."""
    depreciation_usd_per_h: float | None = None
    """Depreciation of all GPUs."""
    nvlink: bool | None = None
    """True if NVLink joins them, where this is stated."""
    power_limit_w: float | None = None
    """Power cap of each of them, where there is one."""
    words: str = ""
    """Basis of the costs."""


class OfferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Offer whose price a row uses."""

    provider: str
    kind: str | None = None
    """'hyperscaler', 'gpu-cloud', 'marketplace' or 'peer-to-peer'; None: the provider is not known."""
    instance: str
    region: str
    countries: list[str] = []
    """Countries of the region, or all countries of the provider where the offer names no region; empty: not known."""
    gpus: int
    """GPUs per instance."""
    instances: int
    usd_per_h: float
    """Price of all instances."""
    market: str
    """Term on which it is rented."""
    vcpus: float | None = None
    """Virtual processors of one instance; where the price is per GPU, in proportion to `gpus`."""
    memory_bytes: float | None = None
    """Memory of its host, likewise."""
    interruption_notice_s: float | None = None
    """Warning before a spot instance is taken away."""
    billing_s: float | None = None
    """Billing increment."""
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
    """Probability that the memory is enough, from its range."""
    probability_meets: float | None = None
    """Probability that the memory is enough and every target is met."""
    probability_first_better: float | None = None
    """Probability that the first row is truly better by the objective than this one, given that errors have causes in common; None for the
    first row, for rows far behind it, and where a price is missing."""
    here: bool = False
    """True if the GPU (or CPU) is this machine's."""
    basis: Basis
    offer: OfferAnswer | None = None
    power_limit_w: float | None = None
    """Power limit set on this machine's GPU, where it is below the vendor's."""
    other_offers: int = 0
    owned: OwnedAnswer | None = None
    """Costs of GPUs that are owned or would be bought; else absent."""
    usd_per_h: Figure | None = None
    usd_per_month: Figure | None = None
    job_h: Figure | None = None
    """Hours of the whole job without failures."""
    expected_job_h: Figure | None = None
    """Hours including failures, restarts and checkpoints, where these add a hundredth or more."""
    job_usd: Figure | None = None
    terms: list[TermPrice] = []
    """Prices of these nodes on every term for which this offer has a price."""
    spec_answer: Answer | None = None
    """Answer from the vendor's figures alone, where a measurement changed it."""
    memory_detail: MemoryDetail | None = None
    """Present where details were requested."""
    time_detail: TimeDetail | None = None
    """Present where details were requested."""


class Flip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of one input that puts another GPU first."""

    key: str
    """A key of the workload; 'usd_per_h': the price of the first row."""
    value: float | str
    """Value of the key after the change."""
    factor: float | None = None
    """New value ÷ present value; None for an input that is not a number."""
    gpu: str
    """GPU that then ranks first."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of candidates."""

    considered: int
    fit: int
    shown: int


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ranked answer for one workload."""

    task: dict[str, Any]
    """Workload as given, including every default that was filled in."""
    rows: list[PlanRow]
    counts: Counts
    levers: list[Lever] = []
    flips: list[Flip] = []
    """Nearest changes of the inputs that put another GPU first; present in `plan` for people and in `report`."""
    prices_as_of: str | None = None
    """Oldest price date of the rows shown."""
    notes: list[str] = []
    version: str = ""

    @property
    def best(self) -> PlanRow | None:
        """Row that ranks first; None if there is no solution."""
        return next((row for row in self.rows if row.rank), None)
