"""A trace through the simulator: nothing is lost, laws of queues hold, and how the work is cut changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT, RunPlanner

from planner import Planner, UserError
from planner.engine.answers.replay import Replay
from planner.engine.replay import replay as replay_room
from planner.engine.replay import runs as runs_room
from planner.engine.replay.runs import Chunk, Recorded, Replica, Served, Times, served, stretch
from planner.workload.traffic.preset import service_of
from planner.workload.traffic.summary import summarised
from planner.workload.traffic.trace import Trace

CHANGES = {"max_gpus": 8, "engine": "vllm"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    return Planner(config=tmp_path_factory.mktemp("config"), state=tmp_path_factory.mktemp("state"), basis="spec")


def trace_of(requests: int, rate_per_s: float, *, seed: int = 0, swing: float = 0.0) -> Trace:
    random = np.random.default_rng(seed)
    rate = rate_per_s * (1 + swing * np.sin(np.arange(requests) / requests * 4 * np.pi))
    arrival = np.cumsum(random.exponential(1.0, requests) / rate)
    inputs, outputs = (np.ceil(random.lognormal(mean, 0.7, requests)) for mean in (5.5, 4.5))
    return Trace(arrival - arrival[0], inputs, outputs, np.zeros(requests), "made up")


def replayed(asked: Planner, trace: Trace, changes: dict[str, Any] | None = None, **more: Any) -> Replay:
    base = {"model": "llama-3.1-8b", "task": "serve", **CHANGES}
    workload = asked.workload(service_of(asked.workload({**base, "concurrency": 1}), summarised(trace)), changes or {})
    rows = [row for row in asked.plan(workload, gpus=["L40S"]) if row.answer.layout and not row.here]
    row = min(rows, key=lambda row: row.answer.layout.gpus // row.answer.layout.dp if row.answer.layout else 0)
    return asked.session.replay(workload, row, trace, basis="spec", **more)


def one_replica(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> Replica:
    """A replica of the 8B model on an L40S, as a replay makes it."""
    found = list[Replica]()

    def caught(replica: Replica, *_: Any) -> Times:
        found.append(replica)
        raise KeyError

    monkeypatch.setattr(replay_room, "_served", caught)
    with pytest.raises(KeyError):
        replayed(asked, trace_of(50, 1.0), replicas=1, by_hour=False)
    monkeypatch.undo()
    return found[0]


def recorded(trace: Trace) -> Recorded:
    return Recorded(trace.arrival_s, trace.input_tokens, trace.output_tokens, trace.prefix_tokens)


def test_every_request_ends_once_and_littles_law_holds(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, trace = one_replica(asked, monkeypatch), trace_of(1500, 3.0)
    times = replica.serve(recorded(trace), stretch(recorded(trace), 0.0, trace.seconds + 1, 3, 60.0))
    assert sorted(times.request.tolist()) == list(range(1500))
    assert (times.wait_s >= 0).all()
    assert (times.ttft_s > times.wait_s).all()
    assert (times.request_s >= times.ttft_s).all()
    sent = trace.arrival_s[times.request]
    moments = np.concatenate([sent, sent + times.request_s])
    order = np.argsort(moments, kind="stable")
    inside = np.cumsum(np.repeat([1, -1], 1500)[order])
    over_time = float((inside[:-1] * np.diff(moments[order])).sum())
    assert inside.min() >= 0
    assert over_time == pytest.approx(times.request_s.sum(), rel=1e-9)
    assert 0 < times.busy_s.sum() < 3 * (trace.seconds + 60)


def test_a_request_alone_takes_what_the_estimate_says(asked: Planner) -> None:
    trace = Trace(np.array([0.0, 1000.0]), np.array([512.0, 512.0]), np.array([128.0, 128.0]), np.zeros(2), "made up")
    found = replayed(asked, trace, replicas=1)
    alone = asked.estimate(
        {
            "model": "llama-3.1-8b",
            "task": "serve",
            "gpu": "L40S",
            "engine": "vllm",
            "tp": found.gpus_per_replica,
            "gpus": found.gpus_per_replica,
            "concurrency": 1,
            "input_tokens": 512,
            "output_tokens": 128,
        }
    )[0]
    assert alone.request_s is not None
    assert found.request_s.mean.value == pytest.approx(alone.request_s.mean.value, rel=0.05)
    assert found.in_flight == pytest.approx(2 * found.request_s.mean.value / found.seconds)


@pytest.mark.sweep
def test_stretches_say_what_the_whole_says(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, trace = one_replica(asked, monkeypatch), trace_of(4000, 1.5, swing=0.5)
    every = recorded(trace)
    whole = replica.serve(every, stretch(every, 0.0, trace.seconds + 1, 1, 0.0))
    parts = replay_room._served(replica, every, 1, 60.0, map)
    assert parts.run.max() > 5
    assert sorted(parts.request.tolist()) == list(range(4000))
    for name in ("ttft_s", "tpot_s", "request_s"):
        ours, theirs = (np.nanpercentile(getattr(times, name), [50, 95, 99]) for times in (parts, whole))
        assert ours == pytest.approx(theirs, rel=0.01)


@pytest.mark.sweep
def test_a_queue_that_outlasts_a_stretch_is_replayed_in_one(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, trace = one_replica(asked, monkeypatch), trace_of(5000, 30.0)
    every = recorded(trace)
    whole = replica.serve(every, stretch(every, 0.0, trace.seconds + 1, 1, 0.0))
    parts = replay_room._served(replica, every, 1, 10.0, map)
    assert whole.wait_s.max() > 2.5
    assert np.array_equal(parts.request_s, whole.request_s)


@pytest.mark.sweep
def test_how_chunks_are_cut_changes_no_digit(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, trace = one_replica(asked, monkeypatch), trace_of(2000, 4.0)
    every = recorded(trace)
    runs = [run for count in (1, 2, 5) for run in stretch(every, 100.0, 400.0, count, 60.0)]
    together = replica.serve(every, runs)
    monkeypatch.setattr(runs_room, "FEWEST_RUNS", 1)
    monkeypatch.setattr(runs_room, "REQUESTS_AT_ONCE", 1)
    chunks = list[int]()

    def each(function: Any, arguments: Sequence[Chunk]) -> Iterable[Served]:
        chunks.extend(chunk.warm.size for chunk in arguments)
        return [function(chunk) for chunk in arguments]

    apart = replica.serve(every, runs, each)
    assert chunks == [1] * 8
    assert np.array_equal(together.request_s, apart.request_s)
    assert np.array_equal(together.ttft_s, apart.ttft_s)
    assert served.__module__ in runs_room.__name__


@pytest.mark.sweep
def test_hours_with_more_requests_need_more_replicas(asked: Planner) -> None:
    trace = trace_of(8000, 1.5, swing=0.9)
    one = replayed(asked, trace, replicas=1, by_hour=False)
    between = [hour.tpot_s.p95.value for hour in one.hours if hour.tpot_s and hour.tpot_s.p95]
    found = replayed(asked, trace, {"targets.p95_tpot_s": (max(between) + min(between)) / 2})
    needed = [hour.replicas_needed or 0 for hour in found.hours]
    busiest = max(range(len(needed)), key=lambda hour: found.hours[hour].requests)
    assert found.replicas == found.replicas_needed == max(needed)
    assert needed[busiest] == max(needed) > min(needed) == 1
    assert not found.missed
    assert sum(hour.requests for hour in found.hours) == found.requests == 8000
    assert found.usd is not None
    assert found.usd_by_hour is not None
    assert found.usd_by_hour.value < found.usd.value
    assert one.request_s.mean.value > found.request_s.mean.value


@pytest.mark.sweep
def test_targets_that_no_number_meets_are_missed_and_told(asked: Planner) -> None:
    found = replayed(asked, trace_of(400, 1.0), {"targets.p50_request_s": 0.01})
    assert found.replicas_needed is None
    assert [hour.replicas_needed for hour in found.hours] == [None]
    assert found.missed[0].startswith("p50_request_s")


def test_prefixes_save_time(asked: Planner) -> None:
    trace = trace_of(600, 4.0)
    shared = Trace(trace.arrival_s, trace.input_tokens, trace.output_tokens, trace.input_tokens - 1, "made up")
    plain, cached = (replayed(asked, one, replicas=1, by_hour=False) for one in (trace, shared))
    assert cached.ttft_s.p95 is not None
    assert plain.ttft_s.p95 is not None
    assert cached.ttft_s.p95.value < plain.ttft_s.p95.value
    assert any("cache" in note for note in cached.notes)


@pytest.mark.sweep
def test_the_command_tells_hours_and_misses(run_planner: RunPlanner, tmp_path: Path) -> None:
    path, trace = tmp_path / "trace.csv", trace_of(3000, 0.5)
    rows = zip(trace.arrival_s, trace.input_tokens, trace.output_tokens, strict=True)
    path.write_text("timestamp,input_tokens,output_tokens\n" + "".join(f"{a:.3f},{i:.0f},{o:.0f}\n" for a, i, o in rows))
    arguments = ("replay", str(path), "llama-3.1-70b-chat-service", "--set", "model=llama-3.1-8b", "--gpu", "L40S")
    shown = run_planner(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert "3,000" in shown.stdout
    assert "+1 h" in shown.stdout
    found = json.loads(run_planner(*arguments, "--replicas", "1", "--json", "--set", "targets.p95_request_s=0.1").stdout)
    assert found["missed"]
    assert found["requests"] == 3000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tests/data/traffic/servegen_offline_d.jsonl",), "no arrival times"),
        (("tests/data/traffic/vllm_metrics.txt",), "page of metrics"),
        (("tests/data/traffic/azure_code_2023.csv", "--gpu", "H10"), "H100 SXM5 80GB"),
        (("tests/data/traffic/azure_code_2023.csv", "no-such-preset"), "no-such-preset"),
        (("tests/data/traffic/none.csv",), "none.csv"),
    ],
    ids=str,
)
def test_what_cannot_be_replayed_says_why(run_planner: RunPlanner, arguments: tuple[str, ...], said: str) -> None:
    done = run_planner("replay", str(ROOT / arguments[0]), *arguments[1:])
    assert done.returncode == 2
    assert said in done.stderr


def test_training_is_not_replayed(asked: Planner) -> None:
    workload = asked.workload("llama-3.1-8b-lora")
    row = asked.plan(workload, gpus=["L40S"]).answer.rows[0]
    with pytest.raises(UserError, match="service"):
        asked.session.replay(workload, row, trace_of(10, 1.0))


@pytest.mark.sweep
@pytest.mark.parametrize("thousands", [30, pytest.param(100, marks=pytest.mark.thorough)])
def test_ten_thousand_requests_take_a_second(asked: Planner, thousands: int) -> None:
    begin = time.process_time()
    found = replayed(asked, trace_of(1000 * thousands, 6.0, swing=0.5), {"targets.p95_ttft_s": 2.0})
    assert found.requests == 1000 * thousands
    assert time.process_time() - begin <= thousands / 10
