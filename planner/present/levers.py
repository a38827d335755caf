"""The changes that would make a workload fit, each with what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.answers.lever import Lever
from planner.present.cells import LEAST_SHARE, Code, Paragraph, Section
from planner.units import bytes_text, digits, percent_text

COST_WORDS = {"precision": "rounds more", "margin": "less margin", "job": "another job"}
"""What a lever asks for besides time."""


def levers_section(levers: Sequence[Lever], command_with: Callable[[Lever], str]) -> Section:
    """The levers, each followed by the command that plans with it."""
    parts = [part for lever in levers for part in (Paragraph(lever_text(lever)), Code(command_with(lever)))]
    return Section("What would change it", parts)


def lever_text(lever: Lever) -> str:
    """What to change, and in brackets what that saves and costs."""
    cost = cost_text(lever)
    return f"{lever.text} ({cost})" if cost else lever.text


def cost_text(lever: Lever) -> str:
    """'saves 12.1 GiB, 31 % slower, rounds more'; what is unknown or too small to matter is left out."""
    saved = f"saves {bytes_text(lever.saves_bytes)}" if lever.saves_bytes and lever.saves_bytes > 0 else ""
    speed = _speed_text(lever.slowdown) if lever.slowdown is not None else ""
    return ", ".join(filter(None, (saved, speed, COST_WORDS.get(lever.costs or "", ""))))


def _speed_text(slowdown: float) -> str:
    """'31 % slower', '2.5 times as slow', '25 % faster', 'as fast'."""
    if abs(slowdown) < LEAST_SHARE:
        return "as fast"
    if slowdown > 0:
        return f"{percent_text(slowdown)} slower" if slowdown < 1 else f"{digits(1 + slowdown, 2)} times as slow"
    speedup = 1 / (1 + slowdown)
    return f"{percent_text(speedup - 1)} faster" if speedup < 2 else f"{digits(speedup, 2)} times as fast"
