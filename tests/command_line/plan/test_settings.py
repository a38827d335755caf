"""`--set`: what its texts may say, and how a text is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_sample import session
from msgspec.structs import replace
from repository import RunPlanner

from planner.cli.plan.options import UNREAD, parse_settings
from planner.engine.answers.answer import Answer
from planner.errors import UserError
from planner.numbers import written_number
from planner.present.labels import IN_PERCENT, with_key
from planner.workload.presets import read_workload
from planner.workload.tasks import Lengths, Request
from widgets.panes.workload.fields import FIELDS


@pytest.mark.parametrize(
    ("text", "names"),
    [("aws", ["aws"]), ("aws, runpod", ["aws", "runpod"]), ('["aws"]', ["aws"]), ("[]", [])],
)
def test_names_need_no_brackets_where_a_list_of_them_is_taken(text: str, names: list[str]) -> None:
    assert parse_settings([f"providers={text}"]) == {"providers": names}


@pytest.mark.parametrize("text", ["kinds=marketplace", "gpus_considered=L4", "regions=us-*", "countries=DE", "exclude=spot"])
def test_every_list_of_names_takes_a_single_one(text: str) -> None:
    key, _, name = text.partition("=")
    assert parse_settings([text]) == {key: [name]}


def test_what_takes_no_list_of_names_stays_as_it_is() -> None:
    assert parse_settings(["model=a,b", "own=a", "fabric=none"]) == {"model": "a,b", "own": "a", "fabric": "none"}


def test_a_label_of_the_form_is_taken_as_its_key() -> None:
    given = ["users=20", "P95 total=3", "train on=4k", "batch=4", "model=a"]
    assert list(map(with_key, given)) == ["daily_users=20", "targets.p95_request_s=3", "train_tokens=4k", "batch=4", "model=a"]


def test_a_label_of_a_percentage_is_answered_with_its_key() -> None:
    assert [with_key("p95=5"), with_key("P99=8s")] == ["targets.p95_request_s=5", "targets.p99_request_s=8s"], "as in the box"
    assert with_key("burst=20") == "burst=20"
    with pytest.raises(UserError) as caught:
        parse_settings(["burst=20"])
    assert [str(one) for one in caught.value.problems] == [
        "--set: burst: is the label in the form of targets.burst; --set takes that key."
    ]


def test_labels_of_percentages_are_the_percentages_of_the_form() -> None:
    assert {field.key for field in FIELDS if field.kind == "percent"} == IN_PERCENT


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("50M", 5e7),
        ("1.2B", 1.2e9),
        ("15T", 15e12),
        ("1,000", 1000),
        ("4k", 4000),
        ("3e9", 3e9),
        ("many", None),
        ("k", None),
        ("", None),
    ],
)
def test_numbers_are_written_as_in_the_form(text: str, number: float | None) -> None:
    assert written_number(text) == number


def test_a_workload_takes_written_numbers_where_it_takes_numbers() -> None:
    given = {"model": "4k", "task": "serve", "title": "50M", "concurrency": "max", "requests": "50M", "input_tokens": "4k"}
    told = {"price_usd_per_gpu_h": {"L4": "1k"}, "targets": {"budget_usd": "1.2B"}, "output_tokens": {"mean": "1k", "p95": "2k"}}
    workload = read_workload(given | told, "")
    assert (workload.model, workload.title, workload.concurrency) == ("4k", "50M", "max")
    assert (workload.requests, workload.input_tokens) == (5e7, 4000)
    assert workload.price_usd_per_gpu_h == {"L4": 1000}
    assert workload.targets.budget_usd == 1.2e9
    assert workload.output_tokens == Lengths(mean=1000, p95=2000)


def test_the_command_takes_labels_and_written_numbers(run_planner: RunPlanner) -> None:
    done = run_planner(
        "plan", "llama-3.1-8b-pretrain", "--set", "train on=50M", "--set", "sequence=4k", "--gpu", "H100 SXM", "--json"
    )
    workload = json.loads(done.stdout)["task"]
    assert done.returncode == 0
    assert workload["train_tokens"] == 5e7
    assert workload["sequence"] == 4000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("providers=3", "it has to be a list of at most 1,000 items, each item a text of at most 200 characters."),
        ("input_tokens=0", "it has to be a whole number from 1 to 1,000,000,000 or a table of mean, p50, p95."),
        ("input_tokens={mean = 600, p95 = 100}", "p95 = 100 is below the mean of 600"),
        ("batch=10000000000000000000000000", "1e+25 is not accepted"),
        ("targets=3", "a table of deadline_h, budget_usd, p50_request_s, p50_ttft_s …"),
    ],
)
def test_what_is_accepted_is_said_in_whole_words(run_planner: RunPlanner, text: str, says: str) -> None:
    done = run_planner("plan", "--set", text)
    assert done.returncode == 2
    assert says in done.stderr


def test_the_help_says_where_the_keys_are(run_planner: RunPlanner) -> None:
    text = " ".join(run_planner("plan", "--help").stdout.split())
    assert "request_rate_per_s or daily_users or concurrency" in text
    assert "schema preset` describes all" in text


VALUES = {
    "sequence": 4096, "global_batch": 64, "micro_batch": 4, "train_tokens": 1e9, "recipe": "fp32", "optimizer": "sgd", "checkpointing": "full",
    "batch": 9, "concurrency": 9, "request_rate_per_s": 3.0, "output_tokens": 99, "prefix_tokens": 20, "requests": 1000, "kv_dtype": "fp8",
    "memory_fraction": 0.5,
}  # fmt: skip
LOADS: dict[str, dict[str, Any]] = {
    "serve": {"request_rate_per_s": 2.0, "input_tokens": 500, "output_tokens": 100},
    "generate": {"batch": 4, "input_tokens": 500, "output_tokens": 100},
    "prefill": {"batch": 4, "input_tokens": 500},
    "train": {"sequence": 1024, "micro_batch": 1},
    "finetune": {"sequence": 1024, "micro_batch": 1, "lora": {"rank": 8}},
}


@pytest.mark.parametrize("task", UNREAD)
def test_a_setting_that_is_said_to_change_nothing_changes_nothing(task: str) -> None:
    plain = {"model": "qwen3-8b", "gpu": "H100", "task": task, **LOADS[task]}
    lines = [plain, *(plain | {key: VALUES[key]} for key in UNREAD[task])]
    first, *others = session().estimate([msgspec.convert(line, Request) for line in lines], basis="spec")
    assert isinstance(first, Answer)
    for key, other in zip(UNREAD[task], others, strict=True):
        assert isinstance(other, Answer), key
        assert replace(other, assumed={}) == replace(first, assumed={}), key


def test_a_setting_of_another_task_is_told(run_planner: RunPlanner) -> None:
    asked = ("plan", "--set", "model=llama-3.1-8b", "--set", "task=train", "--gpu", "H100")
    told = run_planner(*asked, "--set", "request_rate_per_s=3").stderr
    assert "note: --set: request_rate_per_s does not apply to task=train and has no effect" in told
    assert "says nothing" not in run_planner(*asked, "--set", "sequence=4096").stderr


@pytest.mark.parametrize(
    "option", [["--months", "12"], ["--use", "0.5"], ["--api", "GPT 9"], ["--api-price", "1,2"], ["--against", "2"]]
)
def test_terms_of_costs_that_nobody_asked_for_are_refused(run_planner: RunPlanner, option: list[str]) -> None:
    result = run_planner("plan", *option)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{option[0]} applies only to --money: add it." in result.stderr


NAMES_AT_FAULT = """
model = "llama-3.1-8"
task = "{task}"
weight_dtype = "fp7"
engine = "vlm"
gpus_considered = ["H10", "RTX 309"]
providers = ["aws2"]
countries = ["Germany"]
"""


@pytest.mark.parametrize("task", ["serv", "serve"])
def test_every_wrong_name_of_a_preset_is_told_at_once(run_planner: RunPlanner, tmp_path: Path, task: str) -> None:
    """A type that is wrong, or a model that is not known, does not hide the names that later steps look up."""
    path = tmp_path / "mine.toml"
    path.write_text(NAMES_AT_FAULT.format(task=task))
    lines = run_planner("plan", str(path)).stderr.splitlines()
    told = ["model", "weight_dtype", "engine", "gpus_considered", "gpus_considered", "providers", "countries"]
    assert sorted(line.split(": ")[2] for line in lines) == sorted(told + ["task"] * (task == "serv"))
    assert all(line.startswith(f"error: {path}: ") for line in lines)
    assert any("'Germany' is not" in line for line in lines), "as it was given"


def test_names_that_are_right_are_not_told_beside_a_wrong_one(run_planner: RunPlanner) -> None:
    given = ["model=./config.json", "task=serv", "engine=vLLM", "weight_dtype=fp8", "providers=aws", "countries=de"]
    result = run_planner("plan", "--gpu", "h100", *(word for text in given for word in ("--set", text)))
    assert [line.split(": ")[2] for line in result.stderr.splitlines()] == ["task"]
