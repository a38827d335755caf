"""Costs of a row over years: ways to pay, break-evens, a table of providers, and charts over months and use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.money import Costs, WayCosts
from planner.present.cells import Fact, Facts, Paragraph, Part, Points, Section, text_table
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, LinearAxis, Point
from planner.units import counted, digits, percent_text, short_usd_text, usd_text

MOST_TIMES = 4.0
"""Maximum cost of a way on the chart relative to the first; more expensive ones would flatten the others and are named instead."""
QUARTER_MONTHS = 3.0
WHOLE_NAME = 36
"""Minimum width of the column `who`; months are left out of the table to keep it, so that rows stay on one line."""
JUST_AFTER = 1e-6
"""Months after a payment from which a curve includes it."""


def cost_charts(costs: Costs) -> list[Chart]:
    """Charts of dollars by month and by use; empty with fewer than two ways."""
    shown = list(_shown(costs))
    return [_by_month(costs, shown), _by_use(costs, shown)] if len(shown) > 1 else []


def _shown(costs: Costs) -> Iterator[WayCosts]:
    """First way, and those with similar costs."""
    end = str(costs.horizon_months)
    for ways in costs.ways:
        if ways is costs.ways[0] or ways.usd_after_months[end] <= MOST_TIMES * costs.ways[0].usd_after_months[end]:
            yield ways


def _by_month(costs: Costs, shown: Sequence[WayCosts]) -> Chart:
    """Cumulative dollars by month, and the months in which a way breaks even with the first."""
    months = costs.horizon_months
    curves = [Curve(_name(ways), _steps(ways, months, costs.use)) for ways in shown]
    meetings = [
        Dot(
            even,
            ways.way.once(even, costs.use),
            f"{ways.way.name} breaks even after {even:.1f} months",
            f"{ways.way.name} has cost as much as {shown[0].way.name}",
        )
        for ways in shown
        if (even := ways.break_even_months) is not None and even <= min(months, ways.way.life_months or months)
    ]
    return Chart(
        f"Cumulative cost, in use {percent_text(costs.use)} of the time",
        LinearAxis(0.0, float(months), lambda month: f"{month:g}", QUARTER_MONTHS),
        LinearAxis(0.0, _top(curves), short_usd_text),
        "months",
        "dollars",
        curves,
        meetings,
        note=_left_out(costs, shown),
    )


def _by_use(costs: Costs, shown: Sequence[WayCosts]) -> Chart:
    """Cost over the horizon by use, and the uses at which a way breaks even with the first."""
    months = costs.horizon_months
    curves = [Curve(_name(ways), [(use, ways.way.cost(months, use)) for use in (0.0, 1.0)]) for ways in shown]
    meetings = [
        Dot(
            even,
            ways.way.cost(months, even),
            f"{ways.way.name} breaks even at {percent_text(even)} use",
            f"{ways.way.name} costs as much as {shown[0].way.name}",
        )
        for ways in shown
        if (even := ways.break_even_use) is not None and even <= 1
    ]
    return Chart(
        f"What {months} months cost, by the time in use",
        LinearAxis(0.0, 1.0, percent_text),
        LinearAxis(0.0, _top(curves), short_usd_text),
        "share of the time in use",
        "dollars",
        curves,
        meetings,
        [Limit(costs.use, "asked")] if costs.use < 1 else [],
        note=_left_out(costs, shown),
    )


def _steps(ways: WayCosts, months: int, use: float) -> list[Point]:
    """Curve of one way: straight lines between payments, and a step at each payment."""
    way = ways.way
    terms = [way.commitment_months, way.life_months]
    payments = {0.0} | {float(term * number) for term in terms if term for number in range(1, int(months / term) + 1)}
    points = [(0.0, 0.0)]
    for payment in sorted(payments):
        points += [(payment, way.cost(payment, use)), (payment, way.cost(payment + JUST_AFTER, use))]
    inside = [point for point in points if point[0] < months]
    return [*inside, (float(months), way.cost(months, use))]


def _top(curves: Sequence[Curve]) -> float:
    return 1.05 * max(usd for curve in curves for _, usd in curve.points) or 1.0


def _name(ways: WayCosts) -> str:
    return f"{ways.way.name}, {ways.way.who}" if ways.way.who else ways.way.name


def _left_out(costs: Costs, shown: Sequence[WayCosts]) -> str:
    end = str(costs.horizon_months)
    names = [f"{ways.way.name} ({usd_text(ways.usd_after_months[end])} $)" for ways in costs.ways if ways not in shown]
    return f"Beyond the chart: {', '.join(names)}." if names else ""


MARKETS = ("on-demand", "spot", "reserved-1y", "reserved-3y")


def cost_sections(costs: Costs) -> list[Section]:
    """Cost of each way over time, break-evens, costs at each provider, and cost of tokens."""
    heading = (
        f"Costs of {costs.gpus:,} × {costs.gpu} over {costs.horizon_months} months, in use {percent_text(costs.use)} of the time"
    )
    months = list(costs.ways[0].usd_after_months) if costs.ways else []
    rows = [(ways.way.name, _who(ways), *(usd_text(ways.usd_after_months[month]) for month in months)) for ways in costs.ways]
    heads = ("way", "who", *(f"{month} mo, $" for month in months))
    parts: list[Part] = [Paragraph("Its price is not known.")]
    if rows:
        parts = [text_table(heads, rows, heads[2:], stays=(heads[2], "who", "way", heads[-1]), least_width=WHOLE_NAME)]
    sentences = list(break_evens(costs))
    if sentences:
        parts.append(Points(sentences))
    found = [Section(heading, [*parts, *cost_charts(costs)])]
    if costs.providers:
        markets = [market for market in MARKETS if any(market in one.usd for one in costs.providers)]
        table = [
            (
                one.provider,
                "; ".join([one.instance, *(f"{market}: {name}" for market, name in one.other_instances.items())]),
                *(usd_text(one.usd.get(market)) for market in markets),
            )
            for one in costs.providers
        ]
        title = f"{costs.horizon_months} months at each provider, $"
        found.append(Section(title, [text_table(("provider", "instance", *markets), table, markets)]))
    if facts := token_facts(costs):
        found.append(Section("A million tokens", [Facts(facts)]))
    if costs.assumed:
        found.append(Section("Assumed", [Points([f"{key}: {words}" for key, words in costs.assumed.items()])]))
    return found


def _who(ways: WayCosts) -> str:
    """Payee such as 'aws p4de.24xlarge (7 GPUs idle)'."""
    idle = ways.way.idle_gpus
    return f"{ways.way.who} ({counted(idle, 'GPU')} idle)" if idle else ways.way.who


def break_evens(costs: Costs) -> Iterator[str]:
    """Sentences on the break-even of each way with the first, in months and in use."""
    for other in costs.ways[1:]:
        yield break_even_text(costs, costs.ways[0], other)


def break_even_text(costs: Costs, first: WayCosts, other: WayCosts) -> str:
    """Sentence on the break-even of two ways, and the cheaper one over the horizon."""
    end = str(costs.horizon_months)
    a, b = first.usd_after_months[end], other.usd_after_months[end]
    first_name, other_name = _distinct_name(costs, first), _distinct_name(costs, other)
    cheaper = other_name if b < a else first_name
    difference = usd_text(abs(a - b))
    words = f"{other_name} against {first_name}: {cheaper} is {difference} $ cheaper over {end} months"
    if other.break_even_months is not None:
        life = other.way.life_months
        late = f", beyond its life of {life:g}" if life is not None and other.break_even_months > life else ""
        words += f"; break-even after {digits(other.break_even_months)} months{late}"
    if other.break_even_use is not None and other.break_even_use <= 1:
        words += f"{', or' if other.break_even_months is not None else '; break-even'} at {percent_text(other.break_even_use)} use"
    return f"{words}{_compared_with(costs, other)}."


def _compared_with(costs: Costs, other: WayCosts) -> str:
    """Remark on the scope of buying or an API: '; of bare GPUs, without server, network, rack or colocation, staff'."""
    if other.way.name == "bought" and "left out" in costs.assumed:
        return f"; of bare GPUs, without {costs.assumed['left out'].partition(':')[0]}"
    if other.way.name == "api" and "api" in costs.assumed:
        return f"; {costs.assumed['api']}"
    return ""


def _distinct_name(costs: Costs, ways: WayCosts) -> str:
    """Name such as 'spot', or 'on-demand (given)' if another way has the same name."""
    alike = sum(one.way.name == ways.way.name for one in costs.ways) > 1
    return f"{ways.way.name} ({ways.way.who})" if alike else ways.way.name


def token_facts(costs: Costs) -> list[Fact]:
    """Dollars per million input and output tokens, and their CO2."""
    counted = "answers, " if costs.usd_per_million_answer_tokens is not None else ""
    known = (
        ("prompt", costs.usd_per_million_prompt_tokens, "$", "by the time replicas read prompts"),
        ("answer", costs.usd_per_million_answer_tokens, "$", "by the rest of the time"),
        ("on GPUs of one's own", costs.usd_per_million_tokens_owned, "$", f"{counted}at {percent_text(costs.use)} use"),
        ("CO2", costs.gco2_per_million_tokens, "g", "of the GPUs and their room"),
    )
    return [Fact(label, f"{usd_text(value)} {unit}", aside) for label, value, unit, aside in known if value is not None]
