"""Lines of the log of predictions: JSON, each holding one prediction, one result, or a removal."""

import hashlib
import math
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

LAYOUT = 1
"""Version of the lines; raised when a field is added or changes its meaning, so that earlier versions leave the file alone."""
Origin = Literal["plan", "benchmark", "import", "job"]


Quantity = Annotated[float, Meta(ge=0, le=1e30)]


class Range(msgspec.Struct, frozen=True, array_like=True):
    """A predicted figure in SI units, with its range of nine in ten."""

    value: Quantity
    low: Quantity
    high: Quantity

    @property
    def half_width(self) -> float:
        """Half width of the logarithm; 0 of an exact figure."""
        return math.log(self.high / self.low) / 2 if 0 < self.low < self.high else 0.0


class Predicted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prediction of one candidate."""

    id: str
    """Eight digits, from the question and the answer: the same twice is kept once."""
    at: str
    """UTC, ISO 8601."""
    origin: Origin
    request: dict[str, Any]
    """Candidate, as a line of `estimate` states it."""
    figures: dict[str, Range]
    """Ranges by the name they have in an answer."""
    kinds: dict[str, str] = {}
    """Figure -> the kind whose range it has, one of `published.spreads.KINDS`."""
    basis: str
    version: str

    @property
    def what(self) -> str:
        """Summary of the question: 'serve llama-3.1-8b on 2 × H100'."""
        model = self.request.get("model")
        name = model if isinstance(model, str) else "a model of its own"
        return f"{self.request.get('task')} {name} on {self.request.get('gpus') or 1} × {self.request.get('gpu')}"


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measured figure of a prediction."""

    id: str
    figure: str
    value: Annotated[float, Meta(ge=1e-30, le=1e30)]
    at: str
    source: str = ""


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line, which gives exactly one of these."""

    layout: int | None = None
    predicted: Predicted | None = None
    seen: Seen | None = None
    removed: tuple[str, ...] = ()


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that was predicted and then seen."""

    id: str
    kind: str
    """One of `published.spreads.KINDS`, or the figure's name."""
    origin: str
    gpu: str
    gpus: int
    model: str
    predicted: Range
    seen: float
    at: str
    """Time of the measurement."""
    source: str = ""


encoded = msgspec.json.Encoder().encode_lines
"""Writes entries as JSON lines."""
_DECODER = msgspec.json.Decoder(LogLine)


def utc_now() -> str:
    """Time of an entry, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def identity(request: Mapping[str, Any], figures: Mapping[str, Range]) -> str:
    """Id of a prediction."""
    return hashlib.sha256(msgspec.json.encode((request, figures), order="deterministic")).hexdigest()[:8]


def decoded(text: bytes) -> tuple[list[LogLine], int]:
    """(valid lines, number of the others)."""
    found, damaged = list[LogLine](), 0
    for raw in filter(None, text.split(b"\n")):
        try:
            line = _DECODER.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            damaged += 1
            continue
        if line.predicted is not None and not isinstance(line.predicted.request.get("gpus", 1), int):
            damaged += 1
        else:
            found.append(line)
    return found, damaged
