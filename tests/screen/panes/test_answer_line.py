"""The answer on top: what stands out, and what it says while another plan is made; the look of a heading on a terminal's own ground."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.style import Style
from textual.content import Content
from tui_sample import sample_options, settle

from planner.units import change_text
from widgets.app import PlannerApp
from widgets.drawing.styles import Paint
from widgets.omnibox.finding import find
from widgets.panes.answer import AnswerLine


def drawn(line: AnswerLine) -> Content:
    assert isinstance(line.content, Content)
    return line.content


async def test_the_answer_stands_out_and_a_wait_is_told(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        line = app.main.query_one(AnswerLine)
        await settle(pilot)
        told = drawn(line).plain
        assert "planning" not in told
        first = told.split(" · ")[0]
        bold = [told[span.start : span.end] for span in drawn(line).spans if "bold" in str(span.style)]
        assert bold == [first]
        line._say_planning()
        assert drawn(line).plain.startswith(first)
        assert drawn(line).plain.endswith("planning …")
        line.refuse("input: 'many' is no number")
        assert drawn(line).plain.startswith("input: 'many' is no number   Rent ")


async def test_the_cursor_goes_to_the_answer_where_its_row_is_gone(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("down", "down", "down")
        here = app.table.highlighted
        assert here is not None
        app.table.narrow(type(app.facets)(tests=(lambda row: row.gpu != here.gpu,)))
        assert app.table.highlighted is app.table.rows[0]


@pytest.mark.parametrize("ground", ["transparent", "ansi_default"])
def test_a_heading_leaves_the_ground_of_the_terminal(ground: str) -> None:
    assert Paint({"surface": ground}).band() == Style()


def test_changes_from_tenfold_on_are_factors() -> None:
    assert [change_text(change) for change in (-0.5, 0.186, 8.99, 11, 2992.4)] == ["-50 %", "+19 %", "+899 %", "12×", "2,993×"]
    assert [change_text(change) for change in (0.0, 0.003, -0.005, 0.0051)] == ["+0 %", "+0.3 %", "-0.5 %", "+1 %"]


def test_a_folder_of_a_model_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert not find("mine", ())
    (tmp_path / "mine" / "config.json").write_text("{}")
    assert [thing.value for thing in find("mine", ())] == ["./mine"]
    assert not find("x" * 5000, ())
    assert not find("a\0b", ())
