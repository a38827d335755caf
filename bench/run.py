"""One run of a suite inside the worker: its orders to stop, its time limit, its heartbeat and progress messages."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType

from bench.channel import Channel
from bench.protocol import Heartbeat, Point, Progress

FAILED = 3
"""Exit status when nothing could be measured; the last message says why."""
GRACE_S = 60.0
"""After the wall cap a point in progress may take this long; then the process ends itself."""
LONGEST_TIMER_S = 7 * 86400.0
QUIET_S = 0.2
"""Least time between two progress messages."""


class Run:
    """One run of a suite: whether it has to stop, how long it runs, and what it reports meanwhile."""

    def __init__(self, channel: Channel, wall_cap_s: float, die_with_ui: bool, elapsed_s: float = 0.0) -> None:
        """`elapsed_s`: time that earlier workers of the same run took."""
        self.channel = channel
        self.wall_cap_s = wall_cap_s
        self.die_with_ui = die_with_ui
        self.begun = time.monotonic() - elapsed_s
        self.reason = ""
        """Reason why the run has to end; empty: it goes on."""
        self._last_progress = 0.0

    def stopping(self) -> bool:
        """Whether to end at the next sample."""
        return bool(self.reason)

    def stop(self, reason: str) -> None:
        """Ask the run to end at the next sample; the first reason is kept."""
        self.reason = self.reason or reason

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGTERM and SIGINT: ask for an orderly end."""
        self.stop("stopped")

    def end_by_kernel(self) -> None:
        """Have the kernel end the process some time after its limit: a library that never returns lets no other code run."""
        left_s = self.begun + self.wall_cap_s + 2 * GRACE_S - time.monotonic()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, min(LONGEST_TIMER_S, max(1.0, left_s)))

    def beat(self) -> None:
        """Send a heartbeat every second, and end the run at its time limit. Runs in a thread of its own."""
        while True:
            elapsed = time.monotonic() - self.begun
            self.channel.send(Heartbeat(elapsed_s=round(elapsed, 1)))
            if elapsed > self.wall_cap_s or not self.channel.has_reader:
                self.stop("wall-cap")
            if elapsed > self.wall_cap_s + GRACE_S:
                os._exit(FAILED)
            time.sleep(1.0)

    def listen(self) -> None:
        """Read 'stop' from standard input, whose end means that the planner is gone. Runs in a thread of its own.

        It reads the descriptor itself, because a buffered reader that blocks at exit holds its lock.
        """
        rest = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(0, 4096):
                *lines, rest = (rest + chunk).split(b"\n")
                if b"stop" in (line.strip() for line in lines):
                    self.stop("stopped")
        if self.die_with_ui:
            self.stop("stopped")

    def progress(self, point: Point, fraction: float, eta_s: float, note: str = "") -> None:
        """Send how far a point is, at most a few times a second."""
        now = time.monotonic()
        if now - self._last_progress >= QUIET_S:
            self._last_progress = now
            self.channel.send(Progress(point=point.id, fraction=round(fraction, 3), eta_s=round(max(0.0, eta_s), 1), note=note))
