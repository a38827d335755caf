"""One run of a suite inside the worker: command line, orders to stop, time limit, heartbeat and progress messages."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from types import FrameType

from bench.channel import Channel
from bench.protocol import Heartbeat, Point, Progress
from bench.study import AXES, DEPTH_LAWS


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options; ends the process with a message if they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure a device; JSON lines out, one message a line.")
    parser.add_argument(
        "--suite",
        default="quick",
        help="quick (calibrates the planner), standard (everything, in rounds), study (training steps), collectives or smoke (self-test)",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda:N, or auto: the first GPU torch can use, else the CPU")
    parser.add_argument("--fd", type=int, help="descriptor for the messages; default: standard output")
    parser.add_argument("--journal", metavar="PATH", help="append every result here as it is taken")
    parser.add_argument("--skip", nargs="*", default=[], metavar="ID", help="points not to measure")
    parser.add_argument("--skip-if", metavar="FINGERPRINT", help="skip them only where machine and software are these")
    parser.add_argument("--shapes", nargs="*", default=[], type=_shape, metavar="MxNxK", help="further products to measure")
    parser.add_argument(
        "--ranks", type=int, help="GPUs or processes of the collectives (default: all GPUs; two processes on a CPU)"
    )
    parser.add_argument("--axis", choices=AXES, default="width", help="of the study: the model grows, or the batch")
    parser.add_argument(
        "--depth-law", default="printed", type=_depth_law, help="of the study: printed, log2, or a number of layers"
    )
    parser.add_argument("--vocabulary", type=int, help="of the study's models (default: as fits the device)")
    parser.add_argument("--wall-cap-s", type=float, help="end after this many seconds (default: as the suite says)")
    parser.add_argument("--done", nargs="*", default=[], metavar="ID", help="rounds an earlier worker of this run has measured")
    parser.add_argument("--never", nargs="*", default=[], metavar="ID", help="points that this run has finished")
    parser.add_argument("--too-large", nargs="*", default=[], metavar="ID", help="the ones among them that ran out of memory")
    parser.add_argument("--elapsed-s", type=float, default=0.0, help="of the run, before this worker")
    parser.add_argument("--die-with-ui", action="store_true", help="stop when standard input ends")
    return parser.parse_args(arguments)


def _shape(text: str) -> tuple[int, int, int]:
    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"'{text}' is not m x n x k, like 1024x3072x1024")
    m, n, k = map(int, sizes)
    return m, n, k


def _depth_law(text: str) -> str:
    if text not in DEPTH_LAWS and not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not {', '.join(DEPTH_LAWS)} or a number of layers")
    return text


FAILED = 3
"""Exit status if nothing could be measured; the last message is the reason."""
GRACE_S = 60.0
"""Seconds that a point in progress may take after the time limit; then the process ends itself."""
LONGEST_TIMER_S = 7 * 86400.0
QUIET_S = 0.2
"""Shortest time between two progress messages."""


class Run:
    """One run of a suite: its time limit, whether it has to stop, and its reports."""

    def __init__(self, channel: Channel, wall_cap_s: float, die_with_ui: bool, elapsed_s: float = 0.0) -> None:
        """Run that reports to `channel`; `elapsed_s`: time that earlier workers of the same run took."""
        self.channel = channel
        self.wall_cap_s = wall_cap_s
        self.die_with_ui = die_with_ui
        self.begun = time.monotonic() - elapsed_s
        self.reason = ""
        """Reason why the run has to end; empty: it goes on."""
        self._last_progress = 0.0

    def stopping(self) -> bool:
        """True if the run has to end at the next sample."""
        return bool(self.reason)

    def stop(self, reason: str) -> None:
        """Make the run end at the next sample; the first reason is kept."""
        self.reason = self.reason or reason

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGTERM and SIGINT: request a proper end."""
        self.stop("stopped")

    def end_by_kernel(self) -> None:
        """Make the kernel end the process some time after its limit, because a library that never returns lets no other code run."""
        left_s = self.begun + self.wall_cap_s + 2 * GRACE_S - time.monotonic()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, min(LONGEST_TIMER_S, max(1.0, left_s)))

    def beat(self) -> None:
        """Send a heartbeat every second, and end the run at its time limit. Runs in a separate thread."""
        while True:
            elapsed = time.monotonic() - self.begun
            self.channel.send(Heartbeat(elapsed_s=round(elapsed, 1)))
            if elapsed > self.wall_cap_s or not self.channel.has_reader:
                self.stop("wall-cap")
            if elapsed > self.wall_cap_s + GRACE_S:
                os._exit(FAILED)
            time.sleep(1.0)

    def listen(self) -> None:
        """Read 'stop' from standard input, whose end means that the planner is gone. Runs in a separate thread.

        Reads the descriptor directly: a buffered reader that blocks at exit holds its lock.
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
        """Send the progress of a point, at most a few times per second."""
        now = time.monotonic()
        if now - self._last_progress >= QUIET_S:
            self._last_progress = now
            self.channel.send(Progress(point=point.id, fraction=round(fraction, 3), eta_s=round(max(0.0, eta_s), 1), note=note))
