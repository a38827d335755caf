"""Answers of `plan`: in JSON, in tables and as commands to paste."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from typing import Any

import msgspec
import pytest
from repository import RunPlanner

from planner.cli.plan.options import parse_settings
from planner.engine.answers.plan import Lever, Plan
from planner.present.command_line import PlanCommand, spelled
from planner.workload.tasks import Lora, Targets

pytestmark = pytest.mark.usefixtures("planned_once")


def test_plan_answers_in_json_as_its_schema_says(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--json")
    assert done.returncode == 0, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan, strict=True)
    assert json.loads(msgspec.json.encode(plan)) == json.loads(done.stdout), "a key that the schema does not know"
    assert plan.counts.shown == len(plan.rows)
    assert plan.counts.fit <= plan.counts.considered
    ranks = [row.rank for row in plan.rows if row.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    assert all(row.why for row in plan.rows)
    assert plan.prices_as_of is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", plan.prices_as_of)


def test_the_default_plan_ranks_many_parts_and_providers(run_planner: RunPlanner) -> None:
    plan = msgspec.json.decode(run_planner("plan", "--json").stdout, type=Plan)
    assert len(plan.rows) >= 40
    assert len({row.gpu for row in plan.rows}) >= 15
    assert len({row.offer.provider for row in plan.rows if row.offer}) >= 3


def test_a_table_names_each_gpu_once_unless_rows_are_asked_for(run_planner: RunPlanner) -> None:
    ranks = {
        arguments: re.findall(r"^ *(\d+)  (.*?)  ", run_planner("plan", *arguments, COLUMNS="200").stdout, re.MULTILINE)
        for arguments in [(), ("--top", "12")]
    }
    gpus = [gpu for _, gpu in ranks[()]]
    assert len(gpus) == len(set(gpus)) == 12
    assert [rank for rank, _ in ranks["--top", "12"]] == [str(rank) for rank in range(1, 13)]
    assert dict(ranks[()][:1]) == dict(ranks["--top", "12"][:1])


def test_figures_hold_their_own_value_and_memory_adds_up(run_planner: RunPlanner) -> None:
    plan = msgspec.json.decode(run_planner("plan", "--json").stdout, type=Plan)
    for row in plan.rows:
        memory = row.answer.memory_bytes
        if memory is not None:
            parts = sum(
                getattr(memory, name) for name in memory.__struct_fields__ if name not in {"total", "capacity", "usable_share"}
            )
            assert parts == pytest.approx(memory.total.value, rel=1e-6)
        for figure in (row.answer.output_tokens_per_s, row.answer.usd_per_million_tokens, row.usd_per_h):
            assert figure is None or 0 < figure.low <= figure.value <= figure.high


@pytest.mark.sweep
def test_nothing_fits_exits_with_1_and_names_levers(run_planner: RunPlanner) -> None:
    done = run_planner(
        "plan", "--set", "task=train", "--set", "model=meta-llama/Llama-3.1-405B", "--set", "sequence=8192", "--set", "global_batch=128",
        "--set", "targets=", "--set", "request_rate_per_s=", "--set", "max_gpus=1", "--gpu", "T4", "--json",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan)
    assert plan.counts.fit == 0
    assert plan.levers
    assert all(lever.text for lever in plan.levers)


def test_options_for_the_best_row_say_where_there_is_none(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--gpu", "L4", "--load", "--money")
    assert done.returncode == 1
    assert "note: nothing fits, so there is no row for --load and --money" in done.stderr


def test_set_reaches_the_plan(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--set", "targets.p95_request_s=7.5", "--gpu", "H200 SXM", "--objective", "fastest", "--json")
    task = json.loads(done.stdout)["task"]
    assert task["targets"]["p95_request_s"] == 7.5
    assert task["objective"] == "fastest"
    assert {row["gpu"] for row in json.loads(done.stdout)["rows"]} == {"H200 SXM"}


def test_table_csv_and_markdown_tell_the_same_rows(run_planner: RunPlanner) -> None:
    rows = json.loads(run_planner("plan", "--top", "5", "--json").stdout)["rows"]
    table = list(csv.DictReader(io.StringIO(run_planner("plan", "--top", "5", "--csv").stdout)))
    assert [(line["gpu"], line["rank"]) for line in table] == [(row["gpu"], str(row["rank"] or "")) for row in rows]
    assert [line["here"] for line in table] == [str(int(row.get("here", False))) for row in rows]
    assert float(table[0]["tokens_per_s"]) == rows[0]["answer"]["output_tokens_per_s"]["value"]
    markdown = run_planner("plan", "--top", "5", "--markdown").stdout.splitlines()
    assert len(markdown) == 2 + len(rows)
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}) == 1
    people = run_planner("plan", "--top", "5").stdout
    assert all(row["gpu"] in people for row in rows if not row.get("here"))
    assert (", here" in people) == any(row.get("here") for row in rows)


COMMAND = "    gpu-planner plan "


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-405b-pretrain", "llama-3.1-8b-lora"])
def test_the_table_fits_and_cuts_no_figure(run_planner: RunPlanner, preset: str) -> None:
    wide = run_planner("plan", preset, "--top", "30", COLUMNS="1000").stdout.splitlines()
    all_titles, figures = cells(wide[1]), {cell for line in wide for cell in cells(line)}
    for columns in (40, 80, 120, 200):
        done = run_planner("plan", preset, "--top", "30", COLUMNS=str(columns))
        lines = done.stdout.splitlines()
        assert all(len(line) <= columns for line in lines if not line.startswith(COMMAND)), "but commands to paste stay whole"
        head = next(number for number, line in enumerate(lines) if re.match(r" *#", line))
        titles = cells(lines[head])
        assert titles == [title for title in all_titles if title in titles]
        left_out = done.stderr.partition("also shows: ")[2].strip().split(", ")
        assert sorted({*titles, *filter(None, left_out), "why"}) == sorted(all_titles)
        assert ("why" in titles) != ("Why" in lines)
        for line in lines[head + 1 : head + 6]:
            assert set(cells(line)[: len(titles) - ("why" in titles)]) <= figures, line


def cells(line: str) -> list[str]:
    """The cells of one line of a table."""
    return re.split(r" {2,}", line.strip())


def test_a_service_is_priced_by_the_month_and_a_job_whole(run_planner: RunPlanner) -> None:
    service = run_planner("plan", "--top", "3").stdout.splitlines()[1]
    job = run_planner("plan", "llama-3.1-8b-lora", "--top", "3").stdout.splitlines()[1]
    assert "$/month" in service
    assert "$/job" not in service
    assert "$/job" in job
    assert "job takes" in job
    assert "$/month" not in job
    (first, *_) = csv.DictReader(io.StringIO(run_planner("plan", "llama-3.1-8b-lora", "--top", "1", "--csv").stdout))
    assert float(first["job_usd"]) == pytest.approx(float(first["job_h"]) * float(first["usd_per_h"]))


def test_what_does_not_fit_has_no_speed(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-405b-pretrain", "--gpu", "H100 SXM5 80GB", "--set", "max_gpus=8", "--markdown")
    assert done.returncode == 1
    heads, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in done.stdout.splitlines())
    lost = dict(zip(heads, rows[0], strict=True))
    assert (lost["#"], lost["tokens/s"], lost["limit"]) == ("✗", "—", "—")
    assert "short" in lost["why"]


@pytest.mark.sweep
def test_levers_are_commands_to_paste(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-8b-full-finetune", "--gpu", "T4", "--set", "max_gpus=1")
    assert done.returncode == 1
    commands = re.findall(r"^    (gpu-planner plan .*)$", done.stdout, re.MULTILINE)
    assert len(commands) >= 3
    assert any("lora={" in command for command in commands)
    assert sum("max_gpus=" in command for command in commands) == len(commands), "what was given is kept, once"
    again = run_planner(*shlex.split(commands[0])[1:], "--json")  # test_promises.py runs all of other lists
    assert again.returncode in {0, 1}, (commands[0], again.stderr)


def test_a_lever_that_opens_the_catalogue_drops_the_gpu(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-405b-pretrain", "--gpu", "H100 SXM5 80GB", "--set", "max_gpus=8")
    assert "gpu-planner plan llama-3.1-405b-pretrain --gpu 'H100 SXM5 80GB' --set" in done.stdout
    lever = Lever(change={"gpus_considered": []}, text="any GPU")
    asked = PlanCommand("a preset", ["max_gpus=8"], ["T4"], None)
    assert asked.text_with(lever) == "gpu-planner plan 'a preset' --set max_gpus=8 --set 'gpus_considered=[]'"


@pytest.mark.parametrize(
    ("key", "value", "fields"),
    [
        ("optimizer", "adamw-8bit", {"optimizer": "adamw-8bit"}),
        ("title", "1e5", {"title": "1e5"}),
        ("title", "", {"title": ""}),
        ("title", 'say "é" =', {"title": 'say "é" ='}),
        ("max_gpus", 64, {"max_gpus": 64}),
        ("compile", True, {"compile": True}),
        ("gpus_considered", ["T4", "L4"], {"gpus_considered": ["T4", "L4"]}),
        ("targets", {"headroom": 0.02}, {"targets.headroom": 0.02}),
        (
            "companions",
            [{"model": "a b", "weight_dtype": None}, {"model": "c"}],
            {"companions": [{"model": "a b"}, {"model": "c"}]},
        ),
        ("lora", Lora(rank=16, base="nf4"), {"lora": {"rank": 16, "targets": "all-linear", "base": "nf4"}}),
        ("targets", Targets(p95_request_s=5.0), {"targets": {"p95_request_s": 5.0, "burst": 0.0}}),
    ],
)
def test_what_is_spelled_for_set_is_read_back(key: str, value: Any, fields: dict[str, Any]) -> None:
    assert parse_settings(spelled(key, value)) == fields


def test_a_terminal_without_the_signs_still_gets_the_answer(planner_process: RunPlanner) -> None:
    done = planner_process("plan", "--top", "3", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "B200 SXM" in done.stdout


def test_without_a_terminal_the_plan_is_printed(planner_process: RunPlanner, run_planner: RunPlanner) -> None:
    bare, planned = planner_process(), run_planner("plan")
    assert (bare.returncode, bare.stdout) == (0, planned.stdout)
    assert planned.stdout


def test_an_engine_of_the_preset_goes_with_its_task(run_planner: RunPlanner) -> None:
    turned = run_planner("plan", "--set", "task=finetune", "--set", "targets=", "--gpu", "H200 SXM", "--json")
    assert turned.returncode == 0, turned.stderr
    prices = [
        row["answer"]["usd_per_million_tokens"]["value"] for row in json.loads(turned.stdout)["rows"] if row["verdict"] == "fits"
    ]
    # the load of the service that it was says nothing of training: first comes the one whose tokens cost least
    assert prices[0] == min(prices)
    named = run_planner("plan", "--set", "task=finetune", "--set", "engine=sglang")
    assert named.returncode == 2
    assert "'sglang' does not train" in named.stderr
