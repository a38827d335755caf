"""The terminal program, driven by keys: what a user does and what stands on the screen afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static
from tui_sample import sample_options, settle

from widgets.actions.registry import ACTIONS, BY_ID
from widgets.app import PlannerApp
from widgets.panes.frame import Frame
from widgets.panes.ranking.table import Ranking
from widgets.panes.workload.choice import Choice
from widgets.screens.help import HelpScreen
from widgets.screens.picker import PickerScreen
from widgets.screens.row.why import WhyScreen


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, **changes))


def text_of(app: PlannerApp, selector: str) -> str:
    return str(app.main.query_one(selector, Static).content)


async def test_opens_with_an_answer(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert [row.gpu for row in app.table.rows][:2] == ["H200 SXM 141GB", "H100 SXM5 80GB"]
        assert app.focused is app.table
        assert "214 fit in memory" in str(app.main.query_one("#ranking", Frame).border_title)
        assert "Cheapest that meets" in text_of(app, "#reason")
        assert "109.0 of 139.8 GiB" in str(app.main.query_one("#memory", Frame).border_title)


async def test_typing_in_a_field_plans_again_and_u_takes_it_back(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        before = app.table.rows[0].answer.output_tokens_per_s
        app.form.query_one("#field-output-tokens", Input).focus()
        await pilot.press("end", "0")
        await settle(pilot)
        after = app.table.rows[0].answer.output_tokens_per_s
        assert before is not None
        assert after is not None
        assert app.form.workload["output_tokens"] == 2000
        assert after.value == pytest.approx(10 * before.value)
        await pilot.press("escape", "u")
        await settle(pilot)
        assert app.form.workload["output_tokens"] == 200
        assert app.form.query_one("#field-output-tokens", Input).value == "200"


async def test_letters_in_a_field_are_text(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-request-rate-per-s", Input).focus()
        await pilot.press("end", "b", "q", "?")
        await settle(pilot)
        assert app.is_running
        assert len(app.screen_stack) == 1
        assert app.form.query_one("#field-request-rate-per-s", Input).value == "16.7bq?"
        fault = text_of(app, "#fault-field-request-rate-per-s")
        assert "not a number" in fault
        assert "4k" in fault


async def test_a_value_out_of_range_is_said_at_its_field_and_the_last_plan_stays(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        field = app.form.query_one("#field-request-rate-per-s", Input)
        field.focus()
        field.value = "20k"
        await settle(pilot)
        assert "up to 10,000 req/s" in text_of(app, "#fault-field-request-rate-per-s")
        assert len(app.table.rows) == 9
        assert "the rows show the previous workload" in text_of(app, "#reason")
        field.value = "20"
        await settle(pilot)
        assert not app.form.query_one("#fault-field-request-rate-per-s").display
        assert "Cheapest that meets" in text_of(app, "#reason")


async def test_another_task_has_other_fields_and_columns(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(160, 45)) as pilot:
        await settle(pilot)
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(app.screen, PickerScreen)
        await pilot.press(*"study", "enter")
        await settle(pilot)
        assert app.preset is not None
        assert app.preset.name == "study-600m"
        assert app.form.query("#field-sequence")
        assert not app.form.query("#field-request-rate-per-s")
        assert app.form.query_one("#field-train-tokens", Input).value == "1B"
        assert "$/job" in screen_text(app)


def screen_text(app: PlannerApp) -> str:
    """The ranking's heading as drawn."""
    return app.table.render_line(0).text


async def test_choice_steps_with_the_arrow_keys(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-objective", Choice).focus()
        await pilot.press("right")
        await settle(pilot)
        assert app.form.workload["objective"] == "fastest"


async def test_sorting_and_filtering_move_rows_without_losing_the_cursor(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("j", "j")
        assert app.table.highlighted is not None
        assert app.table.highlighted.gpu == "B200 180GB"
        await pilot.press("s")
        assert app.table.order.column == "gpu"
        assert next(row.gpu for row in app.table.rows) == "B200 180GB"
        assert app.table.highlighted.gpu == "B200 180GB"
        await pilot.press("S")
        fits = [row.gpu for row in app.table.rows if row.verdict == "fits"]
        assert fits == sorted(fits, key=str.casefold, reverse=True)
        assert [row.verdict for row in app.table.rows][-1] != "fits"
        await pilot.press("slash", *"h100")
        await pilot.pause()
        assert [row.gpu for row in app.table.rows] == ["H100 SXM5 80GB"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.table.rows) == 9
        assert app.focused is app.table


async def test_why_shows_bytes_seconds_and_dollars(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, WhyScreen)
        text = str(app.screen.query_one(Static).content)
        for words in (
            "33.1 GiB",
            "KV cache",
            "attention",
            "12.36 $/h × 730 h",
            "https://runpod.example/pricing",
            "memory_fraction",
        ):
            assert words in text
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_every_action_has_a_key_a_place_in_help_and_in_the_palette(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        text = " ".join(str(app.screen.query_one(Static).content).split())
        for action in ACTIONS:
            assert action.description in text, action.id
        assert "No benchmark is running; b starts one." in text
        titles = [command.title for command in app.get_system_commands(app.main)]
        assert "Preset: study-600m" in titles
        assert "Theme: high-contrast" in titles


async def test_an_unavailable_action_says_why(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("x")
        await pilot.pause()
        assert [note.message for note in app._notifications] == ["No benchmark is running; b starts one."]


async def test_keys_can_be_remapped_by_id(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[keys]\nwhy = "v"\nwyh = "w"\n')
    app = app_in(tmp_path, config=tmp_path / "config")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        assert any("keys.wyh" in note.message and "'why'" in note.message for note in app._notifications)
        await pilot.press("v")
        await pilot.pause()
        assert isinstance(app.screen, WhyScreen)


async def test_narrow_screens_show_one_pane_and_numbers_change_it(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert visible_panes(app) == ["ranking"]
        await pilot.press("1")
        await pilot.pause()
        assert visible_panes(app) == ["workload"]
        await pilot.press("escape")
        await pilot.press("3")
        await pilot.pause()
        assert visible_panes(app) == ["memory"]
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert len(visible_panes(app)) == 6
        await pilot.press("2", "z")
        await pilot.pause()
        assert visible_panes(app) == ["ranking"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(visible_panes(app)) == 6


def visible_panes(app: PlannerApp) -> list[str | None]:
    return [pane.id for pane in app.main.query(Frame) if pane.region.area and pane.display]


async def test_numbers_are_never_cut_and_a_wider_screen_has_every_column(tmp_path: Path) -> None:
    """One start, resized: the columns of each width are among those of the next."""
    app = app_in(tmp_path)
    async with app.run_test(size=(60, 24)) as pilot:
        await settle(pilot)
        before: set[str] = set()
        for size in (
            (60, 24),
            (80, 24),
            (99, 30),
            (100, 28),
            (119, 30),
            (120, 40),
            (131, 40),
            (132, 40),
            (148, 40),
            (200, 50),
            (300, 80),
        ):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            table = app.query_one(Ranking)
            lines = [table.render_line(y).text for y in range(table.size.height)]
            assert all(len(line) == table.size.width for line in lines)
            assert any(" 9,020 " in line for line in lines), size
            shown = set(lines[0].split())
            assert before <= shown, size
            before = shown
            panes = visible_panes(app)
            assert ("workload" in panes) == (size[0] >= 100), "the form stands beside the ranking from 100×28"
            assert ("why" in panes) == (size[0] >= 120)


async def test_a_screen_too_small_says_so_and_only_quits(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(50, 15)) as pilot:
        await settle(pilot)
        assert "needs 60×18" in text_of(app, "#too-small")
        await pilot.press("o")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running


async def test_spec_basis_is_planned_and_said(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("m")
        await settle(pilot)
        assert {row.basis for row in app.table.rows} == {"spec"}
        assert "DATA SHEETS ONLY" in str(app.main.query_one("#ranking", Frame).border_title)


async def test_the_line_of_the_filter_goes_and_the_way_back_is_named(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "all rows" not in text_of(app, "#key-line")
        await pilot.press("slash", *"h100", "enter")
        await settle(pilot)
        assert not app.main.query_one("#filter", Input).display, "the chips say what it asks for"
        assert text_of(app, "#key-line").startswith("esc all rows")
        await pilot.press("slash")
        await settle(pilot)
        assert app.main.query_one("#filter", Input).value == "h100"
        await pilot.press("escape")
        await settle(pilot)
        assert len({row.gpu for row in app.table.rows}) > 1
        assert "all rows" not in text_of(app, "#key-line")


async def test_keys_that_scroll_are_named_where_there_is_something_to_scroll(tmp_path: Path) -> None:
    for height, scrolls in ((24, True), (100, False)):
        app = app_in(tmp_path)
        async with app.run_test(size=(160, height)) as pilot:
            await settle(pilot)
            await pilot.press("enter")
            await settle(pilot)
            told = str(app.screen.query_one("#box").border_subtitle)
            assert ("j k scroll" in told) is scrolls
            assert told.endswith("esc back")


async def test_with_plain_signs_keys_are_words(tmp_path: Path) -> None:
    app = app_in(tmp_path, ascii_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).focus()
        await settle(pilot)
        app.form.query(Choice).first().focus()
        await settle(pilot)
        assert "left previous" in text_of(app, "#key-line")
        assert app.state_of(BY_ID["form-previous"]).keys == "up shift+tab"
        await pilot.press("escape", "question_mark")
        await pilot.pause()
        assert "  up shift+tab  Previous field" in str(app.screen.query_one("#text Static", Static).content)


async def test_a_title_without_room_still_says_how_to_shift_columns(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("space", "W")
        await settle(pilot)
        assert "h l shift" in str(app.main.query_one("#ranking", Frame).border_title)
