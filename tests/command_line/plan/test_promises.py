"""What a lever says is what the command that is printed below it finds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from promises import SMALL, checked
from repository import RunPlanner

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("planned_once")]

BITS = ["qwen3-8b-single-user-chat"]
SERVICE = ["qwen3-30b-a3b-service", *SMALL]
CASES = {"fewer bits": BITS, "other terms": ["llama-3.1-8b-lora"]}
LONGER = {"a job that does not fit": ["mixtral-8x7b-lora", *SMALL], "a service that does not fit": SERVICE}


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.thorough) for case in LONGER)])
def test_printed_commands_find_what_their_levers_say(case: str, run_planner: RunPlanner) -> None:
    found = list(checked(run_planner, (CASES | LONGER)[case]))
    assert found
    assert [(text, wrong) for text, wrong in found if wrong] == []


def test_more_gpus_are_no_more_than_are_used(run_planner: RunPlanner) -> None:
    """Two dozen RTX 4090 hold Qwen3 30B-A3B in 16 bit at its rate; the search would go on to 16,384."""
    used = re.compile(r"up to (\d+) GPUs: then \1 × RTX 4090 ")
    found = (wrong for text, wrong in checked(run_planner, SERVICE) if used.match(text))
    assert next(found, "no lever says so") == ""


def test_a_broken_promise_is_found(run_planner: RunPlanner) -> None:
    def without_solutions(*arguments: str, **variables: str) -> Any:
        done = run_planner(*arguments, **variables)
        if "--json" in arguments and "--set" in arguments:
            done.stdout = re.sub(r'"rank": ?\d+', '"rank":null', done.stdout)
        return done

    assert [wrong for _, wrong in checked(without_solutions, BITS)] == ["there is no solution"]
