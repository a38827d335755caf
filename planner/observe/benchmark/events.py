"""Events of a benchmark run for front ends. The last one is always `Finished` or `Failed`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench.protocol import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.hardware.measurements.measurement import Measurement
    from planner.observe.benchmark.interpreter import Interpreter

FailureState = Literal[
    "no-interpreter",
    "not-python",
    "too-old",
    "no-torch",
    "no-device",
    "no-suite",
    "no-peers",
    "busy",
    "worker-killed",
    "hung",
    "crashed",
]
EndState = Literal["finished", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Points to measure, the interpreter, and the journal."""

    state: Path
    """State folder."""
    suite: str = "quick"
    device: str = "auto"
    """'cpu', 'cuda:N', or 'auto': the first GPU that the interpreter's torch can use, else the CPU."""
    python: Path | None = None
    """Path of the interpreter; None: the running one."""
    skip: tuple[str, ...] = ()
    """Ids of points not to measure."""
    skip_if: str | None = None
    """Fingerprint for which `skip` applies; on another machine or software all points are measured."""
    options: tuple[str, ...] = ()
    """Further arguments of the worker, such as the part of the study, or a time limit."""
    polls: Callable[[], int] | None = None
    """Number of times this program has read the device's telemetry so far; its rate is stored with each point. None: it does not read any."""
    restarts: bool = True
    """True if another worker may take over from one that broke; ranks of other nodes cannot be connected a second time."""
    silence_s: float = 10.0
    """Seconds without a sign of life after which the worker counts as hung."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """The interpreter was found; torch is being loaded, which takes a second or more."""

    interpreter: Interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Start of measuring."""

    run: str
    suite: str
    device: str
    """Canonical name."""
    fingerprint: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class PointStarted:
    """Start of a point."""

    point: Point


@dataclass(frozen=True, slots=True)
class PointProgress:
    """Progress of a point."""

    point: Point
    fraction: float
    """Completed share of this point, 0 to 1."""
    eta_s: float
    """Expected time to the end of the run."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RoundDone:
    """End of a round of a point that will be measured again later."""

    point: Point
    number: int
    """Number of the round, from 1."""
    of: int


@dataclass(frozen=True, slots=True)
class PointDone:
    """A measured and stored point."""

    point: Point
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class PointSkipped:
    """A point that is not measured, and the reason."""

    point: Point
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRestarted:
    """Replacement of a worker that ended early; the point it broke on was sent as `PointDone` before."""

    reason: str
    """Description of how the worker ended, and its point."""
    number: int
    """Number of the restart, from 1."""
    most: int
    """Maximum number of restarts of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """End of a run that completed or was cancelled; its results are in the store, or in memory."""

    state: EndState
    run: str
    kept: int
    """Results on disk, including those without a value."""
    waiting: int = 0
    """Results only in memory."""
    elapsed_s: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """End of a run that failed; earlier results are in the store."""

    state: FailureState
    run: str
    kept: int
    waiting: int = 0
    message: str
    next_step: str
    stderr: tuple[str, ...] = ()
    """Last lines that the worker printed."""


Event = (
    Preparing | Started | PointStarted | PointProgress | RoundDone | PointDone | PointSkipped | WorkerRestarted | Finished | Failed
)
