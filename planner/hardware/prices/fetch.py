"""Files of prices at a URL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from planner.hardware.prices.catalogue_rows import UnusablePrices
from planner.web import NoAnswerError, read_url

TIMEOUT_S = 60.0
"""Limit of fetching one file as a whole."""
LARGEST_BYTES = 32 * 2**20
"""The largest file of the catalogue has 4 MB."""


class Fetched(msgspec.Struct, frozen=True):
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
    try:
        answer = read_url(url, within_s=timeout_s, most_bytes=LARGEST_BYTES)
    except NoAnswerError as error:
        raise UnusablePrices(str(error)) from None
    try:
        return Fetched(url, answer.body.decode("utf-8-sig"), _date(answer.modified))
    except UnicodeDecodeError:
        raise UnusablePrices("is no table of prices: it is not UTF-8 text") from None


def _date(stamp: str | None) -> dt.date | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(stamp).astimezone(dt.UTC).date() if stamp else None
    except ValueError:
        return None
