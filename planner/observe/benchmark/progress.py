"""Progress of a run over all of its workers: the points left for the next one when a worker ends before its time."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench import protocol

if TYPE_CHECKING:
    from planner.observe.benchmark.events import FailureState

MOST_RESTARTS = 3
"""Most workers of one run: a machine that breaks a fourth will break the next one too."""
KILLS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT}
KILLED_FOR_MEMORY = "the system ran out of memory and killed the worker"


class RunProgress:
    """Follows the messages of a run over all of its workers."""

    def __init__(self, *, restarts: bool = True) -> None:
        """`restarts`: whether another worker may take over at all."""
        self._most = MOST_RESTARTS if restarts else 0
        self.restarts = 0
        self.points: dict[str, protocol.Point] = {}
        """Id -> every point that was planned."""
        self.open_point: protocol.Point | None = None
        """The point that has begun and not ended."""
        self.lasting: dict[str, protocol.Result] = {}
        """Results of points that have rounds to come."""
        self._begun = False
        """Whether the present worker has begun a point."""
        self._done: Counter[str] = Counter()
        self._never: dict[str, None] = {}
        self._too_large: dict[str, None] = {}

    def follow(self, message: protocol.Message) -> None:
        """Note what `message` says."""
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
        """Whether nothing is left to measure."""
        return bool(self.points) and not self.points.keys() - self._never.keys()

    @property
    def may_restart(self) -> bool:
        """Whether another worker may be started: this one came as far as a point, something is left, and not too many went."""
        return self._begun and self.restarts < self._most and not self.through

    def restart(self) -> None:
        """Another worker takes over."""
        self.restarts += 1
        self._begun = False

    @property
    def restarts_text(self) -> str:
        """'; the worker was started again twice', or nothing."""
        times = {0: "", 1: "once", 2: "twice"}.get(self.restarts, f"{self.restarts} times")
        return f"; the worker was started again {times}" if times else ""

    def arguments(self, elapsed_s: float) -> list[str]:
        """Options that tell the next worker where the run stands; none for the first one."""
        if not self.restarts:
            return []
        done = [name for name, count in self._done.items() if name not in self._never for _ in range(count)]
        arguments = ["--elapsed-s", f"{elapsed_s:.1f}"]
        for option, names in (("--done", done), ("--never", self._never), ("--too-large", self._too_large)):
            arguments += [option, *names] if names else []
        return arguments


def lost_result(point: protocol.Point, detail: str, *, for_memory: bool) -> protocol.Result:
    """The result of a point whose worker ended before it could send one."""
    return protocol.without_value(point, "oom" if for_memory else "error", detail)


def how_ended(status: int | None) -> tuple[FailureState, str]:
    """Name and words for how a process ended by itself."""
    if status in KILLS and status is not None:
        return "worker-killed", f"the worker was killed (signal {-status})"
    if status is not None and status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else ""
        return "crashed", f"the worker crashed (signal {-status}{f', {name}' if name else ''})"
    return "crashed", f"the worker crashed (exit status {status})"


def memory_kills() -> int:
    """Number of processes killed for want of memory so far: of this container, else of the system; 0 where neither says."""
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
