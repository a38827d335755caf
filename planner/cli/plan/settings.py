"""`--set key=value`: changes to a workload from the command line, and whose fault a problem is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from planner.errors import Problem, Problems, UserError
from planner.present.command_line import value_of
from planner.workload.tasks import Workload, trains

ABSENT = object()
"""The value of a key that was given none: it is removed, and the engine chooses."""


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`key=value` texts as a mapping of dotted keys; raises `UserError` with every text that is not one."""
    problems = Problems("--set")
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            problems.add("", f"{setting!r} is not KEY=VALUE, such as targets.p95_request_s=3.")
        else:
            changes[key.strip()] = value_of(text.strip()) if text.strip() else ABSENT
    problems.raise_if_any()
    return changes


def fields_of(workload: Workload, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The wire form of `workload` with `changes` (dotted keys) applied; nothing is validated here.

    An engine that the workload names goes when its task turns from serving to training, or back.
    """
    fields: dict[str, Any] = copy.deepcopy(msgspec.to_builtins(workload))
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
    if "engine" not in changes and trains(fields.get("task")) != trains(workload.task):
        fields.pop("engine", None)
    return fields


def name_sources(wrong: UserError, settings: Sequence[str], gpus: Sequence[str], where: str) -> UserError:
    """The same problems, each said of the option that caused it instead of the preset file `where`."""
    given = [setting.partition("=")[0].strip() for setting in settings]

    def source(problem: Problem) -> Problem:
        if problem.where and problem.where != where:
            return problem
        key = problem.key.partition("[")[0]
        if gpus and key == "gpus_considered":
            return replace(problem, where="--gpu", key="")
        if any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in given):
            return replace(problem, where="--set")
        return problem

    return UserError([source(problem) for problem in wrong.problems])
