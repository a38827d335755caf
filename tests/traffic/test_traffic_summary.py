"""What traffic says about a workload, against streams that are known."""

from __future__ import annotations

import datetime as dt
import tomllib
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT, RunPlanner

from planner.workload.traffic.summary import summarised
from planner.workload.traffic.trace import Trace

DATA = ROOT / "tests/data/traffic"


def stream(gaps: np.ndarray[tuple[int], np.dtype[np.float64]], *, begins: dt.datetime | None = None) -> Trace:
    arrival = np.cumsum(gaps) - gaps[0]
    same = np.full(arrival.size, 100.0)
    return Trace(arrival, same, same / 4, np.full(arrival.size, np.nan), "test", begins)


@pytest.mark.parametrize("variation", [0.0, 1.0, 2.5])
def test_burstiness_of_a_known_stream_is_found(variation: float) -> None:
    random = np.random.default_rng(1)
    shape = 1 / max(variation, 1e-6) ** 2
    gaps = np.ones(20_000) if variation == 0 else random.gamma(shape, 1 / shape, 20_000)
    found = summarised(stream(gaps)).arrival_variation
    assert found is not None
    assert found == pytest.approx(variation, rel=0.1, abs=0.02)


def test_a_days_rise_and_fall_is_no_burst() -> None:
    random = np.random.default_rng(2)
    rate = 1 + 0.9 * np.sin(np.arange(40_000) / 40_000 * 2 * np.pi)
    found = summarised(stream(random.exponential(1.0, 40_000) / rate))
    assert found.arrival_variation == pytest.approx(1.0, rel=0.1)
    assert found.peak_rate_per_s == pytest.approx(1.9, rel=0.1)


def test_times_in_whole_steps_are_counted_instead() -> None:
    random = np.random.default_rng(3)
    fine = np.cumsum(random.exponential(0.3, 30_000))
    coarse = np.floor(fine / 3) * 3
    found = summarised(stream(np.diff(coarse, prepend=0.0)))
    assert found.arrival_variation == pytest.approx(1.0, rel=0.1)
    assert "multiples of 3 s" in found.notes[0]


def test_hours_are_those_of_the_clock() -> None:
    begins = dt.datetime(2026, 10, 10, 9, 45, tzinfo=dt.UTC)
    found = summarised(stream(np.full(101, 60.0), begins=begins))
    assert [hour.clock for hour in found.hours] == ["2026-10-10T09:00+00:00", "2026-10-10T10:00+00:00", "2026-10-10T11:00+00:00"]
    assert [hour.requests for hour in found.hours] == [15, 60, 26]
    assert sum(hour.requests for hour in found.hours) == found.requests
    assert [hour.rate_per_s for hour in found.hours] == pytest.approx([1 / 60, 1 / 60, 26 / 1500])


def test_a_preset_is_written_and_read(run_planner: RunPlanner, tmp_path: Path) -> None:
    out = tmp_path / "azure.toml"
    trace = str(DATA / "azure_code_2023.csv")
    done = run_planner("traffic", trace, "--model", "llama-3.1-8b", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "2,630" in done.stdout
    planned = run_planner("plan", str(out), "--gpu", "L4", "--json")
    assert planned.returncode in {0, 1}, planned.stderr
    assert "request_rate_per_s = 1.138" in out.read_text()
    again = run_planner("traffic", trace, "--preset", "llama-3.1-70b-chat-service", "--out", str(out), "--rate", "mean")
    assert again.returncode == 0
    assert "p95_request_s" in out.read_text()


def test_the_deadline_of_a_job_is_not_that_of_a_service(run_planner: RunPlanner, tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    done = run_planner("traffic", str(DATA / "azure_code_2023.csv"), "--preset", "qwen3-32b-batch-job", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "deadline" not in out.read_text()
    assert "request_rate_per_s" in out.read_text()


def test_traffic_takes_the_place_of_users(run_planner: RunPlanner, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('model = "qwen3-8b"\ntask = "serve"\ndaily_users = 5000\npeople = { peak_factor = 4 }\n')
    trace = str(DATA / "azure_code_2023.csv")
    replayed = run_planner("replay", trace, str(mine), "--gpu", "L40S", "--replicas", "2")
    assert replayed.returncode == 0, replayed.stderr
    done = run_planner("traffic", trace, "--preset", str(mine), "--out", str(tmp_path / "out.toml"))
    assert done.returncode == 0, done.stderr
    assert not {"daily_users", "people"} & tomllib.loads((tmp_path / "out.toml").read_text()).keys()


def test_a_batch_without_times_is_a_batch_job(run_planner: RunPlanner, tmp_path: Path) -> None:
    out = tmp_path / "batch.toml"
    done = run_planner("traffic", str(DATA / "servegen_offline_d.jsonl"), "--model", "llama-3.1-8b", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert 'task = "generate"' in out.read_text()
    assert "requests = 10" in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("azure_code_2023.csv",), "--model"),
        (("servegen_offline_c.jsonl", "--model", "llama-3.1-8b"), "--output-tokens"),
        (("azure_code_2023.csv", "--model", "llama-3.1-8"), "llama-3.1-8b"),
    ],
    ids=str,
)
def test_what_a_preset_lacks_is_asked_for(run_planner: RunPlanner, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run_planner("traffic", str(DATA / arguments[0]), *arguments[1:], "--out", str(tmp_path / "x.toml"))
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout, "nothing was done"
    assert not (tmp_path / "x.toml").exists()
