"""Checks while a worker measures, by a clock of the test's own."""

from __future__ import annotations

import time

import pytest

from bench.protocol import Bye, Point, Result, Start
from planner.observe.benchmark.progress import HangWatch, PollRate


def test_a_point_far_over_its_time_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    point = Point(id="p", kind="gemm", label="GEMM", device="cpu", expected_s=1, cap_s=5)
    watch = HangWatch(10.0)
    now[0] += 119.75
    assert watch.look_again_s() == 0.25
    assert not watch.complaint(suspended=False)
    watch.note(Start(point="p"), {"p": point})
    assert watch.look_again_s() == 0.5
    now[0] += 39
    from bench.protocol import Heartbeat

    watch.note(Heartbeat(elapsed_s=39), {"p": point})
    assert not watch.complaint(suspended=False)
    now[0] += 1
    assert watch.look_again_s() == 0
    assert watch.complaint(suspended=False) == "GEMM did not end"


def test_a_worker_that_a_signal_has_stopped_is_given_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch, said = HangWatch(10.0), []
    for suspended in (True, False, True, True, True):
        now[0] += 1.5
        said.append(watch.complaint(suspended=suspended))
    assert said == ["", "", "", "", "stopped by a signal from outside"]


def test_how_often_the_device_was_read_beside_a_point_is_kept_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, count = [100.0], [7]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    polling = PollRate(lambda: count[0])
    point = Result(
        point="p",
        kind="gemm",
        dtype=None,
        parameters={},
        value=1.0,
        low=1.0,
        high=1.0,
        unit="FLOP/s",
        status="ok",
        telemetry={"readings": 2},
    )
    now[0], count[0] = 103.0, 30
    assert polling.added_to(Bye(reason="finished")) == Bye(reason="finished")
    polling.added_to(Start(point="p"))
    now[0], count[0] = 107.0, 40
    told = polling.added_to(point)
    assert isinstance(told, Result)
    assert told.telemetry == {"readings": 2, "poll_hz": 2.5}
