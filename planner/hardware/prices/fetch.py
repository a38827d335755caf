"""Files of prices over HTTP, with limits of time and size. The only module that fetches prices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.hardware.prices.catalogue_rows import UnusablePrices

TIMEOUT_S = 20.0
"""Limit of connecting, and of each wait for more bytes."""
DEADLINE_S = 240.0
"""Limit of fetching one file as a whole."""
LARGEST_BYTES = 128 * 2**20
"""The largest file of the catalogue has 4 MB."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file as it was served."""

    url: str
    text: str
    modified: dt.date | None
    """None: the server does not state it."""


def fetch_first(urls: Sequence[str], timeout_s: float) -> Fetched:
    """The file at the first of `urls` that answers; raises the `UnusablePrices` of the first URL where none does."""
    wrong: UnusablePrices | None = None
    for url in urls:
        try:
            return fetch(url, timeout_s)
        except UnusablePrices as error:
            wrong = wrong or error
    raise wrong or UnusablePrices("has no address")


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> Fetched:
    """The text at `url` (http, https, file); raises `UnusablePrices` whatever goes wrong on the way."""
    import urllib.error
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    import planner

    request = Request(url, headers={"User-Agent": f"gpu-planner/{planner.__version__}"})  # noqa: S310  # the scheme was checked
    try:
        with urlopen(request, timeout=timeout_s) as answer:  # noqa: S310  # the same
            data = _read_whole(answer.read1, answer.headers.get("Content-Length"))
            modified = _date(answer.headers.get("Last-Modified"))
    except urllib.error.HTTPError as error:
        with error:
            raise UnusablePrices(f"was refused with HTTP {error.code} {error.reason}") from None
    except TimeoutError:
        raise UnusablePrices(f"gave no answer within {timeout_s:g} s") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise UnusablePrices(f"gave no answer within {timeout_s:g} s") from None
        raise UnusablePrices(f"cannot be reached: {reason_of(error.reason)}") from None
    except (OSError, HTTPException) as error:
        raise UnusablePrices(f"broke off: {reason_of(error)}") from None
    try:
        return Fetched(url, data.decode("utf-8-sig"), modified)
    except UnicodeDecodeError:
        raise UnusablePrices("is no table of prices: it is not UTF-8 text") from None


def _read_whole(read: Callable[[int], bytes], promised: str | None) -> bytes:
    """All bytes of an answer; raises `UnusablePrices` where there are fewer than promised, too many, or they come too slowly."""
    import time

    until = time.monotonic() + DEADLINE_S
    parts = bytearray()
    while part := read(1 << 18):
        parts += part
        if len(parts) > LARGEST_BYTES:
            raise UnusablePrices(f"is larger than {LARGEST_BYTES >> 20} MiB")
        if time.monotonic() > until:
            raise UnusablePrices(f"was not through after {DEADLINE_S:g} s")
    if promised is not None and promised.isdigit() and len(parts) < int(promised):
        raise UnusablePrices(f"broke off after {len(parts):,} of {int(promised):,} bytes")
    return bytes(parts)


def _date(stamp: str | None) -> dt.date | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(stamp).astimezone(dt.UTC).date() if stamp else None
    except ValueError:
        return None


def reason_of(error: object) -> str:
    """An exception in words, without its number."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
