"""Guided way from what is to run to a contract: profile, bottleneck, right size, where, commitment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from planner.engine.advice.advice import Advice
from planner.engine.answers.plan import SURE, Plan, PlanRow
from planner.engine.answers.time import class_words
from planner.engine.job.job import Job
from planner.engine.money import Costs, WayCosts
from planner.engine.procurement.decision_trees import Branch, branches, row_words
from planner.numbers import Amount, Dollars, Location, Moderate, Name
from planner.units import HOURS_PER_MONTH, bytes_text, count_text, counted, digits, duration_text, percent_text, si_text, usd_text
from planner.workload.hardware.owned import Own, Owning, People
from planner.workload.tasks import TaskName, WeightDtype, Workload, trains

StepName = Literal["profile", "bottleneck", "right-size", "where", "commit"]
UNSURE = ("marketplace", "peer-to-peer")
"""Kinds of provider that are named in the answer, because their GPUs belong to third parties."""
SAVES = 0.1
"""Share of the cost that another way has to save to be worth its terms."""


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Answers to five questions: what runs, how much of it, within which limits, for how long, and which hardware exists already."""

    task: TaskName
    model: Location | dict[str, Any]
    weight_dtype: WeightDtype | None = None
    lora: bool = False
    """True if adapters are trained instead of all parameters."""

    daily_users: Amount | None = None
    people: People | None = None
    request_rate_per_s: Moderate | None = None
    input_tokens: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    output_tokens: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    requests: Amount | None = None
    train_tokens: Amount | None = None
    sequence: Annotated[int, Meta(ge=1, le=10**9)] | None = None

    deadline_h: Moderate | None = None
    budget_usd: Dollars | None = None
    p95_ttft_s: Moderate | None = None
    p95_request_s: Moderate | None = None

    months: Annotated[int, Meta(ge=1, le=120)] = 12
    use: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of those months in which it works."""
    interruptible: bool | None = None
    """True if it may be interrupted; absent: jobs may, services may not."""

    own: list[Own] = []
    owning: Owning | None = None
    capex_usd: Dollars | None = None
    gpus: list[Name] = []
    """GPUs to choose from; empty: all."""
    also: dict[str, Any] = {}
    """Further keys of a preset, such as kv_dtype or a table of targets; the answers above override them."""

    @property
    def may_stop(self) -> bool:
        """True if it may be interrupted."""
        return self.task != "serve" if self.interruptible is None else self.interruptible

    def fields(self) -> dict[str, Any]:
        """Workload that they describe, as keys of a preset."""
        direct = ("task", "model", "weight_dtype", "daily_users", "people", "request_rate_per_s", "input_tokens", "output_tokens")
        more = ("requests", "train_tokens", "sequence", "own", "owning", "capex_usd")
        given: dict[str, Any] = msgspec.to_builtins(self)
        fields = self.also | {name: given[name] for name in (*direct, *more) if given.get(name) not in (None, [])}
        targets = {name: given[name] for name in ("deadline_h", "budget_usd", "p95_ttft_s", "p95_request_s") if name in given}
        if targets:
            others = fields.get("targets")
            fields["targets"] = (others if isinstance(others, dict) else {}) | targets
        if self.task == "generate" and self.requests and not {"batch", "concurrency"} & fields.keys():
            # Many requests of a job are answered as many at once as fit, which is what an engine that serves does with them.
            fields |= {"task": "serve", "concurrency": "max"}
        if self.lora:
            fields.setdefault("lora", {"rank": 16})
        return fields | ({"gpus_considered": self.gpus} if self.gpus else {})


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One of the five steps."""

    name: StepName
    answer: str
    reasons: list[str]


class Guide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Five steps, the decision tree behind them, and the decision."""

    steps: list[Step]
    tree: list[Branch]
    row: PlanRow | None = None
    """Decision at the end of the steps; None: nothing fits."""
    market: str = ""
    """Term of the decision: a market, 'bought' or 'own'."""
    costs: Costs | None = None
    notes: list[str] = []


class Choice(msgspec.Struct, frozen=True):
    """Chosen plan, by the hour or on spot, and the reason."""

    plan: Plan
    reasons: list[str]


def chosen_plan(answers: Answers, plan: Plan, spot: Plan | None) -> Choice:
    """`plan`, at rates by the hour, or `spot`, which has to save a tenth; None: it must not be interrupted."""
    row, other = _first(plan), _first(spot)
    if spot is None or not answers.may_stop:
        return Choice(plan, ["not on spot: it may not be interrupted"])
    before, now = _price(row), _price(other)
    if other is None or now is None or other.offer is None:
        return Choice(plan, ["no spot offer of what fits is known"])
    saved = 1 - now / before if before else 1.0
    if saved >= SAVES:
        than = f" than {_paid_words(row)}" if row is not None and row_words(row) != row_words(other) else ""
        kept = "keep checkpoints" if trains(answers.task) else "keep what is done"
        return Choice(spot, [f"on spot it costs {percent_text(saved)} less{than}, and it may be interrupted: {kept}"])
    less = f"would save {percent_text(saved)}" if saved > 0 else "costs no less"
    return Choice(plan, [f"spot {less}: not worth interruptions"])


def share_in_use(answers: Answers, row: PlanRow | None) -> float:
    """Share of the months in which it works: as answered, or from the hours of a job that ends."""
    if row is None or row.job_h is None or answers.use < 1:
        return answers.use
    return min(1.0, row.job_h.value / (answers.months * HOURS_PER_MONTH))


def guide_of(
    answers: Answers, workload: Workload, choice: Choice, job: Job | None, costs: Costs | None, advice: Advice | None
) -> Guide:
    """Way from `answers` through the chosen plan and past observations.

    `job`, `costs`: those of the plan's first row; None if nothing fits.
    """
    plan, row = choice.plan, _first(choice.plan)
    if row is None or job is None:
        why = plan.rows[0].why if plan.rows else "there is no candidate"
        fits = bool(plan.counts.fit)
        answer = "Nothing keeps the limits." if fits else "Nothing fits."
        nothing = Step(name="right-size", answer=answer, reasons=[why, *(lever.text for lever in plan.levers[:3])])
        return Guide(steps=[_profile(workload, None, None, advice), nothing], tree=[])
    use = share_in_use(answers, row)
    commit, market = _commit(answers, row, costs, use)
    steps = [
        _profile(workload, row, job, advice),
        _bottleneck(row, advice),
        _right_size(plan, row),
        _where(plan, row, choice),
        commit,
    ]
    return Guide(
        steps=steps,
        tree=list(branches(workload, job, row, plan, costs, may_stop=answers.may_stop, use=use)),
        row=row,
        market=market,
        costs=costs,
    )


def _first(plan: Plan | None) -> PlanRow | None:
    return next((one for one in plan.rows if one.rank), None) if plan is not None else None


def _profile(workload: Workload, row: PlanRow | None, job: Job | None, advice: Advice | None) -> Step:
    """Profile: measured on this machine where it was observed, else calculated."""
    reasons = [f"{one.observed.gpu}: {one.judgement.headline}" for one in advice.gpus] if advice else []
    if row is not None and job is not None and row.answer.memory_bytes is not None:
        memory, answer = row.answer.memory_bytes, row.answer
        total, active = job.architecture.total, job.architecture.active
        used = f", {count_text(active)} of them active for a token" if active < total else ""
        reasons.append(f"{count_text(total)} parameters{used}")
        largest = max(("weights", "gradients", "optimizer", "activations", "kv_cache"), key=lambda name: getattr(memory, name))
        words = largest.replace("_", " ").replace("kv", "KV")
        reasons.append(
            f"{bytes_text(memory.total.value)} on the fullest GPU, most of it {words} ({bytes_text(getattr(memory, largest))})"
        )
        if answer.flop_per_token:
            reasons.append(f"{si_text(answer.flop_per_token, 'FLOP')} a token")
    if workload.request_rate_per_s:
        reasons.append(f"{digits(workload.request_rate_per_s)} requests a second in the busiest hour")
    source = "Watched here" if advice else "Worked out from the answers"
    return Step(name="profile", answer=f"{source}: {workload.task} {_model(workload)}.", reasons=reasons)


def _model(workload: Workload) -> str:
    return workload.model if isinstance(workload.model, str) else "a model of your own"


def _bottleneck(row: PlanRow, advice: Advice | None) -> Step:
    """Bottleneck: as observed, else the class of operators that takes longest."""
    times = sorted(row.answer.seconds_by_class.items(), key=lambda item: -item[1])
    total = sum(row.answer.seconds_by_class.values()) or 1.0
    by_class, limit = row.answer.seconds_by_class, row.answer.bottleneck
    reasons = [f"{class_words(name, by_class, limit)} {percent_text(seconds / total)} of the time" for name, seconds in times[:3]]
    if advice is not None and advice.gpus:
        limiters = list(dict.fromkeys(one.judgement.limiter for one in advice.gpus))
        seen = dict.fromkeys(reason for one in advice.gpus for reason in one.judgement.because)
        answer = f"Limited by {' and by '.join(limiters)}, as observed."
        return Step(name="bottleneck", answer=answer, reasons=[*seen, *reasons])
    return Step(name="bottleneck", answer=f"Limited by {row.answer.bottleneck} on {row.gpu}.", reasons=reasons)


def _right_size(plan: Plan, row: PlanRow) -> Step:
    layout = row.answer.layout
    gpus = row.answer.gpus
    reasons = [f"{plan.counts.fit:,} of {plan.counts.considered:,} candidates fit; this one is {row.why}"]
    if row.job_h is not None:
        reasons.append(f"done in {duration_text(row.job_h.value * 3600)}")
    fewer = (one for one in plan.rows if not one.rank and one.gpu == row.gpu and one.answer.layout)
    smaller = next((one for one in fewer if one.answer.layout and one.answer.layout.gpus < gpus), None)
    if smaller is not None:
        reasons.append(
            f"{row_words(smaller)} {'do' if smaller.answer.layout and smaller.answer.layout.gpus > 1 else 'does'} not: {smaller.why.removeprefix('misses: ')}"
        )
    others: dict[str, PlanRow] = {}
    for one in plan.rows:
        if one.rank and one.gpu != row.gpu:
            others.setdefault(one.gpu, one)
    if row.probability_meets is not None and row.probability_meets < SURE:
        surer = next((one for one in plan.rows if one.rank and (one.probability_meets or 0.0) >= SURE), None)
        instead = f"; over {percent_text(SURE)} sure: {row_words(surer)}, {surer.why}" if surer else ""
        reasons.append(f"{percent_text(row.probability_meets)} sure to fit and to meet every target{instead}")
    reasons += [f"next: {row_words(one)}, {one.why}" for one in list(others.values())[:2]]
    return Step(
        name="right-size", answer=f"{gpus:,} × {row.gpu}{f' as {layout.text}' if layout and gpus > 1 else ''}.", reasons=reasons
    )


def _price(row: PlanRow | None) -> float | None:
    """Dollars of the job, or per month."""
    paid = (row.job_usd or row.usd_per_month) if row is not None else None
    return paid.value if paid else None


def _paid_words(row: PlanRow) -> str:
    """'8 × L40S on demand'."""
    how = "on demand" if row.owned is None else "bought" if row.owned.bought else "of your own"
    return f"{row_words(row)} {how}"


def _where(plan: Plan, row: PlanRow, choice: Choice) -> Step:
    """Step about the provider and the terms, and the reason against owned machines."""
    if row.owned is not None:
        name = "Bought" if row.owned.bought else "On your own machines"
        return Step(name="where", answer=f"{name}.", reasons=[row.owned.words])
    if row.offer is None:
        return Step(name="where", answer="No offer of it is known.", reasons=choice.reasons)
    offer = row.offer
    count = f"{offer.instances} × " if offer.instances > 1 else ""
    gpus = f"{offer.gpus} GPU{'s' * (offer.gpus != 1)}"
    region = "any region" if offer.region == "any" else offer.region
    price = f"{usd_text(offer.usd_per_h)} $/h for {count}{offer.instance} ({gpus}) in {region}, {offer.as_of}"
    own = next((one for one in plan.rows if one.owned is not None and not one.owned.bought), None)
    left = [f"not on your own {row_words(own)}: {own.why.removeprefix('misses: ')}"] if own is not None else []
    kind = f" ({offer.kind})" if offer.kind in UNSURE else ""
    return Step(name="where", answer=f"{offer.provider}{kind}, {offer.market}.", reasons=[price, *left, *choice.reasons])


def _commit(answers: Answers, row: PlanRow, costs: Costs | None, use: float) -> tuple[Step, str]:
    """Way that costs least over the months, unless it saves less than a tenth of the cost of the way without terms."""
    now = ("bought" if row.owned.bought else "own") if row.owned else row.offer.market if row.offer else ""
    if costs is None or not costs.ways:
        return Step(name="commit", answer="To nothing.", reasons=["there is only one way to pay for it"]), now
    end = str(costs.horizon_months)
    open_ways = [one for one in costs.ways if answers.may_stop or one.way.name != "spot"]
    reasons = list(_compared(open_ways, end))
    if now == "own":
        return Step(name="commit", answer="To nothing: the hardware is already there.", reasons=reasons), now
    rented = [one for one in open_ways if one.way.name != "api"]
    start = next((one for one in rented if one.way.name == now), rented[0] if rented else costs.ways[0])
    best = min(rented or [start], key=lambda one: one.usd_after_months[end])
    saved = 1 - best.usd_after_months[end] / start.usd_after_months[end] if start.usd_after_months[end] else 0.0
    by_token = next((one for one in costs.ways if one.way.name == "api"), None)
    if by_token is not None and by_token.usd_after_months[end] < best.usd_after_months[end]:
        less = usd_text(best.usd_after_months[end] - by_token.usd_after_months[end])
        reasons.insert(0, f"the API costs {less} $ less than any GPU, if its model and terms are acceptable")
    if best is start or saved < SAVES:
        free = "" if best is start else f": {best.way.name} would save {percent_text(saved)}, too little for its terms"
        stay = "Buy" if start.way.name == "bought" else f"Stay {start.way.name}"
        return Step(name="commit", answer=f"{stay}{free}.", reasons=reasons), start.way.name
    months = best.way.commitment_months
    signed = (
        f"Sign {months // 12} year{'s' * (months > 12)}"
        if months
        else "Buy"
        if best.way.name == "bought"
        else f"Take {best.way.name}"
    )
    terms = f"{percent_text(saved)} less than {start.way.name} over {costs.horizon_months} months in use {percent_text(use)} of the time"
    return Step(name="commit", answer=f"{signed}: {terms}.", reasons=reasons), best.way.name


def _compared(ways: Sequence[WayCosts], end: str) -> Iterator[str]:
    for one in ways:
        even = one.break_even_use
        words = f", break-even at {percent_text(even)} use" if even is not None and even <= 1 else ""
        idle = f", {counted(one.way.idle_gpus, 'GPU')} idle" if one.way.idle_gpus else ""
        owed = one.way.commitment_months
        terms = f", owed for {owed} months" if owed > float(end) else ""
        yield f"{one.way.name}: {usd_text(one.usd_after_months[end])} $ over {end} months ({one.way.who}{idle}{terms}){words}"
