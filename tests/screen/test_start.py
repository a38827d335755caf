"""What a start of the screen does, and in which order: nothing twice, and nothing before the first answer that it does without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.widgets import Static
from tui_sample import PRESET, sample_options, settle

from widgets import start
from widgets.app import PlannerApp
from widgets.background import row_details
from widgets.drawing import theme
from widgets.panes.workload.choice import Choice
from widgets.state import state_files


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[Stylesheet]:
    """Style sheets that were read once more."""
    found: list[Stylesheet] = []
    usual = Stylesheet.reparse

    def reparse(sheet: Stylesheet) -> None:
        found.append(sheet)
        usual(sheet)

    monkeypatch.setattr(Stylesheet, "reparse", reparse)
    return found


@pytest.mark.parametrize("name", ["planner-light", theme.DEFAULT])
async def test_the_first_theme_reads_no_style_sheet_again_and_looks_as_one_that_is_chosen(
    tmp_path: Path, read_again: list[Stylesheet], name: str
) -> None:
    first = PlannerApp(sample_options(tmp_path / "first", theme=name))
    async with first.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert not read_again
        background, variables, classes = first.main.styles.background, first.theme_variables, first.classes
    chosen = PlannerApp(sample_options(tmp_path / "chosen", theme="high-contrast"))
    async with chosen.run_test(size=(120, 40)) as pilot:
        chosen.theme = name
        await settle(pilot)
        assert read_again
        assert (background, variables, classes) == (chosen.main.styles.background, chosen.theme_variables, chosen.classes)


async def test_the_form_is_laid_out_once_and_has_a_text_for_a_fault_only_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_details, "QUIET_S", 3600.0)  # a reason that came meanwhile would lay its pane out
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert not app.form.query(".fault")
        assert all(len(line.children) == 1 for line in app.form.query("FieldLine"))
        app.form.query_one("#field-request-rate-per-s").focus()
        await pilot.press("x")
        await settle(pilot)
        assert len(app.form.query(".fault")) == 1
        choice = app.form.query_one("#field-objective", Choice)
        laid_out: list[object] = []
        app.main.screen_layout_refresh_signal.subscribe(app.main, laid_out.append, immediate=True)
        choice.on_resize(None)  # type: ignore[arg-type]  # it does not look at it
        await pilot.pause()
        assert not laid_out
        app.form.query_one("#fault-field-request-rate-per-s", Static).update("longer\nby a line")
        await pilot.pause()
        assert laid_out


async def test_the_first_answer_is_asked_for_before_the_lists_of_the_pickers(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    asked: list[str] = []
    usual, search = app.session_thread.ask, app.session_thread.search

    async def noted(question: Any, *given: Any) -> Any:
        asked.append(question.__name__)
        return await (search if given else usual)(question, *given)

    app.session_thread.ask = app.session_thread.search = noted  # type: ignore[method-assign, assignment]
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert asked.index("ranking") < asked.index("_shelves")
        assert app.form.presets


async def test_what_is_slow_to_answer_holds_the_rest_up_no_longer_than_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "FIRST_ANSWER_S", 0.0)
    app = PlannerApp(sample_options(tmp_path))
    app.plan_loop.answered.set = lambda: None  # type: ignore[method-assign]  # an answer that never comes
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert app.form.presets


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"theme": NaN}', '{"theme": ' + "[" * 100 + "]" * 100 + "}", '{"theme": 1}', "\x00", "[" * 100_000]
)
def test_choices_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / state_files.CHOICES).write_text(text)
    assert state_files.load_choices(tmp_path) == {}
    (tmp_path / state_files.CHOICES).write_text('\ufeff{"theme": "nord"}', encoding="utf-8")
    assert state_files.load_choices(tmp_path) == {"theme": "nord"}


async def test_a_start_on_a_model_plans_it_and_says_what_stays_of_the_preset(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, model="qwen3-0.6b"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.form.workload["model"] == "qwen3-0.6b"
        assert [note.title for note in app._notifications] == [f"The rest is as in {PRESET}"]
