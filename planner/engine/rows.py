"""Rows of a plan: the answer, its price, its verdict, and why it is where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from planner.engine.answers import Answer, Figure, OfferAnswer, PlanRow, Verdict
from planner.engine.chips import Chip
from planner.engine.evaluate import Candidates, Evaluated, answer_of, evaluate
from planner.engine.jobs import Job
from planner.engine.layouts import Site
from planner.engine.money import inverse, priced, scaled
from planner.engine.outcome import Outcome, missed, target_columns
from planner.hardware.gpus import Gpu
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from planner.workload.tasks import Workload


@dataclass(frozen=True)
class Evaluation:
    """Everything rows are made from."""

    evaluated: Evaluated
    outcome: Outcome
    site_index: np.ndarray
    sites: Sequence[Site]
    workload: Workload
    spec_chip: Callable[[Gpu, str, str], Chip | None]


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
        other_offers=site.others,
        usd_per_h=price,
        usd_per_month=scaled(price, HOURS_PER_MONTH) if price else None,
        job_h=job_h,
        job_usd=scaled(job_h, known) if job_h and known is not None else None,
        spec_answer=_by_specification(v, row) if chip.basis in {"measured", "transferred"} else None,
    )


def missing_row(site: Site, job: Job) -> PlanRow:
    """A part that has no figure for the compute dtype, so that nothing can be said of it."""
    known = ", ".join(sorted(site.gpu.compute_flop_per_s)) or "none"
    reason = f"no {job.dtype} rate is known for it (known: {known})"
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
    offer = site.offer
    if offer is None or usd_per_h is None:
        return None
    return OfferAnswer(
        provider=offer.provider,
        instance=offer.instance,
        region=offer.region,
        gpus=site.per_node,
        instances=instances,
        usd_per_h=usd_per_h,
        market=workload.market,
        as_of=offer.as_of,
        source=offer.source,
        note=offer.note,
    )


def _job_hours(workload: Workload, answer: Answer) -> Figure | None:
    if workload.train_tokens and answer.step_s and answer.tokens_per_s:
        return inverse(answer.tokens_per_s, workload.train_tokens / SECONDS_PER_HOUR)
    if workload.requests and answer.requests_per_s:
        return inverse(answer.requests_per_s, workload.requests / SECONDS_PER_HOUR)
    return None


def _verdict(v: Evaluation, row: int, site: Site, answer: Answer) -> tuple[Verdict, str]:
    if not answer.fits:
        return "does-not-fit", answer.reason or ""
    o = v.outcome
    faults = [
        missed(name, float(np.broadcast_to(column, o.gpus.shape)[row]), limit)
        for name, column, limit in target_columns(v.evaluated, v.workload, o.job_h, o.job_usd, o.usd_per_h)
        if np.broadcast_to(column, o.gpus.shape)[row] > limit
    ]
    if o.gpus[row] > site.most:
        faults.append(f"needs {int(o.gpus[row])} GPUs, the search ends at {site.most}")
    if faults:
        return "misses-target", "misses: " + "; ".join(faults)
    price = "" if site.offer or site.here or answer.usd_per_million_tokens else "; no offer in the catalogue"
    return "fits", f"limited by {answer.bottleneck}{price}"


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


def ranked(rows: list[PlanRow], scores: dict[int, float]) -> list[PlanRow]:
    """Solutions first by score and numbered, then rows that miss a target, then those that do not fit; `scores` by position."""
    order = {"fits": 0, "misses-target": 1, "does-not-fit": 2, "not-supported": 3}
    positions = sorted(range(len(rows)), key=lambda i: (order[rows[i].verdict], scores.get(i, float("inf")), rows[i].gpu))
    result = []
    for place, i in enumerate(positions, start=1):
        row = rows[i]
        result.append(msgspec.structs.replace(row, rank=place) if row.verdict == "fits" else row)
    return result
