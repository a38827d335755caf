"""What answers say is laid out without loss: columns sort as they read, commands are read back, no line ends inside a quantity."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from engine_sample import plan

from planner.cli.options import Invocation
from planner.cli.plan.command import plan as plan_itself
from planner.cli.plan.options import plan_command
from planner.engine.answers.figure import Figure
from planner.present.cells import Cell, Column, Fact, Table, range_cell, text_table
from planner.present.command_line import PlanCommand
from planner.present.lines.folding import fact_lines, folded
from planner.present.lines.text_table import fitted
from planner.present.plan import columns_for, plan_table, rate_text
from planner.units import UNKNOWN, age_text, count_text, digits, used_text

PRESETS = ("qwen3-8b-single-user-chat", "llama-3.1-8b-lora", "llama-3.1-70b-chat-service")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_cell_is_unknown_where_its_sort_key_is(preset: str) -> None:
    found = plan(preset)
    for column in columns_for(found):
        for row in found.rows:
            if column.sort is not None and column.id != "rank":
                assert (column.sort(row) is None) == (column.text(row) == UNKNOWN), (column.id, row.gpu)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_column_has_its_own_id_and_says_what_it_sorts_by(preset: str) -> None:
    columns = columns_for(plan(preset))
    assert len({column.id for column in columns}) == len(columns)
    assert all(column.sorts_by for column in columns if column.sort is not None)


def test_a_number_of_requests_is_a_job_and_has_no_month() -> None:
    ids = [column.id for column in columns_for(plan("llama-3.2-3b-offline"))]
    assert ids.index("job-h") == ids.index("job-usd") + 1
    assert "usd-per-month" not in ids
    assert {"ttft", "request"} <= set(ids)


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_a_table_is_no_wider_than_asked_and_keeps_what_matters_most(width: int) -> None:
    table = plan_table(plan(PRESETS[2]))
    fit = fitted(table, width)
    lines = [fit.head(), *(line for lines in fit.rows() for line in lines)]
    assert len(fit.columns) == 1 or max(map(len, lines)) <= width
    kept = min(column.column.priority for column in fit.columns)
    assert all(column.priority <= kept for column in fit.left_out)
    assert len(fit.columns) + len(fit.left_out) == len(table.columns)


def test_a_figure_carries_its_range_and_what_it_rests_on() -> None:
    cell = range_cell(Figure(100.0, 86.0, 114.0, "transferred"), digits)
    assert (cell, str(cell)) == (Cell("100", "±14 %", "transferred"), "100 ±14 % ◐")
    assert str(range_cell(None, digits)) == UNKNOWN
    assert str(range_cell(Figure(2.0, 2.0, 2.0, "spec"), digits)) == "2.00 ·"


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.0, "0"),
        (0.0002, "<0.001"),
        (0.0075, "0.0075"),
        (0.184, "0.184"),
        (5_213, "5,210"),
        (185_000, "185 k"),
        (1.24e6, "1.24 M"),
    ],
)
def test_a_rate_has_six_characters_and_no_prefix_that_reads_as_millions(rate: float, text: str) -> None:
    assert rate_text(rate) == text
    assert len(text) <= 6


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    text = "needs 45.2 GiB of 80.0 GiB, 1,910 $ a month, 87 % of 700 W for 12 h"
    for width in range(12, 60):
        lines = folded(text, width)
        assert " ".join(lines) == text
        assert not [line for line in lines[1:] if line.split()[0] in {"GiB", "GiB,", "$", "%", "W", "h"}], width


def test_facts_fold_beside_their_values() -> None:
    facts = [Fact("needed", Cell("109.1 GiB", "±5 %", "spec"), "78 % of that"), Fact("left", "30.7 GiB", "word " * 20)]
    first, second, *more = fact_lines(facts, 60)
    assert first == "  needed  109.1 GiB  78 % of that ±5 % ·"
    assert second.startswith("  left     30.7 GiB  word word")
    assert all(line.startswith(" " * 21 + "word") and len(line) <= 60 for line in more)


@pytest.mark.parametrize(
    "given",
    [
        {"preset": "a preset"},
        {"preset": "chat", "settings": ("max_gpus=8", "title=it's"), "gpus": ("H200 SXM", "L4"), "objective": "fastest"},
        {"preset": "chat", "basis": "spec", "config": Path("/a folder")},
    ],
)
def test_a_command_is_read_back_as_it_was_asked(given: dict[str, Any]) -> None:
    command = PlanCommand(**given)
    program, *words = shlex.split(command.text)
    before, after = words[: words.index("plan")], words[words.index("plan") + 1 :]
    folder = ["--config", str(command.config)] if command.config else []
    assert (program, before) == ("gpu-planner", folder)
    with plan_itself.make_context("plan", after) as context:
        names = ("preset", "settings", "gpus", "objective", "basis")
        read = plan_command(Invocation(config=command.config), **{name: context.params[name] for name in names})
    assert read == PlanCommand(**{"settings": (), "gpus": (), **given})


def test_words_of_a_plain_table_fold_and_its_last_columns_go_first() -> None:
    table = text_table(("name", "count", "note"), [("one", "1", "word " * 12)], ("count",))
    assert [column.column.id for column in fitted(table, 40).columns] == ["name", "count", "note"]
    assert len(fitted(table, 40).rows()[0]) > 1
    assert [column.id for column in fitted(table, 12).left_out] == ["note"]


def test_a_name_folds_at_its_hyphens() -> None:
    columns: list[Column[str]] = [
        Column("model", "model", lambda name: name, least_width=20),
        Column("users", "users", lambda _: "1,088"),
    ]
    table = fitted(Table(columns, ["nemotron-3-super-120b-a12b", "glm-4.5"]), 30)
    assert table.rows() == [["nemotron-3-super-120b-   1,088", "a12b"], ["glm-4.5                  1,088"]]


def test_dates_and_terms_are_not_cut_at_a_hyphen() -> None:
    assert folded("runpod, any region, on-demand, 2026-08-19", 17) == ["runpod, any", "region,", "on-demand,", "2026-08-19"]
    assert folded("70.6 billion parameters · 2 GPUs as tp2", 27) == ["70.6 billion parameters ·", "2 GPUs as tp2"]
    assert folded("24 % of what is there · -10 +28 %", 28) == ["24 % of what is there ·", "-10 +28 %"]
    assert folded("= 34 parameters and 2 B", 22, hanging="  ") == ["= 34 parameters and", "  2 B"]
    assert folded("110.5/178.4 GiB", 14) == ["110.5/178.4", "GiB"]
    assert folded("as tp8·pp16·cp2·dp32 zero1", 15) == ["as", "tp8·pp16·cp2·", "dp32 zero1"]


def test_a_table_leaves_out_columns_in_the_order_it_is_told() -> None:
    table = text_table(
        ("way", "who", "1", "3", "36"), [("spot", "w" * 30, *("1,000",) * 3)], ("1", "3", "36"), ("1", "who", "way", "36"), 36
    )
    heads = [[one.column.title for one in fitted(table, width).columns] for width in (80, 54, 47, 40)]
    assert heads == [["way", "who", "1", "3", "36"], ["way", "who", "1", "36"], ["way", "who", "36"], ["way", "36"]]


@pytest.mark.parametrize(("days", "words"), [(0, "0 days old"), (1, "1 day old"), (20_530, "20,530 days old"), (-1, "after today")])
def test_the_age_of_a_price_is_never_negative(days: int, words: str) -> None:
    """A machine whose clock starts in 1970 was told of prices that are -20,530 days old."""
    assert age_text(days).startswith(words)


def test_what_is_used_has_the_unit_of_what_there_is() -> None:
    assert used_text(4 * 2.0**20, 79.6 * 2.0**30) == "0.00 of 79.6 GiB"
    assert used_text(95 * 2.0**20, 79.6 * 2.0**30) == "0.09 of 79.6 GiB"
    assert used_text(0.0, 79.6 * 2.0**30) == "0.0 of 79.6 GiB"


@pytest.mark.parametrize(
    ("count", "said"), [(999.4e9, "999 B"), (999.8e9, "1.00 T"), (999.6e6, "1.00 B"), (999_600, "999,600"), (None, UNKNOWN)]
)
def test_a_count_rounds_up_to_the_next_unit(count: float | None, said: str) -> None:
    assert count_text(count) == said
