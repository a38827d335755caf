"""What the screen does beside a running benchmark: it plans again now and then, and never collects all of its memory."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest
from measuring_sample import app_in, needs_torch, opened, until

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


@needs_torch
async def test_what_was_there_before_a_run_is_not_collected_during_it(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    frozen: list[int] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        while app.benchmark_runs:
            frozen.append(gc.get_freeze_count())
            await asyncio.sleep(0.05)
        await until(app, "finished")
        for _ in range(100):
            if gc.get_freeze_count() == 0:
                break
            await asyncio.sleep(0.01)
        assert gc.get_freeze_count() == 0
        planned: Any = app.session_thread._session
        assert planned.refreshed
    assert min(frozen[:-1]) > 10_000
