"""Memory item by item and levers on the command line: the same bytes as text and as JSON."""

from __future__ import annotations

import re

import msgspec
import pytest
from repository import RunPlanner

from planner.engine.answers.plan import Plan
from planner.present.choice.levers import NONE_WOULD_DO

pytestmark = pytest.mark.usefixtures("planned_once")
PRESET = "llama-3.1-8b-full-finetune"


def test_items_in_json_add_up_in_every_row(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--memory", "--json", "--top", "12")
    assert done.returncode == 0, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan, strict=True)
    told = [row for row in plan.rows if row.memory_detail]
    assert len(told) >= 12
    for row in told:
        assert row.memory_detail is not None
        assert row.answer.memory_bytes is not None
        assert sum(item.bytes for item in row.memory_detail.items) == pytest.approx(row.answer.memory_bytes.total.value)
        assert row.memory_detail.total_bytes == row.answer.memory_bytes.total.value


def test_rows_stay_lean_where_nobody_asks(run_planner: RunPlanner) -> None:
    assert "memory_detail" not in run_planner("plan", PRESET, "--json").stdout


def test_the_best_row_of_every_gpu_asked_for_is_itemised(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--memory", "--gpu", "H200 SXM", "--gpu", "L40S", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    headings = re.findall(r"^Memory of (\d+) × (.+?) as ", done.stdout, re.MULTILINE)
    assert sorted(name for _, name in headings) == ["H200 SXM", "L40S"]
    first = run_planner("plan", PRESET, "--memory", COLUMNS="200").stdout
    assert len(re.findall(r"^Memory of ", first, re.MULTILINE)) == 1


def test_the_text_holds_formulas_sources_and_what_is_left(run_planner: RunPlanner) -> None:
    done = run_planner("plan", PRESET, "--memory", "--gpu", "H200 SXM", COLUMNS="250")
    itemised = done.stdout.partition("\nMemory of ")[2]
    assert re.search(r"^weights +[\d.]+ GiB +\d+ % +\S.* · .*  \S", itemised, re.MULTILINE)
    for what in ("on the data sheet", "for programs", "usable", "needed", "left"):
        assert re.search(rf"^  {what} +[\d.,]+ GiB", itemised, re.MULTILINE), what
    assert "{" not in itemised


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_the_terminal(run_planner: RunPlanner, columns: int) -> None:
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--memory", "--top", "1", COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    assert "Memory of" in done.stdout
    assert all(len(line) <= columns for line in done.stdout.partition("Memory of")[2].splitlines())


@pytest.mark.parametrize("form", ["--csv", "--markdown"])
def test_tables_for_programs_take_no_items(run_planner: RunPlanner, form: str) -> None:
    done = run_planner("plan", PRESET, "--memory", form)
    assert done.returncode == 2
    assert not done.stdout
    assert "--memory" in done.stderr
    assert form in done.stderr


def test_where_no_lever_is_enough_that_is_said(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--gpu", "B300 SXM", "--set", "targets.p95_request_s=0.5")
    assert done.returncode == 1, done.stderr
    assert done.stdout.rstrip().endswith(f"What would change it\n{NONE_WOULD_DO}")
    refused = run_planner("plan", "llama-3.1-70b-chat-service", "--gpu", "T4")
    assert refused.returncode == 1, refused.stderr
    assert NONE_WOULD_DO not in refused.stdout, "the row says what it lacks; nothing was tried"


@pytest.mark.sweep
def test_levers_say_what_they_save_and_cost(run_planner: RunPlanner) -> None:
    asked = ("plan", PRESET, "--gpu", "RTX 4090", "--set", "max_gpus=1", "--set", "checkpointing=none", "--set", "lora.rank=16")
    done = run_planner(*asked, "--set", "micro_batch=4", "--set", "recipe=bf16", "--set", "sequence=4096")
    assert done.returncode == 1, done.stderr
    levers = " ".join(done.stdout.partition("What would change it")[2].split())
    assert re.search(r"fits \(saves [\d.,]+ GiB, \d+ % slower", levers), levers
    assert re.search(r"not enough alone .*\(saves [\d.,]+ GiB", levers)
