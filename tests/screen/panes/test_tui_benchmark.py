"""The benchmark pane with real workers: what is said when it cannot start, stops, or ends."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from measuring_sample import app_in, needs_torch, opened, stand_in, until
from textual.pilot import Pilot
from textual.widgets import Static

from bench.protocol import Point
from planner.observe.benchmark.events import PointProgress, PointStarted, RoundDone
from planner.observe.telemetry.poller import Poller
from widgets.app import PlannerApp
from widgets.background.benchmark_run import PointLine, Run
from widgets.panes.benchmark import shared_detail
from widgets.panes.machine.pane import MachineView


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


@pytest.mark.process
async def test_results_arrive_are_kept_and_are_there_at_the_next_start_and_this_machine_is_read_seldom_meanwhile(
    tmp_path: Path,
) -> None:
    """Results of a worker that reports them without measuring."""
    await assert_results_arrive(tmp_path, python=stand_in(tmp_path))


@pytest.mark.measuring
@needs_torch
async def test_results_of_this_machine_arrive_and_are_kept(tmp_path: Path) -> None:
    await assert_results_arrive(tmp_path)


async def assert_results_arrive(tmp_path: Path, **changes: Any) -> None:
    """One run for all of it, as PyTorch takes seconds to load. Objects that were there before the run are not collected during it."""
    app = app_in(tmp_path, telemetry=True, **changes)
    frozen: list[int] = []
    thinned: list[bool] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        poller = await polling(pilot, app)
        assert not poller.thinned
        await pilot.press("b")
        await until(app, "running")
        assert app.benchmark is not None
        while app.benchmark_runs:
            frozen.append(gc.get_freeze_count())
            thinned += [poller.thinned] if app.benchmark.marks.open else []
            await asyncio.sleep(0.02)
        await until(app, "finished")
        for _ in range(500):
            if gc.get_freeze_count() == 0:
                break
            await asyncio.sleep(0.01)
        assert gc.get_freeze_count() == 0
        assert min(frozen[:-1]) > 10_000
        await pilot.pause(0.2)
        run = app.benchmark.run
        assert run.done == len(run.points) > 0
        assert all(point.value for point in run.points if point.state == "done")
        planned: Any = app.session_thread._session
        assert planned.refreshed
        assert len(planned.planned) > 1
        assert any(thinned) or not thinned, "a point was measured between two looks"
        assert not poller.thinned
        await every_point_is_marked(app, pilot)
    again = app_in(tmp_path)
    async with again.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert " of 1 run" in str(again.main.query_one("#benchmark-text", Static).content)


async def polling(pilot: Pilot[None], app: PlannerApp) -> Poller:
    """The poller of this machine, once it reads."""
    for _ in range(200):
        poller = app.telemetry._poller
        if poller is not None and poller.latest is not None and app.main.query_one(MachineView).snapshot is not None:
            return poller
        await pilot.pause(0.05)
    raise AssertionError("nothing was read")


async def every_point_is_marked(app: PlannerApp, pilot: Pilot[None]) -> None:
    """Below the histories of this machine stands when each point was measured, and by its letter which."""
    assert app.benchmark is not None
    marks = list(app.benchmark.marks)
    measured = [point.label for point in app.benchmark.run.points if point.state == "done"]
    assert {mark.label for mark in marks} >= set(measured) > set()
    assert all(mark.ended_s is not None and mark.ended_s >= mark.began_s and mark.device == "cpu" for mark in marks)
    text = ""
    for _ in range(100):
        await pilot.pause(0.05)
        text = str(app.main.query_one("#machine-text", Static).render())
        if "benchmark" in text:
            break
    assert f"{marks[-1].letter} {marks[-1].label}" in text


async def test_a_point_with_rounds_to_come_is_not_running(tmp_path: Path) -> None:
    app = app_in(tmp_path, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert app.benchmark is not None
        point = Point(id="p", kind="gemm", label="GEMM fp32 1,024³", device="cpu", expected_s=1.0, cap_s=1.0)
        store: Any = None
        run = app.benchmark.run = Run(state="running", points=[PointLine("p", point.label), PointLine("q", "copy")])
        for event in (PointStarted(point), PointProgress(point, 1.0, 9.0), RoundDone(point, 1, 2)):
            await app.benchmark._take(event, store)
        assert (run.points[0].state, run.progress_text) == ("between", "0/2")
        app.content.show_run(run, app.benchmark.marks)
        await pilot.press("5")
        await pilot.pause()
        told = str(app.main.query_one("#points-text", Static).content)
        assert "GEMM fp32 1,024^3" in told
        assert "round 1 of 2 done" in told
        assert "100 %" not in told
        run.points[1].measured = 0.5
        assert run.progress_text == "1/2"


@needs_torch
async def test_x_stops_within_a_second_and_the_app_goes_on(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await until(app, "running")
        await asyncio.sleep(1.0)
        await pilot.press("x")
        assert await until(app, "stopped") < 5  # a third of a second on an idle machine
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


def test_what_is_said_of_every_result_is_said_once() -> None:
    points = [PointLine(name, name, "done", detail="machine shared with others") for name in "ab"]
    assert shared_detail([*points, PointLine("c", "c", "skipped", detail="too slow here")]) == "machine shared with others"
    assert shared_detail([*points, PointLine("d", "d", "done")]) == ""
    assert shared_detail(points[:1]) == ""
