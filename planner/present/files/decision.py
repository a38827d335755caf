"""A plan as a document: the question, the choice and its reason, alternatives, and assumptions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from planner.engine.answers.figure import Figure
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.answers.time import TimeDetail, UnderLoad
from planner.engine.money import Costs
from planner.present.cells import (
    BASIS_SIGNS,
    BASIS_WORDS,
    Code,
    Paragraph,
    Part,
    Points,
    Section,
    Table,
    ends_text,
    spread_text,
    text_table,
)
from planner.present.choice.certainty import sensitivity, standing
from planner.present.choice.frontier import frontier_chart
from planner.present.choice.latency_by_load import load_sections
from planner.present.choice.levers import levers_sections
from planner.present.choice.sentence import answer_sentence, nothing_fits_text
from planner.present.command_line import PlanCommand
from planner.present.memory import memory_section
from planner.present.money.costs import cost_sections
from planner.present.money.owning import Owned, owned, owned_sentences
from planner.present.names import model_name, row_device
from planner.present.plan import columns_for, fit_text
from planner.present.prices import money_sentences
from planner.present.row_figures import row_figures
from planner.present.time import time_section
from planner.units import age_text, duration_text, usd_text

if TYPE_CHECKING:
    from planner.engine.procurement.paying import Terms
    from planner.session import Session
    from planner.workload.hardware.owned import Owning
    from planner.workload.tasks import Workload

FIRST_KEYS = ("model", "task")
ALTERNATIVES, LOSERS = 10, 5
"""Maximum numbers of listed rows: solutions, and others."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with the details of its first row."""

    plan: Plan
    made_on: str
    """ISO date."""
    command: PlanCommand
    """Command that creates the plan again."""
    memory: MemoryDetail | None = None
    time: TimeDetail | None = None
    owned: Owned | None = None
    costs: Costs | None = None
    load: UnderLoad | None = None

    @property
    def chosen(self) -> PlanRow | None:
        """First row; None if nothing fits."""
        return self.plan.best

    def as_object(self) -> dict[str, Any]:
        """Plan as in `plan --json`, with the details of its first row."""
        facts = {
            "made_on": self.made_on,
            "command": self.command.text,
            "answer": answer_sentence(self.plan).text,
            "decision": verdict(self),
        }
        details = {
            "memory_detail": self.memory,
            "time_detail": self.time,
            "owned": self.owned,
            "costs": self.costs,
            "under_load": self.load,
        }
        built: dict[str, Any] = msgspec.to_builtins({**facts, **{name: one for name, one in details.items() if one is not None}})
        return {**built, "plan": msgspec.to_builtins(self.plan)}


def decide(
    session: Session, workload: Workload, plan: Plan, command: PlanCommand, owning: Owning | None = None, terms: Terms | None = None
) -> Decision:
    """Decision based on `plan`, which `command` creates; costs of owning in the workload take precedence."""
    owning = workload.owning or owning
    priced = workload if owning is None else msgspec.structs.replace(workload, owning=owning)
    first = plan.best
    costs = session.costs(priced, first, terms, basis=command.basis) if first else None
    return Decision(
        plan=plan,
        made_on=dt.date.today().isoformat(),  # noqa: DTZ011  (the user's own calendar)
        command=command,
        memory=session.memory_detail(workload, first, basis=command.basis) if first else None,
        time=session.time_detail(workload, first, basis=command.basis) if first else None,
        owned=owned(costs, first) if first else None,
        costs=costs,
        load=session.under_load(workload, first, basis=command.basis) if first else None,
    )


def sections(decision: Decision) -> list[Section]:
    """Sections of the document."""
    plan, row = decision.plan, decision.chosen
    description = plan.task.get("description")
    prices = f", prices of {plan.prices_as_of} and later" if plan.prices_as_of else ""
    made: Part = Paragraph(f"Made on {decision.made_on} with gpu-planner {plan.version}{prices}.")
    figures = [_figures(decision, row)] if row is not None else []
    found = [
        Section(str(plan.task.get("title") or model_name(plan.task)), [Paragraph(str(description))] if description else [], 1),
        Section("Decision", [Paragraph(answer_sentence(plan).text, "strong"), Paragraph(verdict(decision)), *figures, made]),
        _asked(plan.task, row.answer.assumed if row else {}),
        *_alternatives(decision),
    ]
    if row is not None:
        found += load_sections(row, decision.load) if decision.load is not None else []
        found += [*_money(decision, row), *_details(decision, row), _rests_on(decision, row)]
    return [*found, Section("Ask it again", [Code(decision.command.text)])]


def verdict(decision: Decision) -> str:
    """Action and reason in one or two sentences."""
    row = decision.chosen
    if row is None:
        nearest = next((other for other in decision.plan.rows if not other.here), None)
        why = f" The nearest, {row_device(nearest)}: {nearest.why}." if nearest else ""
        return f"{nothing_fits_text(decision.plan.counts)}.{why}"
    layout = row.answer.layout
    what = f"{row.answer.gpus:,} × {row_device(row)}" + (f" as {layout.text}" if layout and layout.gpus > 1 else "")
    reason = f"{row.why}; {fit_text(decision.plan).replace(' fit', ' candidates fit')}."
    if row.owned is not None:
        return f"{_owned_verdict(row, what)}: {reason}"
    if row.offer is None:
        paid = f" at your own {usd_text(row.usd_per_h.value)} $/h" if row.usd_per_h is not None else ""
        return f"Use {what}{paid}: {reason}"
    price = f"{usd_text(row.offer.usd_per_h)} $/h"
    if row.job_usd is not None and row.job_h is not None:
        price += f", {usd_text(row.job_usd.value)} $ and {duration_text(row.job_h.value * 3600)} for the job"
    elif row.usd_per_month is not None:
        price += f", {usd_text(row.usd_per_month.value)} $ a month"
    return f"Rent {what} from {row.offer.provider} ({row.offer.instance}, {row.offer.market}) at {price}: {reason}"


def _owned_verdict(row: PlanRow, what: str) -> str:
    """Action and cost for GPUs that are not rented."""
    assert row.owned is not None
    price = row.owned.price_usd
    bought = f"Buy {what} for {usd_text(price)} $" if row.owned.bought and price is not None else f"Use {what}"
    return f"{bought}, at {usd_text(row.usd_per_h.value)} $/h" if row.usd_per_h is not None else bought


SAID_BY_WHY = frozenset({"limit", "network", "ttft", "usd-per-h", "usd-per-million", "flop-per-usd"})
"""Columns left out of tables of unsuccessful candidates, to make room for reasons."""


def _figures(decision: Decision, row: PlanRow) -> Table[Any]:
    """Figures of the row with their ranges and targets."""
    task = decision.plan.task
    targets = task.get("targets", {})
    rows = []
    for known in row_figures(task):
        figure = known.figure(row)
        if figure is None:
            continue
        text, limit = known.long_text, targets.get(known.target)
        ranged = figure.low != figure.high
        reach = f"{spread_text(figure)}: {ends_text(figure, text)}" if ranged else "exact"
        basis = _basis(known.label, figure, row) if ranged else _price_age(decision, row)
        rows.append((known.label_of(row), text(figure.value), reach, f"< {text(limit)}" if limit else "", basis))
    return text_table(("what", "value", "range, nine times in ten", "wanted", "rests on"), rows, ("value",))


KINDS = (
    ("first token", "time to first token"),
    ("next token", "time per output token"),
    ("tokens/s of one stream", "time per output token"),
    ("whole request", "request time"),
    ("output tokens/s", "serving throughput"),
    ("requests/s", "serving throughput"),
)
"""Beginning of a figure's label, and the name of its kind in `ranges_without_source`."""


def _basis(label: str, figure: Figure, row: PlanRow) -> str:
    """Basis of the speed behind a figure, with a remark if no value of its kind is published."""
    words = f"{BASIS_SIGNS[figure.basis]} {BASIS_WORDS[figure.basis]}"
    missing = str(row.answer.assumed.get("ranges_without_source", ""))
    alone = any(label.startswith(begins) and kind in missing for begins, kind in KINDS)
    return f"{words} of the GPU's rates; none of this figure" if alone and figure.basis == "public" else words


def _price_age(decision: Decision, row: PlanRow) -> str:
    """Date and age of the price behind an exact figure of money."""
    if row.offer is None or row.offer.as_of.count("-") != 2:
        return ""
    days = (dt.date.fromisoformat(decision.made_on) - dt.date.fromisoformat(row.offer.as_of)).days
    return f"price of {row.offer.as_of}, {age_text(days)}"


def _asked(task: Mapping[str, Any], assumed: Mapping[str, Any]) -> Section:
    """Table of the given settings; chosen ones are among the assumptions."""
    given = {key: value for key, value in _flat(task) if key not in {"title", "description", *assumed}}
    ordered = [*(key for key in FIRST_KEYS if key in given), *(key for key in given if key not in FIRST_KEYS)]
    return Section("What was asked", [text_table(("key", "value"), [(key, _plain(given[key])) for key in ordered])])


def _alternatives(decision: Decision) -> Iterator[Section]:
    plan = decision.plan
    columns = columns_for(plan)
    solutions = [row for row in plan.rows if row.rank]
    others = [row for row in plan.rows if not row.rank]
    if solutions:
        sure = [Paragraph(f"{words}.")] if (words := standing(plan)) else []
        chart = frontier_chart(plan)
        yield Section("What else there is", [Table(columns, solutions[:ALTERNATIVES]), *sure, *([chart] if chart else [])])
    if lines := sensitivity(plan):
        yield Section("What would put another GPU first", [Points(lines)])
    if others:
        rows = [*[row for row in others if not row.here][:LOSERS], *(row for row in others if row.here)]
        telling = [column for column in columns if column.id not in SAID_BY_WHY]
        yield Section("Candidates that are not solutions, and why", [Table(telling, rows)])
    yield from levers_sections(plan, decision.command.text_with)


def _money(decision: Decision, row: PlanRow) -> Iterator[Section]:
    points = [*money_sentences(row), *(owned_sentences(row) if row.owned is not None else ())]
    points += decision.owned.sentences() if decision.owned is not None else ()
    if points:
        yield Section("Money", [Points(points)])
    if decision.costs is not None:
        yield from cost_sections(decision.costs)


def _details(decision: Decision, row: PlanRow) -> Iterator[Section]:
    """Items of the memory and the time of the row."""
    if decision.memory is not None:
        yield replace(memory_section(row, decision.memory), title="Memory of the fullest GPU")
    if decision.time is not None:
        work = decision.time.work
        whole = Paragraph(f"{work[:1].upper()}{work[1:]} takes {duration_text(decision.time.total_s)}.")
        found = time_section(row, decision.time)
        yield replace(found, title="Where the time goes", parts=[whole, *found.parts])


def _rests_on(decision: Decision, row: PlanRow) -> Section:
    parts: list[Part] = [
        Paragraph(f"The speed rests on {BASIS_WORDS[row.basis]}. Every range should contain the true value nine times in ten.")
    ]
    if row.answer.assumed:
        parts.append(Paragraph("Values nobody gave:"))
        parts.append(text_table(("key", "taken"), [(key, _plain(value)) for key, value in row.answer.assumed.items()]))
    points = [f"Price: {row.offer.source}"] if row.offer is not None else []
    return Section("What it rests on", [*parts, Points([*points, *decision.plan.notes] or ["No price and no note."])])


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value and key != "model":
            yield from _flat(value, f"{prefix}{key}.")
        elif value not in (None, [], {}):
            yield f"{prefix}{key}", value


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        return ("; " if any(isinstance(one, Mapping) for one in value) else ", ").join(map(_plain, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
