"""Files of prices at a URL."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue

import msgspec

from planner.hardware.prices.catalogue_rows import UnusablePrices
from planner.web import NoAnswerError, read_url

TIMEOUT_S = 60.0
"""Time limit for one file."""
TOTAL_S = 120.0
"""Time limit for all files together."""
AT_ONCE = 8
"""Number of files fetched at once."""
LARGEST_BYTES = 32 * 2**20
"""Largest size of a file; the largest of the catalogue has 4 MB."""


class Fetched(msgspec.Struct, frozen=True):
    """A file as it was served."""

    url: str
    text: str
    modified: dt.date | None
    """None: the server does not state it."""


def fetch_each(addresses: Sequence[Sequence[str]], timeout_s: float, within_s: float) -> Iterator[tuple[int, Fetched | Exception]]:
    """(number, file) of each of `addresses`, as it arrives; an `UnusablePrices` in its place after `within_s` seconds.

    The end of the program does not wait for the threads that fetch.
    """
    until_s = time.monotonic() + within_s
    asked: SimpleQueue[int] = SimpleQueue()
    come: SimpleQueue[tuple[int, Fetched | Exception]] = SimpleQueue()
    begun: set[int] = set()
    for number in range(len(addresses)):
        asked.put(number)

    def work() -> None:
        while time.monotonic() < until_s:
            try:
                number = asked.get_nowait()
            except Empty:
                return
            begun.add(number)
            try:
                come.put((number, fetch_first(addresses[number], timeout_s, until_s)))
            except Exception as error:  # noqa: BLE001  # handed to who waits
                come.put((number, error))

    for _ in range(min(AT_ONCE, len(addresses))):
        threading.Thread(target=work, name="prices", daemon=True).start()
    waiting = set(range(len(addresses)))
    while waiting:
        try:
            number, outcome = come.get(timeout=max(0.0, until_s - time.monotonic()))
        except Empty:
            break
        waiting.discard(number)
        yield number, outcome
    for number in sorted(waiting):
        yield number, UnusablePrices(_over(within_s, begun=number in begun))


def _over(within_s: float, *, begun: bool) -> str:
    what = "gave no answer within" if begun else "was not asked within"
    return f"{what} the {within_s:g} s that all files together may take (--within)"


def fetch_first(urls: Sequence[str], timeout_s: float, until_s: float) -> Fetched:
    """File at the first of `urls` that answers before `until_s`; raises the `UnusablePrices` of the first of them."""
    wrong: UnusablePrices | None = None
    for url in urls:
        if wrong and time.monotonic() >= until_s:
            break
        try:
            return fetch(url, timeout_s)
        except UnusablePrices as error:
            wrong = wrong or error
    raise wrong or UnusablePrices("has no address")


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> Fetched:
    """Text at `url` (http, https, file); raises `UnusablePrices` for every failure."""
    try:
        answer = read_url(url, within_s=timeout_s, most_bytes=LARGEST_BYTES)
    except NoAnswerError as error:
        raise UnusablePrices(str(error)) from None
    try:
        return Fetched(url, answer.body.decode("utf-8-sig"), _date(answer.modified))
    except UnicodeDecodeError:
        raise UnusablePrices("is not a table of prices: it is not UTF-8 text") from None


def _date(stamp: str | None) -> dt.date | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(stamp).astimezone(dt.UTC).date() if stamp else None
    except ValueError:
        return None
