"""Columns of the ranking: names, headings and figures stand whole, in the cells there are and shifted sideways."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from tui_sample import CHAT, sample_options, sample_plan, settle

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.answers.plan import Plan
from planner.workload.presets import read_workload
from widgets.app import PlannerApp
from widgets.drawing.styles import ThemeStyles
from widgets.drawing.symbols import ASCII, UNICODE, Symbols
from widgets.panes.frame import Frame
from widgets.panes.ranking.columns import columns_for, fit_columns
from widgets.panes.ranking.grouping import Line, Order
from widgets.panes.ranking.painter import Painter, without_sign
from widgets.panes.ranking.sideways import FROZEN, Sideways


def planned(**task: Any) -> Plan:
    plan = sample_plan(read_workload(tomllib.loads(CHAT), "chat"), "measured")
    return msgspec.structs.replace(plan, task={**plan.task, **task})


@pytest.mark.parametrize(
    ("market", "width", "whole"),
    [("on-demand", 86, True), ("on-demand", 54, False), ("spot", 151, True), ("spot", 86, True), ("spot", 60, False)],
)
def test_providers_are_named_whole_where_there_is_room(market: str, width: int, whole: bool) -> None:
    plan = planned()
    rows = [
        msgspec.structs.replace(row, offer=row.offer and msgspec.structs.replace(row.offer, provider="digitalocean", market=market))
        for row in plan.rows[:3]
    ]
    fitted = fit_columns(columns_for(msgspec.structs.replace(plan, rows=rows)), width)
    shown = {column.id: "".join(text for text, _ in column.pieces(rows[0], UNICODE, cells)) for column, cells in fitted.columns}
    assert (shown.get("provider", "").strip() == ("digitalocean spot" if market == "spot" else "digitalocean")) is whole
    assert sum(cells for _, cells in fitted.columns) + fitted.gap * (len(fitted.columns) - 1) <= width


@pytest.mark.parametrize("asked", ["p95_request_s", "p95_ttft_s", "p95_tpot_s"])
@pytest.mark.parametrize("order", [Order(), Order("latency"), Order("latency", descending=True)])
def test_a_heading_is_whole_or_in_its_short_form(asked: str, order: Order) -> None:
    plan = planned(targets={asked: 5.0})
    columns = columns_for(plan)
    for width in range(52, 140):
        fitted = fit_columns(columns, width)
        titles = {column.title for column, _ in fitted.columns} | {"p95 1st"} - {""}
        heading = Painter(UNICODE, Colourless({})).header(fitted, order, "", width + 2, Style()).text
        left = heading.translate(str.maketrans("", "", "▲▼"))
        for title in sorted(titles, key=len, reverse=True):
            left = left.replace(title, "", 1)
        assert not left.strip(), heading


def test_a_long_layout_is_whole_where_there_is_room() -> None:
    plan = planned()
    layout = LayoutAnswer(gpus=96, nodes=12, gpus_per_node=8, tp=8, pp=2, dp=6, prefill_replicas=2)
    rows = [msgspec.structs.replace(row, answer=msgspec.structs.replace(row.answer, layout=layout)) for row in plan.rows[:3]]
    fitted = fit_columns(columns_for(msgspec.structs.replace(plan, rows=rows)), 151)
    shown = {column.id: "".join(text for text, _ in column.pieces(rows[0], UNICODE, cells)) for column, cells in fitted.columns}
    assert shown["layout"] == "tp8·pp2·dp6 2P:4D"


def test_a_loser_of_thousands_of_gpus_moves_no_column() -> None:
    workload = read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, "")
    plan = sample_plan(workload, "measured")
    loser = plan.rows[-1]
    assert loser.answer.layout is not None
    layout = msgspec.structs.replace(loser.answer.layout, gpus=2558, dp=2558)
    huge = msgspec.structs.replace(loser, answer=msgspec.structs.replace(loser.answer, layout=layout))
    columns = columns_for(msgspec.structs.replace(plan, rows=[*plan.rows[:-1], huge]))
    assert [(one.id, one.width) for one in columns] == [(one.id, one.width) for one in columns_for(plan)]
    gpus = next(one for one in columns if one.id == "gpus")
    assert gpus.pieces(huge, UNICODE, gpus.width) == [("2,558", "quiet")], "whole: its reason gives way"
    fitted = fit_columns(columns, 61)
    line = Line(msgspec.structs.replace(huge, verdict="misses-target", why="misses: p95 26.8 s, wanted 5.00 s"))
    painter = Painter(UNICODE, Colourless({}))
    drawn = painter.line(line, fitted, 61, Style(), current=False, focused=False, stale=False, marked=(), in_sight=(0, 61))
    assert drawn.cell_length == 61
    assert " 2,558 p95 26.8 s, wanted 5.00 s" in re.sub(" +", " ", drawn.text), "the sign of the verdict says that it misses"


class Colourless(ThemeStyles):
    """No theme, and no colours."""

    def __call__(self, _name: str) -> Style:
        return Style()

    def band(self) -> Style:
        return Style()


def test_a_table_without_room_shows_no_column_and_survives() -> None:
    """Every column was asked for, and the pane is hidden while the terminal gets narrow."""
    workload = read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, "")
    every = fit_columns(columns_for(sample_plan(workload, "measured")), 0, every=True)
    for width in (0, 1, 20):
        assert Sideways(every, width, 0).crop(Strip.blank(200)).cell_length == width


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
@pytest.mark.parametrize("width", range(58, 130, 7))
def test_a_column_is_drawn_whole_or_not_at_all(width: int, symbols: Symbols) -> None:
    """Every column was asked for: beside the cell of the scroll bar stand whole ones, and a sign where there are more."""
    workload = read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, "")
    plan = sample_plan(workload, "measured")
    painter, every = Painter(symbols, Colourless({})), fit_columns(columns_for(plan), width - 2, every=True)
    table = Sideways(every, width)
    columns = [(one, cells) for one, cells in every.columns if one.id not in FROZEN]
    flags: dict[str, Any] = {"current": False, "focused": False, "stale": False, "marked": (), "in_sight": (0, table.cells)}
    heading = painter.header(every, Order(), "", table.cells, Style())
    line = painter.line(Line(plan.rows[0]), every, table.cells, Style(), **flags)
    seen: set[str] = set()
    for hidden in range(table.hide(len(columns)) + 1):
        part = Sideways(every, width, hidden)
        texts = [line.text[part.frozen_cells + start :][:cells] for (_, cells), start in zip(columns, part.ends, strict=False)]
        rest, shown = part.crop(line).text[part.frozen_cells :], 0
        while hidden + shown < len(columns) and rest.startswith("  ".join(texts[hidden : hidden + shown + 1])):
            shown += 1
        assert shown, rest
        assert not rest.removeprefix("  ".join(texts[hidden : hidden + shown])).strip(), "no part of another column"
        seen.update(one.id for one, _ in columns[hidden : hidden + shown])
        titles = part.crop(heading, symbols.ellipsis).text
        assert titles.rstrip().endswith(f" {symbols.ellipsis}") is (hidden + shown < len(columns))
        assert (symbols.ellipsis in titles[: part.frozen_cells]) is bool(hidden)
        assert titles[-1] == " ", "the scroll bar's"
    assert seen == {one.id for one, _ in columns}


async def test_a_reason_ends_with_a_word_where_every_column_is_drawn(tmp_path: Path) -> None:
    """And it stays in sight however far the columns are shifted."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("G", "W")
        for _ in range(6):
            await pilot.pause()
            row = app.table.highlighted
            assert row is not None
            assert row.rank is None
            lines = [app.table.render_line(y).text for y in range(1, app.table.size.height)]
            line = next(line for line in lines if line.startswith(UNICODE.cursor))
            told = re.split(r"\s{2,}", line.rstrip())[-1].removesuffix("…").split()
            words = without_sign(row).replace(";", "").split()
            assert told
            assert told == words[: len(told)]
            await pilot.press("l")


async def test_every_column_can_be_brought_into_sight_whole(tmp_path: Path) -> None:
    """On the smallest usual screen: none is cut in the middle of a figure, the name of the GPU stays, sorting brings its column."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        usual = heading(app)
        assert "layout" not in usual
        await pilot.press("W")
        await pilot.pause()
        assert "h l shift" in str(app.main.query_one("#ranking", Frame).border_title)
        assert app.plan is not None
        titles = {one.title for one in columns_for(app.plan)} - {""}
        seen: set[str] = set()
        before = ""
        for _ in range(len(titles)):
            line = heading(app)
            assert cell_len(line) == app.table.size.width
            words = set(re.split(r"\s{2,}", line.replace(UNICODE.ellipsis, " ").strip()))
            assert words <= titles, "whole titles alone"
            assert app.table.render_line(1).text[:20].split()[1:3] == ["1", "H200"]
            seen |= words
            if line == before:
                break
            before = line
            await pilot.press("l")
            await pilot.pause()
        assert seen == titles
        while app.table.order.column != "layout":
            await pilot.press("s")
        await pilot.pause()
        assert "layout" in heading(app)
        await pilot.press("W", "escape")
        await pilot.pause()
        assert "h l shift" not in str(app.main.query_one("#ranking", Frame).border_title)
        assert heading(app).replace("▲", "").split() == usual.split()


def heading(app: PlannerApp) -> str:
    return app.table.render_line(0).text
