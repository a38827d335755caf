"""`--set key=value`: changes to a workload from the command line, and whose fault a problem is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.errors import Problem, Problems, UserError
from planner.present.command_line import value_of
from planner.workload.changes import ABSENT


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


def name_sources(wrong: UserError, settings: Sequence[str], gpus: Sequence[str], where: str) -> UserError:
    """The problems, each said of the option that caused it instead of the preset file `where`."""
    given = [setting.partition("=")[0].strip() for setting in settings]

    def source(problem: Problem) -> Problem:
        if problem.where and problem.where != where:
            return problem
        key = problem.key.partition("[")[0]
        if gpus and key == "gpus_considered":
            return problem._replace(where="--gpu", key="")
        if any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in given):
            return problem._replace(where="--set")
        return problem

    return UserError([source(problem) for problem in wrong.problems])
