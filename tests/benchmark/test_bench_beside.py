"""The screen beside a running benchmark: it plans again now and then; screen/panes/test_tui_benchmark.py has a real one."""

from __future__ import annotations

import time

import pytest

from widgets.background import benchmark
from widgets.background.benchmark import BenchmarkRunner
from widgets.background.planning import SessionThread


def watched() -> BenchmarkRunner:
    thread = SessionThread(lambda: pytest.fail("nothing is asked of the session"))
    return BenchmarkRunner(thread, lambda _message: True, python=None, state=None, suite="quick", polls=lambda: 0)


def test_plans_follow_results_by_seconds_and_the_last_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pane = watched()
    pane.run.state = "running"
    assert not pane._replans(measured=False)
    assert pane._replans(measured=True)
    now[0] += 0.5
    assert not pane._replans(measured=True)
    now[0] += benchmark.REPLAN_S
    assert pane._replans(measured=False)
    assert not pane._replans(measured=False)
    assert not pane._replans(measured=True)
    pane.run.state = "finished"
    assert pane._replans(measured=False)
    assert not pane._replans(measured=False)
