"""Actions for one GPU, by what limits it: free ones first, then other hardware, then other prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.engine.advice.actions import gpu_actions as gpu
from planner.engine.advice.actions import job_actions as job
from planner.engine.advice.advice import Action
from planner.engine.advice.case import Case
from planner.engine.advice.diagnosis import Limiter

MakeActions = Callable[[Case], Iterator[Action]]
LEAST_SAVING_USD = 1.0
"""A month; less is not worth naming."""
BY_LIMITER: Mapping[Limiter, tuple[MakeActions, ...]] = {
    "idle": (gpu.release, gpu.mig, gpu.cheaper),
    "launch/host": (job.batch, gpu.mig, gpu.cheaper),
    "bandwidth": (job.batch, job.quantise, gpu.cheaper, gpu.commit),
    "compute": (gpu.cheaper, job.quantise, gpu.commit),
    "memory capacity": (job.checkpoint, job.quantise, gpu.cheaper, gpu.larger),
    "thermal": (gpu.clock, gpu.commit),
    "power": (gpu.clock, gpu.cheaper, gpu.commit),
    "link": (gpu.link, gpu.commit),
    "unknown": (gpu.benchmark, gpu.commit),
}
"""Kinds of action for each limiter, in order; pauses come before all of them."""


def actions_for(case: Case) -> list[Action]:
    """The actions for this case, in order; 'stay' where nothing saves anything."""
    possible = [action for make in (gpu.pauses, *BY_LIMITER[case.judgement.limiter]) for action in make(case)]
    actions = [action for action in possible if action.saves is None or abs(action.saves.usd_per_month) >= LEAST_SAVING_USD]
    worth = any(action.saves is None or action.saves.usd_per_month > 0 for action in actions if action.kind != "larger")
    if not worth:
        actions.append(Action(kind="stay", text="Stay: no cheaper GPU on offer does the same, and this one is well used."))
    return actions
