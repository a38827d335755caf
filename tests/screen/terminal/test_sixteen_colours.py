"""Looks in the terminal's own 16 colours, or in none: what the cursor is on, and which colours stand for different things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot
from textual.renderables.background_screen import BackgroundScreen
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static
from tui_sample import sample_options, settle

from planner.engine.answers.memory import MEMORY_COMPONENTS
from widgets.app import PlannerApp
from widgets.drawing.sections import CHART_STYLES
from widgets.drawing.theme import NAMES

LOOKS: tuple[dict[str, Any], ...] = ({"theme": "ansi-dark"}, {"theme": "ansi-light"}, {"colour": False})
LISTS = {"t": "themes", "o": "presets", "colon": "the box", "a": "changes", "ctrl+p": "the palette"}
"""Keys that open a list."""


def styles(strip: Strip) -> list[Style]:
    return [segment.style or Style() for segment in strip if segment.text.strip()]


def uniform(strip: Strip) -> bool:
    """True if every word is in the terminal's own colours, reversed."""
    return all(one.reverse and (one.color is None or one.color.is_default) for one in styles(strip)) and bool(styles(strip))


async def list_of(app: PlannerApp, pilot: Pilot[None]) -> OptionList:
    """The open list, once a line of it is highlighted."""
    for _ in range(200):
        found = app.screen.query(OptionList)
        if found and (listing := found.first()).highlighted is not None:
            listing._update_lines()  # as drawing it does
            return listing
        await pilot.pause(0.02)
    raise AssertionError("no list came")


@pytest.mark.parametrize("look", LOOKS, ids=str)
async def test_the_highlighted_line_of_every_list_can_be_read(tmp_path: Path, look: dict[str, Any]) -> None:
    app = PlannerApp(sample_options(tmp_path, **look))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key, name in LISTS.items():
            await pilot.press(key)
            await settle(pilot)
            if name == "the box":
                await pilot.press("down")
            listing = await list_of(app, pilot)
            assert listing.highlighted is not None
            first = next(y for y, (option, _) in enumerate(listing._lines) if option == listing.highlighted)
            line = listing.render_line(first - listing.scroll_offset.y)
            assert uniform(line), (name, styles(line))
            assert any("option" in one.meta for one in styles(line)), "a click finds its line"
            await pilot.press("escape")
            await settle(pilot)


@pytest.mark.parametrize("look", LOOKS, ids=str)
async def test_the_cursor_of_a_field_and_what_is_selected_are_reversed(tmp_path: Path, look: dict[str, Any]) -> None:
    app = PlannerApp(sample_options(tmp_path, **look))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        field = app.form.query_one("#field-output-tokens", Input)
        field.focus()
        await settle(pilot)
        whole = [segment.text for segment in field.render_line(0) if segment.style and segment.style.reverse]
        assert "".join(whole).startswith("200")
        await pilot.press("3")
        await settle(pilot)
        cursor = [segment.text for segment in field.render_line(0) if segment.style and segment.style.reverse]
        assert cursor == [" "]
        app.form.query_one("#field-preset").focus()
        await pilot.pause()
        assert all(one.reverse for one in styles(app.form.query_one("#field-preset", Static).render_line(0)))


@pytest.mark.parametrize("look", LOOKS, ids=str)
async def test_the_row_under_the_cursor_has_one_style_in_a_loser_too(tmp_path: Path, look: dict[str, Any]) -> None:
    app = PlannerApp(sample_options(tmp_path, **look))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("G")
        await pilot.pause()
        lines = [app.table.render_line(y) for y in range(app.table.size.height)]
        (row,) = [line for line in lines if line.text.startswith("▸")]
        assert uniform(row), styles(row)


@pytest.mark.parametrize("name", NAMES)
async def test_every_line_of_a_chart_has_a_colour_of_its_own(tmp_path: Path, name: str) -> None:
    app = PlannerApp(sample_options(tmp_path, theme=name))
    shown = {style: Color.parse(app.theme_variables[style.removeprefix("$")]) for style in CHART_STYLES}
    assert len({(one.rgb, one.ansi) for one in shown.values()}) == len(CHART_STYLES), shown
    assert name not in {"ansi-dark", "ansi-light"} or app.theme_variables["accent"] != app.theme_variables["success"]


@pytest.mark.parametrize("name", ["ansi-dark", "ansi-light"])
def test_no_component_of_memory_has_the_colour_of_the_ground(name: str, tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, theme=name))
    ground = {"ansi_black", "ansi_bright_black"} if name == "ansi-dark" else {"ansi_white", "ansi_bright_white"}
    assert ground.isdisjoint(app.theme_variables[f"stack-{part.replace('_', '-')}"] for part in MEMORY_COMPONENTS)


def test_bars_and_what_is_reversed_fade_behind_a_box() -> None:
    bright = Style(color="blue", reverse=True, bold=True)
    words, bar = BackgroundScreen.process_segments([Segment("rank 1", bright), Segment("████", bright)], Color(0, 0, 0, 0))
    assert words.style is not None
    assert bar.style is not None
    assert (words.style.dim, words.style.reverse, words.style.bold) == (True, False, False)
    assert bar.style.color == Style(color="bright_black").color
