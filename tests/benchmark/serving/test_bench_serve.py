"""`bench --suite serve` against a server whose speed is known: time to the first token and between tokens within 1 %."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from instant_server import beside_its_client
from repository import RunPlanner
from started_server import started
from streaming_server import Server

from planner.observe.results.read import read_results
from planner.observe.results.result import Result
from planner.observe.serving.client import Client, TimedRequest, _note
from planner.observe.serving.http_stream import address_of
from planner.observe.serving.load import Point, result_of, run_point

TTFT_S, TPOT_S = 0.3, 0.04
OUTPUT = 12
RUNS = ("--set", "gpu=H100", "--set", "gpus=1", "--set", "dtype=bf16", "--set", "engine=vllm", "--set", "model=llama-3.1-8b")

pytestmark = pytest.mark.process


@contextmanager
def server(slots: int = 1 << 16) -> Iterator[str]:
    speed = ("--ttft", str(TTFT_S), "--tpot", str(TPOT_S), "--slots", str(slots))
    with started("streaming_server.py", *speed) as address:
        yield f"{address}/v1"


def run(address: str, point: Point) -> list[TimedRequest]:
    return asyncio.run(run_point(Client(address_of(address), "known-speed", 12, 4), point))


def test_the_speed_of_the_server_is_found_in_a_closed_and_an_open_loop(run_planner: RunPlanner, tmp_path: Path) -> None:
    lengths = ("--input-tokens", "12", "--output-tokens", str(OUTPUT), "--at-once", "4", "--rates", "8", "--requests", "8")
    out = str(tmp_path / "seen.jsonl")
    with beside_its_client(Server(TTFT_S, TPOT_S, 1 << 16)) as address:
        url = f"{address}/v1"
        done = run_planner("--state", str(tmp_path), "bench", "--suite", "serve", "--url", url, *lengths, *RUNS, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "Predicted " in done.stdout
    closed, opened = (one for one in read_results(Path(out).read_bytes(), out) if isinstance(one, Result))
    for one in (closed, opened):
        assert one.seen["ttft_s"] == pytest.approx(TTFT_S, rel=0.01)
        assert one.seen["tpot_s"] == pytest.approx(TPOT_S, rel=0.01)
        assert one.seen["request_s"] == pytest.approx(TTFT_S + (OUTPUT - 1) * TPOT_S, rel=0.01)
        assert (one.settings["input_tokens"], one.settings["output_tokens"]) == (12, OUTPUT)
    assert closed.seen["requests_per_s"] == pytest.approx(4 / (TTFT_S + (OUTPUT - 1) * TPOT_S), rel=0.01)
    assert (closed.settings["concurrency"], opened.settings["request_rate_per_s"]) == (4, 8.0)
    kept = json.loads(run_planner("--state", str(tmp_path), "predictions", "--json").stdout)["predictions"]
    assert [one["origin"] for one in kept] == ["import", "import"]


def test_without_settings_what_was_seen_is_shown_and_what_is_missing_named(run_planner: RunPlanner, tmp_path: Path) -> None:
    with server() as address:
        given = ("--url", address, "--at-once", "2", "--requests", "2", "--output-tokens", "4", "--input-tokens", "4")
        done = run_planner("--state", str(tmp_path), "bench", "--suite", "serve", *given)
    assert done.returncode == 0
    assert "no prediction: describe the server with --set gpu=…, gpus=…, engine=…, dtype=…" in done.stderr
    assert "time to first token" in done.stdout


def test_what_cannot_be_predicted_is_refused_before_the_server_is_loaded(run_planner: RunPlanner) -> None:
    with server() as address:
        done = run_planner("bench", "--suite", "serve", "--url", address, *RUNS, "--set", "weight_dtype=f16")
    assert done.returncode == 2
    assert "weight_dtype: 'f16' is not accepted" in done.stderr
    assert "at once" not in done.stderr


def test_the_processor_of_this_machine_is_a_part_that_is_predicted(run_planner: RunPlanner) -> None:
    loads = ("--at-once", "1", "--requests", "2", "--input-tokens", "4", "--output-tokens", "4")
    with server() as address:
        done = run_planner("bench", "--suite", "serve", "--url", address, *loads, *RUNS, "--set", "gpu=cpu", "--set", "dtype=fp32")
    assert done.returncode == 0, done.stderr
    assert "Predicted " in done.stdout


def test_a_full_server_makes_requests_wait_and_an_open_loop_sees_it() -> None:
    with server(slots=1) as address:
        found = run(address, Point("open", 20.0, 5))
    waited = [one.ttft_s for one in found]
    assert waited[-1] is not None
    assert waited[-1] > 2 * TTFT_S  # it was sent on time, and stood in line


def test_failures_are_told_and_in_no_figure() -> None:
    point = Point("closed", 1, 2)
    good = TimedRequest(0.0, 0.0, first_s=0.1, last_s=0.5, output_tokens=5, parts=5)
    result = result_of(point, [good, TimedRequest(0.0, 0.0, failure="HTTP 500")], "m", "")
    assert result.seen["tpot_s"] == pytest.approx(0.1)
    assert result.notes[0] == "1 of 2 requests failed and are not counted in any figure: HTTP 500"
    with pytest.raises(ValueError, match="HTTP 500"):
        result_of(point, [TimedRequest(0.0, 0.0, failure="HTTP 500")], "m", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--url", "http://127.0.0.1:1/v1"), "cannot be reached"),
        (("--url", "localhost:8000"), "does not begin with http"),
        ((), "is needed by the suite serve"),
        (("--url", "http://127.0.0.1:1/v1", "--out", "/nowhere/seen.jsonl"), "there is no folder /nowhere"),
    ],
)
def test_wrong_input_is_one_message(run_planner: RunPlanner, given: tuple[str, ...], said: str) -> None:
    done = run_planner("bench", "--suite", "serve", *given)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "text"), [("--rates", "x"), ("--rates", "1,nan"), ("--rates", "0"), ("--at-once", "1.5"), ("--at-once", "1,,2")]
)
def test_loads_that_are_no_numbers_are_refused_before_anything_is_measured(run_planner: RunPlanner, option: str, text: str) -> None:
    done = run_planner("bench", option, text)
    assert done.returncode == 2
    assert f"Invalid value for '{option}'" in done.stderr


def test_a_token_without_text_counts_and_the_end_does_not() -> None:
    """llama.cpp's server streams the first bytes of a sign in this way, and ends without counting tokens."""
    found = TimedRequest(0.0, 0.0)
    for at_s, text, ended in ((1.0, "a", None), (2.0, "", None), (3.0, "é", None), (3.5, "", "length")):
        _note(found, at_s, {"choices": [{"text": text, "finish_reason": ended}]})
    assert (found.parts, found.first_s, found.last_s) == (3, 1.0, 3.0)
