"""Rows of a plan: the answer, its price, its verdict, and why it is where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import OfferAnswer, PlanRow, Verdict
from planner.engine.evaluate.evaluation import Candidates, Evaluated, evaluate
from planner.engine.explain.answer import answer_of
from planner.engine.job.compute_capability import unsupported_reason
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import FindChip
from planner.engine.search.cost import inverse, priced, scaled
from planner.engine.search.layouts import Site
from planner.engine.search.targets import Outcome, missed, target_columns
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, bytes_text, digits, percent_text
from planner.workload.tasks import Workload


@dataclass(frozen=True)
class Evaluation:
    """Everything rows are made from."""

    evaluated: Evaluated
    outcome: Outcome
    site_index: np.ndarray
    sites: Sequence[Site]
    workload: Workload
    spec_chip: FindChip


def plan_row(v: Evaluation, row: int) -> PlanRow:
    """One evaluated candidate as a row without rank."""
    site = v.sites[int(v.site_index[row])]
    answer = answer_of(v.evaluated, row)
    chip = v.evaluated.candidates.chips[int(v.evaluated.candidates.chip_index[row])]
    usd_per_h = float(v.outcome.usd_per_h[row])
    known = usd_per_h if np.isfinite(usd_per_h) else None
    answer = priced(answer, None, known)
    verdict, why = _verdict(v, row, site, answer)
    price = Figure(known, known, known, "spec") if known is not None else None
    job_h = _job_hours(v.workload, answer)
    return PlanRow(
        rank=None,
        gpu=site.gpu.name,
        verdict=verdict,
        why=why,
        answer=answer,
        here=site.here,
        basis=chip.basis,
        offer=_offer(site, int(v.outcome.instances[row]), v.workload, known),
        other_offers=len(site.dearer),
        usd_per_h=price,
        usd_per_month=scaled(price, HOURS_PER_MONTH) if price else None,
        job_h=job_h,
        job_usd=scaled(job_h, known) if job_h and known is not None else None,
        spec_answer=_by_specification(v, row) if chip.basis in {"measured", "transferred"} else None,
    )


MOST_PROVIDERS = 3
"""Rows of one candidate that differ only in who rents it out."""


def elsewhere(v: Evaluation, row: int, found: PlanRow) -> list[tuple[PlanRow, float]]:
    """The same candidate at other providers, with the ratio of its price to the cheapest."""
    site = v.sites[int(v.site_index[row])]
    if found.verdict != "fits" or found.usd_per_h is None:
        return []
    instances = int(v.outcome.instances[row])
    clones = []
    for price, offer in site.dearer[: MOST_PROVIDERS - 1]:
        usd_per_h = price * instances
        ratio = price / site.usd_per_h
        price_figure = Figure(usd_per_h, usd_per_h, usd_per_h, "spec")
        clone = msgspec.structs.replace(
            found,
            answer=priced(found.answer, None, usd_per_h),
            offer=_offer_answer(offer, site.per_node, instances, v.workload, usd_per_h),
            usd_per_h=price_figure,
            usd_per_month=scaled(price_figure, HOURS_PER_MONTH),
            job_usd=scaled(found.job_h, usd_per_h) if found.job_h else None,
        )
        if not _over_budget(v.workload, clone):
            clones.append((clone, ratio))
    return clones


def _over_budget(workload: Workload, row: PlanRow) -> bool:
    paid = row.job_usd or row.usd_per_month
    return workload.targets.budget_usd is not None and paid is not None and paid.value > workload.targets.budget_usd


def missing_row(site: Site, job: Job) -> PlanRow:
    """A part that has no figure for the compute dtype, so that nothing can be said of it."""
    known = ", ".join(sorted(site.gpu.compute_flop_per_s)) or "none"
    reason = unsupported_reason(site.gpu, job) or f"no {job.dtype} rate is known for it (known: {known})"
    return PlanRow(
        rank=None,
        gpu=site.gpu.name,
        verdict="not-supported",
        why=reason,
        answer=Answer(fits=False, reason=reason, bottleneck=None),
        here=site.here,
        basis="spec",
    )


def _offer(site: Site, instances: int, workload: Workload, usd_per_h: float | None) -> OfferAnswer | None:
    if site.offer is None or usd_per_h is None:
        return None
    return _offer_answer(site.offer, site.per_node, instances, workload, usd_per_h)


def _offer_answer(offer: Offer, per_node: int, instances: int, workload: Workload, usd_per_h: float) -> OfferAnswer:
    return OfferAnswer(
        provider=offer.provider,
        instance=offer.instance,
        region=offer.region,
        gpus=per_node,
        instances=instances,
        usd_per_h=usd_per_h,
        market=workload.market,
        as_of=offer.as_of,
        source=offer.source,
        note=offer.note,
    )


def _job_hours(workload: Workload, answer: Answer) -> Figure | None:
    if workload.tokens_to_train and answer.step_s and answer.tokens_per_s:
        return inverse(answer.tokens_per_s, workload.tokens_to_train / SECONDS_PER_HOUR)
    if workload.requests and answer.requests_per_s:
        return inverse(answer.requests_per_s, workload.requests / SECONDS_PER_HOUR)
    return None


HOST_SHORT = "does not fit the host's memory"


def _verdict(v: Evaluation, row: int, site: Site, answer: Answer) -> tuple[Verdict, str]:
    if not answer.fits:
        return "does-not-fit", answer.reason or ""
    o = v.outcome
    faults = []
    for name, column, limit in target_columns(v.evaluated, v.workload, o.job_h, o.job_usd, o.usd_per_h):
        value = float(np.broadcast_to(column, o.gpus.shape)[row])
        if not np.isfinite(value) and not site.here:
            faults.append(f"{name.partition('_')[0]} cannot be judged: no offer in the catalogue")
        elif value > limit:
            faults.append(missed(name, value, limit))
    host, short = float(v.evaluated.memory.host[row]), ""
    if host > site.host_bytes_per_gpu:
        room = bytes_text(site.host_bytes_per_gpu)
        short = f"{HOST_SHORT}: {bytes_text(host)} needed for each GPU, the instance has {room}"
    queue = v.evaluated.queue
    if queue is not None and queue.endless(row):
        faults.append(f"does not keep up with {digits(float(queue.rate_per_s[row]))} requests a second")
    if o.gpus[row] > site.most:
        faults.append(f"needs {int(o.gpus[row])} GPUs, the search ends at {site.most}")
    if faults or short:
        told = "misses: " + "; ".join(faults) if faults else ""
        return "misses-target", "; ".join(part for part in (short, told) if part)
    return "fits", "; ".join(part for part in (_doubt(v.evaluated, row, answer), f"limited by {answer.bottleneck}") if part)


def _doubt(e: Evaluated, row: int, answer: Answer) -> str:
    """That the high end of what is needed is more than there is, the share kept free included; '' where it is not.

    A service needs room for one request: with less memory its engine takes in fewer of them.
    """
    memory, job = answer.memory_bytes, e.candidates.jobs[int(e.candidates.job_index[row])]
    assert memory is not None
    most = memory.total.high
    if job.task == "serve":
        most -= memory.kv_cache - min(memory.kv_cache, float(e.memory.kv_per_sequence[row]))
    room = float(e.memory.usable[row]) / (1 - job.headroom)
    return f"may need {bytes_text(most)}" if most > room else ""


def _by_specification(v: Evaluation, row: int) -> Answer | None:
    """The same candidate without the measurements of this machine."""
    c = v.evaluated.candidates
    chip = c.chips[int(c.chip_index[row])]
    job = c.jobs[int(c.job_index[row])]
    plain = v.spec_chip(chip.gpu, job.dtype, job.stored)
    if plain is None:
        return None
    one = c.take(np.array([row]))
    alone = Candidates(one.jobs, one.job_index, [plain], np.zeros(1, dtype=np.int64), one.layout)
    usd_per_h = float(v.outcome.usd_per_h[row])
    return priced(answer_of(evaluate(alone), 0), None, usd_per_h if np.isfinite(usd_per_h) else None)


_ORDER: dict[Verdict, int] = {"fits": 0, "misses-target": 1, "does-not-fit": 2, "not-supported": 3}


def ranked(scored: list[tuple[PlanRow, float]], workload: Workload) -> list[PlanRow]:
    """Solutions first by score and numbered, then rows that miss a target, then those that do not fit."""
    in_order = sorted(scored, key=lambda item: (_ORDER[item[0].verdict], item[1], item[0].gpu))
    best = in_order[0][1] if in_order else 0.0
    result = []
    for place, (row, score) in enumerate(in_order, start=1):
        if row.verdict != "fits":
            result.append(row)
            continue
        result.append(msgspec.structs.replace(row, rank=place, why=f"{_standing(place, score, best, row, workload)}; {row.why}"))
    return result


def _standing(place: int, score: float, best: float, row: PlanRow, workload: Workload) -> str:
    """How a solution compares with the first, in the words of the objective."""
    first, more = {
        "cheapest": ("cheapest", "dearer"),
        "flop-per-usd": ("most compute per dollar", "less compute per dollar"),
        "fastest": ("fastest", "slower"),
        "fewest-gpus": ("fewest GPUs", "more"),
    }[workload.objective]
    if row.usd_per_h is None and workload.objective in {"cheapest", "flop-per-usd"}:
        return "no price is known: by speed" if place == 1 else "no price, so after all that have one"
    if place == 1:
        return first
    if workload.objective == "fewest-gpus":
        count = row.answer.layout.gpus if row.answer.layout else 1
        return f"{count:,} GPU{'s' * (count != 1)}"
    if score < 1.005 * best:
        return f"as good as the first ({first})"
    if workload.objective == "flop-per-usd":
        return f"{percent_text(1 - best / score)} {more}"
    if score < 3 * best:
        return f"{percent_text(score / best - 1)} {more}"
    return f"{score / best:.1f} times {'the price' if more == 'dearer' else 'as slow'}"
