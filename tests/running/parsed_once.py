"""TOML that is parsed once in a process: a thousand tests read the same catalogue, each in a session of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Parse = Callable[[str], dict[str, Any]]
MOST_KEPT = 2048
"""Texts; the catalogue has some four hundred."""


def parsed_once(parse: Parse) -> Parse:
    """`parse` with what it made of the last texts kept: each caller gets tables of its own, which it may change."""

    @lru_cache(MOST_KEPT)
    def kept(text: str) -> bytes:
        return pickle.dumps(parse(text), pickle.HIGHEST_PROTOCOL)

    def parsed(text: str) -> dict[str, Any]:
        found: dict[str, Any] = pickle.loads(kept(text))  # noqa: S301  # pickled above
        return found

    return parsed
