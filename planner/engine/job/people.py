"""Users of a service, converted to requests per second."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from planner.errors import Problem, UserError
from planner.workload.hardware.owned import People, request_rate
from planner.workload.tasks import Workload

W = TypeVar("W", bound=Workload)


def with_request_rate(workload: W, where: str = "") -> W:
    """`workload` with the request rate of its `daily_users` in the busiest hour; unchanged if it states none.

    Raises `UserError` where the load is given in another way too, or the task serves nobody.
    """
    users = workload.daily_users
    if users is None:
        return workload
    if workload.task != "serve":
        raise UserError(Problem(where, "daily_users", f"is not accepted for {workload.task!r}; users are of 'serve'."))
    rate = request_rate(users, workload.people or People())
    given = workload.request_rate_per_s
    if workload.concurrency is not None or (given is not None and abs(given - rate) > 1e-9 * rate):
        other = "concurrency" if workload.concurrency is not None else "request_rate_per_s"
        raise UserError(Problem(where, "daily_users", f"is not accepted beside {other}: each of them describes the whole load."))
    return msgspec.structs.replace(workload, request_rate_per_s=rate)


def peak_over_mean(workload: Workload) -> float:
    """Requests of the busiest hour, for which a service is sized, ÷ requests of the mean hour, in which it earns; 1 if no users are given."""
    return (workload.people or People()).peak_factor if workload.daily_users else 1.0


def people_assumed(workload: Workload) -> dict[str, str]:
    """Assumptions about the users, in words; empty if there are none, or all was given."""
    if workload.daily_users is None or workload.people is not None:
        return {}
    return {"people": People().words}
