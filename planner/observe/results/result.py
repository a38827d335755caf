"""A result file, decoded once for all readers, and its results: settings and measured values in SI."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.numbers import as_number
from planner.reading import check_depth, too_deep
from planner.workload.published.names import Quantity, named_format


@dataclass(frozen=True)
class Contents:
    """Bytes of a file and their origin. Raises `UserError` when they are read as text or JSON but are not."""

    where: str
    data: bytes

    @cached_property
    def text(self) -> str:
        """Bytes as UTF-8, without a byte order mark."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError(Problem(self.where, "", "is not text in UTF-8.")) from None

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text."""
        return self.text.splitlines()

    @cached_property
    def whole_lines(self) -> list[str]:
        """Lines that end with a newline; without it, the last line of a truncated file may lack digits."""
        return self.lines if self.text.endswith(("\n", "\r")) else self.lines[:-1]

    @cached_property
    def is_json(self) -> bool:
        """True if the text begins like a JSON object or list."""
        return self.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}

    @cached_property
    def json(self) -> Any:
        """JSON document; for a file with one object per line, a list of them. Infinity and NaN, which Python writes, are accepted."""
        try:
            found = self._decoded()
        except RecursionError:
            raise too_deep(self.where) from None
        check_depth(found, self.where)
        return found

    def _decoded(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError as error:  # also for a number with thousands of digits
            if getattr(error, "msg", "") != "Extra data":
                raise UserError(Problem(self.where, "", f"is not whole JSON, or was cut off: {error}.")) from None
        found = []
        for number, line in enumerate(self.lines, 1):
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                raise UserError(Problem(f"{self.where}:{number}", "", f"is not whole JSON, or was cut off: {error}.")) from None
        return found

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """JSON objects of the file: the single one, or those of its list or lines; empty for a file that is not JSON."""
        if not self.is_json:
            return []
        listed = self.json if isinstance(self.json, list) else [self.json]
        return [one for one in listed if isinstance(one, dict)]

    def have(self, *keys: str) -> bool:
        """True if there are JSON objects and each has all of `keys`."""
        return bool(self.objects) and all(key in one for one in self.objects for key in keys)


MOST = 1e18
"""Largest credible time, rate or size, in SI."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One tested configuration, and its results."""

    tool: str
    name: str = ""
    """Difference from the other results of its file: 'rate 4/s'."""
    settings: dict[str, Any]
    """Fields of a request that the file states; others are absent."""
    seen: dict[Quantity, float]
    """Quantity of an answer -> value in SI; latencies are means over requests."""
    taken_at: str = ""
    """UTC or local time as in the file; empty if it has none."""
    notes: tuple[str, ...] = ()
    """Remarks on figures that the file counts differently."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible value."""
        for name, value in self.seen.items():
            if not 0 < value <= MOST:
                raise ValueError(f"{name} is {value:g}")


class CollectiveTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of one collective over messages of several sizes, which calibrate the links of a GPU."""

    tool: str
    settings: dict[str, Any]
    """'gpu', 'op', 'ranks', 'nodes', 'fabric', as far as the file states them."""
    series: tuple[tuple[int, float], ...]
    """(bytes, seconds) by size; bytes of the whole message as nccl-tests counts them."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible message or time."""
        for size, seconds in self.series:
            if not (0 < size <= MOST and 0 < seconds <= MOST):
                raise ValueError(f"{size:,} bytes took {seconds:g} s")


Read = Sequence[Result | CollectiveTimes]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format of one tool."""

    tool: str
    recognises: Callable[[Contents], bool]
    """True if a file has this format; never raises for complete text."""
    read: Callable[[Contents], Read]
    """Results of a file of this format. Raises `UserError` for one that lacks a required part."""
    looks_like: str
    """Name or beginning of its file, for a message about a file that no reader recognises."""


def each_object(result: Callable[[dict[str, Any]], Result]) -> Callable[[Contents], Read]:
    """A `read` for files in which every JSON object is one result."""
    return lambda contents: [result(one) for one in contents.objects]


def number(given: Mapping[str, Any], *path: str, scale: float = 1.0) -> float | None:
    """Number at `path` in nested JSON objects times `scale`; None if it is absent, not finite, or no number."""
    found: Any = given
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found) * scale


def known(**values: float | None) -> dict[Any, float]:
    """Values that are known and above 0, because tools write 0 for unmeasured ones."""
    return {name: value for name, value in values.items() if value is not None and value > 0}


def ratio(total: float | None, count: float | None) -> float | None:
    """`total` ÷ `count`; None without either."""
    return total / count if total is not None and count else None


def number_or_text(text: str) -> float | str:
    """`text` as a number if it is one, else unchanged."""
    value = as_number(text)
    return text if value is None else value


def whole(value: float | None) -> int | None:
    """`value` as a whole number of at least 1; None if it is less."""
    return round(value) if value is not None and value >= 0.5 else None


def stated(**fields: Any) -> dict[str, Any]:
    """Fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def served(
    tool: str,
    given: Mapping[str, Any],
    seen: dict[Any, float],
    *,
    model: str = "",
    name: str | None = None,
    taken_at: str = "",
    notes: Iterable[str] = (),
    **fields: Any,
) -> Result:
    """Result of a service under the load `given`; `fields`: further settings; `name`: by default that of the load."""
    rate = given.get("request_rate_per_s")
    of_load = f"rate {rate:g}/s" if rate is not None else f"{given.get('concurrency', '?')} at once"
    settings = {"task": "serve"} | stated(model=model, **fields) | stated(weight_dtype=named_format(model)) | dict(given)
    shown = of_load if name is None else name
    return Result(tool=tool, name=shown, settings=settings, seen=seen, taken_at=taken_at, notes=tuple(notes))


def load(
    rate_per_s: float | None, at_once: float | None, requests: float | None, achieved_per_s: float | None = None
) -> dict[str, Any]:
    """Load as fields of a request: a rate that the server kept up with, else a closed loop of `at_once` clients and `requests`.

    Without a rate and a limit, clients send everything at once.
    """
    kept_up = rate_per_s is not None and (at_once is None or achieved_per_s is None or achieved_per_s >= 0.9 * rate_per_s)
    if kept_up:
        return {"request_rate_per_s": rate_per_s}
    return stated(concurrency=whole(at_once if at_once is not None else requests), requests=whole(requests))
