"""Decision trees of training and of inference for one workload: each question with its answer and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.job.job import Job
from planner.engine.money import Costs, WayCosts
from planner.units import SECONDS_PER_HOUR, bytes_text, count_text, digits, duration_text, percent_text
from planner.workload.tasks import Workload
from planner.workload.weights import FORMATS

NARROWER = ("bf16", "fp8", "awq")
"""Storage formats of weights, each half as large as the one before."""
PROMPT_BOUND = 0.5
"""Share of a replica's time above which reading prompts decides what it needs."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One question on the path through a tree."""

    question: str
    answer: str
    reason: str


def branches(
    workload: Workload, job: Job, row: PlanRow, plan: Plan, costs: Costs | None, *, may_stop: bool, use: float
) -> Iterator[Branch]:
    """Branches that lead to `row`, the first row of `plan`."""
    yield from _training(workload, job, row, plan) if job.train else _inference(workload, job, row)
    spot = "spot offers count" if may_stop else "only offers without interruption count"
    yield _branch("May it be interrupted?", may_stop, spot)
    yield from _commitment(costs, use)


def row_words(row: PlanRow) -> str:
    """'8 × L40S'."""
    return f"{row.answer.gpus} × {row.gpu}"


def _branch(question: str, holds: object, reason: str) -> Branch:
    return Branch(question=question, answer="yes" if holds else "no", reason=reason)


def _training(workload: Workload, job: Job, row: PlanRow, plan: Plan) -> Iterator[Branch]:
    a, memory, layout = job.architecture, row.answer.memory_bytes, row.answer.layout
    if memory is None or layout is None:
        return
    trained = job.adapters or a.total
    each = job.gradient_bytes + job.master_bytes + job.state_bytes
    states = a.total * job.linear_bytes + trained * each
    if job.adapters:
        what = f"{count_text(job.adapters)} of {count_text(a.total)} parameters, as adapters of rank {workload.lora.rank if workload.lora else '?'}"
    else:
        what = f"{digits(job.linear_bytes + each)} bytes of weights, gradients and optimizer a parameter"
    yield _branch("Are all parameters trained?", not job.adapters, what)
    room = memory.usable
    sizes = f"{bytes_text(states)} of states, {bytes_text(room)} usable on one {row.gpu}"
    yield _branch("Do the states fit one GPU?", states < room, sizes)
    if states >= room:
        kept = f"{layout.sharding or 'none'}, tp{layout.tp}, pp{layout.pp} spread them over {layout.gpus} GPUs"
        on_node = f"{layout.gpus_per_node} × {bytes_text(room)}; {kept}"
        yield _branch("Do they fit one node?", states < room * layout.gpus_per_node, on_node)
    recomputed = layout.checkpointing or "none"
    left = f"activations {bytes_text(memory.activations)} beside them, checkpointing {recomputed}"
    yield _branch("Do activations fit beside them?", recomputed == "none", left)
    deadline = workload.targets.deadline_h
    if row.job_h is not None and deadline is not None:
        one = [
            other for other in plan.rows if other.rank and other.job_h and other.answer.layout and other.answer.layout.nodes == 1
        ]
        best = next(iter(one), row)
        took = f"{duration_text(best.job_h.value * SECONDS_PER_HOUR) if best.job_h else ''} on {row_words(best)}"
        yield _branch("Is one node fast enough?", one, f"{took}, deadline {duration_text(deadline * SECONDS_PER_HOUR)}")
    mfu = f", MFU {percent_text(row.answer.mfu.value)}" if row.answer.mfu else ""
    limited = f"limited by {row.answer.bottleneck}{mfu}"
    yield _branch("Does arithmetic limit a step?", row.answer.bottleneck == "compute", limited)


def _inference(workload: Workload, job: Job, row: PlanRow) -> Iterator[Branch]:
    a, memory, layout, answer = job.architecture, row.answer.memory_bytes, row.answer.layout, row.answer
    if memory is None or layout is None:
        return
    sizes = {name: FORMATS[name].stored(a).total_bytes for name in NARROWER}
    fits = [name for name in NARROWER if sizes[name] < memory.usable]
    stored = ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes.items())
    room = f"{bytes_text(memory.usable)} usable on one {row.gpu}"
    yield _branch("Do the weights fit one GPU in 16 bits?", "bf16" in fits, f"{stored}; {room}")
    if "bf16" not in fits:
        narrow = f"from {fits[0]} on" if fits else f"in none; tp{layout.tp}·pp{layout.pp} holds them"
        yield _branch("In fewer bits?", fits, f"{narrow}; stored as {job.stored}")
    most, held = answer.max_concurrency, layout.batch
    if most is not None and held is not None:
        in_flight = f"{most:,} sequences fit, {held * layout.dp:,} are in flight at once"
        yield _branch("Does the cache hold all requests in flight?", most >= held * layout.dp, in_flight)
    for limit in workload.targets.latency_limits():
        latency = getattr(answer, f"{limit.latency}_s")
        figure = getattr(latency, limit.share) if latency else None
        if figure is not None:
            words = f"{limit.share} {duration_text(figure.value)}, wanted {duration_text(limit.seconds)}"
            yield _branch(f"Is the {limit.latency} limit kept?", figure.value <= limit.seconds, words)
    if answer.prefill_s is not None and answer.requests_per_s is not None:
        share = min(1.0, answer.requests_per_s.value * answer.prefill_s.value / layout.dp)
        bound = share > PROMPT_BOUND
        more = "FLOP/s count" if bound else "memory bandwidth counts"
        yield _branch("Do prompts take most of the time?", bound, f"{percent_text(share)} of it: {more}")
    yield _branch("Is one replica enough?", layout.dp == 1, f"{layout.dp} × {layout.gpus // layout.dp} GPU")


def _commitment(costs: Costs | None, use: float) -> Iterator[Branch]:
    """Each commitment compared with the way by which the row is priced; a commitment that prices the row is compared with paying by the hour."""
    if costs is None or not costs.ways:
        return
    first, *others = costs.ways
    end = str(costs.horizon_months)
    by_hour = next((one for one in others if not _binds(one) and one.way.name != "api"), None)
    pairs = [(one, first, one) for one in others if _binds(one)]
    if _binds(first):
        pairs = [(first, by_hour, by_hour)] if by_hour is not None else []
    for bound, free, known in pairs:
        even = known.break_even_use
        less = bound.usd_after_months[end] < free.usd_after_months[end]
        meet = f"break-even with {free.way.name} at {percent_text(even)}" if even is not None and even <= 1 else ""
        reason = meet or f"{'less' if less else 'more'} than {free.way.name} at any use"
        used = f"in use {percent_text(use)} of the time"
        yield _branch(f"Is it used enough for {bound.way.name}?", less, f"{used}; {reason}")


def _binds(one: WayCosts) -> bool:
    """True if its cost is owed even without use."""
    return bool(one.way.commitment_months) or one.way.name == "bought"
