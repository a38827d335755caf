"""Rows side by side: marked, opened, and read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from textual.widgets import Static
from tui_sample import CHAT, first_note, sample_options, sample_plan, settle

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan
from planner.workload.presets import read_workload
from widgets.app import PlannerApp
from widgets.drawing.symbols import UNICODE
from widgets.panes.frame import Frame
from widgets.screens.row.compare import CompareScreen, compare, most_columns


def planned() -> Plan:
    return sample_plan(read_workload(tomllib.loads(CHAT), "chat"), "measured")


async def test_marked_rows_stand_side_by_side(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("space", "j", "space")
        await pilot.pause()
        assert [row.gpu for row in app.table.marked] == ["H200 SXM 141GB", "B200 180GB"]
        assert "2 marked" in str(app.main.query_one("#ranking", Frame).border_title)
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, CompareScreen)
        text = str(app.screen.query_one(Static).content)
        assert "4 × H200 SXM 141GB" in text
        assert "2 × B200 180GB" in text
        await pilot.press("escape", "k", "k", "space")
        await pilot.pause()
        assert len(app.table.marked) in {1, 3}
        await pilot.resize_terminal(80, 24)
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, CompareScreen)


async def test_without_marks_the_row_is_compared_with_the_first(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("j", "j", "c")
        await pilot.pause()
        text = str(app.screen.query_one(Static).content)
        assert text.index("4 × H200 SXM 141GB") < text.index("2 × B200 180GB")
        await pilot.press("escape", "slash", *"nothing-like-it", "enter", "c")
        assert "No row is highlighted" in await first_note(pilot)


def test_the_best_of_a_line_stands_out_and_the_others_say_how_far_they_are() -> None:
    plan = planned()
    lines = {line.plain[:23].strip(): line for line in compare(plan.rows[:3], plan, UNICODE, 108)}
    price = lines["rent, $/h"]
    assert re.findall(r"[+-]\d+ %", price.plain) == ["+3 %", "+36 %"]
    assert any("bold" in str(span.style) and price.plain[span.start : span.end] == "11.98" for span in price.spans)
    speed = lines["output tokens/s"].plain
    assert "≈-9 %" in speed  # 5,890 ±21 % beside 6,480 ±14 %: it may be none
    assert "-20 %" in speed
    assert "≈-20 %" not in speed


def test_what_cannot_run_has_no_figures_and_no_line_is_too_long() -> None:
    plan = planned()
    lost = next(row for row in plan.rows if row.verdict == "does-not-fit")
    text = "\n".join(line.plain for line in compare([plan.rows[0], lost], plan, UNICODE, 108))
    assert "does not fit" in text
    speed = next(line for line in text.splitlines() if line.startswith("output tokens/s"))
    assert speed.rstrip().endswith("—")
    for room in (40, 69, 108, 180):
        lines = compare(plan.rows[: min(5, most_columns(room))], plan, UNICODE, room)
        assert all(cell_len(line.plain.rstrip()) <= max(room, 45) for line in lines)


async def test_rows_without_room_are_counted_in_the_title(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press(*["space"] * 3, "c")
        await settle(pilot)
        box = app.screen.query_one("#box")
        assert str(box.border_title) == "Compare · 2 of 3 rows, a wider terminal shows more"
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        assert str(box.border_title) == "Compare · 3 rows"


def test_a_layout_without_room_goes_on_in_the_next_line() -> None:
    plan = planned()
    answer = plan.rows[0].answer
    assert answer.layout is not None
    long = msgspec.structs.replace(answer.layout, tp=2, dp=4, sharding="zero3", checkpointing="full")
    row = msgspec.structs.replace(plan.rows[0], answer=msgspec.structs.replace(answer, layout=long))
    lines = [line.plain for line in compare([row, plan.rows[1]], plan, UNICODE, 70)]
    at = next(number for number, line in enumerate(lines) if line.startswith("layout"))
    assert long.text in " ".join(line[24:46].strip() for line in lines[at : at + 2])
    assert not any("…" in line for line in lines[at : at + 2])


def test_a_single_figure_is_no_best() -> None:
    plan = planned()
    row = msgspec.structs.replace(plan.rows[0], usd_per_h=Figure(1.0, 1.0, 1.0, "public"))
    line = next(line for line in compare([row], plan, UNICODE, 108) if line.plain.startswith("rent, $/h"))
    assert not any("bold" in str(span.style) for span in line.spans)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_it_fits_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("space", "space", "space", "c")
        await pilot.pause()
        box = app.screen.query_one("#text")
        assert box.region.width <= size[0]
        lines = str(app.screen.query_one(Static).content).splitlines()
        assert max(cell_len(line.rstrip()) for line in lines) <= box.scrollable_content_region.width
