"""`fit`, costs and own machines as people and scripts meet them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import msgspec
import pytest
from repository import RunPlanner

from planner.cli.decide import guide
from planner.engine.answers.fit import Fit

pytestmark = pytest.mark.usefixtures("planned_once")


@pytest.mark.sweep
@pytest.mark.usefixtures("fewer_models")
def test_fit_answers_in_json_as_its_schema_says(run_planner: RunPlanner) -> None:
    done = run_planner("fit", "--gpu", "L40S", "--gpus", "2", "--set", "input_tokens=600", "--json")
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Fit, strict=True)
    assert json.loads(msgspec.json.encode(found)) == json.loads(done.stdout), "a key that the schema does not know"
    assert (found.gpu, found.gpus, found.task) == ("L40S", 2, {"task": "serve", "input_tokens": 600})
    assert {row.model for row in found.rows if row.fits} <= {row["model"] for row in json.loads(done.stdout)["rows"]}
    assert found.counts.models_that_fit == len({row.model for row in found.rows if row.fits})


@pytest.mark.sweep
def test_fit_shows_each_model_once_in_its_best_precision(run_planner: RunPlanner) -> None:
    lines = run_planner("fit", "--gpu", "L40S", "--gpus", "8", "--top", "200").stdout.splitlines()
    rows = [line.split() for line in lines if re.match(r" *\d+  \S", line)]
    models = [row[1] for row in rows]
    assert len(models) == len(set(models)) > 60
    assert next(row for row in rows if row[1] == "qwen3-32b")[4] == "bf16"
    assert "largest model" in "\n".join(lines)


def test_fit_says_what_is_missing_and_exits_with_1_where_nothing_fits(run_planner: RunPlanner) -> None:
    none = run_planner("fit", "--gpu", "T4", "--set", "model=llama-3.1-405b")
    assert none.returncode == 1
    assert "does not fit" in none.stdout
    missing = run_planner("fit")
    assert missing.returncode == 2
    assert "--gpu" in missing.stderr
    wrong = run_planner("fit", "--gpu", "L40X", "--set", "inptu_tokens=3")
    assert wrong.returncode == 2
    assert "'L40S'" in wrong.stderr
    assert "'input_tokens'" in run_planner("fit", "--gpu", "L4", "--set", "inptu_tokens=3").stderr


def test_costs_over_years_stand_below_the_plan_and_in_json(run_planner: RunPlanner) -> None:
    ask = (
        "plan",
        "qwen3-32b-batch-job",
        "--gpu",
        "H100 SXM5 80GB",
        "--money",
        "--months",
        "24",
        "--use",
        "0.5",
        "--api-price",
        "1,4,0.5",
    )
    text = run_planner(*ask).stdout
    assert "over 24 months, in use 50 % of the time" in text
    assert "API your rate" in text
    costs = json.loads(run_planner(*ask, "--json").stdout)["costs"]
    bought = next(ways for ways in costs["ways"] if ways["way"]["name"] == "bought")
    assert bought["usd_after_months"]["24"] > bought["way"]["entry_usd"]
    assert {ways["way"]["name"] for ways in costs["ways"]} >= {"on-demand", "bought", "api"}


def test_the_report_holds_the_costs_and_wrong_apis_are_named(run_planner: RunPlanner) -> None:
    ask = ("report", "qwen3-32b-batch-job", "--gpu", "L40S")
    assert "months at each provider" in run_planner(*ask).stdout
    assert json.loads(run_planner(*ask, "--json", "--against", "0.5").stdout)["costs"]["ways"][0]["way"]["who"]
    unknown = run_planner(*ask, "--api", "Qwen3 32")
    assert unknown.returncode == 2
    assert "'Qwen3 32B'" in unknown.stderr
    for price in ("cheap", "nan,1", "1", "1,2,3,4", "-1,2"):
        wrong = run_planner(*ask, "--api-price", price)
        assert (wrong.returncode, "Invalid value for '--api-price'" in wrong.stderr) == (2, True), price


def test_own_machines_are_read_by_plan_and_fit(run_planner: RunPlanner, tmp_path: Path) -> None:
    inventory = tmp_path / "sinfo.txt"
    inventory.write_text("n1 gpu:l40s:4 idle\nn2 gpu:l40s:4 mixed\nn3 gpu:t4:1 down\n")
    rows = json.loads(run_planner("plan", "--own", str(inventory), "--json").stdout)["rows"]
    (best, *_) = [row for row in rows if row.get("owned")]
    assert best["gpu"] == "L40S"
    assert "offer" not in best
    pools = json.loads(run_planner("fit", "--own", str(inventory), "--set", "model=qwen3-8b", "--json").stdout)["pools"]
    assert [(pool["gpu"], pool["gpus"]) for pool in pools] == [("L40S", 8)]
    assert all(row["request"].get("gpus_per_node") == 4 for row in pools[0]["rows"] if row.get("request"))
    missing = run_planner("fit", "--own", str(inventory), "--gpu", "T4")
    assert missing.returncode == 2
    assert "not in the inventory" in missing.stderr


def test_the_guide_takes_answers_and_ends_in_a_report_that_can_be_asked_again(run_planner: RunPlanner, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"task": "serve", "model": "qwen3-8b", "daily_users": 5000, "gpus": ["L4", "L40S"], "use": 0.5}))
    done = run_planner("guide", "--answers", str(answers), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [step["name"] for step in found["guide"]["steps"]] == ["profile", "bottleneck", "right-size", "where", "commit"]
    command = shlex.split(found["report"]["command"])[1:]
    again = json.loads(run_planner(*command, "--json").stdout)
    assert again["rows"][0]["answer"] == found["guide"]["row"]["answer"]
    text = run_planner("guide", "--answers", str(answers)).stdout
    assert (
        text.index("1. Profile")
        < text.index("5. Commit")
        < text.index("The path through the decision tree")
        < text.index("Decision")
    )
    report = tmp_path / "report.md"
    assert run_planner("guide", "--answers", str(answers), "--out", str(report)).returncode == 0
    assert "## What it rests on" in report.read_text()


def test_the_guide_names_what_is_wrong_with_answers(run_planner: RunPlanner, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text('{"task": "serv", "modle": "qwen3-8b"}')
    done = run_planner("guide", "--answers", str(answers))
    assert done.returncode == 2
    assert "'serve'" in done.stderr
    assert "'model'" in done.stderr
    assert run_planner("guide").returncode == 2, "there is nobody to ask"


def test_a_portfolio_is_read_placed_and_printed(run_planner: RunPlanner, tmp_path: Path) -> None:
    file = tmp_path / "stock.toml"
    file.write_text(
        'gpus = ["L40S", "L4"]\nown = [{gpu = "L40S", count = 4}]\n[[workload]]\nname = "chat"\n'
        'set = {model = "qwen3-8b", task = "serve", request_rate_per_s = 2, input_tokens = 500, output_tokens = 100}\n'
        '[[workload]]\nname = "tuning"\npreset = "llama-3.1-8b-lora"\n'
    )
    text = run_planner("portfolio", str(file)).stdout
    assert "What runs where" in text
    assert "of your own" in text
    found = json.loads(run_planner("portfolio", str(file), "--json").stdout)
    assert [one["name"] for one in found["workloads"]] == ["chat", "tuning"]
    file.write_text('[[workload]]\nnam = "chat"\n')
    wrong = run_planner("portfolio", str(file))
    assert wrong.returncode == 2
    assert "'name'" in wrong.stderr


def test_keys_of_a_workload_that_stand_outside_its_settings_are_sent_there(run_planner: RunPlanner, tmp_path: Path) -> None:
    file = tmp_path / "stock.toml"
    file.write_text('max_gpus = 8\nmonth = 3\n[[workload]]\nname = "chat"\nrequest_rate_per_s = 3\nmodle = "qwen3-8b"\n')
    done = run_planner("portfolio", str(file))
    assert done.returncode == 2
    first, second, third, fourth = done.stderr.splitlines()
    assert first.endswith("max_gpus: unknown key here; it is known as workload.set.max_gpus.")
    assert "month: unknown key. Did you mean 'months'" in second
    assert third.endswith("workload[0].request_rate_per_s: unknown key here; it is known as set.request_rate_per_s.")
    assert "workload[0].modle: unknown key. Did you mean 'set.model'" in fourth


def test_five_questions_are_asked_on_a_terminal(run_planner: RunPlanner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = iter(["serve", "qwen3-8b", 5000.0, 2.0, 24])
    asked = []

    def prompt(text: str, **options: object) -> object:
        asked.append(text)
        assert options["err"], "stdout is data"
        return next(given)

    monkeypatch.setattr(guide, "_has_terminal", lambda: True)
    monkeypatch.setattr(click, "prompt", prompt)
    found = json.loads(run_planner("guide", "--json").stdout)
    assert [text[:2] for text in asked] == ["1.", "2.", "3.", "4.", "5."]
    assert found["report"]["plan"]["task"]["daily_users"] == 5000
    assert found["report"]["costs"]["horizon_months"] == 24


@pytest.mark.process
def test_a_number_of_gpus_of_an_inventory_keeps_its_machines_and_its_cap(run_planner: RunPlanner, tmp_path: Path) -> None:
    """`--gpus 12` of four machines of eight, capped at 300 W: 12 GPUs in nodes of 8."""
    own = tmp_path / "own.toml"
    own.write_text('[[own]]\ngpu = "L40S"\ncount = 8\nnodes = 4\npower_limit_w = 300\n')
    asked = ("--set", "model=qwen3-8b", "--json")
    for more, gpus in (((), 32), (("--gpus", "12"), 12), (("--gpu", "L40S", "--gpus", "12"), 12), (("--gpus", "64"), 32)):
        (pool,) = json.loads(run_planner("fit", "--own", str(own), *more, *asked).stdout)["pools"]
        request = pool["rows"][0]["request"]
        assert (request["gpus"], request["gpus_per_node"], request["power_limit_w"]) == (gpus, 8, 300.0)


@pytest.mark.process
def test_a_fault_in_a_gpu_of_ones_own_is_named_at_its_file(run_planner: RunPlanner, tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "next.toml").write_text('[[gpu]]\nname = "R100"\n')
    done = run_planner("--config", str(tmp_path), "fit", "--gpu", "R100")
    assert done.returncode == 2
    assert "next.toml: gpu[R100].vendor: missing" in done.stderr
    assert "--gpu" not in done.stderr


@pytest.mark.sweep
@pytest.mark.usefixtures("fewer_models")
def test_fit_names_the_lengths_it_chose_and_the_requests_its_speeds_are_of(run_planner: RunPlanner) -> None:
    asked = ("fit", "--gpu", "L40S", "--gpus", "8", "--top", "2")
    told = run_planner(*asked, COLUMNS="200").stdout
    assert "input_tokens 512 (chosen), output_tokens 128 (chosen)" in told
    given = run_planner(*asked, "--set", "input_tokens=900", "--set", "model=qwen3-8b", COLUMNS="200").stdout
    assert "input_tokens 900, " in given
    head = next(line for line in told.splitlines() if "tok/s each" in line)
    assert head.index("users") < head.index("tok/s each") < head.index("cached")
    assert "at least 10 tokens/s for each user" in told
    assert "at least 20 tokens/s for each user" in run_planner(*asked, "--least-speed", "20", COLUMNS="200").stdout
    assert "for each user" not in run_planner(*asked, "--least-speed", "0", COLUMNS="200").stdout
    every = json.loads(run_planner(*asked, "--json").stdout)["rows"]
    for row in {row["model"]: row for row in reversed(every)}.values():  # paper has the best row of each model
        answer = row["answer"]
        at_once = answer["layout"]["batch"] * answer["layout"].get("dp", 1)
        each, whole = (answer[name]["value"] for name in ("decode_tokens_per_s", "output_tokens_per_s"))
        assert 0.5 * whole < at_once * each < 1.5 * whole
        assert f" {at_once:,} " in told


@pytest.mark.parametrize(("axis", "varied"), [("width", "--width"), ("batch", "--sequences")])
def test_a_study_refuses_a_size_of_what_it_varies(run_planner: RunPlanner, axis: str, varied: str) -> None:
    result = run_planner("study", "--gpu", "L4", "--axis", axis, varied, "512")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{varied} cannot be given with --axis {axis}" in result.stderr
    other = ["--sequences", "8"] if axis == "width" else ["--width", "512"]
    assert run_planner("study", "--gpu", "L4", "--axis", axis, *other).returncode == 0
