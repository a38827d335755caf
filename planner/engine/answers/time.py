"""Time of one candidate: every operator, the phases, and the roofs above them; its latency at several loads."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from planner.engine.answers.figure import Figure, Percentiles
from planner.units import digits, duration_text

Bound = Literal["compute", "bandwidth", "latency", "launch", "link", "host", "bubble"]
"""Limits that an operator can wait for: arithmetic, memory, its own start, the host that launches it, other GPUs, the engine, or the rest
of a pipeline."""


BOUND_WORDS: Mapping[Bound, str] = {
    "compute": "compute",
    "bandwidth": "bandwidth",
    "latency": "kernel latency",
    "launch": "host launches",
    "link": "link",
    "host": "engine overhead",
    "bubble": "pipeline bubble",
}
"""Words for limits on screen; also used for `Answer.bottleneck`."""


CLASS_WORDS: Mapping[str, str] = {
    "matmul": "matmuls",
    "attention": "attention",
    "head": "output head",
    "elementwise": "elementwise",
    "communication": "communication",
    "latency": "kernel latency",
    "launch": "host launches",
    "host": "engine",
    "optimizer": "optimizer",
    "bubble": "bubble",
    "rollout": "generating",
    "new weights": "new weights",
    "scoring": "scoring",
}
"""Class of operator -> its name on screen, the same in every view of times."""
PRODUCTS, OTHERS_AT_BANDWIDTH = ("matmul", "head"), ("elementwise", "optimizer", "rollout")
"""Classes that are products, and other classes that the bandwidth limits."""
MOST_OTHERS = 0.25
"""Time of the other classes, as a share of the time of products, above which it is unclear what limits products."""
LEAST_SHARE = 0.005
"""Share of a phase below which operators are combined in one line."""


def _size_text(size: float) -> str:
    return f"{size:,.0f}" if size == round(size) or size >= 1000 else digits(size)


class Operator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of operator in one phase of a step or request, on one GPU; all values are sums over its runs."""

    phase: str
    kind: str
    """One of the classes of `Answer.seconds_by_class`; the operators of a class add up to it."""
    name: str
    """Name on screen."""
    seconds: float
    bound: Bound
    count: float = 0.0
    """Number of runs; 0 means one."""
    m: float | None = None
    """Size m of a product m × k by k × n; None for other operators."""
    n: float | None = None
    k: float | None = None
    dtype: str = ""
    """Number format of the computation."""
    flop: float = 0.0
    """FLOPs of matrix products; 0 for other operators."""
    bytes: float = 0.0
    """Bytes read and written; for transfers, bytes sent by one GPU."""

    @property
    def shape_text(self) -> str:
        """Shape as '8,192·14,336·4,096' (m·n·k); empty for operators that are no product."""
        return "" if self.m is None or self.n is None or self.k is None else "·".join(map(_size_text, (self.m, self.n, self.k)))

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None for operators that are no product."""
        return self.flop / self.bytes if self.flop and self.bytes else None


class PhaseTime(msgspec.Struct, frozen=True):
    """One phase of a step or request."""

    name: str
    seconds: float
    flop: float
    bound: Bound
    """Limit that its operators wait for most of the time."""
    bound_share: float
    """Share of the time that they wait for it."""


class TimeDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one candidate, operator by operator, and the roofs above them."""

    work: str
    """Work that takes this time: "one optimizer step", "one request among 16 on its replica", …"""
    at_once: int = 1
    """Requests in flight on a replica of a service; decode time, FLOPs and bytes are of all of them together."""
    mean_request_s: float | None = None
    """Time of the mean request of that service, as in the row."""
    operators: list[Operator]
    total_s: float
    """Sum over all operators."""
    dtype: str
    """Number format of the products."""
    flop_per_s: float
    """Rate that large products reach."""
    peak_flop_per_s: float
    """Dense rate on the data sheet."""
    bytes_per_s: float
    """Memory bandwidth that is reached."""
    peak_bytes_per_s: float

    @property
    def note(self) -> str:
        """Words on how this time relates to that of the mean request; '' if the two cannot be confused."""
        if self.mean_request_s is None:
            return ""
        together = f" FLOPs and bytes of decode are of all {self.at_once:,} together." if self.at_once > 1 else ""
        mean = f"The mean request takes {duration_text(self.mean_request_s)}"
        return f"{mean}: it also waits for the prompts of others and for its turn, and runs among more or fewer of them.{together}"

    @property
    def ridge(self) -> float:
        """FLOP per byte above which arithmetic is the limit, from the rates that are reached."""
        return self.flop_per_s / self.bytes_per_s

    @property
    def peak_ridge(self) -> float:
        """FLOP per byte above which arithmetic is the limit, from the data sheet."""
        return self.peak_flop_per_s / self.peak_bytes_per_s

    @property
    def flop(self) -> float:
        """FLOPs of one GPU, including recomputed ones."""
        return sum(one.flop for one in self.operators)

    def phases(self) -> list[PhaseTime]:
        """Phases in the order in which they happen."""
        found = []
        for name in dict.fromkeys(one.phase for one in self.operators):
            own = [one for one in self.operators if one.phase == name]
            waits: dict[Bound, float] = {}
            for one in own:
                waits[one.bound] = waits.get(one.bound, 0.0) + one.seconds
            seconds, bound = sum(waits.values()), max(waits, key=waits.__getitem__)
            found.append(PhaseTime(name, seconds, sum(one.flop for one in own), bound, waits[bound] / seconds))
        return found

    def longest(self, phase: PhaseTime) -> tuple[list[Operator], list[Operator]]:
        """Operators to list one by one, and operators too short for that, each with the longest first."""
        own = sorted((one for one in self.operators if one.phase == phase.name), key=lambda one: -one.seconds)
        kept = sum(1 for one in own if one.seconds >= LEAST_SHARE * phase.seconds)
        return (own[:kept], own[kept:]) if len(own) > kept + 1 else (own, [])


def class_words(kind: str, seconds: Mapping[str, float], bottleneck: str | None) -> str:
    """Words for a class of operators in a row whose classes take `seconds`; matrix products include their limit: 'matmuls (bandwidth)'."""
    words = CLASS_WORDS.get(kind, kind)
    products, others = (sum(seconds.get(one, 0.0) for one in kinds) for kinds in (PRODUCTS, OTHERS_AT_BANDWIDTH))
    known = bottleneck == "compute" or (bottleneck == "bandwidth" and others < MOST_OTHERS * products)
    return f"{words} ({bottleneck})" if kind == "matmul" and known else words


Latency = Literal["request", "ttft", "tpot"]
"""The whole request, its first token, or the time between tokens."""


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latencies at one load."""

    load: float
    """Requests per second of the whole deployment, or requests in flight where clients wait for their answers."""
    request_s: Percentiles
    ttft_s: Percentiles
    tpot_s: Percentiles | None = None
    """Mean time between the tokens of a request; None if an answer is one token."""
    busy: float
    """Share of the time in which a replica works."""


class TargetEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Highest load at which a limit on a latency is met."""

    latency: Latency
    share: str
    """'p50', 'p95' or 'p99'."""
    limit_s: float
    load: Figure | None
    """Highest load at which the limit is met; None if it is not met even at the lowest load."""


class UnderLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latencies against the load, each computed with the method of the plan."""

    by: Literal["rate", "in-flight"]
    """Unit of the load: requests a second, or requests in flight."""
    asked: float
    """Load of the plan."""
    points: list[LoadPoint]
    """Points in ascending order of load, only those that the replicas keep up with."""
    full: float | None = None
    """Requests per second above which the replicas fall behind; None where clients wait for their answers."""
    ends: list[TargetEnd]
    burst: float = 0.0
    """Fraction by which requests arrive faster than the stated load in the simulation of latencies."""
    replicas: int
    requests: int
    """Requests simulated at each point; 0 where formulas for a closed loop are used instead."""
