"""Sessions kept under a name, and the tour of a first start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static
from tui_sample import PRESET, first_note, sample_options, settle

from widgets import start
from widgets.app import PlannerApp
from widgets.screens.dialogs import NameScreen
from widgets.screens.tour import STEPS, TourScreen
from widgets.state.state_files import save_session, session_names


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, **changes))


async def test_a_session_is_kept_under_a_name_and_taken_up_again(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).value = "300"
        await settle(pilot)
        await pilot.press("slash", *"h200", "enter")
        await settle(pilot)
        await pilot.press("K")
        assert isinstance(app.screen, NameScreen)
        await pilot.press(*"monday", "enter")  # in place of the name suggested
        await settle(pilot)
        kept = json.loads((tmp_path / "state" / "sessions" / "monday.json").read_text())
        assert (kept["workload"]["output_tokens"], kept["filter"]) == (300, "h200")
        await pilot.press("escape")
        app.form.query_one("#field-output-tokens", Input).value = "50"
        await settle(pilot)
        assert app.filter_text == ""
        await pilot.press("colon", *"monday", "enter")
        await settle(pilot)
        assert app.form.workload["output_tokens"] == 300
        assert app.filter_text == app.main.query_one("#filter", Input).value == "h200"
        assert app.plan is not None
        assert {row.gpu for row in app.plan.rows} == {"H200 SXM 141GB"}
        await pilot.press("K")
        hint = str(app.screen.query_one(".dialog-hint", Static).content)
        assert "saved sessions: " in hint
        assert "monday" in hint


def test_the_session_kept_last_is_the_first_of_the_list(tmp_path: Path) -> None:
    for age_s, name in ((10, "first"), (20, "before"), (0, "last")):
        save_session(tmp_path, {}, name)
        os.utime(tmp_path / "sessions" / f"{name}.json", (1e9 - age_s, 1e9 - age_s))
    assert session_names(tmp_path) == ["last", "first", "before"]


async def test_a_changed_form_is_kept_when_a_session_takes_its_place(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("K", *"monday", "enter")
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).value = "50"
        await settle(pilot)
        await pilot.press("J", "enter")
        await settle(pilot)
        assert app.form.workload["output_tokens"] != 50
        kept = sorted((tmp_path / "state" / "sessions").glob("*-modified.json"))
        assert [json.loads(path.read_text())["workload"]["output_tokens"] for path in kept] == [50]
        await pilot.press("colon", *kept[0].stem, "enter")
        await settle(pilot)
        assert app.form.workload["output_tokens"] == 50
        await pilot.press("colon", *"monday", "enter")
        await settle(pilot)
        assert len(list(kept[0].parent.iterdir())) == 2, "a form that a session holds is not kept once more"


async def test_a_session_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "sessions"
    folder.mkdir(parents=True)
    (folder / "odd.json").write_text(json.dumps({"preset": PRESET, "workload": 7}))
    (folder / "gone.json").write_text('{"preset": "no such preset", "workload": {}}')
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        before = dict(app.form.workload)
        await pilot.press("J", "enter")
        await settle(pilot)
        assert "gone cannot be read" in await first_note(pilot)
        await pilot.press("J", "down", "enter")
        await settle(pilot)
        assert app.form.workload == before


async def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("K")
        app.screen.query_one(Input).value = "../../monday"
        await pilot.press("enter")
        assert "is not a valid session name" in await first_note(pilot)
    assert not (tmp_path / "monday.json").exists()


@pytest.fixture
def _own_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "DEFAULT_PRESET", PRESET)


@pytest.mark.usefixtures("_own_preset")
async def test_a_restored_session_is_told_and_one_key_starts_afresh(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset=None)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert not app._notifications, "a first start restores nothing"
        await pilot.press("colon", *"output=300", "enter")
        await settle(pilot)
        await pilot.press("slash", *"h200", "enter")
        await settle(pilot)
        await pilot.press("q")
    app = app_in(tmp_path, preset=None)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert await first_note(pilot) == start.RESTORED
        assert (app.form.workload["output_tokens"], app.filter_text) == (300, "h200")
        await pilot.press("N")
        await settle(pilot)
        assert start.is_fresh(app)
        assert app.plan is not None
        assert len(app.plan.rows) > 1
        assert session_names(tmp_path / "state") == [f"{PRESET}-modified"], "what it replaced can be restored"
        await pilot.press("q")
    app = app_in(tmp_path, preset=None)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert not app._notifications, "it looks as a first start does"


@pytest.mark.usefixtures("_own_preset")
async def test_the_first_start_explains_itself_once(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset=None, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        seen = []
        while isinstance(app.screen, TourScreen):
            seen.append(str(app.screen.query_one("#tour").border_title))
            words = str(app.screen.query_one("#tour Static", Static).content)
            assert "$" not in words.replace("$/", "")
            assert [node.id for node in app.main.query(".-lit")] == [STEPS[len(seen) - 1].lit[1:]]
            await pilot.press("enter")
            await pilot.pause()
        assert seen == [f"{number} of 5 · {step.title}" for number, step in enumerate(STEPS, start=1)]
        assert app.active_pane == "ranking"
        assert not app.main.query(".-lit")
        await pilot.press("i")
        assert isinstance(app.screen, TourScreen)
    app = app_in(tmp_path, preset=None, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert not isinstance(app.screen, TourScreen)


@pytest.mark.usefixtures("_own_preset")
async def test_the_tour_ends_with_a_key_that_it_names(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset=None, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TourScreen)
        await pilot.press("colon")
        await pilot.pause()
        await pilot.press(*"output=300")
        await settle(pilot)
        assert app.screen.query_one("#omni-text", Input).value == "output=300"
        await pilot.press("enter")
        await settle(pilot)
        assert app.form.workload["output_tokens"] == 300
        assert app.screen is app.main
        assert app.active_pane == "ranking"


@pytest.mark.usefixtures("_own_preset")
async def test_the_tour_is_skipped_by_one_key(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset=None, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main
        assert json.loads((tmp_path / "state" / "choices.json").read_text())["tour"] == "seen"


@pytest.mark.usefixtures("_own_preset")
async def test_q_leaves_from_the_tour_as_it_says(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset=None, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TourScreen)
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert json.loads((tmp_path / "state" / "choices.json").read_text())["tour"] == "seen"


@pytest.mark.usefixtures("_own_preset")
async def test_settings_that_cannot_be_used_are_told_in_one_note_behind_the_tour(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text('theme = "nord"\n[keys]\nhelpp = "x"\nquit = 1\nzoom = 2\n')
    app = app_in(tmp_path, preset=None, tour=True, config=folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TourScreen)
        assert not app._notifications
        await pilot.press("escape")
        (note,) = app._notifications
        assert note.message.splitlines()[0] == str(folder / "config.toml")
        assert [line.split(":")[0] for line in note.message.splitlines()[1:4]] == ["theme", "keys.helpp", "keys.quit"]
        assert note.message.endswith("\nand 1 more")
