"""Answers in sections on screen: ways to pay, what GPUs run, the guided way, a portfolio; on the real catalogue."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from repository import ROOT
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList, Static
from tui_sample import sample_options, settle

from planner.engine.procurement.guide import Answers
from planner.engine.procurement.portfolio.records import PortfolioFile
from planner.present.cells import Code, Fact, Facts, Paragraph, Part, Points, Section, text_table
from planner.present.drawing.chart import Chart, Curve, LinearAxis
from planner.present.guide import AMOUNTS, LIMITS
from planner.schema import read_struct
from planner.session import Session
from planner.workload.presets import read_workload
from widgets.app import PlannerApp
from widgets.drawing.sections import section_lines
from widgets.drawing.text_field import TextField
from widgets.options import AppOptions
from widgets.screens.decisions.costs import CostScreen
from widgets.screens.decisions.fit import FitScreen, open_fit
from widgets.screens.decisions.guide import GuideScreen, answers_of, questions_for, usual_answer
from widgets.screens.decisions.load import LoadScreen
from widgets.screens.decisions.portfolio import EXAMPLE, PortfolioScreen
from widgets.screens.overlay import TextOverlay

STOCK = """
months = 6
[[workload]]
name = "chat"
preset = "qwen3-8b-single-user-chat"
"""


def shows(app: PlannerApp, kind: type[Screen[None]]) -> bool:
    return isinstance(app.screen, kind)


def text_of(app: PlannerApp) -> str:
    if isinstance(app.screen, FitScreen):
        listing = app.screen.scrolled
        return "\n".join(str(listing.get_option_at_index(number).prompt) for number in range(listing.option_count))
    return str(app.screen.query_one("#text Static", Static).content)


async def answered(app: PlannerApp, pilot: Pilot[None]) -> str:
    for _ in range(500):
        await app.workers.wait_for_complete()
        await pilot.pause()
        if text_of(app) != TextOverlay.WAITING:
            break
    widest = max(cell_len(line.rstrip()) for line in text_of(app).splitlines())
    assert widest <= app.screen.query_one("#text").scrollable_content_region.width
    return text_of(app)


@pytest.mark.usefixtures("fewer_models")
async def test_enter_on_a_model_that_gpus_can_run_plans_it_in_its_precision(tmp_path: Path) -> None:
    """The list of one RTX 4090 begins with files of llama.cpp; one undo restores all that Enter changed."""
    options = AppOptions(state=tmp_path / "s", config=tmp_path / "c", telemetry=False, preset="llama-3.1-70b-chat-service")
    app = PlannerApp(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        before = dict(app.form.workload)
        open_fit(app, "RTX 4090", 1)
        text = await answered(app, pilot)
        assert "at least 10 tokens/s for each user" in text.replace("\n", " ")
        assert "input_tokens 600" in text.replace("\n", " "), "the lengths of the form"
        box, listing = app.screen.query_one("#box"), app.screen.query_one(OptionList)
        assert "enter plans" in str(box.border_subtitle)
        assert str(box.border_title).endswith("10 tok/s")
        first = listing.highlighted
        assert first is not None
        await pilot.press("down", "k", "j")
        assert listing.highlighted == first + 1
        await pilot.press("up")
        assert (listing.highlighted, listing.scroll_offset.y) == (first, 0), "with the lines above it"
        await pilot.press("end")
        await pilot.pause()
        assert listing.scroll_offset.y == listing.max_scroll_y > 0, "with the lines below it"
        assert str(listing.get_option_at_index(listing.highlighted).prompt).split()[0] == "?", "may not fit"
        await pilot.press("home", "s")
        text = await answered(app, pilot)
        assert "at least 20 tokens/s for each user" in text.replace("\n", " ")
        name = str(listing.get_option_at_index(listing.highlighted).prompt).split()[1]
        await pilot.press("enter")
        await settle(pilot)
        assert not shows(app, FitScreen)
        changed = {key: app.form.workload.get(key) for key in ("model", "weight_dtype", "engine")}
        assert changed == {"model": name, "weight_dtype": "q4_k_m", "engine": "llama.cpp"}
        assert app.planned[0] == app.form.workload
        await pilot.press("u")
        await settle(pilot)
        assert app.form.workload == before


@pytest.mark.usefixtures("fewer_models")
async def test_what_gpus_can_train_is_planned_with_its_task_and_recipe(tmp_path: Path) -> None:
    options = AppOptions(state=tmp_path / "s", config=tmp_path / "c", telemetry=False, preset="qwen3-8b-single-user-chat")
    app = PlannerApp(options)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        open_fit(app, "L4", 1)
        await answered(app, pilot)
        await pilot.press("t", "t", "t")
        text = await answered(app, pilot)
        assert "task finetune" in text
        assert "for each user" not in text
        assert "tok/s" not in str(app.screen.query_one("#box").border_title)
        assert str(app.screen.query_one("#box").border_subtitle).startswith("b by · t task · p precisions · enter plans"), (
            "no speed"
        )
        await pilot.press("enter")
        await settle(pilot)
        workload = app.form.workload
        assert workload["task"] == "finetune"
        assert workload["lora"]["rank"] == 16
        assert "weight_dtype" not in workload


def test_the_example_of_a_portfolio_is_one() -> None:
    """The text of a file that the screen shows before it is given one."""
    read = read_struct(PortfolioFile, tomllib.loads(EXAMPLE), "")
    assert [entry.name for entry in read.workload] == ["chat", "tuning"]
    assert {entry.preset for entry in read.workload} <= {file.stem for file in (ROOT / "presets/workloads").rglob("*.toml")}


@pytest.mark.usefixtures("fewer_models")
async def test_decisions_by_their_keys(tmp_path: Path) -> None:
    (tmp_path / "stock.toml").write_text(STOCK)
    options = AppOptions(state=tmp_path / "s", config=tmp_path / "c", telemetry=False, preset="qwen3-8b-single-user-chat")
    app = PlannerApp(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("O")
        costs = await answered(app, pilot)
        assert shows(app, CostScreen)
        assert "Cumulative cost" in costs
        assert "Cost against time of " in costs
        await pilot.press("y")
        await answered(app, pilot)
        await pilot.press("u")
        costs = await answered(app, pilot)
        assert "cheaper over 12 months" in costs
        assert "Cumulative cost, in use 50 % of the time" in costs
        await pilot.press("escape", "F")
        assert shows(app, FitScreen)
        one = await answered(app, pilot)
        assert "largest model" in one
        lines = one[one.index(" #  model") :].splitlines()[1:4]
        assert [line.split()[0] for line in lines] == ["1", "2", "3"], "rows that are shown are counted, not candidates"
        gpus = int(str(app.screen.query_one("#box").border_title).split()[1])
        await pilot.press("plus")
        assert await answered(app, pilot) != one
        assert f"What {2 * gpus} ×" in str(app.screen.query_one("#box").border_title)
        await pilot.press("escape", "D")
        assert shows(app, GuideScreen)
        await pilot.press("enter")
        assert "5. Commit" in await answered(app, pilot)
        assert not app.screen.query_one("#question-0").display, "24 rows hold the questions or the answer"
        assert "j k scroll · esc questions" in str(app.screen.query_one("#box").border_subtitle), "no field is there to go on to"
        await pilot.resize_terminal(80, 40)
        await settle(pilot)
        assert app.screen.query_one("#question-0").display
        assert "j k scroll · tab questions · esc back" in str(app.screen.query_one("#box").border_subtitle), "below the questions"
        await pilot.resize_terminal(80, 24)
        await pilot.press("escape")
        assert "enter answers · tab next question" in str(app.screen.query_one("#box").border_subtitle)
        assert shows(app, GuideScreen)
        app.screen.query_one("#answer-2", TextField).value = "many"
        await pilot.press("enter")
        assert "'many' is not a number" in await answered(app, pilot)
        await pilot.press("escape", "L", *str(tmp_path / "none.toml"), "enter")
        assert shows(app, PortfolioScreen)
        assert "none.toml" in (await answered(app, pilot)).replace("\n", "")
        app.screen.query_one(TextField).value = str(tmp_path / "stock.toml")
        await pilot.press("enter")
        assert "1 workload on one stock" in await answered(app, pilot)


async def test_latency_against_load_by_its_key(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("Q")
        told = await answered(app, pilot)
        assert shows(app, LoadScreen)
        assert "up to 20.0 requests/s" in told
        assert "time of the whole request, over requests a second" in told
        await pilot.press("l", "l")
        assert "time of the first token" in await answered(app, pilot)


def test_sections_in_cells() -> None:
    parts: list[Part] = [
        Paragraph("words " * 20, "strong"),
        Points(["one", "two"]),
        Facts([Fact("label", "value")]),
        Code("type this"),
        Chart("Lines", LinearAxis(0, 9), LinearAxis(0, 5), "months", "dollars", [Curve("rent", [(0, 0), (9, 4)])]),
    ]
    sections = [Section("Title", parts), Section("Table", [text_table(("a", "b"), [("x", "y")])])]
    lines = [line.plain for line in section_lines(sections, 40)]
    assert lines[0] == "Title"
    assert max(map(len, lines)) <= 40
    text, chart = lines[: lines.index("Lines")], lines[lines.index("Lines") :]
    assert [line for line in text if line.startswith("  ")] == ["  · one", "  · two", "  label  value", "    type this"]
    assert lines[-2:] == ["a  b", "x  y"]
    assert "A rent" in chart
    plain = [line.plain for line in section_lines(sections, 40, ascii_only=True)]
    assert all(line.isascii() for line in plain[plain.index("Lines") :])


def test_questions_take_over_what_the_form_has() -> None:
    form = {"task": "serve", "request_rate_per_s": 3.0, "targets": {"p95_request_s": 4.0}, "input_tokens": {"mean": 5, "p95": 9}}
    asked = questions_for("serve", form)
    assert [one.key for one in asked] == ["task", "model", "request_rate_per_s", "p95_request_s", "months"]
    given = answers_of(asked, ["serve", "llama-3.1-8b", "3", "4", "6"], form)
    assert given["request_rate_per_s"] == 3
    assert given["also"] == {"task": "serve", "targets": {"p95_request_s": 4.0}, "input_tokens": {"mean": 5, "p95": 9}}
    assert {one.key for one in questions_for("train", form)[2:4]} == {AMOUNTS["train"][0].key, LIMITS["train"][0].key}
    other = answers_of(questions_for("train", form), ["train", "gpt2", "1e9", "48", "6"], form | {"market": "spot"})
    assert other["also"] == {"market": "spot"}, "nothing of a service holds for training"


def test_the_guide_asks_for_the_plan_that_the_ranking_shows() -> None:
    """Every preset, with all its questions left as they are, gives the same workload, but for a limit it had none of."""
    session = Session.open()
    for name in session.presets.names():
        workload = session.presets.load(name).workload
        form = msgspec.to_builtins(workload)
        asked = questions_for(workload.task, form)
        texts = [usual_answer(one, form) for one in asked]
        answers = read_struct(Answers, answers_of(asked, texts, form), "")
        found = msgspec.to_builtins(read_workload(answers.fields(), ""))
        amount, limit = asked[2].key, asked[3].key
        if form["targets"].get(limit) is None:
            found["targets"][limit] = None
        if amount not in form:
            del found[amount]
        assert found == form, name


@pytest.mark.parametrize("height", [20, 26, 34, 60])
def test_the_axis_of_a_chart_is_in_sight_below_what_stands_above_it(height: int) -> None:
    chart = Chart(
        "Cost", LinearAxis(0.0, 12.0), LinearAxis(0.0, 5.0), "months", "dollars", [Curve("rent", [(0.0, 0.0), (12.0, 5.0)])]
    )
    points = Points(["bought is cheaper after nine months"] * 5)
    lines = [str(line) for line in section_lines([Section("", (points, chart))], 76, height=height)]
    assert len(lines) <= height
    assert "12" in lines[-2].split()
    assert lines[-1].startswith("A rent")
    lines = [str(line) for line in section_lines([Section("", (points,)), Section("", (chart,))], 76)]
    assert not any(not (one or other) for one, other in pairwise(lines)), "no two blank lines below each other"
