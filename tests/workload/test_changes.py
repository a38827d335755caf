"""Changes of a workload by dotted keys."""

from __future__ import annotations

from typing import Any

import pytest

from planner.workload.changes import ABSENT, fields_of
from planner.workload.presets import read_workload

SERVICE = {"model": "qwen3-8b", "task": "serve", "title": "a chat", "description": "at a rate", "request_rate_per_s": 3.0}


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        ({"concurrency": 20}, {"concurrency": 20}),
        ({"daily_users": 500}, {"daily_users": 500}),
        ({"concurrency": 20, "request_rate_per_s": 4.0}, {"concurrency": 20, "request_rate_per_s": 4.0}),
        ({"request_rate_per_s": ABSENT}, {}),
        ({"input_tokens": 100}, {"request_rate_per_s": 3.0}),
        ({"concurrency": ABSENT}, {"request_rate_per_s": 3.0}),
    ],
)
def test_a_load_given_in_another_way_replaces_the_one_there_was(changes: dict[str, Any], load: dict[str, Any]) -> None:
    fields = fields_of(read_workload(SERVICE, ""), changes)
    found = {key: fields.get(key) for key in ("request_rate_per_s", "daily_users", "concurrency")}
    assert {key: value for key, value in found.items() if value is not None} == load
    told = {key: fields[key] for key in ("title", "description") if fields.get(key)}
    assert told == ({"title": "a chat", "description": "at a rate"} if load == {"request_rate_per_s": 3.0} else {})
