"""Messages of the worker, one JSON object per line, and the names of machines in results.

The only part of `bench` that the planner imports. A reader ignores unknown message types and keys, and lines that are cut short, so an
older planner can listen to a newer worker and vice versa.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

SCHEMA = 1
"""Version of these messages; raised when a field changes its meaning."""
METHOD = 2
"""Version of the way of measuring; raised when numbers before and after are not comparable."""
SUITES = ("quick", "standard", "study", "collectives", "prove", "smoke")
"""`quick` calibrates the planner in under a minute; `standard` measures everything, in rounds, within ten; `study` measures training steps
over model or batch sizes; `collectives` what ranks do together, including those that torchrun started over several nodes; `prove` what a
first run on a new kind of device has to show, in addition to its expected figures; `smoke` is the self-test: three tiny points, not used for planning.
"""
PROMISED_S = {"quick": 90.0, "standard": 600.0, "study": 900.0}
"""Maximum time of each suite on a GPU. On a CPU `quick` takes a minute."""
RELIABLE = ("ok", "noisy")
"""Statuses whose value may be used as it is; the others are stored for inspection."""

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
BROKEN_DEVICE = (
    "CUDA error",
    "HIP error",
    "illegal memory access",
    "unspecified launch failure",
    "device-side assert",
    "ECC error",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_EXECUTION_FAILED",
)
"""Messages after which a CUDA context answers only with errors, so that the process has to end."""
REFUSED = ("_NOT_SUPPORTED", "_ARCH_MISMATCH", "_INVALID_VALUE", "no kernel image", "operation not supported")
"""Words with which a library refuses work; also a "CUDA error", but the context stays usable."""


def breaks_device(message: str) -> bool:
    """True if a CUDA context answers only with errors after this message."""
    return any(mark in message for mark in BROKEN_DEVICE) and not any(mark in message for mark in REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing to be measured."""

    id: str
    """Stable over runs and machines: 'gemm/bf16/1024x1024x1024'."""
    kind: str
    """Operation, which determines the unit of the value: 'gemm', 'copy', 'train', …"""
    label: str
    device: str
    """Device on which it runs: 'cpu' or 'cuda:0'."""
    expected_s: float
    cap_s: float
    """Seconds after which sampling ends with the samples so far; after four times that and `grace_s` the worker counts as hung."""
    grace_s: float = 0.0
    """Additional seconds before the first sample, for compiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message once torch is loaded: the measuring process and its device."""

    type: ClassVar[str] = "hello"
    schema: int
    method: int
    pid: int
    device: str
    """'cpu' or 'cuda:0'."""
    device_name: str
    """The GPU's name as its driver reports it, or the CPU's model name."""
    machine: dict[str, Any]
    """Facts that identify the device; see `machine_key`."""
    software: dict[str, Any]
    """Facts that may change its speed without changing the device; see `fingerprint`."""
    environment: dict[str, Any]
    """Other facts that may explain the numbers; no host, user or path names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All points of the run, in order."""

    type: ClassVar[str] = "plan"
    suite: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start of a point."""

    type: ClassVar[str] = "start"
    point: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a point, at most a few times a second."""

    type: ClassVar[str] = "progress"
    point: str
    fraction: float
    """Completed share of this point, 0 to 1."""
    eta_s: float
    """Expected time to the end of the whole run."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished point, or a finished round of it. `value` is in `unit`; None without one, with the reason in `detail`."""

    type: ClassVar[str] = "result"
    point: str
    kind: str
    dtype: str | None
    parameters: dict[str, Any]
    value: float | None
    low: float | None
    high: float | None
    """95 % order-statistic interval of the quantile that stands for a call: the median on a GPU, the lower quartile on a CPU."""
    unit: str
    status: str
    """'ok', 'noisy', 'unstable', 'shared', 'throttled', 'oom', 'unsupported' or 'error'."""
    detail: str = ""
    samples_s: tuple[float, ...] = ()
    """Seconds of one call, in the order taken."""
    flop: float | None = None
    """Arithmetic of one call."""
    bytes: float | None = None
    """Memory traffic of one call."""
    peak_memory_bytes: float | None = None
    spread: float | None = None
    """Interquartile range of the samples ÷ their median."""
    round: int = 1
    rounds: int = 1
    """Number of this round. A result holds the samples of all rounds so far, so that the last one is complete."""
    telemetry: dict[str, Any] = field(default_factory=dict)
    """The device during the timed region: clocks, power, energy, shares held down, hardware counters."""
    taken_at: str = ""
    """UTC, ISO 8601."""


def plain_result(
    point: Point, value: float | None, unit: str, parameters: dict[str, Any], status: str = "ok", detail: str = ""
) -> Result:
    """A result of one value without samples; for a point without a value `detail` is the reason."""
    return Result(
        point=point.id,
        kind=point.kind,
        dtype=None,
        parameters=parameters,
        value=value,
        low=value,
        high=value,
        unit=unit,
        status=status,
        detail=detail,
        taken_at=utc_now(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A point that is not measured, and the reason."""

    type: ClassVar[str] = "skip"
    point: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A failure at `point`, or before any point when it is None."""

    type: ClassVar[str] = "error"
    name: str
    """Class of the exception, or 'NoTorch', 'NoDevice', 'NoSuite'."""
    message: str
    retryable: bool = False
    point: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Sign of life sent once per second from a separate thread."""

    type: ClassVar[str] = "heartbeat"
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """Last message of a proper end."""

    type: ClassVar[str] = "bye"
    reason: str
    """Reason for the end: 'finished', 'stopped', 'wall-cap' or 'failed'."""


Message = Hello | Plan | Start | Progress | Result | Skip | Error | Heartbeat | Bye
_TYPES: dict[str, type[Message]] = {kind.type: kind for kind in (Hello, Plan, Start, Progress, Result, Skip, Error, Heartbeat, Bye)}
_Record = TypeVar("_Record", bound="Point | Message")


def encode(message: Message) -> bytes:
    """One line, newline included. A number that is not finite becomes null."""
    body = {"type": message.type, **_finite(dataclasses.asdict(message))}
    return (
        json.dumps(body, separators=(",", ":"), allow_nan=False, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
    )


def decode(line: bytes) -> Message | None:
    """Message in `line`, or None when it is cut short, of an unknown type, or lacks a required field."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    kind = _TYPES.get(str(body.get("type")))
    if kind is None:
        return None
    if kind is Plan and isinstance(body.get("points"), list):
        points = (_build(Point, entry) for entry in body["points"] if isinstance(entry, dict))
        body["points"] = tuple(point for point in points if point is not None)
    if kind is Result and isinstance(body.get("samples_s"), list):
        body["samples_s"] = tuple(body["samples_s"])
    return _build(kind, body)


class MessageReader:
    """Reader that divides a byte stream into messages, and stores the beginning of an incomplete line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Messages completed by `chunk`."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            message = decode(line)
            if message is not None:
                yield message


def machine_key(machine: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that identify a device of a machine, the same after a restart.

    `machine` holds `device` (its name) and, for a CPU, `cores` (visible to the process) and `arch`; for a GPU, `uuid` as `hidden`
    returns it.
    """
    return _digest(machine)[:12]


def fingerprint(machine: Mapping[str, Any], software: Mapping[str, Any]) -> str:
    """`machine_key`, a dash, and eight digits of the software: torch and CUDA to the minor version, threads, method.

    Results of two runs are comparable when their fingerprints are equal.
    """
    return f"{machine_key(machine)}-{_digest(software)[:8]}"


def hidden(identifier: str) -> str:
    """A serial number as a short hash that cannot be read back ('GPU-…' and '…' give the same)."""
    return hashlib.sha256(identifier.lower().removeprefix("gpu-").encode()).hexdigest()[:16]


def utc_now() -> str:
    """Time of a result, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _digest(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def _build(kind: type[_Record], body: Mapping[str, Any]) -> _Record | None:
    known = {entry.name for entry in dataclasses.fields(kind)}
    try:
        return kind(**{name: value for name, value in body.items() if name in known})
    except TypeError:
        return None


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value
