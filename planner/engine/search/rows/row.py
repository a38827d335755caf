"""Rows of a plan: one candidate's answer, its price, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import SOLUTIONS, OfferAnswer, PlanRow
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import evaluate
from planner.engine.explain.answer import answers_of, answers_of_chosen, price_figures, priced
from planner.engine.job.compute_capability import unsupported_reason
from planner.engine.job.job import Job
from planner.engine.job.people import peak_over_mean
from planner.engine.performance.interruptions import WORTH_TELLING
from planner.engine.performance.operators.chip import Chip, FindChip
from planner.engine.performance.operators.power import capped
from planner.engine.search.deployment import Deployments
from planner.engine.search.rows.terms import (
    SUPPLY_KEYS,
    assumed_of_spot,
    assumed_of_supply,
    effective_usd_per_h,
    job_figures,
    network_of,
    suits,
    terms_of,
    with_order,
)
from planner.engine.search.rows.verdict import verdict_of
from planner.engine.search.selection import Choice, ChosenPart
from planner.engine.search.supply.node_types import NodeType
from planner.engine.search.supply.quotes import Quote
from planner.engine.search.targets import with_failures
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.tasks import Workload

MOST_PROVIDERS = 3
"""Maximum number of rows for one candidate that differ only in the provider."""


def plan_rows(choices: Sequence[Choice], parts: Sequence[ChosenPart], spec_chip: FindChip) -> list[PlanRow]:
    """Evaluated candidates as rows without rank, in the same order; `parts` are those of `choices`."""
    found: dict[int, PlanRow] = {}
    for part in parts:
        failures = with_failures(part.rows.e, part.rows.numbers).tolist()
        answers = answers_of_chosen(part.rows, part.releases)
        for number, answer, longer in zip(part.numbers, answers, failures, strict=True):
            found[number] = _row(choices[number], answer, longer, spec_chip)
    return [found[number] for number in range(len(choices))]


def _row(choice: Choice, answer: Answer, longer: float, spec_chip: FindChip) -> PlanRow:
    """One candidate without rank; failures multiply the time of its job by `longer`."""
    d, node, c = choice.deployments, choice.node_type, choice.deployments.evaluated.candidates
    chip = c.chips[int(c.chip_index[choice.row])]
    quote = d.quote(choice.row)
    effective = float(d.bill.effective_usd_per_h[choice.row])
    price = effective if np.isfinite(effective) else None
    answer = _supplied(answer, price, choice, quote)
    verdict, why = verdict_of(d, choice.row, answer)
    if node.limit_w is not None:
        why = f"{why}; its power is limited to {node.limit_w:.0f} W"
    spec_answer = _by_specification(d, choice.row, chip, price, spec_chip) if chip.basis in {"measured", "transferred"} else None
    row = PlanRow(
        rank=None,
        gpu=node.gpu.name,
        verdict=verdict,
        why=why,
        answer=answer,
        probability_fits=round(float(d.probability_fits[choice.row]), 3),
        probability_meets=round(float(d.probability_meets[choice.row]), 3),
        here=node.here,
        basis=chip.basis,
        power_limit_w=node.limit_w,
        other_offers=len({other.offer.provider for other in node.others} - ({quote.offer.provider} if quote else set())),
        owned=node.owned.answer(round(float(d.gpus[choice.row]))) if node.owned else None,
        job_h=(hours := _job_hours(d.workload, answer)),
        expected_job_h=hours.scaled(longer) if hours and WORTH_TELLING <= longer < np.inf else None,
        spec_answer=spec_answer,
    )
    usd_per_h = float(d.bill.usd_per_h[choice.row])
    return at_price(row, usd_per_h, quote, choice) if np.isfinite(usd_per_h) else row


def _supplied(answer: Answer, usd_per_h: float | None, choice: Choice, quote: Quote | None) -> Answer:
    """`answer` at a price, with the network between the nodes that `quote` rents out, and the assumptions about them."""
    workload, assumed = choice.deployments.workload, dict(answer.assumed)
    for key in SUPPLY_KEYS:
        assumed.pop(key, None)
    assumed |= assumed_of_supply(choice, quote)
    if quote is not None and quote.term == "spot" and _job_hours(workload, answer) is not None:
        assumed |= assumed_of_spot(choice)
    network = None if choice.node_type.here else network_of(choice, quote)
    prices = price_figures(answer, usd_per_h, peak_over_mean(workload))
    return msgspec.structs.replace(answer, network=network, assumed=assumed, **prices)


def at_other_quotes(choice: Choice, row: PlanRow) -> list[tuple[PlanRow, float]]:
    """`row`, made from `choice`, at the cheapest quotes of other providers; each with its cost ÷ the cost of `row`."""
    d, workload, own = choice.deployments, choice.deployments.workload, choice.deployments.quote(choice.row)
    if row.verdict not in SOLUTIONS or own is None:
        return []
    found, seen = list[tuple[PlanRow, float]](), {(own.offer.provider, own.term)}
    for quote in choice.node_type.others:
        if (quote.offer.provider, quote.term) in seen or not suits(choice, quote):
            continue
        seen.add((quote.offer.provider, quote.term))
        usd_per_h = quote.usd_per_h * int(d.instances[choice.row])
        effective = effective_usd_per_h(choice, quote)
        if np.isinf(effective):
            continue
        answer = _supplied(row.answer, effective, choice, quote)
        other = at_price(msgspec.structs.replace(row, answer=answer, job_h=_job_hours(workload, answer)), usd_per_h, quote, choice)
        if not _over_budget(workload, other) and not _late(workload, other):
            found.append((other, effective / float(d.bill.effective_usd_per_h[choice.row])))
    found.sort(key=lambda item: item[1])
    return found[: MOST_PROVIDERS - 1]


def at_price(row: PlanRow, usd_per_h: float, quote: Quote | None, choice: Choice) -> PlanRow:
    """`row` at a price of the whole deployment, which is that of `quote` where there is one."""
    price = Figure.exact(usd_per_h)
    job_h, job_usd = job_figures(choice, quote, row.job_h, usd_per_h)
    expected = row.expected_job_h
    if expected and row.job_h:
        expected = expected.scaled(job_h.value / row.job_h.value) if job_h else None
    return msgspec.structs.replace(
        row,
        why=with_order(choice, quote, row.why) if row.verdict in SOLUTIONS else row.why,
        offer=_offer_answer(quote, choice, usd_per_h) if quote else None,
        usd_per_h=price,
        usd_per_month=price.scaled(HOURS_PER_MONTH),
        job_h=job_h,
        expected_job_h=expected,
        job_usd=job_usd,
        terms=terms_of(choice, quote, row.job_h) if quote else [],
    )


def _offer_answer(quote: Quote, choice: Choice, usd_per_h: float) -> OfferAnswer:
    offer, provider = quote.offer, quote.provider
    scaled = choice.node_type.per_node / offer.gpus
    return OfferAnswer(
        provider=offer.provider,
        kind=provider.kind_of(offer) if provider else None,
        instance=offer.instance,
        region=offer.region,
        countries=quote.countries,
        gpus=choice.node_type.per_node,
        instances=int(choice.deployments.instances[choice.row]),
        usd_per_h=usd_per_h,
        market=quote.term,
        vcpus=offer.vcpus * scaled if offer.vcpus else None,
        memory_bytes=offer.memory_bytes * scaled if offer.memory_bytes else None,
        interruption_notice_s=provider.interruption_notice_s if provider and quote.term == "spot" else None,
        billing_s=provider.billing_s if provider else None,
        egress_usd_per_gb=provider.egress_usd_per_gb if provider else None,
        as_of=offer.as_of,
        source=offer.source,
        note=offer.note,
    )


def _over_budget(workload: Workload, row: PlanRow) -> bool:
    paid = row.job_usd or row.usd_per_month
    return workload.targets.budget_usd is not None and paid is not None and paid.value > workload.targets.budget_usd


def _late(workload: Workload, row: PlanRow) -> bool:
    deadline_h, hours = workload.targets.deadline_h, row.expected_job_h or row.job_h
    return deadline_h is not None and hours is not None and hours.value > deadline_h


def unsupported_row(node: NodeType, job: Job) -> PlanRow:
    """Row of a GPU that cannot run the job, or has no figure for its compute dtype."""
    known = ", ".join(sorted(node.gpu.compute_flop_per_s)) or "none"
    reason = unsupported_reason(node.gpu, job) or f"no {job.dtype} rate is known for it (known: {known})"
    return PlanRow(
        rank=None,
        gpu=node.gpu.name,
        verdict="not-supported",
        why=reason,
        answer=Answer(fits=False, reason=reason, bottleneck=None),
        here=node.here,
        basis="spec",
    )


def _job_hours(workload: Workload, answer: Answer) -> Figure | None:
    if workload.tokens_to_train and answer.step_s and answer.tokens_per_s:
        return answer.tokens_per_s.inverse(workload.tokens_to_train / SECONDS_PER_HOUR)
    if workload.requests and answer.requests_per_s:
        return answer.requests_per_s.inverse(workload.requests / SECONDS_PER_HOUR)
    return None


def _by_specification(d: Deployments, row: int, chip: Chip, usd_per_h: float | None, spec_chip: FindChip) -> Answer | None:
    """Answer for the same candidate without the measurements of this machine."""
    c = d.evaluated.candidates
    job = c.jobs[int(c.job_index[row])]
    plain = spec_chip(chip.gpu, job.dtype, job.stored)
    if plain is None:
        return None
    one = c.take(np.array([row]))
    alone = Candidates(
        one.jobs,
        one.job_index,
        [capped(plain, job.workload, d.node_type(row).power_limit_w)],
        np.zeros(1, dtype=np.int64),
        one.layout,
    )
    return priced(answers_of(evaluate(alone), [0])[0], usd_per_h, peak_over_mean(d.workload))
