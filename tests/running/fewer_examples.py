"""Fewer examples of each rule: `make test` tries a third of those that `make test-sweep` tries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SHARE = 3
"""One of so many examples is tried."""
LEAST = 2
"""Examples that are tried in any case, where a rule has as many: one that holds for many cases at once states few."""


def try_fewer(item: pytest.Item) -> None:
    """Have the test of a rule try fewer examples than it states; one that every case of its file shares is changed once."""
    test: Any = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    stated = getattr(test, "_hypothesis_internal_use_settings", None)
    if stated is None or getattr(test, "tries_fewer", False):
        return
    test.tries_fewer = True
    number = max(-(-stated.max_examples // SHARE), min(stated.max_examples, LEAST))
    test._hypothesis_internal_use_settings = settings(stated, max_examples=number)
