"""The benchmark pane with real workers: what is said when it cannot start, stops, or ends."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Static
from tui_sample import SampleSession, sample_options, settle

from planner.hardware.gpus import GpuCatalogue
from planner.hardware.measurements import Store
from widgets.app import PlannerApp
from widgets.benchmark import RunState

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is an extra")


class MeasuredSession(SampleSession):
    """The sample with a store on disk and no GPU of the catalogue."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = Store.open(folder / "state" / "measurements.sqlite3")
        self.gpus = GpuCatalogue(())
        self.machine = SimpleNamespace(gpus=(), devices=())


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, open_session=lambda: cast("Any", MeasuredSession(folder)), suite="smoke", **changes))


async def opened(pilot: Pilot[None]) -> PlannerApp:
    app = pilot.app
    assert isinstance(app, PlannerApp)
    await settle(pilot)
    return app


async def until(app: PlannerApp, *states: RunState, within_s: float = 60) -> float:
    """Seconds until the run is in one of these states."""
    began = time.monotonic()
    while app.measuring is None or app.measuring.run.state not in states:
        assert time.monotonic() - began < within_s, app.measuring and app.measuring.run
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "python"
    app = app_in(tmp_path, python=str(missing))
    async with app.run_test(size=(120, 40)) as pilot:
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
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "finished")
        await pilot.pause()
        run = app.measuring and app.measuring.run
        assert run
        assert run.done == len(run.points) > 0
        assert all(point.value for point in run.points if point.state == "done")
        planned: Any = app.session_thread._session
        assert planned.refreshed
        assert len(planned.planned) > 1
    again = app_in(tmp_path)
    async with again.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert " of 1 run" in str(again.main.query_one("#benchmark-text", Static).content)


@needs_torch
async def test_x_stops_within_a_second_and_the_app_goes_on(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        await asyncio.sleep(1.0)
        await pilot.press("x")
        assert await until(app, "stopped") < 1.5
        await pilot.press("j")
        assert app.is_running


async def test_quitting_while_it_runs_asks_first(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
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
