"""Keys that come before there is a plan, or while a row is planned anew."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

from textual.widgets import OptionList
from tui_sample import SampleSession, first_note, sample_options, settle

from planner.engine.answers.plan import Plan
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
        assert not list(app._notifications), "what was waited for is there"
        await pilot.press("escape")
        app.ask_for_plan(app.form.workload)
        await settle(pilot)
        assert app.screen is app.main, "it follows once"


async def test_a_model_is_found_before_the_first_plan(tmp_path: Path) -> None:
    """Somebody who knows the key does not wait for an answer to another question."""
    session, planned = SampleSession(tmp_path), threading.Event()

    def plan(*asked: Any, **how: Any) -> Plan:
        planned.wait(20)
        return SampleSession.plan(session, *asked, **how)

    session.plan = plan  # type: ignore[method-assign]
    app = PlannerApp(sample_options(tmp_path, open_session=lambda: cast("Session", session)))
    async with app.run_test(size=(80, 24)) as pilot:
        while app.preset is None:
            await pilot.pause(0.02)
        await pilot.press("colon", *"llama-3.1-8b")
        assert app.plan is None
        listing = app.screen.query_one("#omni-list", OptionList)
        assert not listing.option_count, "the catalogue is not read yet"
        planned.set()
        await settle(pilot)
        assert "Llama 3.1 8B" in str(listing.get_option_at_index(0).prompt)


async def test_a_key_for_a_row_that_is_being_planned_anew_opens_the_new_one(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        old = app.table.highlighted
        await app.form.change({"output_tokens": 400})
        await settle(pilot)
        changed = app.table.highlighted
        asked = threading.Event()
        work = app.session_thread._executor.submit(asked.wait, 20)  # what comes next waits behind it
        await pilot.press("u")
        while not app.rows_outdated:
            await pilot.pause()
        await pilot.press("T")
        assert app.screen is app.main
        asked.set()
        await settle(pilot)
        assert work.done()
        assert isinstance(app.screen, TimeScreen)
        assert app.table.highlighted is not changed
        assert old is not None
        assert app.table.highlighted is not None
        assert app.table.highlighted.answer == old.answer


async def test_a_key_for_a_row_is_not_lost_when_the_workload_cannot_be_planned(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        asked = threading.Event()
        app.session_thread._executor.submit(asked.wait, 20)
        await app.form.change({"request_rate_per_s": 20_000.0})
        while not app.rows_outdated:
            await pilot.pause()
        await pilot.press("T")
        asked.set()
        await settle(pilot)
        assert isinstance(app.screen, TimeScreen)
        assert not app.rows_outdated
