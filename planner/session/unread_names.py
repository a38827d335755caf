"""Names of a workload that no check has reached because an earlier one failed, so that one answer tells every fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.errors import Problem, Problems, UserError, nearest_names
from planner.schema import read_struct, with_numbers
from planner.workload.models import is_path
from planner.workload.tasks import Workload

if TYPE_CHECKING:
    from planner.engine.evaluate.task import Supply


def with_unread_names(
    wrong: UserError, fields: Mapping[str, Any], where: str, supply: Supply, find_model: Callable[[str], object]
) -> UserError:
    """`wrong` and what else is wrong with the names in `fields`: of model, engine, formats, GPUs and filters of offers.

    `where`: the file of the workload. `find_model` raises `UserError` for a model that is not known; paths and ids of the hub are left to the reader. A key that is at fault already gets
    no second problem.
    """
    at_fault = {_top(problem.key) for problem in wrong.problems}
    left = {name: value for name, value in fields.items() if name in Workload.__struct_fields__ and name not in at_fault}
    try:
        read = read_struct(Workload, with_numbers(Workload, {"model": "", "task": "serve", **left}), where)
    except UserError:  # a fault across keys
        return wrong
    found = [problem for problem in _of_names(read, where, supply, find_model) if _top(problem.key) not in at_fault]
    return UserError([*wrong.problems, *dict.fromkeys(found)])


def _of_names(workload: Workload, where: str, supply: Supply, find_model: Callable[[str], object]) -> Iterator[Problem]:
    """Problems with the names in `workload`."""
    from planner.engine.job.engines import find_engine
    from planner.engine.search.supply.quotes import check_supply_keys
    from planner.workload.weights import FORMATS

    name, model = workload.weight_dtype, workload.model
    if name is not None and name not in FORMATS:
        problems = Problems(where)
        problems.add(
            "weight_dtype", f"{name!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", nearest_names(name, FORMATS)
        )
        yield from problems.found
    checks: list[Callable[[], object]] = [lambda: check_supply_keys(workload, supply)]
    if isinstance(model, str) and model and "/" not in model and not is_path(model):
        checks.insert(0, lambda: find_model(model))
    if engine := workload.engine:
        checks.insert(0, lambda: find_engine(engine, where))
    for check in checks:
        try:
            check()
        except UserError as error:
            yield from (_placed(problem, where) for problem in error.problems)


def _placed(problem: Problem, where: str) -> Problem:
    """`problem` with a place, where it has none."""
    return problem if problem.where else problem._replace(where=where)


def _top(key: str) -> str:
    """Key of the workload that holds `key`."""
    return key.partition(".")[0].partition("[")[0]
