"""A workload that `--set` says whole, and headings that tell no more than is planned."""

from __future__ import annotations

import json
import re

import pytest
from repository import RunPlanner

from planner.present.command_line import PlanCommand

pytestmark = pytest.mark.usefixtures("planned_once")
PEOPLE = ("model=llama-3.1-70b", "task=serve", "weight_dtype=fp8", "daily_users=50000", "input_tokens=800", "output_tokens=300")


def _plan(run_planner: RunPlanner, *settings: str, preset: str = "") -> tuple[str, str]:
    words = [word for text in settings for word in ("--set", text)]
    done = run_planner("plan", *([preset] if preset else []), *words, "--gpu", "H200 SXM", "--top", "1", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.sweep
def test_settings_with_model_and_task_need_no_preset(run_planner: RunPlanner) -> None:
    """The rate of the preset that is planned otherwise would contradict `daily_users`."""
    out, said = _plan(run_planner, *PEOPLE, "capex_usd=2e6")
    assert out.startswith("llama-3.1-70b, serve · ")
    assert "server, network, rack or colocation, staff: no source has a price" in said
    _, said = _plan(run_planner, *PEOPLE)
    assert "no source has a price" not in said
    again = PlanCommand(preset="", settings=PEOPLE[:2]).text
    assert again == "gpu-planner plan --set model=llama-3.1-70b --set task=serve"


def test_one_of_the_two_changes_the_preset(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--set", "model=qwen3-8b", "--gpu", "H200 SXM", "--top", "1", "--json")
    task = json.loads(done.stdout)["task"]
    assert (task["model"], task["targets"]["p95_request_s"]) == ("qwen3-8b", 5.0)


def test_what_nobody_gave_is_named_below_the_table(run_planner: RunPlanner) -> None:
    out, said = _plan(run_planner, "model=qwen3-8b", "task=serve")
    chosen = "chosen for you: input_tokens 512, output_tokens 128, weight_dtype bf16, kv_dtype bf16, engine vllm"
    assert f"{chosen}; no load: each row at its best number of requests at once; no limit on latency" in out
    assert "what --set leaves out" not in said
    out, said = _plan(run_planner, "model=qwen3-8b", "targets.p95_request_s=4")
    assert "chosen for you" not in out
    assert "are those of llama-3.1-70b-chat-service" in said
    assert "request_rate_per_s=16.667 input_tokens=600 output_tokens=200 weight_dtype=fp8" in said
    assert "p95_request_s" not in said


def test_what_people_are_taken_to_do_is_named(run_planner: RunPlanner) -> None:
    assert (
        "10 messages a day each, and 3 times the mean in the busiest hour (people.messages_per_day"
        in _plan(run_planner, *PEOPLE)[0]
    )
    assert "messages a day" not in _plan(run_planner, *PEOPLE, "people.messages_per_day=20")[0]


def test_a_first_row_that_may_not_do_has_its_chance_and_a_sure_row_below(run_planner: RunPlanner) -> None:
    """A choice that met its target in one case of two read like any other."""
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--gpu", "B200 SXM", "--gpu", "H200 SXM", COLUMNS="200")
    told = re.search(r"chance that 1 fits and meets every target: (\d+) %; over 90 % sure: \d+ × \S+ SXM, \+\d+ %", done.stdout)
    assert told, done.stdout
    assert int(told[1]) < 90
    assert "chance that 1 fits" not in _plan(run_planner, "model=qwen3-8b", "task=serve")[0]


def test_a_price_that_may_be_taken_away_is_told_in_its_row(run_planner: RunPlanner) -> None:
    out, _ = _plan(run_planner, "model=qwen3-8b", "task=serve", "market=spot")
    assert re.search(r"^1 .* spot\b", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("settings", "heading"),
    [
        ((), "Llama 3.1 70B chat, 1000 requests a minute"),
        (("targets.p95_request_s=9", "market=spot"), "Llama 3.1 70B chat, 1000 requests a minute"),
        (("model=qwen3-8b",), "qwen3-8b, serve"),
        (("request_rate_per_s=2",), "llama-3.1-70b, serve"),
        (("model=qwen3-8b", "title=Ours"), "Ours"),
    ],
)
def test_a_title_goes_with_what_it_tells(run_planner: RunPlanner, settings: tuple[str, ...], heading: str) -> None:
    out, _ = _plan(run_planner, *settings, preset="llama-3.1-70b-chat-service")
    assert out.split(" · ")[0].endswith(heading)


def test_an_option_that_is_a_key_says_how_keys_are_set(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--daily-users", "50000")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2, "Error: No such option '--daily-users': it is a key, --set daily_users=…",
    )  # fmt: skip
    assert "is a key" not in run_planner("gpus", "--model", "x").stderr
    assert "is a key" not in run_planner("plan", "--nosuch").stderr


def test_a_gpu_asked_for_by_name_is_shown_whatever_its_place(run_planner: RunPlanner) -> None:
    """No price, no fit, no support: each is a reason, and none is behind --top."""
    names = ["B300 SXM", "MI355X", "RTX A4000", "T4"]
    named = [word for name in names for word in ("--gpu", name)]
    done = run_planner("plan", "llama-3.1-70b-chat-service", *named, "--top", "1", "--json")
    rows = json.loads(done.stdout)["rows"]
    assert [row["gpu"] for row in rows] == names
    assert rows[1]["why"].startswith("no price: comes last")
    assert [row["verdict"] for row in rows[2:]] == ["does-not-fit", "not-supported"]
    alone = run_planner("plan", "llama-3.1-70b-chat-service", "--gpu", "B300 SXM", "--top", "1", "--json")
    assert len(json.loads(alone.stdout)["rows"]) == 1
