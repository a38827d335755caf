"""Repeated timing of one call, with a status that says how far the result can be trusted.

The figure is a quantile of single calls: the median on a GPU, the lower quartile on a CPU, where other programs only add time.
Its interval comes from order statistics, so no distribution is assumed. On a shared machine it can be wrong by a factor of ten while
samples agree with each other, so on a CPU the time that threads waited for a core is checked as well.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

NOISY, UNSTABLE = 0.10, 0.25
"""Interquartile range ÷ median from which torch.utils.benchmark warns, and warns strongly."""
STARVED = 0.15
"""Share of its time that a thread may wait for a core before a CPU figure counts as shared."""
IDLE = 0.70
"""Share of wall time × threads for which a CPU figure has to have been running; with less, others had the cores."""
BESIDE, LEFT_IDLE = 0.15, 0.10
"""Share of the machine's time that others run, and share left idle below which they hold the cores: a scheduler may favour a newcomer for
as long as one point takes, so the process's own waiting time is not enough to know."""
LONG_CALL_S = 0.005
"""Duration below which calls include the waking of threads, so that their running time does not show other processes."""
PRECISION = 0.01
"""Half width of the interval, as a share of the figure, at which sampling ends."""
CONFIDENCE = 0.95
"""Probability that the quantile of all calls lies in the interval."""
MEDIAN, LOWER_QUARTILE = 0.5, 0.25
"""Shares of the calls that are faster than the figure. The fastest call would be even more stable (Chen and Revels, Robust benchmarking in
noisy environments, 2016), but too fast for lasting work: a clock is higher for a moment than for a minute."""
FEWEST, MOST = 10, 200
"""Minimum and maximum number of samples of a call."""
LONG_ENOUGH_S = 0.3
"""Shortest time of sampling, so that one scheduler slice does not decide."""


class Stopped(Exception):  # noqa: N818  # an order, not an error
    """The run has to stop; raised between two samples."""


class Timer(Protocol):
    """Timer for calls on one kind of device, in seconds."""

    flushing: str
    """Way of emptying a cache between two calls: 'read', 'write', or 'none'."""

    def settle(self, call: Callable[[], Any]) -> float:
        """Warm up; returns the rough seconds of one call."""
        ...

    def batch(self, call: Callable[[], Any], rough_s: float) -> list[float]:
        """Take one or more samples, in seconds of one call."""
        ...


@runtime_checkable
class KeepsBusy(Protocol):
    """A timer of a device that continues to work while its host does something else."""

    def keep_busy(self, call: Callable[[], Any], rough_s: float) -> None:
        """Queue some calls and return while they run."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Samples of one call."""

    samples_s: tuple[float, ...]
    call_s: float
    """Quantile of the samples that represents a call."""
    low_s: float
    high_s: float
    """95 % interval of `call_s`."""
    spread: float
    """Interquartile range ÷ median."""
    status: str
    detail: str
    telemetry: dict[str, Any] = field(default_factory=dict)
    """Telemetry of the device while samples were taken."""


def median(samples: Sequence[float]) -> float:
    """Middle value."""
    return quantile(samples, 0.5)


def quantile(samples: Sequence[float], share: float) -> float:
    """Value below which `share` of the samples lie, interpolated linearly."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def quantile_interval(samples: Sequence[float], share: float = MEDIAN) -> tuple[float, float]:
    """95 % order-statistic interval of a quantile: exact for any distribution; an extreme where there are few samples."""
    ordered = sorted(samples)
    low, high = _interval_ranks(len(ordered), share)
    return ordered[low], ordered[high]


@functools.cache
def _interval_ranks(count: int, share: float) -> tuple[int, int]:
    """Positions in `count` ordered samples of both ends of the interval."""
    # P(the quantile lies below the (rank+1)-th smallest of n) = sum over i ≤ rank of C(n, i) share^i (1 - share)^(n - i)
    below = list(itertools.accumulate(math.comb(count, i) * share**i * (1 - share) ** (count - i) for i in range(count)))
    error = (1 - CONFIDENCE) / 2
    low = max((rank for rank in range(count) if below[rank] <= error), default=0)
    high = min((rank for rank in range(count) if below[rank] >= 1 - error), default=count - 1)
    return low, high


def judge(samples: Sequence[float]) -> tuple[str, str, float]:
    """Status, reason in words, and interquartile range ÷ median."""
    middle = median(samples)
    spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / middle if middle > 0 else 0.0
    if spread > UNSTABLE:
        return "unstable", f"half of the samples lie over a range of {spread:.0%} of the median", spread
    if spread > NOISY:
        return "noisy", f"half of the samples lie over a range of {spread:.0%} of the median", spread
    return "ok", "", spread


def timing_of(samples: Sequence[float], share: float = MEDIAN) -> Timing:
    """Timing from samples: their quantile, its interval, and a status from their spread."""
    status, detail, spread = judge(samples)
    return Timing(tuple(samples), quantile(samples, share), *quantile_interval(samples, share), spread, status, detail)


def measure(
    timer: Timer,
    call: Callable[[], Any],
    *,
    cap_s: float,
    stopping: Callable[[], bool],
    progress: Callable[[float], None],
    threads: int | None = None,
    share: float = MEDIAN,
    settled: Callable[[], None] = lambda: None,
) -> Timing:
    """Sample `call` until the quantile `share` is known to 1 %, or `cap_s` seconds have passed; raises `Stopped` once `stopping` returns True.

    `threads`: CPU threads that the call keeps busy, to detect competing load; 0: only waiting is checked, since parts of the call
    have one thread; None: not a CPU measurement. `settled` is called between warm-up and the first sample.
    """
    rough_s = timer.settle(call)
    settled()
    samples: list[float] = []
    before = CpuUse.now()
    begin = time.perf_counter()
    while True:
        if stopping():
            raise Stopped
        samples += timer.batch(call, rough_s)
        elapsed = time.perf_counter() - begin
        progress(min(1.0, max(elapsed / cap_s, len(samples) / MOST)))
        low, high = quantile_interval(samples, share)
        known = len(samples) >= FEWEST and elapsed >= LONG_ENOUGH_S and (high - low) / 2 <= PRECISION * quantile(samples, share)
        if known or len(samples) >= MOST or elapsed >= cap_s:
            break
    timed = timing_of(samples, share)
    if threads is not None and (crowding := CpuUse.now().crowding_since(before, threads if rough_s >= LONG_CALL_S else 0)):
        return replace(timed, status="shared", detail=crowding)
    return timed


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Time that this process ran and waited, to distinguish a slow device from a busy one."""

    wall_s: float
    running_s: float
    waiting_s: float | None
    """Time that its threads were ready to run but had no core (Linux); None if the system does not state it."""
    machine: tuple[float, float] | None = None
    """Total busy and idle seconds of all cores of the machine (Linux)."""

    @classmethod
    def now(cls) -> CpuUse:
        """Totals since the process began, and since the machine started."""
        spent = os.times()
        return cls(time.perf_counter(), spent.user + spent.system, _waited_s(), _machine_s())

    def crowding_since(self, before: CpuUse, threads: int) -> str:
        """Reason why a figure taken in between is disturbed by others; empty if it is not."""
        wall = (self.wall_s - before.wall_s) * threads
        running = self.running_s - before.running_s
        if self.waiting_s is not None and before.waiting_s is not None:
            waiting = self.waiting_s - before.waiting_s
            if waiting > STARVED * (running + waiting):
                return f"other programs held the cores: threads waited {waiting / (running + waiting):.0%} of their time"
        if self.machine is not None and before.machine is not None:
            busy, idle = (now - then for now, then in zip(self.machine, before.machine, strict=True))
            if busy - running > BESIDE * (busy + idle) > 0 and idle < LEFT_IDLE * (busy + idle):
                return f"other programs held the cores: they ran {(busy - running) / (busy + idle):.0%} of the machine's time"
        if threads and running < IDLE * wall:
            return f"the cores were not free: {running / wall:.0%} of the time of {threads} threads was spent running"
        return ""


def _waited_s() -> float | None:
    """Seconds that all threads of this process have waited on a run queue (second field of schedstat, nanoseconds)."""
    total = 0
    try:
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208  # twice per point, nothing of a path is needed
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as entry:  # noqa: PTH123  # a file of the kernel
                total += int(entry.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return total / 1e9


def _machine_s() -> tuple[float, float] | None:
    """Busy and idle seconds of all cores (first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal)."""
    try:
        with open("/proc/stat", encoding="ascii") as entry:  # noqa: PTH123  # a file of the kernel
            ticks = [int(word) for word in entry.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 8:
        return None
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), idle / os.sysconf("SC_CLK_TCK")


class CpuTimer:
    """Timer with the wall clock around the call; very short calls are repeated within a sample."""

    flushing = "none"
    warm_s = 0.05
    sample_s = 0.002
    """Shortest sample: the clock and the loop cost well under 1 %."""

    def settle(self, call: Callable[[], Any]) -> float:
        """Warm up with at least one call and 50 ms after the first, which sets libraries up."""
        call()
        begin = time.perf_counter()
        count = 0
        while count < 1 or time.perf_counter() - begin < self.warm_s:
            call()
            count += 1
        return (time.perf_counter() - begin) / count

    def batch(self, call: Callable[[], Any], rough_s: float) -> list[float]:
        """Take one sample, in seconds of one call."""
        repeats = max(1, math.ceil(self.sample_s / max(rough_s, 1e-9)))
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return [(time.perf_counter() - begin) / repeats]
