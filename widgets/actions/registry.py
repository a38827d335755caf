"""Every action, by group: bindings, key line, help and command palette are made from this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from widgets.actions import measure, moves, panes, plan, program, sessions, workload
from widgets.actions.action import Action

GROUPS: Mapping[str, Sequence[Action]] = {
    "Measure": measure.ACTIONS,
    "Plan": plan.ACTIONS,
    "Workload": (*workload.ACTIONS, *sessions.ACTIONS),
    "Go to": panes.ACTIONS,
    "Program": program.ACTIONS,
    "Move": (*moves.TABLE, *moves.FORM, *moves.CHOICE, *moves.GROUP),
}
"""Heading in the help -> its actions."""
ACTIONS: tuple[Action, ...] = tuple(chain.from_iterable(GROUPS.values()))
BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}
