"""Where the time goes on the command line: the same operators as text and as JSON."""

from __future__ import annotations

import re

import msgspec
import pytest
from repository import RunPlanner

from planner.engine.answers.plan import Plan

pytestmark = pytest.mark.usefixtures("planned_once")
PRESET = "qwen3-8b-single-user-chat"


def test_operators_in_json_add_up_in_every_row(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--time", "--json", "--top", "12")
    assert done.returncode == 0, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan, strict=True)
    told = [row for row in plan.rows if row.time_detail]
    assert len(told) >= 7
    for row in told:
        assert row.time_detail is not None
        assert row.memory_detail is None
        whole = sum(one.seconds for one in row.time_detail.operators)
        assert whole == pytest.approx(sum(row.answer.seconds_by_class.values()))
        assert whole == pytest.approx(row.time_detail.total_s)
        assert {one.phase for one in row.time_detail.operators} == {"prefill", "decode"}


def test_rows_stay_lean_where_nobody_asks(run_planner: RunPlanner) -> None:
    assert "time_detail" not in run_planner("plan", PRESET, "--json").stdout


def test_the_text_holds_phases_shapes_and_roofs(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--time", "--gpu", "H100 SXM", "--top", "1")
    assert done.returncode == 0, done.stderr
    told = done.stdout.partition("\nTime of ")[2]
    assert told.startswith("one batch of requests on 1 × H100 SXM5 80GB: ")
    assert re.search(r"^  prefill +[\d.]+ ms +\d+ %  bound by compute for \d+ % of it, [\d.]+ TFLOP a GPU$", told, re.MULTILINE)
    assert re.search(r"^  decode +[\d.]+ s +\d+ %  bound by bandwidth for \d+ % of it", told, re.MULTILINE)
    assert re.search(r" MLP gate +1·12,288·4,096 +[\d,]+ +[\d.]+ T +[\d,.]+ GiB +1\.00 +[\d.]+ ms +\d+ %  bandwidth", told)
    assert re.search(r"^  bf16 +[\d.]+ TFLOP/s  of 989 TFLOP/s", told, re.MULTILINE)
    assert re.search(r"^  ridge point +\d+ FLOP/B  295 by the data sheet", told, re.MULTILINE)


def test_memory_and_time_go_together(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--time", "--memory", "--top", "1")
    assert done.stdout.index("\nMemory of ") < done.stdout.index("\nTime of ")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_fits_the_terminal(run_planner: RunPlanner, columns: int) -> None:
    done = run_planner("plan", "llama-3.1-8b-full-finetune", "--time", "--top", "1", COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("operator ")[2]
    assert len(table.splitlines()) > 20
    assert all(len(line) <= columns for line in table.splitlines() if not re.search("TFLOP/s  of|^ +gpu-planner ", line))


@pytest.mark.parametrize("form", ["--csv", "--markdown"])
def test_tables_for_programs_take_no_operators(run_planner: RunPlanner, form: str) -> None:
    done = run_planner("plan", PRESET, "--time", form)
    assert done.returncode == 2
    assert "--time" in done.stderr
    assert form in done.stderr
