"""Progress of a run over all of its workers: heartbeats, rate of telemetry, and points left by a worker that ended early."""

from __future__ import annotations

import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.observe.benchmark.events import FailureState

LOADING_S = 120.0
"""Seconds until the worker has to report its device: importing torch from a cold network disk takes long."""
POINT_GRACE_S = 20.0
"""Seconds in addition to four times a point's limit: building its arrays, and the warm-up before the first point of a GPU."""


LOOK_AGAIN_S = 0.5
SUSPENDED_S = 2.0
"""Seconds for which a signal may keep a worker stopped: its measurement is spoiled by then."""


class PollRate:
    """Rate at which this program reads the device's telemetry during each point: every reading takes a lock inside the driver."""

    def __init__(self, polls: Callable[[], int]) -> None:
        self._polls = polls
        self._before = (time.monotonic(), polls())

    def added_to(self, message: protocol.Message) -> protocol.Message:
        """A result with `poll_hz` in its telemetry: readings per second since its point began; other messages are unchanged."""
        now = (time.monotonic(), self._polls())
        if isinstance(message, protocol.Start):
            self._before = now
        if not isinstance(message, protocol.Result):
            return message
        (began_s, first), (ended_s, last) = self._before, now
        rate = max(0, last - first) / max(ended_s - began_s, 1e-3)
        return replace(message, telemetry={**message.telemetry, "poll_hz": round(rate, 2)})


class HangWatch:
    """Checks how long the worker is silent, and how long a point takes."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._silent_after = time.monotonic() + LOADING_S
        self._suspended_since: float | None = None
        self._point: protocol.Point | None = None
        self._point_until = float("inf")

    def note(self, message: protocol.Message, points: dict[str, protocol.Point]) -> None:
        """Record a sign of life; a heartbeat while torch loads does not count."""
        if isinstance(message, protocol.Hello) or points:
            self._silent_after = time.monotonic() + self._silence_s
        if isinstance(message, protocol.Start):
            self._point = points.get(message.point)
            allowed = 4 * self._point.cap_s + self._point.grace_s if self._point else 0.0
            self._point_until = time.monotonic() + POINT_GRACE_S + allowed
        elif isinstance(message, (protocol.Result, protocol.Skip, protocol.Bye)):
            self._point, self._point_until = None, float("inf")

    def look_again_s(self) -> float:
        """Seconds of silence until the next call of `complaint`."""
        return min(LOOK_AGAIN_S, max(0.0, min(self._silent_after, self._point_until) - time.monotonic()))

    def complaint(self, *, suspended: bool) -> str:
        """Reason why the worker counts as hung; empty if it does not. `suspended`: a signal has stopped it, and only another can continue it."""
        now = time.monotonic()
        self._suspended_since = (self._suspended_since or now) if suspended else None
        if self._suspended_since is not None and now >= self._suspended_since + SUSPENDED_S:
            return "stopped by a signal from outside"
        if now < min(self._silent_after, self._point_until):
            return ""
        if self._point is not None and self._point_until <= self._silent_after:
            return f"{self._point.label} did not end"
        return "no sign of life"


MOST_RESTARTS = 3
"""Maximum restarts in one run: a machine that breaks a fourth worker will break the next one too."""
KILLS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT}
KILLED_FOR_MEMORY = "the system ran out of memory and killed the worker"


class RunProgress:
    """State of a run from the messages of all of its workers."""

    def __init__(self, *, restarts: bool = True) -> None:
        """Start tracking a run; `restarts`: True if another worker may take over."""
        self._most = MOST_RESTARTS if restarts else 0
        self.restarts = 0
        self.points: dict[str, protocol.Point] = {}
        """Id -> planned point."""
        self.open_point: protocol.Point | None = None
        """Point that has begun and not ended."""
        self.lasting: dict[str, protocol.Result] = {}
        """Results of points with further rounds."""
        self._begun = False
        """True if the present worker has begun a point."""
        self._done: Counter[str] = Counter()
        self._never: dict[str, None] = {}
        self._too_large: dict[str, None] = {}

    def follow(self, message: protocol.Message) -> None:
        """Update the state by `message`."""
        if isinstance(message, protocol.Plan):
            self.points |= {point.id: point for point in message.points}
        elif isinstance(message, protocol.Start):
            self.open_point, self._begun = self.points.get(message.point), True
        elif isinstance(message, protocol.Skip):
            self.open_point = None
            self._never[message.point] = None
        elif isinstance(message, protocol.Result):
            self._note(message)

    def _note(self, result: protocol.Result) -> None:
        self.open_point = None
        self._done[result.point] += 1
        if result.round < result.rounds and result.value is not None:
            self.lasting[result.point] = result
        else:
            self.lasting.pop(result.point, None)
            self._never[result.point] = None
        if result.status == "oom":
            self._too_large[result.point] = None

    @property
    def through(self) -> bool:
        """True if nothing is left to measure."""
        return bool(self.points) and not self.points.keys() - self._never.keys()

    @property
    def may_restart(self) -> bool:
        """True if another worker may be started: this one reached a point, something is left, and the limit is not reached."""
        return self._begun and self.restarts < self._most and not self.through

    def restart(self) -> None:
        """Update the state for another worker, which takes over."""
        self.restarts += 1
        self._begun = False

    @property
    def restarts_text(self) -> str:
        """Text such as '; the worker was started again twice', or ''."""
        times = {0: "", 1: "once", 2: "twice"}.get(self.restarts, f"{self.restarts} times")
        return f"; the worker was started again {times}" if times else ""

    def arguments(self, elapsed_s: float) -> list[str]:
        """Options for the next worker to continue the run; none for the first one."""
        if not self.restarts:
            return []
        done = [name for name, count in self._done.items() if name not in self._never for _ in range(count)]
        arguments = ["--elapsed-s", f"{elapsed_s:.1f}"]
        for option, names in (("--done", done), ("--never", self._never), ("--too-large", self._too_large)):
            arguments += [option, *names] if names else []
        return arguments


def lost_result(point: protocol.Point, detail: str, *, for_memory: bool) -> protocol.Result:
    """Result of a point whose worker ended before it could send one."""
    return protocol.plain_result(point, None, "", {}, "oom" if for_memory else "error", detail)


class Breakdown(NamedTuple):
    """Premature end of a worker."""

    state: FailureState
    reason: str


def how_ended(status: int | None) -> Breakdown:
    """End of a process that was not requested, by its exit status."""
    if status in KILLS and status is not None:
        return Breakdown("worker-killed", f"the worker was killed (signal {-status})")
    if status is not None and status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else ""
        return Breakdown("crashed", f"the worker crashed (signal {-status}{f', {name}' if name else ''})")
    return Breakdown("crashed", f"the worker crashed (exit status {status})")


def memory_kills() -> int:
    """Number of processes killed for lack of memory so far: in this container, else in the system; 0 if neither is known."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdigit():
                return int(count)
    return 0
