"""The answer on top: what stands out, and what it says while another plan is made; the look of a heading on a terminal's own ground."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.style import Style
from textual.content import Content
from textual.widgets import Input
from tui_sample import sample_options, settle

from planner.engine.answers.time import class_words
from planner.present.choice.trial import Trial
from planner.units import change_text
from widgets.actions.narrowing import use_filter
from widgets.app import PlannerApp
from widgets.background.planning import PlanReady
from widgets.drawing.styles import ThemeStyles
from widgets.omnibox.finding import find
from widgets.panes.answer import AnswerLine
from widgets.panes.frame import Frame
from widgets.panes.headline import Headline
from widgets.panes.ranking.pane import RankingView
from widgets.panes.tabs import Tabs


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


async def test_a_change_on_trial_leaves_the_answer_whole_on_80_columns(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        line, plan = app.main.query_one(AnswerLine), app.plan
        assert plan is not None
        first = drawn(line).plain.split(" · ")[0]
        trial = Trial("spot", plan, "8,730 → 10,800 $/month (+24 %)")
        line.show(plan, trial)
        assert drawn(line).plain.startswith(f" WHAT-IF  spot (+24 %)   {first}")
        line.show(plan, replace(trial, change="full activation checkpointing of every layer of all"))
        assert drawn(line).plain.startswith(f" WHAT-IF   {first}")
        line.show(plan, replace(trial, change="up to 48 GPUs: then 48 × RTX 4090 may fit", difference=""))
        assert drawn(line).plain.startswith(f" WHAT-IF  up to 48 GPUs   {first}")
        await pilot.resize_terminal(160, 45)
        await settle(pilot)
        line.show(plan, trial)
        assert drawn(line).plain.startswith(f" WHAT-IF  spot: {trial.difference}  u undoes   {first}")


async def test_a_long_name_leaves_room_for_the_load(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        headline = app.main.query_one(Headline)
        headline.show(
            ["llama-3.1-70b-chat-service · modified", "qwen3-32b", "16.67 req/s", "600 in, 200 out"], ["row's price 187 d old"]
        )
        told = str(headline.content)
        assert told.startswith("llama-3.1…-service · modified  qwen3-32b · 16.67 req/s ")
        assert told.endswith("  row's price 187 d old")
        headline.show(["short", "qwen3-32b", "16.67 req/s"], ["row's price 187 d old"])
        assert str(headline.content).startswith("short  qwen3-32b · 16.67 req/s ")


async def test_where_nothing_fits_what_is_nearest_is_begun(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        line, plan = app.main.query_one(AnswerLine), app.plan
        assert plan is not None
        lost = [row for row in plan.rows if row.rank is None and not row.here]
        lost[0] = replace(lost[0], why=f"{lost[0].why}; " + ", ".join(["and something more"] * 9))
        nothing = replace(plan, rows=lost, levers=())
        line.show(nothing)
        told = drawn(line).plain
        assert " · nearest, " in told
        assert told.endswith(" …")
        for shown, order in ((plan, "cheapest first"), (nothing, "nearest first")):
            app.main.query_one(RankingView).title(shown, "best")
            assert f" · {order} · " in str(app.main.query_one("#ranking", Frame).border_title)


async def test_titles_of_panes_end_with_a_whole_part(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("5")
        await settle(pilot)
        frame = app.main.query_one("#benchmark", Frame)
        parts = ["1/21", "41 s left", "x stops", "quick, a processor", "and more than there is room for"]
        frame.entitle(" · ".join(parts))
        assert str(frame.border_title) == f"[5] Benchmark · {' · '.join(parts[:4])}"
        await pilot.resize_terminal(200, 50)
        await settle(pilot)
        frame.entitle(" · ".join(parts[:3]))
        assert str(frame.border_title) == f"[5] Benchmark · {' · '.join(parts[:3])}"
        assert not app.main.query_one(Tabs).display
        await pilot.press("z")
        await settle(pilot)
        assert "  5 BENCHMARK" in str(app.main.query_one(Tabs).content), "as wide apart as there is room, though it was hidden"


async def test_what_is_wrong_stays_on_top_while_rows_are_narrowed_and_when_an_earlier_plan_arrives(tmp_path: Path) -> None:
    """The answer to the workload before stood there as if it were one to the form."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        line = app.main.query_one(AnswerLine)
        app.form.query_one("#field-input-tokens", Input).value = "many"
        await settle(pilot)
        assert drawn(line).plain.startswith("not planned: a field is invalid")
        use_filter(app, "h100")
        assert drawn(line).plain.startswith("not planned: a field is invalid")
        assert app.plan is not None
        app.post_message(PlanReady(app.plan, app.form.workload, app.basis, ()))
        await settle(pilot)
        assert drawn(line).plain.startswith("not planned: a field is invalid")
        assert app.table._stale


@pytest.mark.parametrize("ground", ["transparent", "ansi_default"])
def test_a_heading_leaves_the_ground_of_the_terminal(ground: str) -> None:
    assert ThemeStyles({"surface": ground}).band() == Style()


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


@pytest.mark.parametrize(
    ("seconds", "bottleneck", "words"),
    [
        ({"matmul": 1.27, "elementwise": 0.16}, "bandwidth", "matmuls (bandwidth)"),
        ({"matmul": 3.0, "elementwise": 2.0}, "compute", "matmuls (compute)"),
        ({"matmul": 3.0, "elementwise": 2.0, "optimizer": 0.6}, "bandwidth", "matmuls"),
        ({"matmul": 1.0, "communication": 2.0}, "link", "matmuls"),
    ],
)
def test_products_say_what_limits_them_where_that_is_known(seconds: dict[str, float], bottleneck: str, words: str) -> None:
    assert class_words("matmul", seconds, bottleneck) == words
    assert class_words("elementwise", seconds, bottleneck) == "elementwise"
