"""Answer of a plan in one sentence: recommendation, cost, certainty, and next choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from planner.engine.answers.plan import SURE, Counts, Plan, PlanRow
from planner.present.choice.levers import lever_text
from planner.present.choice.ranked_by import latency_of, ranked_by
from planner.present.names import device_name
from planner.present.plan import percentile_of
from planner.present.row_figures import LATENCIES, PERCENTILES
from planner.units import SECONDS_PER_HOUR, change_text, counted, duration_text, percent_text, usd_text

ALIKE = 0.005
"""Relative difference below which two figures count as equal."""
OVER = f"over {percent_text(SURE)} sure"
"""Words before the first row that is sure."""


class Sentence(msgspec.Struct, frozen=True):
    """Parts of one sentence, most important first."""

    parts: tuple[str, ...]
    solved: bool
    """True if something fits."""
    narrower: tuple[tuple[str, ...], ...] = ()
    """Shorter sentences with the most important parts, longest first; empty: the last parts are left out."""

    @property
    def text(self) -> str:
        """The whole sentence."""
        return " · ".join(self.parts)

    def within(self, cells: int) -> tuple[str, ...]:
        """Parts of the first form that fits into `cells` characters; only the first part if none fits."""
        forms = (self.parts, *(self.narrower or (self.parts[:kept] for kept in range(len(self.parts) - 1, 0, -1))))
        return next((form for form in forms if len(" · ".join(form)) <= cells), self.parts[:1])


def answer_sentence(plan: Plan, keeps: Callable[[PlanRow], bool] | None = None) -> Sentence:
    """Answer of `plan` among the rows that a filter `keeps`; if nothing fits, the reason and the first change that helps."""
    every = [row for row in plan.rows if row.rank]
    solutions = [row for row in every if keeps is None or keeps(row)]
    if every and not solutions:
        return Sentence((f"No row of {len(every):,} passes the filter", choice_text(every[0])), solved=False)
    if not solutions:
        return _nothing(plan)
    first = solutions[0]
    other = next((row for row in solutions if (row.gpu, row.here) != (first.gpu, first.here)), None)
    surer = _surer(solutions)
    safer, following = (_compared(row, first, plan) if row else "" for row in (surer, other))
    against, sure = _against_targets(first, plan.task), sure_text(first)
    over = f"{OVER}: {safer}" if safer else ""
    following = f"next: {following}" if following and following != safer else ""
    short = f"surer: {count_and_device(surer)}" if surer else ""
    choice, brief = choice_text(first), choice_text(first, provider=False)
    forms = [(choice, against, over, following), (choice, against, over), (choice, sure, over), (choice, sure, short)]
    forms += [(brief, sure, short)] if short else []
    forms += [(choice, against), (choice, sure), (choice,)]
    whole, *narrower = (tuple(part for part in form if part) for form in forms)
    return Sentence(whole, solved=True, narrower=tuple(narrower))


def doubt(plan: Plan) -> str:
    """Sentence on an uncertain first row, with the best row that is sure: 'chance that 1 fits and meets every target: 64 %'.

    Empty if the first row is sure, or its probability is not known.
    """
    first, chance = plan.best, plan.best.probability_meets if plan.best else None
    if first is None or chance is None or _is_sure(chance):
        return ""
    surer = _surer([row for row in plan.rows if row.rank])
    instead = f"; {OVER}: {_compared(surer, first, plan)}" if surer else f"; no row is {OVER}"
    return f"chance that {first.rank} fits and meets every target: {percent_text(chance)}{instead}"


def choice_text(row: PlanRow, *, provider: bool = True) -> str:
    """Choice and its cost: 'Rent 2 × B200 SXM at runpod, 8,600 $/month'; without `provider` its name is left out."""
    what = count_and_device(row)
    if row.owned is not None and row.owned.bought and row.owned.price_usd is not None:
        return f"Buy {what} for {usd_text(row.owned.price_usd)} $, {cost_text(row)} including depreciation"
    if row.owned is not None:
        return f"Use {what}, your own, {cost_text(row)}"
    if row.offer is None:
        return f"Use {what}{', this machine' if row.here else ', at an unlisted price'}"
    paid = row.offer.gpus * row.offer.instances
    whole = f" ({paid:,} paid)" if row.answer.layout is not None and paid != row.answer.layout.gpus else ""
    spot = " spot" if row.offer.market == "spot" else ""
    place = f" at {row.offer.provider}" if provider else ""
    return f"Rent {what}{whole}{place}{spot}, {cost_text(row)}"


def count_and_device(row: PlanRow) -> str:
    """Number and name of the GPUs of a row: '2 × B200 SXM'; only the name if no number was tried."""
    layout = row.answer.layout
    return f"{layout.gpus:,} × {device_name(row.gpu)}" if layout else device_name(row.gpu)


def cost_text(row: PlanRow) -> str:
    """Price of the job, else of a month, else of an hour."""
    if row.job_usd is not None:
        return f"{usd_text(row.job_usd.value)} $ for the job"
    if row.usd_per_month is not None:
        return f"{usd_text(row.usd_per_month.value)} $/month"
    return f"{usd_text(row.usd_per_h.value)} $/h" if row.usd_per_h is not None else "price unknown"


def _is_sure(chance: float) -> bool:
    """True if no surer row is named beside one of this probability, as it reads: 89.7 % is shown as 90 %."""
    return round(chance, 2) >= SURE


def sure_text(row: PlanRow) -> str:
    """Probability that a row fits and meets every target; empty if it is not known."""
    return f"{percent_text(row.probability_meets)} sure" if row.probability_meets is not None else ""


def sure_words(row: PlanRow) -> str:
    """Explanation of `sure_text`, with the probability that the memory is enough; empty if the row is no solution."""
    if not row.rank or row.probability_meets is None or row.probability_fits is None:
        return ""
    fits = percent_text(row.probability_fits)
    return f"{sure_text(row)} to fit ({fits}) and to meet every target, by the ranges of its figures"


def job_time(row: PlanRow) -> tuple[float, str] | None:
    """(seconds, words) of a job: with failures, as a deadline counts them, where they are worth mention; None if it does not end."""
    if row.expected_job_h is not None:
        return row.expected_job_h.value * SECONDS_PER_HOUR, " with failures"
    return (row.job_h.value * SECONDS_PER_HOUR, "") if row.job_h is not None else None


def replicas_words(row: PlanRow, task: Mapping[str, Any]) -> str:
    """Reason for the number of replicas of a solution: the load, and the limits of latency that it meets; empty for a load without a rate."""
    layout, targets = row.answer.layout, task.get("targets", {})
    if not row.rank or layout is None or not any(task.get(key) for key in ("request_rate_per_s", "daily_users")):
        return ""
    limits = [
        f"{percentile} of the {label} within {duration_text(targets[key])} (here {duration_text(figure.value)})"
        for label, name in LATENCIES
        for percentile in PERCENTILES
        if targets.get(key := f"{percentile}_{name}_s") and (figure := percentile_of(row, name, percentile)) is not None
    ]
    kept = f" to keep {' and '.join(limits)}" if limits else ""
    shared = max(1, layout.ep // layout.tp)
    groups = layout.dp // shared
    number = counted(groups, "replica") if shared == 1 else f"{counted(groups, 'group')} of {shared} replicas that share experts"
    return f"{number}, as many as the load needs{kept}"


def _against_targets(row: PlanRow, task: Mapping[str, Any]) -> str:
    """Latency or hours of a row with the target and the probability: 'p95 4.76 s of 5.00 s (94 % sure)'."""
    time, targets = "", task.get("targets", {})
    if (job := job_time(row)) is not None:
        deadline = targets.get("deadline_h")
        limit = f" of {duration_text(deadline * SECONDS_PER_HOUR)}" if deadline else ""
        time = f"{duration_text(job[0])}{limit}{job[1]}"
    elif (latency := latency_of(task)) is not None and (figure := latency.figure(row)) is not None:
        limit = f" of {duration_text(latency.limit_s)}" if latency.limit_s else ""
        time = f"{latency.title} {duration_text(figure.value)}{limit}"
    sure = sure_text(row)
    return f"{time} ({sure})" if time and sure else time or sure


def _surer(solutions: Sequence[PlanRow]) -> PlanRow | None:
    """Best row that is sure, if the first is not."""
    chance = solutions[0].probability_meets
    return (
        None
        if chance is None or _is_sure(chance)
        else next((row for row in solutions if _is_sure(row.probability_meets or 0.0)), None)
    )


def _compared(row: PlanRow, first: PlanRow, plan: Plan) -> str:
    """Another row, and its difference from the first in the figure that ranks."""
    by = ranked_by(plan)
    ours, theirs = by.figure(first), by.figure(row)
    what = count_and_device(row)
    if by.id == "gpus" or ours is None or theirs is None or not ours.value:
        return what
    apart = theirs.value / ours.value - 1
    if abs(apart) < ALIKE:
        return f"{what}, about the same"
    return f"{what}, {change_text(apart) if abs(apart) < 2 else f'{theirs.value / ours.value:,.1f}×'}{by.per}"


def nothing_fits_text(counts: Counts) -> str:
    """Reason why all candidates fail: memory, or, if some fit, a target."""
    return f"None of {counts.considered:,} candidates {'meets every target' if counts.fit else 'fits'}"


def _nothing(plan: Plan) -> Sentence:
    considered = plan.counts.considered
    asked = " or ".join(map(device_name, plan.task.get("gpus_considered") or ()))
    nothing = f"No {asked} can run this" if asked else "No GPU can run this"
    others = [row for row in plan.rows if not row.here]
    nearest = next((row for row in others if row.answer.layout), None)
    parts = [nothing_fits_text(plan.counts) if considered else nothing]
    if nearest is not None:
        parts.append(f"nearest, {count_and_device(nearest)}: {nearest.why}")
    elif others:
        parts.append(others[0].why)
    if plan.levers:
        parts.insert(1, f"first help: {lever_text(plan.levers[0])}")
    return Sentence(tuple(parts), solved=False)
