"""Charts: what they hold against sums worked by hand, and how they are drawn at the widths of terminals and as SVG."""

from __future__ import annotations

import random
import re
from html import escape
from itertools import pairwise

import msgspec
import pytest
from repository import RunPlanner

from planner.engine.money import Costs, Way, WayCosts
from planner.present.choice.frontier import frontier_chart
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, LinearAxis, LogAxis, axis_around, tick_label
from planner.present.drawing.plot import Plot
from planner.present.drawing.svg import HEIGHT, LINE, WIDTH, chart_svg, spread_out
from planner.present.drawing.terminal import Look, chart_runs, rows_for
from planner.present.money.costs import cost_charts
from planner.session import Session
from planner.units import digits, short_usd_text, si_text

HOURS = 730.0
LOOK = Look(curves=("a", "b", "c"), quiet="q", strong="s")


def _costs(*ways: tuple[Way, float | None], months: int = 36, use: float = 0.7) -> Costs:
    listed = [
        WayCosts(way=way, usd_after_months={str(months): way.cost(months, use)}, break_even_months=even) for way, even in ways
    ]
    return Costs(gpu="A100 80GB SXM", gpus=1, use=use, horizon_months=months, ways=listed)


HOURLY = Way(name="on-demand", who="aws", used_usd_per_month=5.12 * HOURS)
BOUGHT = Way(name="bought", entry_usd=12_000.0, life_months=24.0)
EVEN = 12_000 / (5.12 * 0.7 * HOURS)


def test_the_curve_of_what_is_rented_ends_at_94_187_usd_and_that_of_what_is_bought_steps_up_with_each_life() -> None:
    by_month, by_use = cost_charts(_costs((HOURLY, None), (BOUGHT, EVEN)))
    rented, bought = by_month.curves
    assert rented.points[-1] == pytest.approx((36.0, 94_187.52))  # 18,396 h · 5.12 $/h
    assert [usd for _, usd in bought.points] == [0.0, 0.0, 12_000.0, 12_000.0, 24_000.0, 24_000.0]
    assert [month for month, _ in bought.points] == [0.0, 0.0, 0.0, 24.0, 24.0, 36.0]
    (even,) = by_month.dots
    assert (even.x, even.y) == pytest.approx((EVEN, 12_000.0))
    assert by_use.curves[0].points == [(0.0, 0.0), (1.0, pytest.approx(5.12 * HOURS * 36))]
    assert [limit.value for limit in by_use.limits] == [0.7]


def test_a_commitment_is_a_flat_line_from_the_first_day() -> None:
    committed = Way(name="reserved-1y", fixed_usd_per_month=1000.0, commitment_months=12)
    by_month, _ = cost_charts(_costs((HOURLY, None), (committed, None), months=18))
    assert by_month.curves[1].points[2:] == [(0.0, 12_000.0), (12.0, 12_000.0), (12.0, 24_000.0), (18.0, 24_000.0)]


def test_a_way_many_times_as_dear_is_named_instead_of_drawn() -> None:
    dear = Way(name="api", used_usd_per_month=50 * 5.12 * HOURS)
    charts = cost_charts(_costs((HOURLY, None), (BOUGHT, None), (dear, None)))
    assert all(len(chart.curves) == 2 for chart in charts)
    assert charts[0].note == "Beyond the chart: api (4,710,000 $)."
    assert cost_charts(_costs((HOURLY, None), (dear, None))) == []


def test_nothing_is_cheaper_and_faster_than_a_named_row() -> None:
    session = Session.open()
    plan = session.plan(session.presets.load("llama-3.1-8b-pretrain").workload, levers=False)
    chart = frontier_chart(plan)
    assert chart is not None
    assert len(chart.dots) == sum(row.rank is not None and row.job_usd is not None for row in plan.rows)
    for dot in chart.dots:
        beaten = any(one.x <= dot.x and one.y <= dot.y and (one.x, one.y) != (dot.x, dot.y) for one in chart.dots)
        assert beaten or dot.label
        assert not (beaten and dot.label)
    assert [limit.value for limit in chart.limits] == [60.0], "the deadline of 1,440 h in days, as the axis has it"


def _sample(curves: int) -> Chart:
    drawn = [Curve(f"way {number}", [(0.0, 0.0), (36.0, 1000.0 + 5 * number)]) for number in range(curves)]
    dots = [Dot(9.0, 250.0, "here"), Dot(27.0, 100.0)]
    return Chart("t", LinearAxis(0.0, 36.0), LinearAxis(0.0, 1100.0), "months", "dollars", drawn, dots, note="n < 1")


@pytest.mark.parametrize("width", [76, 80, 120, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_chart_fits_its_terminal_and_every_curve_is_marked_and_named(width: int, *, ascii_only: bool) -> None:
    look = Look(curves=("a", "b", "c"), quiet="q", strong="s", ascii_only=ascii_only)
    lines = ["".join(text for text, _ in runs) for runs in chart_runs(_sample(4), width, rows_for(width), look)]
    assert max(map(len, lines)) <= width
    assert len(lines) <= rows_for(width) + 3
    drawn, legend = "\n".join(lines[:-2]), "\n".join(lines[-2:])
    for letter, name in zip("ABCD", ("way 0", "way 1", "way 2", "way 3"), strict=True):
        assert letter in drawn, "letters of curves that end at one height do not hide each other"
        assert f"{letter} {name}" in legend
    assert "a here" in legend
    if ascii_only:
        assert all(line.isascii() for line in lines)


def test_names_beside_curves_keep_their_order_and_do_not_touch() -> None:
    draw = random.Random(1)  # noqa: S311  # samples, no secrets
    for _ in range(200):
        wanted = [draw.uniform(20, HEIGHT - 50) for _ in range(draw.randint(0, 8))]
        placed = spread_out(wanted)
        order = sorted(range(len(wanted)), key=wanted.__getitem__)
        heights = [placed[number] for number in order]
        assert all(below - above >= LINE - 1e-9 for above, below in pairwise(heights))
        assert all(0 <= height <= HEIGHT for height in heights)


@pytest.mark.parametrize("name", ["on-demand, runpod NVIDIA B200 x1", "W" * 60, "l" * 60, "bought, 2 × B200 SXM"])
def test_the_name_of_a_curve_ends_inside_the_chart(name: str) -> None:
    """A capital takes 8.6 of 760, another letter 6.3 (DejaVu Sans at 12 px); the name begins 15 beside the plot."""
    sample = _sample(1)
    chart = msgspec.structs.replace(sample, curves=[msgspec.structs.replace(sample.curves[0], name=name)])
    ((x, written),) = re.findall(r'<text x="([0-9.]+)"[^>]* style="fill:[^>]*>([^<]*)<', chart_svg(chart))
    assert float(x) + sum(8.6 if letter.isupper() else 6.3 for letter in written) <= WIDTH
    assert written == name or (written.endswith("…") and name.startswith(written[:-1]))


def test_svg_holds_what_it_draws_and_escapes_its_words() -> None:
    text = chart_svg(_sample(3))
    assert f"<desc>{escape('n < 1')}</desc>" in text
    assert text.count("<polyline") == 3
    assert len(set(re.findall(r'stroke-dasharray="([^"]*)"', text))) == 2, "told apart without colour"
    for number in re.findall(r'\b(?:x|cx|x1|x2)="([-\d.]+)"', text):
        assert 0 <= float(number) <= WIDTH
    for number in re.findall(r'\b(?:y|cy|y1|y2)="([-\d.]+)"', text):
        assert 0 <= float(number) <= HEIGHT


def test_axes_are_logarithmic_where_values_lie_far_apart() -> None:
    assert isinstance(axis_around([1.0, 50.0]), LogAxis)
    close = axis_around([4.1, 4.9])
    assert isinstance(close, LinearAxis)
    assert close.ticks(5) == pytest.approx([4.2, 4.4, 4.6, 4.8])
    assert LinearAxis(0.0, 36.0).ticks(8) == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]
    assert LinearAxis(0.0, 36.0, unit=3).ticks(7) == [0.0, 6.0, 12.0, 18.0, 24.0, 30.0, 36.0]
    assert len(LinearAxis(0.0, 1e-7).ticks(3)) >= 2


def test_charts_are_drawn_on_a_terminal_and_left_out_of_a_file(run_planner: RunPlanner) -> None:
    asked = ("plan", "llama-3.1-8b-lora", "--gpu", "L40S", "--money")
    drawn = run_planner(*asked, COLUMNS="80").stdout
    assert "dollars, over months" in drawn
    assert "dollars for the job" in drawn
    assert "┤" in drawn
    assert max(len(line) for line in drawn.splitlines() if "┤" in line or "│" in line) <= 80
    assert "dollars, over months" not in run_planner(*asked, COLUMNS="").stdout


def test_markdown_has_the_chart_as_text(run_planner: RunPlanner) -> None:
    text = run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S").stdout
    assert text.count("```text") == 3
    assert "Cost against time of " in text


def test_months_are_read_in_quarters_and_the_last_of_them_has_its_label() -> None:
    months = LinearAxis(0.0, 12.0, lambda month: f"{month:g}", 3.0)
    assert months.ticks(40) == [0.0, 3.0, 6.0, 9.0, 12.0]
    assert LinearAxis(0.0, 1.0, unit=3).ticks(4) == pytest.approx([0.0, 0.3, 0.6, 0.9])
    plot = Plot(60, 15, months, LinearAxis(0.0, 110_000.0, short_usd_text))
    *_, floor, labels = ["".join(text for text, _ in runs) for runs in plot.runs()]
    assert labels.split() == ["0", "3", "6", "9", "12"]
    assert len(labels) == len(floor) == 60
    assert [runs[0][0].split("$")[0].strip() for runs in plot.runs() if "$" in runs[0][0]] == [
        "100 k",
        "80 k",
        "60 k",
        "40 k",
        "20 k",
        "0",
    ]


def test_a_label_keeps_its_colour_where_a_line_passes_it() -> None:
    plot = Plot(40, 12, LinearAxis(0.0, 10.0), LinearAxis(0.0, 10.0))
    plot.vertical(2.0, "label", "guide")
    plot.line([(0.0, 9.9), (10.0, 9.9)], "curve")
    (styles,) = ({style for text, style in plot.runs()[0] if "label" in text},)
    assert styles == {"guide"}
    assert any(style == "curve" for _, style in plot.runs()[0])


def test_the_label_of_a_dot_does_not_touch_that_of_a_limit_and_stays_inside() -> None:
    """Width of letters as `_width` has it: 6.3, and 8.6 of capitals."""
    label, wanted = "p95 passes 5.00 s at 17.2 requests/s", "p95 wanted"
    chart = Chart("", LinearAxis(0.0, 30.0), LinearAxis(0.0, 10.0), "requests a second", "s", [Curve("p95", [(1.0, 2.0), (25.0, 9.0)])],
        dots=[Dot(17.2, 5.0, label)], limits=[Limit(5.0, wanted, upright=False)])  # fmt: skip
    places = {
        text: (float(x), float(y))
        for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)" [^>]*>([^<]*)<', chart_svg(chart))
    }
    (left, base), (limit_left, limit_base) = places[label], places[wanted]
    assert left > 0
    assert left + 6.3 * len(label) < limit_left or abs(base - limit_base) >= LINE


@pytest.mark.parametrize("most", [3, 5, 8, 12, 20])
@pytest.mark.parametrize(("low", "high"), [(1.2, 8.0), (0.7, 3000.0), (33.0, 250.0), (6e12, 2.3e14)])
def test_ticks_of_one_axis_have_different_labels(low: float, high: float, most: int) -> None:
    for text in (digits, lambda value: digits(value, 2), lambda value: si_text(value, significant=2)):
        axis = LogAxis(low, high, text)
        labels = [tick_label(axis, tick) for tick in axis.ticks(most)]
        assert len(set(labels)) == len(labels) <= most
        assert len(labels) >= 2


def test_points_of_one_cell_share_a_letter_and_faint_ones_cover_no_label() -> None:
    chart = Chart("", LinearAxis(0.0, 10.0), LinearAxis(0.0, 10.0), "x", "y",
        dots=[Dot(5.0, 4.9, "first"), Dot(5.0, 4.91, "second"), Dot(1.0, 1.0, "third"), *(Dot(x / 10, 9.9) for x in range(100))],
        limits=[Limit(9.9, "wanted", upright=False)])  # fmt: skip
    lines = ["".join(text for text, _ in runs) for runs in chart_runs(chart, 60, 14, LOOK)]
    assert "wanted" in "\n".join(lines)
    assert lines[-1].split("   ") == ["a first and second", "b third"]
    assert "a" in "".join(lines[1:-3])
