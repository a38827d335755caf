"""Costs of a row over years: ways to pay month by month, break-evens in words, and a table of providers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.money.costs import Costs, ProviderCosts, WayCosts
from planner.present.cells import Fact, Facts, Paragraph, Part, Points, Section, text_table
from planner.present.money.curves import cost_charts
from planner.units import digits, percent_text, usd_text

MARKETS = ("on-demand", "spot", "reserved-1y", "reserved-3y")


def cost_sections(costs: Costs) -> list[Section]:
    """The whole answer: what each way has cost by when, where they meet, each provider, and what a token costs."""
    heading = (
        f"Costs of {costs.gpus:,} × {costs.gpu} over {costs.horizon_months} months, in use {percent_text(costs.use)} of the time"
    )
    months = list(costs.ways[0].usd_after_months) if costs.ways else []
    rows = [(ways.way.name, ways.way.who, *(usd_text(ways.usd_after_months[month]) for month in months)) for ways in costs.ways]
    heads = ("way", "who", *(f"{month} mo, $" for month in months))
    parts: list[Part] = [text_table(heads, rows, heads[2:], stays=heads[-1])] if rows else [Paragraph("No price of it is known.")]
    sentences = list(break_evens(costs))
    if sentences:
        parts.append(Points(sentences))
    found = [Section(heading, [*parts, *cost_charts(costs)])]
    if costs.providers:
        markets = [market for market in MARKETS if any(market in one.usd for one in costs.providers)]
        table = [(one.provider, _instances(one), *(usd_text(one.usd.get(market)) for market in markets)) for one in costs.providers]
        title = f"{costs.horizon_months} months at each provider, $"
        found.append(Section(title, [text_table(("provider", "instance", *markets), table, markets)]))
    if facts := token_facts(costs):
        found.append(Section("A million tokens", [Facts(facts)]))
    if costs.assumed:
        found.append(Section("Assumed", [Points([f"{key}: {words}" for key, words in costs.assumed.items()])]))
    return found


def break_evens(costs: Costs) -> Iterator[str]:
    """Break-even of each way with the first, in months and in use."""
    for other in costs.ways[1:]:
        yield break_even_text(costs, costs.ways[0], other)


def break_even_text(costs: Costs, first: WayCosts, other: WayCosts) -> str:
    """One sentence on where two ways meet, and which is cheaper over the horizon."""
    end = str(costs.horizon_months)
    a, b = first.usd_after_months[end], other.usd_after_months[end]
    first_name, other_name = _name(costs, first), _name(costs, other)
    cheaper = other_name if b < a else first_name
    difference = usd_text(abs(a - b))
    words = f"{other_name} against {first_name}: {cheaper} is {difference} $ cheaper over {end} months"
    if other.break_even_months is not None:
        life = other.way.life_months
        late = f", beyond its life of {life:g}" if life is not None and other.break_even_months > life else ""
        words += f"; break-even after {digits(other.break_even_months)} months{late}"
    if other.break_even_use is not None and other.break_even_use <= 1:
        words += f"{', or' if other.break_even_months is not None else '; break-even'} at {percent_text(other.break_even_use)} use"
    return f"{words}."


def _name(costs: Costs, ways: WayCosts) -> str:
    """'spot'; 'on-demand (given)' where another way has the same name."""
    alike = sum(one.way.name == ways.way.name for one in costs.ways) > 1
    return f"{ways.way.name} ({ways.way.who})" if alike else ways.way.name


def _instances(one: ProviderCosts) -> str:
    """'a3-highgpu-1g; reserved-1y: a3-highgpu-8g'."""
    return "; ".join([one.instance, *(f"{market}: {name}" for market, name in one.other_instances.items())])


def token_facts(costs: Costs) -> list[Fact]:
    """Dollars of a million tokens read and written, and their CO2."""
    counted = "answers, " if costs.usd_per_million_answer_tokens is not None else ""
    known = (
        ("prompt", costs.usd_per_million_prompt_tokens, "$", "by the time replicas read prompts"),
        ("answer", costs.usd_per_million_answer_tokens, "$", "by the rest of the time"),
        ("on GPUs of one's own", costs.usd_per_million_tokens_owned, "$", f"{counted}at {percent_text(costs.use)} use"),
        ("CO2", costs.gco2_per_million_tokens, "g", "of the GPUs and their room"),
    )
    return [Fact(label, f"{usd_text(value)} {unit}", aside) for label, value, unit, aside in known if value is not None]
