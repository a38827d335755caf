"""What the panes do with the room there is, and with keys that come before there is anything to show."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

from textual.widgets import Static
from tui_sample import SampleSession, first_note, sample_options, settle

from planner.session import Session
from widgets.actions.conditions import NO_PLAN
from widgets.app import PlannerApp
from widgets.screens.row.time import TimeScreen


async def test_a_key_that_comes_before_the_first_plan_follows_with_it(tmp_path: Path) -> None:
    opened = threading.Event()

    def open_session() -> Session:
        opened.wait(20)
        return cast("Session", SampleSession(tmp_path))

    app = PlannerApp(sample_options(tmp_path, open_session=open_session))
    async with app.run_test(size=(80, 24)) as pilot:
        while app.panes is None:
            await pilot.pause()
        await pilot.press("T")
        assert await first_note(pilot) == NO_PLAN
        opened.set()
        await settle(pilot)
        assert isinstance(app.screen, TimeScreen)
        await pilot.press("escape")
        app.ask_for_plan(app.form.workload)
        await settle(pilot)
        assert app.screen is app.main, "it follows once"


async def test_the_reason_is_folded_anew_for_another_width(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(66, 24)) as pilot:
        await settle(pilot)
        reason = app.main.query_one("#reason", Static)
        assert str(reason.content).endswith("…")
        await pilot.resize_terminal(99, 30)
        await settle(pilot)
        assert str(reason.content).endswith("on-demand · us")


async def test_without_gpus_the_ranking_has_the_rows_of_the_panes_below_until_they_need_them(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        while app.content.machine.snapshot is None:
            await pilot.pause(0.05)
        await pilot.pause()
        snapshot = app.content.machine.snapshot
        assert snapshot is not None
        assert app.main.has_class("-quiet") is not bool(snapshot.devices)
        assert app.benchmark is not None
        app.benchmark.run.state = "running"
        app._make_room()
        assert not app.main.has_class("-quiet")


async def test_zoom_shows_every_figure_of_this_machine_on_the_smallest_screen(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, demo=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        while app.content.machine.snapshot is None:
            await pilot.pause(0.05)
        await pilot.press("4")
        await pilot.pause()
        text = app.content.machine.query_one("#machine-text", Static)
        assert "a cell" not in str(text.content), "there is no room for histories of both GPUs"
        await pilot.press("z")
        app.content.machine._draw()
        await pilot.pause()
        assert "a cell" in str(text.content)
        assert "held back by" in str(text.content)
        await pilot.press("z")
        await pilot.pause()
        assert not app.zoomed
