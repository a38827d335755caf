"""Where the time of a row goes: opened from anywhere, read by keys, at every size; the roofline is where its figures are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from overlay_sample import SIZES, app_in, opened
from textual.containers import VerticalScroll
from textual.widgets import Static
from tui_sample import OPERATORS, PRESET, SampleSession, first_note, sample_plan, sample_time, settle

from planner.engine.answers.time import TimeDetail
from planner.units import duration_text
from widgets.drawing.roofline import chart, rate
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.panes.key_line import KeyLine
from widgets.screens.help import HelpScreen
from widgets.screens.row.time import TimeScreen, time_lines
from widgets.screens.row.why import WhyScreen


@pytest.fixture
def told(tmp_path: Path) -> TimeDetail:
    """The operators of the first row of the sample."""
    found = sample_time(sample_plan(SampleSession(tmp_path).presets.load(PRESET).workload, "measured").rows[0])
    assert found is not None
    return found


@pytest.mark.parametrize("size", SIZES)
async def test_phases_roofline_and_operators(tmp_path: Path, told: TimeDetail, size: tuple[int, int]) -> None:
    """Chart and phases are seen without scrolling."""
    app = app_in(tmp_path)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, TimeScreen, "T")
        assert f"one request: {duration_text(told.total_s)}" in text
        assert "prefill 20.8 ms 2 %" in text
        assert "compute 75 %" in text
        assert "decode 956 ms 98 %" in text
        assert "bandwidth 57 %" in text
        assert "reached 778 TFLOP/s and 4.20 TB/s, ridge at 185 FLOP/B" in text
        assert "data sheet 989 TFLOP/s and 4.80 TB/s, ridge at 206" in text
        assert "a MLP gate" in text
        kept = [name for _, _, name, ms, *_ in OPERATORS if ms > 4.8]
        for name in kept:
            assert all(word in text for word in name.split()), name
        assert "2 shorter ones 3.10 ms <1 %" in text
        if size[0] == 200:
            assert "52·7,168·8,192 15,920 97.2 T 95.3 410 ms 43 % bandwidth" in text
        lines = str(app.screen.query_one(Static).content).splitlines()
        axis = next(number for number, line in enumerate(lines) if "└" in line)
        assert axis + 1 < app.screen.query_one("#text", VerticalScroll).size.height, "the labels of the axis too"
        assert app.screen.query_one(Static).size.height == len(lines), "nothing is folded a second time"


@pytest.mark.parametrize("width", range(50, 172, 7))
@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_no_line_is_wider_than_its_room(told: TimeDetail, width: int, symbols: Any) -> None:
    lines = time_lines(told, symbols, width, 40)
    assert all(line.cell_length <= width for line in lines)
    (head,) = (line.plain for line in lines if line.plain.startswith("decode ") and "bound by" in line.plain)
    table = [line.plain for line in lines[lines.index(next(line for line in lines if line.plain == head)) + 1 :]]
    end = head.index("of phase") + len("of phase")
    assert all(row[end - 1] == "%" for row in table if row[:1].strip() and len(row) >= end), "the columns stand below each other"


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_marks_stand_where_their_figures_are(told: TimeDetail, symbols: Any) -> None:
    lines, marks = chart(told, symbols, 80, 20)
    rows = [line.plain for line in lines]
    assert len(rows) == 20
    where = {mark.sign: next((row.index(mark.sign), n) for n, row in enumerate(rows) if mark.sign in row) for mark in marks}
    assert len(where) == len(marks)
    assert sum(len(mark.operators) for mark in marks) == sum(1 for one in told.operators if one.intensity)
    in_x = sorted(marks, key=lambda mark: mark.operators[0].intensity or 0)
    assert [where[mark.sign][0] for mark in in_x] == sorted(where[mark.sign][0] for mark in marks)
    in_y = sorted(marks, key=lambda mark: -rate(mark.operators[0]))
    assert [where[mark.sign][1] for mark in in_y] == sorted(where[mark.sign][1] for mark in marks)
    ridge = next(row for row in rows if "ridge 185" in row).index("ridge")
    by_name = {mark.operators[0].name + mark.operators[0].phase: where[mark.sign][0] for mark in marks}
    assert by_name["MLP gatedecode"] < ridge < by_name["MLP gateprefill"]


def test_ascii_draws_with_ascii(told: TimeDetail) -> None:
    lines, _ = chart(told, ASCII, 70, 16)
    text = "\n".join(line.plain for line in lines)
    assert text.isascii()
    assert "===" in text
    assert "." in text
    assert chart(msgspec.structs.replace(told, operators=[]), ASCII, 70, 16) == ([], [])


def test_shapes_stay_products_in_ascii(told: TimeDetail) -> None:
    text = "\n".join(line.plain for line in time_lines(told, ASCII, 120, 40))
    assert "m*n*k" in text
    assert "600*7,168*8,192" in text


def test_time_without_products_has_no_chart(told: TimeDetail) -> None:
    bare = msgspec.structs.replace(told, operators=[one for one in told.operators if not one.flop])
    text = "\n".join(line.plain for line in time_lines(bare, UNICODE, 100, 40))
    assert "Roofline" not in text
    assert "all-reduce" in text


async def test_it_opens_from_why(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, WhyScreen)
        assert "T itemises it" in str(app.screen.query_one(Static).content)
        await opened(pilot, TimeScreen, "T")
        assert len(app.screen_stack) == 2
        await pilot.press("T")
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_a_row_without_time_says_why(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("G", "T")
        assert "not supported" in await first_note(pilot)
        assert len(app.screen_stack) == 1


async def test_key_line_and_help_name_the_key(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "T time" in str(app.main.query_one(KeyLine).content)
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "roofline" in str(app.screen.query_one(Static).content)


async def test_a_resize_draws_the_chart_again(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, TimeScreen, "T")
        narrow = max(map(len, str(app.screen.query_one(Static).content).splitlines()))
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        await pilot.pause()
        assert max(map(len, str(app.screen.query_one(Static).content).splitlines())) > 2 * narrow - 20
