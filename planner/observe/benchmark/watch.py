"""Two checks while a worker measures: that it does not hang, and how often this program disturbs it by reading the device."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from bench import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

LOADING_S = 120.0
"""Until the worker has said what it measures: torch on a cold network disk holds the interpreter for long."""
POINT_GRACE_S = 20.0
"""Beyond four times a point's cap: building its arrays, and the soak before the first point of a GPU."""


LOOK_AGAIN_S = 0.5
SUSPENDED_S = 2.0
"""Time a worker may be stopped by somebody's signal: what it measures meanwhile is spoiled, and while torch loads it is silent anyway."""


class PollRate:
    """Rate at which this program reads the device's telemetry beside each point: every reading takes a lock inside the driver."""

    def __init__(self, polls: Callable[[], int]) -> None:
        self._polls = polls
        self._before = (time.monotonic(), polls())

    def added_to(self, message: protocol.Message) -> protocol.Message:
        """A result with `poll_hz` in its telemetry: readings a second since its point began; other messages as they are."""
        now = (time.monotonic(), self._polls())
        if isinstance(message, protocol.Start):
            self._before = now
        if not isinstance(message, protocol.Result):
            return message
        (began_s, first), (ended_s, last) = self._before, now
        rate = max(0, last - first) / max(ended_s - began_s, 1e-3)
        return replace(message, telemetry={**message.telemetry, "poll_hz": round(rate, 2)})


class HangWatch:
    """Time the worker may stay silent, and a point may take."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._silent_after = time.monotonic() + LOADING_S
        self._suspended_since: float | None = None
        self._point: protocol.Point | None = None
        self._point_until = float("inf")

    def note(self, message: protocol.Message, points: dict[str, protocol.Point]) -> None:
        """A sign of life; a heartbeat while torch loads proves nothing yet."""
        if isinstance(message, protocol.Hello) or points:
            self._silent_after = time.monotonic() + self._silence_s
        if isinstance(message, protocol.Start):
            self._point = points.get(message.point)
            allowed = 4 * self._point.cap_s + self._point.grace_s if self._point else 0.0
            self._point_until = time.monotonic() + POINT_GRACE_S + allowed
        elif isinstance(message, (protocol.Result, protocol.Skip, protocol.Bye)):
            self._point, self._point_until = None, float("inf")

    def look_again_s(self) -> float:
        """Seconds of silence after which to ask for a `complaint`."""
        return min(LOOK_AGAIN_S, max(0.0, min(self._silent_after, self._point_until) - time.monotonic()))

    def complaint(self, *, suspended: bool) -> str:
        """Why it counts as hung; empty: it does not. `suspended`: a signal has stopped it, which only another one would end."""
        now = time.monotonic()
        self._suspended_since = (self._suspended_since or now) if suspended else None
        if self._suspended_since is not None and now >= self._suspended_since + SUSPENDED_S:
            return "stopped by a signal from outside"
        if now < min(self._silent_after, self._point_until):
            return ""
        if self._point is not None and self._point_until <= self._silent_after:
            return f"{self._point.label} did not end"
        return "no sign of life"
