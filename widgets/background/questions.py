"""Slow questions about a workload, which the planner process answers by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.memory import MemoryDetail
    from planner.engine.answers.plan import Lever, Plan, PlanRow
    from planner.engine.answers.time import TimeDetail, UnderLoad
    from planner.present.money.owning import Owned
    from planner.session import Session
    from planner.workload.tasks import Workload
    from widgets.background.opened import PlanQuestion


def ranking(session: Session, workload: Workload, basis: BasisChoice) -> tuple[Plan, Sequence[str]]:
    """(the ranking without changes that would help, faults of the measurements behind it)."""
    return session.plan(workload, basis=basis, levers=False), tuple(session.warnings)


def advice(session: Session, workload: Workload, basis: BasisChoice) -> Plan:
    """Plan with changes that would help the rows that are no solution."""
    return session.plan(workload, basis=basis, hints=True)


def details(
    session: Session, workload: Workload, basis: BasisChoice, row: PlanRow
) -> tuple[Sequence[Lever], Owned | None, Sequence[str]]:
    """(changes that would help the row, costs to own it, changes that would put another first)."""
    from planner.present.choice.certainty import sensitivity
    from planner.present.money.owning import owned

    help_for_row = [] if row.rank or row.here else session.levers(workload, row)
    flips = []
    if row.rank == 1:
        plan = session.plan(workload, basis=basis, levers=False)
        flips = sensitivity(session.with_flips(workload, plan, basis=basis))
    return help_for_row, owned(session.costs(workload, row, basis=basis), row), flips


def levers(session: Session, workload: Workload, basis: BasisChoice, row: PlanRow) -> Sequence[Lever]:
    """Changes that would make the row a solution."""
    del basis
    return session.levers(workload, row)


def memory_detail(session: Session, workload: Workload, basis: BasisChoice, row: PlanRow) -> MemoryDetail | None:
    """Memory of the row, item by item."""
    return session.memory_detail(workload, row, basis=basis)


def time_detail(session: Session, workload: Workload, basis: BasisChoice, row: PlanRow) -> TimeDetail | None:
    """Time of the row, operator by operator."""
    return session.time_detail(workload, row, basis=basis)


def under_load(session: Session, workload: Workload, basis: BasisChoice, row: PlanRow) -> UnderLoad | None:
    """Latencies of the row against the load."""
    return session.under_load(workload, row, basis=basis)


def about(session: Session, question: Callable[..., Any], asked: PlanQuestion, rows: Sequence[PlanRow]) -> Any:
    """Answer of `question` about the workload of `asked`, and about `rows` of its plan."""
    return question(session, session.workload(asked.workload, asked.where), asked.basis, *rows)


@cache
def answer_types() -> dict[str, Any]:
    """Name of a question -> type of its answer."""
    from planner.engine.answers.memory import MemoryDetail
    from planner.engine.answers.plan import Lever, Plan
    from planner.engine.answers.time import TimeDetail, UnderLoad
    from planner.present.money.owning import Owned

    return {
        ranking.__name__: tuple[Plan, list[str]],
        advice.__name__: Plan,
        details.__name__: tuple[list[Lever], Owned | None, list[str]],
        levers.__name__: list[Lever],
        memory_detail.__name__: MemoryDetail | None,
        time_detail.__name__: TimeDetail | None,
        under_load.__name__: UnderLoad | None,
    }
