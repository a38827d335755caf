"""Every way to pay for the GPUs of one row, from the offers of its GPU: by the hour, on commitment, bought, or by the token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from planner.engine.answers.answer import Answer, LayoutAnswer
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.task import Supply
from planner.engine.job.people import peak_over_mean
from planner.engine.money import (
    WORLD_GCO2_PER_KWH,
    Costs,
    ProviderCosts,
    TokenCosts,
    Way,
    WayCosts,
    bought_usd,
    break_even_months,
    break_even_use,
    gco2_per_million_tokens,
    token_costs,
)
from planner.engine.search.supply.quotes import Quote, quotes_of
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.api_prices import ApiPrice
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, percent_text
from planner.workload.hardware.owned import Owning
from planner.workload.tasks import Lengths, Term, Workload, trains

TERMS: Mapping[Term, int] = {"on-demand": 0, "spot": 0, "reserved-1y": 12, "reserved-3y": 36}
"""Term -> months that are owed once begun."""
IDLE_POWER = 0.1
"""Power of an idle GPU without a model ÷ its limit: 74 of an H200's 700 W (conservemode.com/case-studies.html, 2026). For other GPUs an assumption."""
CURVE_MONTHS = (1, 3, 6, 12, 24, 36, 48, 60)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of the costs."""

    months: int = 36
    use: float = 1.0
    """Share of the time in use."""
    api: ApiPrice | None = None
    given_usd_per_h: float | None = None
    """Price of one GPU to compare the others with."""


def costs_of(workload: Workload, row: PlanRow, gpu: Gpu, supply: Supply, terms: Terms) -> Costs | None:
    """Costs of `row` over the given months; None for a row without a layout.

    The first way is the cheapest of those that the row is priced by; the break-evens of the others are relative to it.
    """
    layout = row.answer.layout
    if layout is None:
        return None
    owning = (workload.owning or Owning()).of_part(gpu.of_whole)
    rented = list(_rented(workload, row.gpu, layout, supply))
    ways = [way for _, way in _cheapest(rented)]
    assumed: dict[str, str] = {}
    if terms.given_usd_per_h is not None:
        ways.insert(0, _hourly("on-demand", "given", terms.given_usd_per_h * layout.gpus, "", ""))
    given = _price_is_given(workload, row, supply)
    if bought := _bought(row, gpu, layout.gpus, owning, assumed, given=given):
        ways.append(bought)
    if terms.api is not None and (by_token := _by_token(workload, row.answer, terms.api, assumed)):
        ways.append(by_token)
    first = _first(ways, row, workload)
    if first is not None:
        ways.sort(key=lambda way: way is not first)
    owned_usd_per_h = bought.cost(terms.months, terms.use) / (terms.months * HOURS_PER_MONTH) if bought else None
    split = _split(workload, row)
    if workload.daily_users:
        assumed["tokens"] = "those of the mean hour; the GPUs are paid for the busiest"
    return Costs(
        gpu=row.gpu,
        gpus=layout.gpus,
        use=terms.use,
        horizon_months=terms.months,
        ways=[_way_costs(way, first, terms) for way in ways],
        providers=list(_providers(rented, terms)),
        usd_per_million_prompt_tokens=split.prompt if split else None,
        usd_per_million_answer_tokens=split.answer if split else None,
        usd_per_million_tokens_owned=_owned_per_million(workload, row.answer, owned_usd_per_h, terms.use),
        gco2_per_million_tokens=_co2(row.answer, owning, assumed),
        assumed=assumed,
    )


def _rented(workload: Workload, gpu: str, layout: LayoutAnswer, supply: Supply) -> Iterator[tuple[Offer, Term, Way]]:
    """Every offer of the GPU that the workload admits and that can hold `layout`, on every term, for as many whole nodes as needed."""
    for _, size, quote in quotes_of(msgspec.structs.replace(workload, market="any"), supply, {gpu}):
        if not _holds(quote, size, layout, whole=trains(workload.task)):
            continue
        nodes, offer = math.ceil(layout.gpus / size), quote.offer
        way = _hourly(quote.term, f"{offer.provider} {offer.instance}", quote.usd_per_h * nodes, offer.as_of, offer.source)
        yield offer, quote.term, msgspec.structs.replace(way, idle_gpus=nodes * size - layout.gpus)


def _holds(quote: Quote, size: int, layout: LayoutAnswer, *, whole: bool) -> bool:
    """True if nodes of `size` GPUs hold the layout: enough of them, tensor parallelism inside one, and joined where necessary.

    `whole`: all GPUs work on one step; else each replica is separate.
    """
    joined = layout.gpus if whole else max(layout.gpus // layout.dp, layout.ep or 1)
    nodes = math.ceil(layout.gpus / size)
    together = size >= joined or (size >= layout.tp and quote.cluster >= math.ceil(joined / size))
    return together and nodes <= quote.machines


def _hourly(market: Term, who: str, usd_per_h: float, as_of: str, source: str) -> Way:
    monthly, months = usd_per_h * HOURS_PER_MONTH, TERMS[market]
    fixed, used = (monthly, 0.0) if months else (0.0, monthly)
    return Way(
        name=market,
        who=who,
        fixed_usd_per_month=fixed,
        used_usd_per_month=used,
        commitment_months=months,
        as_of=as_of,
        source=source,
    )


def _cheapest(rented: list[tuple[Offer, Term, Way]]) -> Iterator[tuple[Term, Way]]:
    for market in TERMS:
        ways = [way for _, one, way in rented if one == market]
        if ways:
            yield market, min(ways, key=lambda way: way.fixed_usd_per_month + way.used_usd_per_month)


def _price_is_given(workload: Workload, row: PlanRow, supply: Supply) -> bool:
    """True if the workload states the price at which the GPUs of `row` were bought."""
    if row.owned is None or row.owned.bought:
        return False
    return any(own.purchase_usd is not None and supply.find_gpu(own.part).name == row.gpu for own in workload.own)


def _bought(row: PlanRow, gpu: Gpu, gpus: int, owning: Owning, assumed: dict[str, str], *, given: bool) -> Way | None:
    """Cost of buying the GPUs: their price once per life, hosting every month, and power, most of it while they work."""
    price = row.owned.price_usd if row.owned is not None else None
    if price is None and gpu.purchase is not None:
        price = bought_usd(gpu.purchase.price_usd, owning) * gpus
    power = row.owned.power_w if row.owned is not None else gpu.tdp_w
    if price is None or power is None:
        return None
    kwh_usd = power / 1000 * owning.pue * owning.usd_per_kwh * HOURS_PER_MONTH * gpus
    place = (owning.hosting_usd_per_month + owning.staff_usd_per_month) * gpus
    source = "as given" if given or gpu.purchase is None else f"{gpu.purchase.kind}, read on {gpu.purchase.as_of}"
    assumed["power"] = (
        f"{power:,.0f} W a GPU at work and {percent_text(IDLE_POWER)} of it idle, {owning.usd_per_kwh:g} $/kWh, PUE {owning.pue:g}"
    )
    assumed["purchase"] = f"{source}; {owning.life_years:g} years, residual {percent_text(owning.residual)}"
    if owning.left_out:
        assumed["left out"] = owning.left_out
    return Way(
        name="bought",
        who=f"{gpus:,} × {gpu.name}",
        entry_usd=price,
        life_months=owning.life_years * 12,
        residual_usd=price * owning.residual,
        fixed_usd_per_month=place + kwh_usd * IDLE_POWER,
        used_usd_per_month=kwh_usd * (1 - IDLE_POWER),
        as_of=gpu.purchase.as_of if gpu.purchase else "",
        source=gpu.purchase.source if gpu.purchase else "",
    )


def _by_token(workload: Workload, answer: Answer, api: ApiPrice, assumed: dict[str, str]) -> Way | None:
    """Cost of the same requests at an API; for a number of users, of the requests in the mean hour."""
    rate, tokens = answer.requests_per_s, _tokens(workload, answer)
    if rate is None or tokens is None:
        return None
    peak = peak_over_mean(workload)
    prompt, cached, made = tokens
    monthly = api.request_usd(prompt, cached, made) * rate.value / peak * HOURS_PER_MONTH * SECONDS_PER_HOUR
    hour = "the mean hour" if workload.daily_users else "every hour in use"
    most = "" if workload.request_rate_per_s or workload.daily_users else ", all that these GPUs answer"
    assumed["api"] = f"{api.name} at {api.provider}, {rate.value / peak:.3g} requests/s in {hour}{most}"
    fixed = bool(workload.daily_users)
    return Way(
        name="api",
        who=f"{api.provider} {api.name}",
        fixed_usd_per_month=monthly if fixed else 0.0,
        used_usd_per_month=0.0 if fixed else monthly,
        as_of=api.as_of,
        source=api.source,
    )


def _tokens(workload: Workload, answer: Answer) -> tuple[float, float, float] | None:
    """(prompt, cached prefix, answer) of the mean request, as given or as `answer` assumed them; None if there is none."""
    given = {"input_tokens": workload.input_tokens, "output_tokens": workload.output_tokens}
    taken = [answer.assumed.get(name) if tokens is None else tokens for name, tokens in given.items()]
    prompt, made = (tokens.mean if isinstance(tokens, Lengths) else tokens for tokens in taken)
    if not isinstance(prompt, int | float) or not isinstance(made, int | float):
        return None
    return float(prompt), float(min(workload.prefix_tokens or 0, prompt)), float(made)


def _first(ways: list[Way], row: PlanRow, workload: Workload) -> Way | None:
    wanted = "bought" if row.owned is not None else workload.market
    return next((way for way in ways if way.name == wanted), ways[0] if ways else None)


def _way_costs(way: Way, first: Way | None, terms: Terms) -> WayCosts:
    months = sorted({month for month in CURVE_MONTHS if month < terms.months} | {terms.months})
    found = WayCosts(way=way, usd_after_months={str(month): way.cost(month, terms.use) for month in months})
    if first is None or way is first:
        return found
    later = break_even_months(first, way, terms.use)
    return msgspec.structs.replace(
        found,
        break_even_months=break_even_months(way, first, terms.use) if later is None else later,
        break_even_use=break_even_use(first, way, terms.months),
    )


def _providers(rented: list[tuple[Offer, Term, Way]], terms: Terms) -> Iterator[ProviderCosts]:
    """Each provider's cheapest offer in each market over the horizon, the cheapest provider first."""
    best: dict[str, dict[str, tuple[float, str]]] = {}
    for offer, market, way in rented:
        cost = way.cost(terms.months, terms.use), offer.instance
        known = best.setdefault(offer.provider, {})
        known[market] = min(cost, known.get(market, cost))
    for provider, by_market in sorted(best.items(), key=lambda item: min(item[1].values())):
        _, instance = min(by_market.values())
        others = {market: name for market, (_, name) in by_market.items() if name != instance}
        yield ProviderCosts(
            provider=provider,
            instance=instance,
            other_instances=others,
            usd={market: usd for market, (usd, _) in by_market.items()},
        )


def _split(workload: Workload, row: PlanRow) -> TokenCosts | None:
    answer, tokens, layout = row.answer, _tokens(workload, row.answer), row.answer.layout
    if row.usd_per_h is None or tokens is None or answer.requests_per_s is None or answer.prefill_s is None or layout is None:
        return None
    prompt, cached, made = tokens
    return token_costs(
        usd_per_h=row.usd_per_h.value,
        requests_per_s=answer.requests_per_s.value / peak_over_mean(workload),
        prefill_s=answer.prefill_s.value,
        replicas=layout.dp,
        prompt_tokens=prompt - cached,
        answer_tokens=made,
    )


def _owned_per_million(workload: Workload, answer: Answer, usd_per_h: float | None, use: float) -> float | None:
    rate = answer.output_tokens_per_s or answer.tokens_per_s
    if usd_per_h is None or rate is None or use <= 0:
        return None
    return usd_per_h * peak_over_mean(workload) / (rate.value * use * SECONDS_PER_HOUR) * 1e6


def _co2(answer: Answer, owning: Owning, assumed: dict[str, str]) -> float | None:
    if answer.energy_j_per_token is None:
        return None
    grams = WORLD_GCO2_PER_KWH if owning.gco2_per_kwh is None else owning.gco2_per_kwh
    mean = ", the world's mean of 2023 (Ember)" if owning.gco2_per_kwh is None else ""
    assumed["co2"] = f"{grams:g} g CO2/kWh{mean}, PUE {owning.pue:g}"
    return gco2_per_million_tokens(answer.energy_j_per_token.value, owning.pue, grams)
