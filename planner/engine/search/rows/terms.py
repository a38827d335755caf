"""Terms of a row: what its job costs on each, what a commitment comes to, and from which use on it is the cheaper one."""

from __future__ import annotations

import numpy as np

from planner.engine.answers.figure import Figure
from planner.engine.answers.network import TermPrice
from planner.engine.evaluate.market_terms import COMMITTED_H, paid_hours
from planner.engine.evaluate.offer_prices import PRICE_FIELDS
from planner.engine.search.selection import Choice
from planner.engine.search.supply.quotes import Quote
from planner.hardware.prices.providers import Provider
from planner.workload.tasks import Term


def effective_usd_per_h(choice: Choice, quote: Quote) -> float:
    """Cost of an hour of undisturbed work by `quote`: of a job that ends with what its commitment or its interruptions add."""
    usd_per_h = quote.usd_per_h * int(choice.deployments.instances[choice.row])
    hours = _undisturbed_h(choice)
    if hours is None:
        return usd_per_h
    return usd_per_h * _paid(choice, quote.term, quote.provider, hours * _factor(choice, quote.term)[1])[0] / hours


def job_figures(choice: Choice, quote: Quote | None, job_h: Figure | None, usd_per_h: float) -> tuple[Figure | None, Figure | None]:
    """(hours, dollars) of a job that takes `job_h` undisturbed; None where it does not end."""
    if job_h is None:
        return None, None
    if quote is None:
        return job_h, job_h.scaled(usd_per_h)
    hours = _stretched(choice, quote.term, job_h)
    return hours, _job_usd(choice, quote.term, quote.provider, hours, usd_per_h)


def terms_of(choice: Choice, quote: Quote, job_h: Figure | None) -> list[TermPrice]:
    """The nodes of `choice` on every term that the offer of `quote` has a price for, by the hour first."""
    offer, nodes = quote.offer, int(choice.deployments.instances[choice.row])
    scale = nodes * choice.node_type.per_node / offer.gpus
    hourly = offer.on_demand_usd_per_h
    found = []
    for term, field in PRICE_FIELDS.items():
        price = getattr(offer, field)
        if price is None:
            continue
        hours = _stretched(choice, term, job_h) if job_h else None
        committed = COMMITTED_H.get(term)
        found.append(
            TermPrice(
                term=term,
                usd_per_h=price * scale,
                job_usd=_job_usd(choice, term, quote.provider, hours, price * scale) if hours else None,
                committed_usd=committed * price * scale if committed else None,
                break_even_use=price / hourly if committed and hourly else None,
                basis="by discount" if field in offer.by_discount else "published",
            )
        )
    return found


def _undisturbed_h(choice: Choice) -> float | None:
    """Hours of the job without interruptions; None where it does not end."""
    d = choice.deployments
    hours = float(d.bill.job_h[choice.row])
    own = d.quote(choice.row)
    return hours / _factor(choice, own.term if own else "on-demand")[1] if np.isfinite(hours) else None


def _factor(choice: Choice, term: Term) -> tuple[float, float, float]:
    """(low, value, high) of the factor by which `term` lengthens a job."""
    if term != "spot":
        return 1.0, 1.0, 1.0
    low, value, high = (float(factor[choice.row]) for factor in choice.deployments.spot)
    return low, value, high


def _stretched(choice: Choice, term: Term, job_h: Figure) -> Figure:
    """`job_h` with the interruptions of `term`, whose doubt widens its range."""
    low, value, high = _factor(choice, term)
    return Figure(job_h.value * value, job_h.low * low, job_h.high * high, job_h.basis)


def _job_usd(choice: Choice, term: Term, provider: Provider | None, hours: Figure, usd_per_h: float) -> Figure:
    value, low, high = _paid(choice, term, provider, hours.value, hours.low, hours.high)
    return Figure(value, low, high, hours.basis).scaled(usd_per_h)


def _paid(choice: Choice, term: Term, provider: Provider | None, *hours: float) -> list[float]:
    use = choice.deployments.workload.commitment_use or 0.0
    paid: list[float] = paid_hours(term, np.array(hours), use=use, provider=provider).tolist()
    return paid
