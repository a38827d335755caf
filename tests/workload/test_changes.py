"""Changes of a workload by dotted keys."""

from __future__ import annotations

from typing import Any

import pytest

from planner.numbers import in_unit
from planner.schema import with_numbers
from planner.workload.changes import ABSENT, fields_of
from planner.workload.presets import read_workload
from planner.workload.tasks import Workload

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


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("10h", "h", "10"),
        ("2 d", "h", "48"),
        ("90min", "h", "1.5"),
        ("500ms", "s", "0.5"),
        ("$20", "$", "20"),
        ("1,500 $", "$", "1,500"),
        ("4k tokens", "tokens", "4k"),
        ("600/1500 tokens", "tokens", "600/1500"),
        ("20%", "%", "20"),
        ("10", "h", "10"),
        ("tokens", "tokens", "tokens"),
        ("soon", "s", "soon"),
    ],
)
def test_a_number_may_have_its_unit_behind_it(text: str, unit: str, number: str) -> None:
    assert in_unit(text, unit) == number


def test_a_setting_takes_the_unit_of_its_key_and_no_other() -> None:
    given = with_numbers(Workload, {"targets": {"deadline_h": "10h", "budget_usd": "$20"}, "request_rate_per_s": "5s"})
    assert given == {"targets": {"deadline_h": 10, "budget_usd": 20}, "request_rate_per_s": "5s"}
