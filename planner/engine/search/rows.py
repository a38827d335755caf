"""Rows of a plan: one candidate's answer, its price, and its verdict."""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import SOLUTIONS, OfferAnswer, PlanRow
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import evaluate
from planner.engine.explain.answer import answer_of
from planner.engine.explain.prices import priced
from planner.engine.job.compute_capability import unsupported_reason
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip, FindChip
from planner.engine.search.deployment import Deployments
from planner.engine.search.node_types import NodeType
from planner.engine.search.selection import Choice
from planner.engine.search.verdict import verdict_of
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.tasks import Workload

MOST_PROVIDERS = 3
"""Rows of one candidate that differ only in who rents it out."""


def plan_row(choice: Choice, spec_chip: FindChip) -> PlanRow:
    """One evaluated candidate as a row without rank."""
    d, node, c = choice.deployments, choice.node_type, choice.deployments.evaluated.candidates
    chip = c.chips[int(c.chip_index[choice.row])]
    usd_per_h = float(d.usd_per_h[choice.row])
    price = usd_per_h if np.isfinite(usd_per_h) else None
    answer = priced(answer_of(d.evaluated, choice.row), price)
    verdict, why = verdict_of(d, choice.row, answer)
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
        other_offers=len(node.dearer),
        job_h=_job_hours(d.workload, answer),
        spec_answer=spec_answer,
    )
    return row if price is None else _at_price(row, price, node.offer, choice)


def at_other_providers(choice: Choice, row: PlanRow) -> list[tuple[PlanRow, float]]:
    """`row`, made of `choice`, at other providers; with the ratio of each price to the cheapest."""
    node, workload = choice.node_type, choice.deployments.workload
    if row.verdict not in SOLUTIONS or row.usd_per_h is None:
        return []
    found = []
    for price, offer in node.dearer[: MOST_PROVIDERS - 1]:
        usd_per_h = price * int(choice.deployments.instances[choice.row])
        other = _at_price(msgspec.structs.replace(row, answer=priced(row.answer, usd_per_h)), usd_per_h, offer, choice)
        if not _over_budget(workload, other):
            found.append((other, price / node.usd_per_h))
    return found


def _at_price(row: PlanRow, usd_per_h: float, offer: Offer | None, choice: Choice) -> PlanRow:
    """`row` at a price of the whole deployment, which is that of `offer` where there is one."""
    price = Figure.exact(usd_per_h)
    return msgspec.structs.replace(
        row,
        offer=_offer_answer(offer, choice, usd_per_h) if offer else None,
        usd_per_h=price,
        usd_per_month=price.scaled(HOURS_PER_MONTH),
        job_usd=row.job_h.scaled(usd_per_h) if row.job_h else None,
    )


def _offer_answer(offer: Offer, choice: Choice, usd_per_h: float) -> OfferAnswer:
    return OfferAnswer(
        provider=offer.provider,
        instance=offer.instance,
        region=offer.region,
        gpus=choice.node_type.per_node,
        instances=int(choice.deployments.instances[choice.row]),
        usd_per_h=usd_per_h,
        market=choice.deployments.workload.market,
        as_of=offer.as_of,
        source=offer.source,
        note=offer.note,
    )


def _over_budget(workload: Workload, row: PlanRow) -> bool:
    paid = row.job_usd or row.usd_per_month
    return workload.targets.budget_usd is not None and paid is not None and paid.value > workload.targets.budget_usd


def unsupported_row(node: NodeType, job: Job) -> PlanRow:
    """A part that cannot run the job, or has no figure for its compute dtype."""
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
    alone = Candidates(one.jobs, one.job_index, [plain], np.zeros(1, dtype=np.int64), one.layout)
    return priced(answer_of(evaluate(alone), 0), usd_per_h)
