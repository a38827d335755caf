"""Where the time of a row goes: opened from anywhere, read by keys, at every size; the roofline is where its figures are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from overlay_sample import SIZES, app_in, opened
from textual.containers import VerticalScroll
from textual.widgets import Static
from tui_sample import OPERATORS, PRESET, SampleSession, first_note, sample_plan, sample_time, settle

from planner.engine.answers.time import TimeDetail
from planner.units import duration_text
from planner.workload.presets import read_workload
from widgets.drawing.roofline import chart, rate
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.panes.key_line import KeyLine
from widgets.screens.help import HelpScreen
from widgets.screens.row.time import TimeScreen, time_lines
from widgets.screens.row.why import PageStyle, WhyScreen, explain


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
            assert "52×7,168×8,192 15,920 97.2 T 95.3 410 ms 43 % bandwidth" in text
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
    end = head.index("share") + len("share")
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
    async with app.run_test(size=(80, 24)) as pilot:
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
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
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


def test_why_says_whose_time_it_is_and_what_the_mean_request_waits_for() -> None:
    plan = sample_plan(read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, ""), "measured")
    row = plan.rows[0]
    assert row.answer.layout is not None
    busy = replace(row, answer=replace(row.answer, layout=replace(row.answer.layout, batch=87)))
    lines = [line.plain for line in explain(busy, plan, PageStyle(UNICODE, 106))]
    (time,) = (line for line in lines if line.startswith("Time "))
    assert time == "Time   one request among 87: 36.2 ms, bound by bandwidth; T itemises it"
    (waits,) = (line for line in lines if "others and waiting" in line)
    assert waits.endswith("2.86 s   then the mean request takes 2.90 s")
    head = next(number for number, line in enumerate(lines) if line.split()[:4] == ["mean", "p50", "p95", "p99"])
    assert lines[head + 1].split() == [
        "whole",
        "request",
        "2.90",
        "s",
        "—",
        "3.90",
        "s",
        "—",
        "±4",
        "%",
        "●",
        "3.75",
        "to",
        "4.06",
        "s",
    ]
    assert lines[head + 1].index("3.90 s") + len("3.90 s") == lines[head].index("p95") + len("p95"), "figures are below their heads"
    assert max(len(line) for line in map(str, (line.plain for line in explain(busy, plan, PageStyle(UNICODE, 72))))) <= 72


def test_why_of_a_step_is_of_a_whole_step() -> None:
    plan = sample_plan(read_workload({"model": "qwen3-0.6b", "task": "train", "train_tokens": 1e9}, ""), "measured")
    step = replace(plan.rows[0], answer=replace(plan.rows[0].answer, request_s=None))
    lines = [line.plain for line in explain(step, plan, PageStyle(UNICODE, 106))]
    assert "Time   36.2 ms, bound by bandwidth; T itemises it" in lines
    assert not any("others and waiting" in line for line in lines)


def test_the_time_of_one_request_stands_beside_that_of_the_mean_one_and_a_note_below_the_chart(told: TimeDetail) -> None:
    busy = replace(told, work="one request among 87 on its replica", at_once=87, mean_request_s=4.33)
    plain, noted = ([line.plain for line in time_lines(one, UNICODE, 116, 24)] for one in (told, busy))
    assert noted[0].startswith("one request among 87 on its replica: 977 ms; the mean request 4.33 s")
    roofline = next(number for number, line in enumerate(noted) if line.startswith("Roofline"))
    assert roofline == next(number for number, line in enumerate(plain) if line.startswith("Roofline")), (
        "the note pushes no chart down"
    )
    note = next(number for number, line in enumerate(noted) if line.startswith("The mean request takes 4.33 s"))
    assert roofline < note < next(number for number, line in enumerate(noted) if line.startswith("prefill ") and "bound by" in line)
