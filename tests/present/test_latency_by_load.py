"""Latency against load in words and as a chart, and on the command line."""

from __future__ import annotations

import json

import msgspec
import pytest
from load_sample import sample_load
from repository import RunPlanner
from tui_sample import sample_plan

from planner.engine.answers.plan import PlanRow
from planner.present.cells import Paragraph, Points
from planner.present.choice.latency_by_load import NO_SERVICE, load_sections, sentences
from planner.present.drawing.chart import Chart
from planner.workload.presets import read_workload


def a_row() -> PlanRow:
    return sample_plan(read_workload({"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.0}, ""), "measured").rows[
        0
    ]


def test_sentences_say_where_the_target_ends_and_where_the_queue_grows() -> None:
    assert list(sentences(sample_load())) == [
        "p95 of the whole request stays within 5.00 s up to 20.0 requests/s (12.0 to 25.0 by its range); 16.0 are asked for.",
        "Beyond 30.0 requests/s requests arrive faster than they are answered, and the queue grows without limit.",
    ]
    never = msgspec.structs.replace(sample_load().ends[0], load=None)
    assert (
        next(sentences(msgspec.structs.replace(sample_load(), ends=[never])))
        == "p95 of the whole request is above 5.00 s at every load."
    )


def test_the_chart_marks_the_limit_the_load_asked_for_and_where_p95_passes() -> None:
    (section,) = load_sections(a_row(), sample_load())
    (chart,) = [part for part in section.parts if isinstance(part, Chart)]
    assert [curve.name for curve in chart.curves] == ["p95", "p50"]
    assert chart.curves[0].points == [(2.0, 2.0), (10.0, 3.0), (16.0, 4.0), (24.0, 6.0), (28.0, 12.0)]
    assert [(limit.label, limit.value) for limit in chart.limits] == [("asked", 16.0), ("full", 30.0), ("p95 wanted", 5.0)]
    (dot,) = chart.dots
    assert (dot.x, dot.y) == (20.0, 5.0)


@pytest.mark.parametrize(
    ("full", "note"),
    [
        (30.0, "The lines end where requests come faster than they are answered."),
        (60.0, "The lines end at 28.0 requests/s, the highest load that was worked out."),
        (None, ""),
    ],
)
def test_the_chart_says_why_its_lines_end(full: float | None, note: str) -> None:
    (section,) = load_sections(a_row(), msgspec.structs.replace(sample_load(), full=full))
    (chart,) = [part for part in section.parts if isinstance(part, Chart)]
    assert chart.note == note


def test_another_latency_has_no_limit_here() -> None:
    (section,) = load_sections(a_row(), sample_load(), "ttft")
    (chart,) = [part for part in section.parts if isinstance(part, Chart)]
    assert chart.y_title == "time of the first token"
    assert not chart.dots


def test_what_is_no_service_says_so() -> None:
    (section,) = load_sections(a_row(), None)
    assert section.parts == [Paragraph(NO_SERVICE)]
    assert not any(isinstance(part, Points) for part in section.parts)


@pytest.mark.sweep
def test_the_command_line_prints_it_and_gives_it_to_programs(run_planner: RunPlanner) -> None:
    asked = ("plan", "llama-3.2-3b-real-time", "--load", "--gpu", "L4", "--top", "1")
    told = run_planner(*asked).stdout
    assert "p95" in told.partition("against load")[2]
    given = json.loads(run_planner(*asked, "--json").stdout)["under_load"]
    assert given["points"][0]["request_s"]["p95"]["value"] > 0
    assert run_planner(*asked, "--csv").returncode == 2
