"""The changes that would make a workload fit, each with what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.answers.lever import Lever
from planner.present.cells import Code, Paragraph, Section


def levers_section(levers: Sequence[Lever], command_with: Callable[[Lever], str]) -> Section:
    """The levers, each followed by the command that plans with it."""
    parts = [part for lever in levers for part in (Paragraph(lever_text(lever)), Code(command_with(lever)))]
    return Section("What would change it", parts)


def lever_text(lever: Lever) -> str:
    """What to change, and in brackets what that saves and costs."""
    return f"{lever.text} ({lever.cost_text})" if lever.cost_text else lever.text
