"""Dotted keys of nested tables, their labels, and changes of a workload by such keys, as in `--set` and the Python interface."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from planner.paths import read_shipped_part
from planner.workload.tasks import Workload, trains

ABSENT = object()
"""Value of a key that was set to none: it is removed, and the engine chooses."""
IN_TITLES = ("model", "task", "request_rate_per_s", "daily_users", "concurrency", "requests", "train_tokens")
"""Keys that titles of workloads mention."""
LOADS = ("request_rate_per_s", "daily_users", "concurrency")
"""Keys that each give the load of a service."""

LABELS = read_shipped_part(dict[str, str], "labels", "screen", "labels.toml")
"""Key -> its label in the form."""


def fields_of(workload: Workload, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Wire form of `workload` with `changes` (dotted keys) applied; nothing is validated here.

    The engine is removed when the task changes between serving and training; title and description when the model, task or load
    they describe changes; a load when it is given in another way.
    """
    before = msgspec.to_builtins(workload)
    fields = with_title(with_one_load(with_settings(before, changes), changes), before, changes)
    if "engine" not in changes and trains(fields.get("task")) != trains(workload.task):
        fields.pop("engine", None)
    return fields


def with_one_load(fields: Mapping[str, Any], changed: Collection[str]) -> dict[str, Any]:
    """`fields` without the previous load, where those `changed` give it in another way: at a rate, by users per day, or in flight."""
    given = {key for key in LOADS if key in changed and fields.get(key) is not None}
    return {key: value for key, value in fields.items() if not given or key not in LOADS or key in changed}


def with_title(fields: Mapping[str, Any], before: Mapping[str, Any], changes: Collection[str] = ()) -> dict[str, Any]:
    """`fields`, made from `before`, with its title and description if these still describe it; those among `changes` are kept."""
    alike = all(fields.get(key) == before.get(key) for key in IN_TITLES)
    titled = dict(fields)
    for key in ("title", "description"):
        if key in changes:
            continue
        if alike and key in before:
            titled[key] = before[key]
        elif not alike:
            titled.pop(key, None)
    return titled


def leaves(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in nested tables; lists and empty tables stay as they are."""
    for key, value in tables.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def with_settings(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `given` with `changes` (dotted keys) applied; nothing is validated here."""
    fields: dict[str, Any] = copy.deepcopy(dict(given))
    for dotted, value in changes.items():
        *tables, key = dotted.split(".")
        table = fields
        for name in tables:
            inner = table.get(name)
            if not isinstance(inner, dict):
                inner = table[name] = {}
            table = inner
        if value is ABSENT:
            table.pop(key, None)
        else:
            table[key] = value
    return fields
