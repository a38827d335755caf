"""The parts of the terminal program that need no screen."""

from __future__ import annotations

import datetime as dt
import re
import string
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from tui_sample import CHAT, sample_plan

from planner.engine.answers.figure import Figure
from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.engine.answers.time import CLASS_WORDS
from planner.present.cells import spread_text
from planner.present.choice.ranked_by import ranked_by
from planner.present.plan import money_text, rate_text
from planner.reading import read_toml
from planner.units import GIB
from planner.workload.presets import Preset, read_workload
from widgets.actions.action import bindings
from widgets.actions.plan_files import plan_command
from widgets.actions.registry import ACTIONS, BY_ID
from widgets.background.benchmark_run import PointLine, Run
from widgets.drawing.memory_bar import split_cells
from widgets.drawing.styles import INK, ThemeStyles
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.drawing.text import fold, shorten_middle, shorten_name, shorten_parts
from widgets.drawing.theme import NAMES
from widgets.panes.headline import headline_parts, load_summary
from widgets.panes.machine.history import sparkline
from widgets.panes.ranking.columns import columns_for, fit_columns
from widgets.panes.workload.fields import FIELDS, fields_for
from widgets.panes.workload.values import Kind, get, number_text, parse, parse_number, put, show, stepped, turned_to
from widgets.plain_output import PlainText, plain
from widgets.screens.row.time import pattern_and_style
from widgets.state import config


def text_of_signs() -> st.SearchStrategy[str]:
    """Any text of signs that have a width of their own; they are listed, as Hypothesis takes seconds to find them."""
    others = {"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"}
    return st.text([sign for sign in map(chr, range(sys.maxunicode)) if unicodedata.category(sign) not in others], max_size=40)


@pytest.mark.parametrize(
    ("text", "value"), [("1,000", 1000), ("4k", 4000), ("1.5B", 1.5e9), ("15T", 15e12), ("3e9", 3e9), ("0.5", 0.5), ("8_192", 8192)]
)
def test_numbers_are_read_as_people_write_them(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "4kk", "1e999", "nan", "--3"])
def test_what_is_no_number_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number; write 1,000, 4k"):
        parse_number(text)


def test_a_paste_that_is_no_number_is_told_in_short() -> None:
    with pytest.raises(ValueError, match=r"^'9{10,12}…9{10,12}' is not a number"):
        parse_number("9" * 4096)


@given(st.floats(min_value=1e-3, max_value=1e15, allow_nan=False))
def test_a_number_shown_is_the_number_read(value: float) -> None:
    assert parse_number(number_text(value)) == pytest.approx(value, rel=1e-5)


@given(st.integers(min_value=0, max_value=10**13))
def test_a_count_shown_is_exactly_the_count_read(value: int) -> None:
    assert parse_number(number_text(value)) == value


def test_every_field_of_the_form_is_a_key_of_the_workload() -> None:
    start: dict[str, Any] = {"model": "llama-3.1-8b", "task": "serve"}
    samples = {"count": "8", "number": "2.5", "percent": "20", "lengths": "600/1500", "crowd": "max", "names": "marketplace"}
    samples["prices"] = "L40S 0.9, RTX 3090 0.2"
    for field in FIELDS:
        text = field.choices[0] if field.choices else samples.get(field.kind, "llama-3.1-8b")
        workload = put(start, field.key, parse(field.kind, text))
        if field.key.startswith("lora."):
            continue
        read_workload(workload, field.key)
        assert show(field.kind, get(workload, field.key)) == text


def test_taking_a_value_out_leaves_no_empty_table() -> None:
    workload = {"model": "m", "task": "finetune", "lora": {"rank": 8, "base": "nf4"}, "targets": {"deadline_h": 3.0}}
    assert put(workload, "targets.deadline_h", None) == {"model": "m", "task": "finetune", "lora": {"rank": 8, "base": "nf4"}}
    assert "lora" not in put(workload, "lora.rank", None)
    assert workload["targets"] == {"deadline_h": 3.0}


def test_lora_base_is_asked_only_with_a_rank() -> None:
    keys = [field.key for field in fields_for({"task": "finetune"})]
    assert "lora.base" not in keys
    assert "lora.base" in [field.key for field in fields_for({"task": "finetune", "lora": {"rank": 8}})]


sizes = st.floats(min_value=0, max_value=1e12, allow_nan=False)


@given(st.lists(sizes, min_size=8, max_size=8), st.floats(min_value=1e9, max_value=1e12), st.integers(min_value=20, max_value=200))
def test_the_stack_fills_its_width_and_shows_every_component(parts: list[float], capacity: float, width: int) -> None:
    total = Figure(sum(parts), sum(parts), sum(parts), "spec")
    memory = MemoryBytes(**dict(zip(MEMORY_COMPONENTS, parts, strict=True)), total=total, capacity=capacity)
    drawn, end = split_cells(memory, width)
    assert sum(cells for _, _, cells in drawn) == width
    assert {name for name, _, _ in drawn} - {"free"} == {
        name for name, size in zip(MEMORY_COMPONENTS, parts, strict=True) if size > 0
    }
    assert all(cells >= 1 for _, _, cells in drawn)
    assert (end < width) == (sum(parts) > capacity) or abs(sum(parts) / capacity - 1) < 1 / width


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(100, 86, 114, "spec"), "±14 %"),
        (Figure(100, 88, 114, "spec"), "±14 %"),
        (Figure(100, 90, 129, "spec"), "-10 +29 %"),
        (Figure(100, 50, 110, "spec"), "-50 +10 %"),
        (Figure(100, 100, 129, "spec"), "+29 %"),
        (Figure(100, 98, 104, "spec"), "±4 %"),
        (Figure(1.0, 0.87, 1.0, "spec"), "-13 %"),
        (Figure(100, 20, 500, "spec"), "×÷5.0"),
        (Figure(100, 52, 199, "spec"), "-48 +99 %"),
        (Figure(100, 60, 280, "spec"), "÷1.7 ×2.8"),
        (Figure(100, 0, 280, "spec"), "×÷2.8"),
        (Figure(100, 100, 280, "spec"), "×2.8"),
        (Figure(100, 20, 100, "spec"), "-80 %"),
        (Figure(100, 34, 292, "spec"), "×÷2.9"),
        (Figure(100, 100, 100, "measured"), ""),
        (None, ""),
    ],
)
def test_a_range_tells_both_sides_where_they_differ(figure: Figure | None, text: str) -> None:
    assert spread_text(figure) == text


def test_names_of_gpus_are_whole_where_columns_leave_room() -> None:
    plan = sample_plan(read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, ""), "measured")
    longest = "RTX PRO 6000 Blackwell Server"
    rows = [msgspec.structs.replace(plan.rows[0], gpu=longest), *plan.rows[1:]]
    columns = columns_for(msgspec.structs.replace(plan, rows=rows))
    for width, whole in ((60, False), (92, True), (144, True)):
        name, cells = next((column, cells) for column, cells in fit_columns(columns, width).columns if column.id == "gpu")
        assert (name.pieces(rows[0], UNICODE, cells)[0][0].strip() == longest) == whole, width


@pytest.mark.parametrize(
    ("width", "short"),
    [
        (29, "RTX PRO 6000 Blackwell Server"),
        (28, "RTX PRO 6000…Server"),
        (19, "RTX PRO 6000…Server"),
        (18, "RTX…6000…Server"),
        (15, "RTX…6000…Server"),
        (14, "RTX PRO…Server"),
        (5, "RT…er"),
    ],
)
def test_a_name_without_room_keeps_its_number_and_whole_words(width: int, short: str) -> None:
    assert shorten_name("RTX PRO 6000 Blackwell Server", width) == short
    assert shorten_name("Quadro RTX 6000", 14) == "Quadro…6000"
    assert shorten_name("GB10 (DGX Spark)", 14) == "GB10"
    assert shorten_name("GB10 (DGX Spark)", 16) == "GB10 (DGX Spark)"


@pytest.mark.parametrize(
    ("layout", "short"), [("tp8·pp16·cp2·dp32 zero1", "tp8·pp16·cp2…"), ("dp8 zero3 ckpt-full", "dp8 zero3 ckpt…"), ("tp2", "tp2")]
)
def test_a_layout_without_room_ends_with_a_whole_part(layout: str, short: str) -> None:
    assert shorten_parts(layout, 17) == short


def test_a_column_that_says_nothing_leaves_its_place() -> None:
    plan = sample_plan(read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}, ""), "measured")
    unpriced = [
        msgspec.structs.replace(
            row, offer=None, usd_per_h=None, answer=msgspec.structs.replace(row.answer, usd_per_million_tokens=None)
        )
        for row in plan.rows
    ]
    with_prices, without = ({one.id for one in columns_for(of)} for of in (plan, msgspec.structs.replace(plan, rows=unpriced)))
    assert with_prices - without == {"provider", "usd-per-h", "usd-per-million"}
    assert {"sure"}.isdisjoint(with_prices)  # the sample knows no probability


@pytest.mark.parametrize("task", ["serve", "generate", "train", "prefill"])
@pytest.mark.parametrize("width", [60, 76, 86, 104, 140])
def test_columns_never_need_more_than_there_is(task: str, width: int) -> None:
    plan = sample_plan(read_workload({"model": "llama-3.1-70b", "task": task}, ""), "measured")
    rows = plan.rows
    fitted = fit_columns(columns_for(plan), width)
    assert sum(cells + fitted.gap for _, cells in fitted.columns) - fitted.gap <= width
    names = [column.id for column, _ in fitted.columns]
    assert names[:4] == ["rank", "gpu", "more", "gpus"]
    assert ranked_by(plan).id in names
    narrower = {column.id for column, _ in fit_columns(columns_for(plan), width - 1).columns}
    assert narrower <= set(names), "a wider table has every column of a narrower one"
    for column, cells in fitted.columns:
        for row in rows:
            text = "".join(piece for piece, _ in column.pieces(row, UNICODE, cells))
            assert len(text) == cells, (column.id, text)


@given(st.floats(min_value=1e-6, max_value=1e13, allow_nan=False))
def test_figures_stay_within_their_columns(value: float) -> None:
    assert len(rate_text(value)) <= 7
    assert len(money_text(value)) <= 7


@pytest.mark.parametrize(
    ("kind", "text", "up", "down"),
    [
        ("number", "16.667", "20", "15"),
        ("count", "600", "700", "500"),
        ("count", "8192", "16384", "4096"),
        ("crowd", "3", "4", "2"),
        ("lengths", "600/1500", "700/1750", "500/1250"),
        ("number", "0.5", "0.7", "0.3"),
        ("percent", "0", "1", "0"),
    ],
)
def test_plus_and_minus_step_to_values_people_choose(kind: Kind, text: str, up: str, down: str) -> None:
    assert stepped(kind, text, 1) == up
    assert stepped(kind, text, -1) == down


def test_the_command_names_every_change(tmp_path: Path) -> None:
    file = tmp_path / "chat.toml"
    file.write_text(CHAT)
    loaded = dict(read_toml(file))
    now = put(put(put(loaded, "targets.p95_request_s", None), "model", "my model"), "input_tokens", {"mean": 600, "p95": 1500})
    preset = Preset("chat", file, "user", read_workload(loaded, "chat"))
    line = plan_command(preset, loaded, now, "spec").text
    assert line == (
        "gpu-planner plan chat --set input_tokens= --set input_tokens.mean=600 --set input_tokens.p95=1500 "
        "--set 'model=my model' --set targets.p95_request_s= --basis spec"
    )


def test_a_summary_says_load_lengths_and_targets() -> None:
    task = {
        "request_rate_per_s": 16.7,
        "input_tokens": {"mean": 600, "p95": 1500},
        "output_tokens": 200,
        "targets": {"p95_request_s": 5.0},
    }
    assert load_summary(task) == ["16.7 req/s", "600 (p95 1,500) in, 200 out", "p95 < 5 s"]


def test_the_headline_tells_the_date_of_the_rows_price_or_the_oldest() -> None:
    task = {"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7}
    plan, today = sample_plan(read_workload(task, ""), "measured"), dt.date(2026, 8, 30)
    first = plan.rows[1]
    assert first.offer is not None
    newer = msgspec.structs.replace(first, offer=msgspec.structs.replace(first.offer, as_of="2026-08-19"))
    of_year = msgspec.structs.replace(first, offer=msgspec.structs.replace(first.offer, as_of="2026"))
    own = msgspec.structs.replace(first, offer=None)
    told = [headline_parts("chat", task, plan, row, "", today)[1][0] for row in (newer, of_year, own, None)]
    assert told == ["row's price 11 d old", "row's price of 2026", "oldest price 41 d old", "oldest price 41 d old"]


def test_a_run_counts_each_round_of_a_point_as_its_share() -> None:
    points = [PointLine("a", "a", "between", measured=1 / 2), PointLine("b", "b", "running", measured=1 / 2)]
    points += [PointLine(name, name, "between", measured=1 / 3) for name in "cde"]
    points += [PointLine("f", "f", "done"), PointLine("g", "g", "skipped", measured=1 / 3), PointLine("h", "h")]
    assert Run(state="running", points=points).progress_text == "4/8"


def test_sparklines_leave_absent_values_blank() -> None:
    assert sparkline([0.0, None, 1.0], 5, "_#") == "  _ #"


def test_long_names_lose_their_middle() -> None:
    assert shorten_middle("RTX PRO 6000 Blackwell Server", 15) == "RTX PRO… Server"


def test_keys_are_not_used_twice_in_one_scope() -> None:
    free = set(string.ascii_letters) - {key for action in ACTIONS for key in action.keys.split(",")}
    for scope in ("app", "table", "form"):
        used = defaultdict(list)
        for action in ACTIONS:
            for key in action.keys.split(",") if action.scope == scope else ():
                used[key].append(action.id)
        assert {key: ids for key, ids in used.items() if len(ids) > 1} == {}, f"free: {' '.join(sorted(free))}"
    app_keys = {key for action in ACTIONS if action.scope == "app" for key in action.keys.split(",")}
    forbidden = re.compile(r"ctrl\+[absjmihoek]$|alt\+|ctrl\+enter|ctrl\+shift")
    assert not [key for key in app_keys if forbidden.match(key)]
    assert [binding.id for binding in bindings(ACTIONS)] == list(BY_ID), "ids are used twice"


@pytest.mark.parametrize("name", NAMES)
def test_every_theme_has_every_ink(name: str) -> None:
    from widgets.app import PlannerApp
    from widgets.options import AppOptions

    app = PlannerApp(AppOptions(theme=name))
    app.theme = name
    paint = ThemeStyles(app.get_css_variables())
    assert all(paint(ink).color is not None for ink in INK)
    assert paint.cursor(focused=True) != paint.cursor(focused=False)


def test_glyph_sets_are_one_cell_each() -> None:
    for symbols in (UNICODE, ASCII):
        single = [*symbols.basis.values(), *symbols.verdict.values(), *symbols.patterns.values(), symbols.filled, symbols.cursor]
        assert all(len(glyph) == 1 for glyph in single)
        assert set(symbols.patterns) == set(MEMORY_COMPONENTS)
        fills = {pattern_and_style(kind, symbols)[0] for kind in CLASS_WORDS}
        assert len(fills) == len(CLASS_WORDS), "classes of operators are told apart without colour"
        assert all(len(fill) == 1 for fill in fills)
    assert all(glyph.isascii() for glyph in [*ASCII.basis.values(), *ASCII.patterns.values(), ASCII.sparks])
    assert len(set(ASCII.verdict.values())) == len(ASCII.verdict)


@pytest.mark.sweep
@given(st.deferred(text_of_signs))
def test_plain_text_is_ascii_and_as_wide(text: str) -> None:
    before = [Segment(text)]
    after = PlainText().apply(before, Color(0, 0, 0))
    assert all(segment.text.isascii() for segment in after)
    assert sum(segment.cell_length for segment in after) == sum(segment.cell_length for segment in before)


def test_two_dots_stand_for_what_was_cut_and_a_scroll_bar_has_no_signs() -> None:
    assert plain("DeepSeek V2 (mixture…") == "DeepSeek V2 (mixtur.."
    assert plain("reading …") == "reading.."
    assert plain("8,730 → 9,640 $/month") == "8,730 ->9,640 $/month"
    assert plain("l →  open") == "l -> open"
    assert plain("saves ≤ 580 $ · −3 % · tp2·dp4 · a") == "saves <=580 $ | -3 % | tp2-dp4 | a"
    assert plain("· 2 ×") == "| 2 x"
    assert plain("61 °C") == "61 C "
    thumb = Segment("▆", Style.from_meta({"@mouse.down": "grab"}))
    assert [segment.text for segment in PlainText().apply([thumb], Color(0, 0, 0))] == [" "]


def test_settings_are_read_strictly_and_completely(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[keys]\nwhy = "v"\nquit = 3\n[app]\ntheme = "nrod"\n[kyes]\n')
    found, problems = config.read(tmp_path, BY_ID)
    assert found.keys == {"why": "v"}
    assert {problem.key for problem in problems.found} == {"keys.quit", "app.theme", "kyes"}
    assert next(problem for problem in problems.found if problem.key == "app.theme").nearest == ("nord",)


def test_no_settings_is_no_problem(tmp_path: Path) -> None:
    found, problems = config.read(tmp_path / "none", BY_ID)
    assert not found.keys
    assert not problems.found


def test_memory_of_one_row_reads_in_gib() -> None:
    row = sample_plan(read_workload({"model": "llama-3.1-70b", "task": "serve"}, ""), "measured").rows[0]
    assert row.answer.memory_bytes is not None
    assert row.answer.memory_bytes.capacity == pytest.approx(139.8 * GIB)


def test_an_engine_stays_where_the_other_task_knows_it() -> None:
    service = {"model": "llama-3.1-8b", "task": "serve", "engine": "vllm"}
    assert turned_to(service, "generate")["engine"] == "vllm"
    assert turned_to(service, "finetune") == {"model": "llama-3.1-8b", "task": "finetune"}
    assert service["engine"] == "vllm"


@pytest.mark.parametrize("width", range(14, 30))
def test_no_line_ends_between_a_number_and_its_unit(width: int) -> None:
    text = "matmul 56 %, elementwise 23 %, link 6 %; 3.3 h of 24.0 h, 43.6 of 178.4 GiB at 18.39 $ for 12 GPUs and 4.5 ms"
    lines = fold(text, width)
    assert " ".join(lines) == text
    assert not [line for line in lines if re.match(r"(%|h|GiB|\$|ms)\b|%|\$", line)]
