"""`--set`: what its texts may say, and how a text is refused."""

from __future__ import annotations

import pytest
from repository import RunPlanner

from planner.cli.plan.options import parse_settings
from planner.errors import UserError


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


def test_a_label_of_the_form_is_answered_with_its_key() -> None:
    with pytest.raises(UserError) as caught:
        parse_settings(["users=20", "p95 total=3", "batch=4"])
    assert [str(problem) for problem in caught.value.problems] == [
        "--set: users: is what the form calls daily_users; --set takes that key.",
        "--set: p95 total: is what the form calls targets.p95_request_s; --set takes that key.",
    ]


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
