"""The benchmark pane with real workers: what is said when it cannot start, stops, or ends."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from measuring_sample import app_in, needs_torch, opened, until
from textual.widgets import Static


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "python"
    app = app_in(tmp_path, python=str(missing))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "failed")
        await pilot.pause()
        text = str(app.main.query_one("#benchmark-text", Static).content)
        assert str(missing) in text
        assert "--python" in text
        assert len(app.table.rows) == 9


@needs_torch
async def test_results_arrive_are_kept_and_are_there_at_the_next_start(tmp_path: Path) -> None:
    """Objects that were there before the run are not collected during it."""
    app = app_in(tmp_path)
    frozen: list[int] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        while app.benchmark_runs:
            frozen.append(gc.get_freeze_count())
            await asyncio.sleep(0.05)
        await until(app, "finished")
        for _ in range(500):
            if gc.get_freeze_count() == 0:
                break
            await asyncio.sleep(0.01)
        assert gc.get_freeze_count() == 0
        assert min(frozen[:-1]) > 10_000
        await pilot.pause()
        run = app.benchmark and app.benchmark.run
        assert run
        assert run.done == len(run.points) > 0
        assert all(point.value for point in run.points if point.state == "done")
        planned: Any = app.session_thread._session
        assert planned.refreshed
        assert len(planned.planned) > 1
    again = app_in(tmp_path)
    async with again.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert " of 1 run" in str(again.main.query_one("#benchmark-text", Static).content)


@needs_torch
async def test_x_stops_within_a_second_and_the_app_goes_on(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        await asyncio.sleep(1.0)
        await pilot.press("x")
        assert await until(app, "stopped") < 1.5
        await pilot.press("j")
        assert app.is_running


@pytest.mark.process
async def test_quitting_while_it_runs_asks_first(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        await pilot.press("q")
        await pilot.pause()
        assert len(app.screen_stack) == 2
        await pilot.press("n")
        await pilot.pause()
        assert app.is_running
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert not app.is_running
