"""What the engine says: frozen values that front ends only format.

Every number that was estimated is a `Figure`: value, a range that should hold the truth nine times in ten, and the
basis it rests on. A field that does not apply, or is not known, is absent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.engine.answers.time import TimeDetail
from planner.hardware.ceilings.ceilings import Basis as Basis  # noqa: PLC0414  # part of every answer
from planner.units import bytes_text, digits, percent_text

Verdict = Literal["fits", "misses-target", "does-not-fit", "not-supported"]


class Figure(msgspec.Struct, frozen=True):
    """An estimate. `low`–`high` should hold the truth 9 times in 10."""

    value: float
    low: float
    high: float
    basis: Basis


class MemoryBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the fullest GPU at the moment of its peak; the components add up to `total.value`."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    kv_cache: float
    buffers: float
    overhead: float
    """What PyTorch's own peak does not count: CUDA context, libraries, communicators, allocator slack."""
    total: Figure
    capacity: float
    """Usable bytes of the GPU (less than the label on the box)."""


MEMORY_COMPONENTS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "buffers", "overhead")


class MemoryItem(msgspec.Struct, frozen=True):
    """One thing that takes memory."""

    component: str
    """One of `MEMORY_COMPONENTS`; the items of a component add up to it."""
    name: str
    """What it is, in words."""
    bytes: float
    formula: str
    """Where the bytes come from, with the candidate's own numbers put in."""
    source: str
    """Where the formula comes from."""


class MemoryDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The fullest GPU of one candidate at its peak, item by item; items of 0 bytes are left out."""

    items: list[MemoryItem]
    total_bytes: float
    """The items' sum."""
    label_bytes: float
    """What the data sheet says the GPU has."""
    capacity_bytes: float
    """What of it programs can take."""
    capacity_source: str
    memory_fraction: float
    """Share of the capacity that the engine may take."""
    headroom: float
    """Share of that which is kept free."""
    usable_bytes: float
    """capacity_bytes · memory_fraction · (1 - headroom)."""
    host_bytes: float = 0.0
    """Of the host's memory, for each GPU: what is offloaded."""

    @property
    def left_bytes(self) -> float:
        """Of what may be used; below 0 where it does not fit."""
        return self.usable_bytes - self.total_bytes

    def ledger(self) -> list[tuple[str, float, str]]:
        """(what, bytes, why) from the data sheet to what is left; steps that take nothing are left out."""
        steps = [("on the data sheet", self.label_bytes, ""), ("for programs", self.capacity_bytes, self.capacity_source)]
        if self.memory_fraction < 1:
            share = self.capacity_bytes * self.memory_fraction
            steps.append(("for the engine", share, f"its {percent_text(self.memory_fraction)} (memory_fraction)"))
        if self.headroom > 0:
            steps.append(("to be used", self.usable_bytes, f"{percent_text(self.headroom)} kept free (targets.headroom)"))
        steps.append(("needed", self.total_bytes, f"{percent_text(self.total_bytes / self.usable_bytes)} of that"))
        steps.append(("left" if self.left_bytes >= 0 else "too little by", abs(self.left_bytes), ""))
        if self.host_bytes:
            steps.append(("on the host", self.host_bytes, "for each GPU, what is offloaded"))
        return steps


class ParameterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the whole model."""

    total: int
    active: int
    """Used for one token (MoE: the routed experts only)."""
    embedding: int
    trainable: int


class Percentiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A latency over requests."""

    mean: Figure
    p50: Figure | None = None
    p95: Figure | None = None
    p99: Figure | None = None


class LayoutAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the job is spread. `gpus` = tp·pp·dp·cp; ep divides the experts inside that."""

    gpus: int
    nodes: int = 1
    gpus_per_node: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    virtual_stages: int = 1
    sharding: str | None = None
    checkpointing: str | None = None
    micro_batch: int | None = None
    batch: int | None = None
    """Concurrent sequences per replica while generating or serving."""
    prefill_replicas: int = 0
    """Of the dp replicas of a disaggregated service, those that only read prompts; the others only decode."""

    @property
    def text(self) -> str:
        """Short form for a table cell: 'tp2·dp4 zero3'."""
        degrees = [f"{name}{getattr(self, name)}" for name in ("tp", "pp", "cp", "ep", "dp") if getattr(self, name) > 1]
        parts = ["·".join(degrees) or "single"]
        if self.prefill_replicas:
            parts.append(f"{self.prefill_replicas}P:{self.dp - self.prefill_replicas}D")
        if self.sharding and self.sharding != "none":
            parts.append(self.sharding)
        if self.checkpointing and self.checkpointing != "none":
            parts.append(f"ckpt-{self.checkpointing}")
        return " ".join(parts)


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluated candidate."""

    id: Any = msgspec.field(default=None)
    fits: bool
    reason: str | None
    """Why it does not fit or cannot be timed; None when it fits."""
    bottleneck: str | None
    memory_bytes: MemoryBytes | None = None
    host_memory_bytes: float | None = None
    """Of the host's memory, for each GPU, where something is offloaded."""
    parameters: ParameterCounts | None = None
    flop_per_token: float | None = None
    step_s: Figure | None = None
    tokens_per_s: Figure | None = None
    tokens_per_s_per_gpu: Figure | None = None
    mfu: Figure | None = None
    prefill_s: Figure | None = None
    ttft_s: Percentiles | None = None
    tpot_s: Percentiles | None = None
    request_s: Percentiles | None = None
    wait_s: Percentiles | None = None
    """Of `request_s`: from sending a request until the engine takes it in. Where requests were simulated."""
    utilisation: Figure | None = None
    """Share of time in which an iteration runs on a replica. Where requests were simulated."""
    decode_tokens_per_s: Figure | None = None
    output_tokens_per_s: Figure | None = None
    requests_per_s: Figure | None = None
    max_concurrency: int | None = None
    max_context: int | None = None
    usd_per_million_tokens: Figure | None = None
    flop_per_usd: Figure | None = None
    energy_j_per_token: Figure | None = None
    seconds_by_class: dict[str, float] = {}
    """Where a step (or a request) spends its time: operator class -> seconds."""
    assumed: dict[str, Any] = {}
    """Every default used."""
    layout: LayoutAnswer | None = None
    version: str = ""


class OfferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price a row rests on."""

    provider: str
    instance: str
    region: str
    gpus: int
    """GPUs of one instance."""
    instances: int
    usd_per_h: float
    """For all instances."""
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
    """The same candidate from the vendor's figures alone, when a measurement changed it."""
    memory_detail: MemoryDetail | None = None
    """Where it was asked for."""
    time_detail: TimeDetail | None = None
    """Where it was asked for."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much was looked at."""

    considered: int
    fit: int
    shown: int


LeverCost = Literal["time", "precision", "margin", "hardware", "job"]
"""What a lever asks for: time with the same result; a rounding; memory that is kept free; more or other GPUs; another job."""


class Lever(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes a workload fit, and what it costs."""

    change: dict[str, Any]
    """Keys of the workload and their new values."""
    text: str
    gpu: str | None = None
    """The GPU on which the changed workload has a solution; None: on none."""
    gpus: int | None = None
    """How many of it."""
    costs: LeverCost | None = None
    """The dearest of what its changes ask for."""
    saves_bytes: float | None = None
    """On the fullest GPU: the same layout without the change, less with it."""
    slowdown: float | None = None
    """Time for the same work (a trained token, an answered request) with the change ÷ without it, on the same GPUs in the same
    layout as if it had the memory, minus one; of a change of hardware, against the closest GPU had it the memory."""

    @property
    def cost_text(self) -> str:
        """'saves 12.1 GiB, 31 % slower, rounds more'; what is not known or too small to say is left out."""
        slower = self.slowdown or 0.0
        speed = f"{percent_text(slower)} slower" if slower < 1 else f"{digits(1 + slower, 2)} times as slow"
        if slower < 0:
            speed = (
                f"{percent_text(1 / (1 + slower) - 1)} faster" if slower > -0.5 else f"{digits(1 / (1 + slower), 2)} times as fast"
            )
        words = {"precision": "rounds more", "margin": "less margin", "job": "another job"}
        parts = (
            f"saves {bytes_text(self.saves_bytes)}" if self.saves_bytes and self.saves_bytes > 0 else "",
            speed if abs(slower) >= LEAST_SLOWDOWN else "as fast" if self.slowdown is not None else "",
            words.get(self.costs or "", ""),
        )
        return ", ".join(part for part in parts if part)


LEAST_SLOWDOWN = 0.005
"""Below this a lever is as fast."""


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
