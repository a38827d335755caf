"""Fields of the workload form: which a task has, and what they are about; each is a row of `presets/screen/fields.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from planner.engine.job.engines import ENGINES, GENERIC
from planner.paths import read_shipped_part
from planner.schema import choices_of
from planner.workload.tasks import Workload, trains
from widgets.panes.workload.field import Field
from widgets.panes.workload.values import NO, YES, get

TRAINERS = tuple(name for name, records in ENGINES.items() if records[0].trains)
SERVERS = tuple(name for name, records in ENGINES.items() if records[0].generates and name != GENERIC)
FOLDED = ("offers", "advanced")
"""Groups that few people need, folded until somebody opens them."""


def _choices(field: Field) -> tuple[str, ...]:
    if field.key == "engine":
        return TRAINERS if all(map(trains, field.tasks)) else SERVERS
    return (NO, YES) if field.kind == "switch" else field.choices or choices_of(Workload, field.key)


FIELDS = tuple(
    replace(field, choices=_choices(field)) if field.picked else field
    for field in read_shipped_part(tuple[Field, ...], "fields", "screen", "fields.toml")
)
GROUPS = tuple(dict.fromkeys(field.group for field in FIELDS))
"""Headings in the order they stand; fields without one are at the top."""


def fields_for(workload: Mapping[str, Any]) -> list[Field]:
    """Fields that make sense for a workload, in the order they stand."""
    task = workload.get("task")
    return [field for field in FIELDS if task in field.tasks and (not field.needs or get(workload, field.needs) is not None)]
