"""Changes that would make a workload fit, or cheaper, with their savings and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.engine.answers.plan import Lever, Plan
from planner.present.cells import LEAST_SHARE, Code, Paragraph, Section
from planner.units import bytes_text, digits, percent_text, usd_text

CHANGES = "What would change it"
NONE_WOULD_DO = "None of the changes tried would help: formats, margins, more GPUs, limits relaxed by a fifth."
COST_WORDS = {
    "precision": "less precise",
    "margin": "less margin",
    "target": "a looser target",
    "interruptions": "nodes may be interrupted",
    "commitment": "paid whether used or not",
    "job": "another job",
}
"""Cost of a lever other than time -> its words."""


def levers_sections(plan: Plan, command_with: Callable[[Lever], str]) -> Iterator[Section]:
    """Levers of `plan`, each with the command that plans with it; if nothing fits and no change helps, a sentence that says so."""
    if plan.levers:
        parts = [part for lever in plan.levers for part in (Paragraph(lever_text(lever)), Code(command_with(lever)))]
        yield Section("What would cost less" if any(lever.after for lever in plan.levers) else CHANGES, parts)
    elif not any(row.rank for row in plan.rows) and any(row.answer.memory_bytes and not row.here for row in plan.rows):
        yield Section(CHANGES, [Paragraph(NONE_WOULD_DO)])


def lever_text(lever: Lever) -> str:
    """Change with its saving and cost in brackets."""
    cost = cost_text(lever)
    return f"{lever.text} ({cost})" if cost else lever.text


def cost_text(lever: Lever) -> str:
    """Effects such as 'saves 12.1 GiB, 31 % slower, less precise', without unknown and negligible ones."""
    saved = f"saves {bytes_text(lever.saves_bytes)}" if lever.saves_bytes and lever.saves_bytes > 0 else ""
    speed = _speed_text(lever.slowdown) if lever.slowdown is not None else ""
    return ", ".join(filter(None, (saving_text(lever), saved, speed, COST_WORDS.get(lever.costs or "", ""))))


def saving_text(lever: Lever) -> str:
    """Saving such as '−3,220 $ a month (−37 %): 5,380 instead of 8,600 $', for the job, the month or tokens, in this order of preference."""
    before, after = lever.before, lever.after
    if before is None or after is None:
        return ""
    for name, unit in (
        ("job_usd", "$ for the job"),
        ("usd_per_month", "$ a month"),
        ("usd_per_million_tokens", "$ a million tokens"),
    ):
        was, now = getattr(before, name), getattr(after, name)
        if was and now and now < was * (1 - LEAST_SHARE):
            return f"−{usd_text(was - now)} {unit} (−{percent_text(1 - now / was)}): {usd_text(now)} instead of {usd_text(was)} $"
    return ""


def _speed_text(slowdown: float) -> str:
    """Change of speed: '31 % slower', '2.5 times as slow', '25 % faster', 'as fast'."""
    if abs(slowdown) < LEAST_SHARE:
        return "as fast"
    if slowdown > 0:
        return f"{percent_text(slowdown)} slower" if slowdown < 1 else f"{digits(1 + slowdown, 2)} times as slow"
    speedup = 1 / (1 + slowdown)
    return f"{percent_text(speedup - 1)} faster" if speedup < 2 else f"{digits(speedup, 2)} times as fast"
