"""A plan as a decision to be filed: what was asked, what to take and why, what else there was, and what it all rests on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from planner.cli.document import Block, Code, Heading, Paragraph, Points, Table
from planner.cli.owning import Owned, owned
from planner.cli.plan_columns import BASIS_SIGNS, BASIS_WORDS, columns_for, device_name, spread_text, throughput, throughput_title
from planner.engine.answers.figure import Figure
from planner.engine.answers.lever import Lever
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.answers.time import BOUND_WORDS, TimeDetail
from planner.units import HOURS_PER_MONTH, bytes_text, digits, duration_text, percent_text, si_text, usd_text

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.advice.ownership import Owning
    from planner.session import Session
    from planner.workload.tasks import Workload

FIRST_KEYS = ("model", "task")
LEAST_SHARE = 0.005
"""Of the time of all: operators below it are not told one by one."""
ALTERNATIVES, LOSERS = 10, 5
"""Rows told of those that are solutions, and of those that are not."""
PERCENTILES = ("mean", "p50", "p95", "p99")
LATENCIES = (("whole request", "request"), ("first token", "ttft"), ("next token", "tpot"), ("wait", "wait"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A plan with what is told of its first row."""

    plan: Plan
    made_on: str
    """ISO date."""
    command: str
    """What asks for it again."""
    memory: MemoryDetail | None = None
    time: TimeDetail | None = None
    owned: Owned | None = None
    levers: Sequence[tuple[Lever, str]] = ()
    """Where nothing fits: what would change it, each with its command."""

    @property
    def chosen(self) -> PlanRow | None:
        """The row that ranks first; None where nothing fits."""
        return next((row for row in self.plan.rows if row.rank), None)

    def as_object(self) -> dict[str, Any]:
        """For programs: the plan as `plan --json` gives it, and what is told of its first row."""
        told = {"made_on": self.made_on, "command": self.command, "decision": verdict(self)}
        details = {"memory_detail": self.memory, "time_detail": self.time, "owned": self.owned}
        built: dict[str, Any] = msgspec.to_builtins({**told, **{name: one for name, one in details.items() if one is not None}})
        return {**built, "plan": msgspec.to_builtins(self.plan)}


def decide(
    session: Session,
    workload: Workload,
    plan: Plan,
    *,
    command: str,
    command_with: Callable[[Lever], str],
    basis: BasisChoice = "measured",
    owning: Owning | None = None,
) -> Decision:
    """The decision that `plan` for `workload` comes to; `command` asks for the plan again, `command_with` pulls a lever."""
    first = next((row for row in plan.rows if row.rank), None)
    return Decision(
        plan=plan,
        made_on=dt.date.today().isoformat(),  # noqa: DTZ011  (the user's own calendar)
        command=command,
        memory=session.memory_detail(workload, first, basis=basis) if first else None,
        time=session.time_detail(workload, first, basis=basis) if first else None,
        owned=owned(first, session.part_named(first.gpu), owning) if first else None,
        levers=[(lever, command_with(lever)) for lever in plan.levers],
    )


def blocks(decision: Decision) -> list[Block]:
    """The whole document."""
    task = decision.plan.task
    title = str(task.get("title") or _model(task))
    found: list[Block] = [Heading(title, 1)]
    if task.get("description"):
        found.append(Paragraph(str(task["description"])))
    prices = f", prices of {decision.plan.prices_as_of} and later" if decision.plan.prices_as_of else ""
    found += [Heading("Decision"), Paragraph(verdict(decision), strong=True)]
    row = decision.chosen
    if row is not None:
        found += _figures(decision, row)
    found += [Paragraph(f"Made on {decision.made_on} with gpu-planner {decision.plan.version}{prices}.")]
    found += _asked(task, row.answer.assumed if row else {})
    found += _alternatives(decision)
    if row is not None:
        found += [*_money(decision, row), *_memory(decision), *_time(decision), *_rests_on(decision, row)]
    found += [Heading("Ask it again"), Code(decision.command)]
    return found


def verdict(decision: Decision) -> str:
    """What to do, and the reason, in a sentence or two."""
    row, counts = decision.chosen, decision.plan.counts
    if row is None:
        nearest = next((other for other in decision.plan.rows if not other.here), None)
        why = f" The nearest, {device_name(nearest)}: {nearest.why}." if nearest else ""
        return f"Nothing of {counts.considered:,} candidates fits.{why}"
    layout = row.answer.layout
    what = f"{layout.gpus if layout else 1:,} × {device_name(row)}" + (f" as {layout.text}" if layout and layout.gpus > 1 else "")
    reason = f"{row.why}; {counts.fit:,} of {counts.considered:,} candidates fit."
    if row.offer is None:
        return f"Use {what}: {reason}"
    price = f"{usd_text(row.offer.usd_per_h)} $/h"
    if row.job_usd is not None and row.job_h is not None:
        price += f", {usd_text(row.job_usd.value)} $ and {duration_text(row.job_h.value * 3600)} for the job"
    elif row.usd_per_month is not None:
        price += f", {usd_text(row.usd_per_month.value)} $ a month"
    return f"Rent {what} from {row.offer.provider} ({row.offer.instance}, {row.offer.market}) at {price}: {reason}"


UNITS: Mapping[str, Callable[[float], str]] = {
    "s": duration_text,
    "%": percent_text,
    "$": lambda value: f"{usd_text(value)} $",
    "J a token": lambda value: si_text(value, "J a token"),
    "FLOP per $": lambda value: si_text(value, "FLOP per $"),
}
"""How values of a unit read; the others are plain numbers with the unit behind them."""


def figure_row(label: str, figure: Figure | None, unit: str, wanted: str = "") -> list[tuple[str, str, str, str, str]]:
    """(what, value, range, wanted, basis) of a figure; none where it is not known."""
    if figure is None:
        return []
    text: Callable[[float], str] = UNITS.get(unit, lambda value: f"{digits(value)} {unit}")
    reach = f"{spread_text(figure)}: {text(figure.low)} to {text(figure.high)}" if figure.low != figure.high else "exact"
    return [(label, text(figure.value), reach, wanted, f"{BASIS_SIGNS[figure.basis]} {BASIS_WORDS[figure.basis]}")]


def _figures(decision: Decision, row: PlanRow) -> Iterator[Block]:
    answer, targets = row.answer, decision.plan.task.get("targets", {})
    rows = figure_row("output" if throughput_title(decision.plan) != "tokens/s" else "speed", throughput(answer), "tokens/s")
    rows += figure_row("requests", answer.requests_per_s, "a second")
    rows += figure_row("one optimizer step", answer.step_s, "s")
    rows += figure_row("MFU", answer.mfu, "%")
    for label, name in LATENCIES:
        found = getattr(answer, f"{name}_s")
        for percentile in PERCENTILES if found is not None else ():
            limit = targets.get(f"{percentile}_{name}_s")
            rows += figure_row(
                f"{label}, {percentile}", getattr(found, percentile), "s", f"< {duration_text(limit)}" if limit else ""
            )
    deadline, budget = targets.get("deadline_h"), targets.get("budget_usd")
    wanted = f"< {duration_text(deadline * 3600)}" if deadline else ""
    job = row.job_h
    if job is not None:
        rows += figure_row("the job takes", Figure(job.value * 3600, job.low * 3600, job.high * 3600, job.basis), "s", wanted)
    rows += figure_row("the job costs", row.job_usd, "$", f"< {usd_text(budget)} $" if budget else "")
    rows += figure_row("a million tokens", answer.usd_per_million_tokens, "$")
    rows += figure_row("compute", answer.flop_per_usd, "FLOP per $")
    rows += figure_row("energy", answer.energy_j_per_token, "J a token")
    heads = ("what", "value", "range, nine times in ten", "wanted", "rests on")
    yield Table(heads, rows, frozenset({"value"}))


def _asked(task: Mapping[str, Any], assumed: Mapping[str, Any]) -> Iterator[Block]:
    """What was given; what was chosen stands with what the answer rests on."""
    yield Heading("What was asked")
    given = {key: value for key, value in _flat(task) if key not in {"title", "description", *assumed}}
    ordered = [*(key for key in FIRST_KEYS if key in given), *(key for key in given if key not in FIRST_KEYS)]
    yield Table(("key", "value"), [(key, _told(given[key])) for key in ordered])


def _alternatives(decision: Decision) -> Iterator[Block]:
    plan = decision.plan
    columns = columns_for(plan)
    heads, right = [column.title for column in columns], frozenset(column.title for column in columns if column.right)

    def table(rows: Sequence[PlanRow]) -> Table:
        return Table(heads, [[column.cell(row) for column in columns] for row in rows], right)

    solutions = [row for row in plan.rows if row.rank]
    others = [row for row in plan.rows if not row.rank]
    if solutions:
        yield Heading("What else there is")
        yield table(solutions[:ALTERNATIVES])
    if others:
        yield Heading("What is no solution, and why")
        yield table([*[row for row in others if not row.here][:LOSERS], *(row for row in others if row.here)])
    if decision.levers:
        yield Heading("What would change it")
        for lever, command in decision.levers:
            yield Paragraph(f"{lever.text} ({lever.cost_text})" if lever.cost_text else lever.text)
            yield Code(command)


def _money(decision: Decision, row: PlanRow) -> Iterator[Block]:
    offer = row.offer
    if offer is None and decision.owned is None:
        return
    yield Heading("Money")
    points = []
    if offer is not None:
        count = f"{offer.instances} × " if offer.instances > 1 else ""
        note = f"; {offer.note}" if offer.note else ""
        points.append(f"Rent: {count}{offer.provider} {offer.instance}, {offer.region}, {offer.market}, {offer.as_of}{note}.")
        if row.usd_per_month is not None:
            hours = f"{usd_text(offer.usd_per_h)} $/h × {HOURS_PER_MONTH:.0f} h"
            points.append(f"A month of it: {hours} = {usd_text(row.usd_per_month.value)} $.")
        if row.other_offers:
            points.append(f"{row.other_offers:,} dearer offers of the same part are known (`gpu-planner offers show '{row.gpu}'`).")
    if decision.owned is not None:
        points += decision.owned.sentences()
    yield Points(points)


def _memory(decision: Decision) -> Iterator[Block]:
    detail = decision.memory
    if detail is None:
        return
    yield Heading("Memory of the fullest GPU")
    heads = ("component", "bytes", "what", "worked out", "source")
    rows = [(one.component.replace("_", " "), bytes_text(one.bytes), one.name, one.formula, one.source) for one in detail.items]
    yield Table(heads, rows, frozenset({"bytes"}))
    yield Table(("", "bytes", ""), [(what, bytes_text(size), why) for what, size, why in detail.ledger()], frozenset({"bytes"}))


def _time(decision: Decision) -> Iterator[Block]:
    detail = decision.time
    if detail is None:
        return
    yield Heading("Where the time goes")
    yield Paragraph(f"{detail.work[:1].upper()}{detail.work[1:]} takes {duration_text(detail.total_s)}.")
    rows = []
    for phase in detail.phases():
        share, bound = (
            percent_text(phase.seconds / detail.total_s),
            f"{BOUND_WORDS[phase.bound]}, {percent_text(phase.bound_share)} of it",
        )
        rows.append((phase.name, "", duration_text(phase.seconds), share, bound))
        told, _ = detail.longest(phase)
        rows += [
            ("", one.name, duration_text(one.seconds), percent_text(one.seconds / detail.total_s), BOUND_WORDS[one.bound])
            for one in told
        ]
    yield Table(("phase", "operator", "time", "share", "bound by"), rows, frozenset({"time", "share"}))


def _rests_on(decision: Decision, row: PlanRow) -> Iterator[Block]:
    yield Heading("What it rests on")
    yield Paragraph(f"The speed rests on {BASIS_WORDS[row.basis]}. Every range should hold the truth nine times in ten.")
    if row.answer.assumed:
        yield Paragraph("Values nobody gave:")
        yield Table(("key", "taken"), [(key, _told(value)) for key, value in row.answer.assumed.items()])
    points = [f"Price: {row.offer.source}"] if row.offer is not None else []
    yield Points([*points, *decision.plan.notes] or ["No price and no note."])


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value and key != "model":
            yield from _flat(value, f"{prefix}{key}.")
        elif value not in (None, [], {}):
            yield f"{prefix}{key}", value


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _model(task: Mapping[str, Any]) -> str:
    model = task.get("model")
    return model if isinstance(model, str) else "your model"
