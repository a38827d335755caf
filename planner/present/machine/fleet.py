"""A fleet's advice in a few tables: what it costs and wastes by verdict, job and host, and which GPUs are slow or sick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.present.cells import Paragraph, Part, Section, text_table
from planner.units import UNKNOWN, numbers_text, percent_text, usd_text

if TYPE_CHECKING:
    from planner.engine.advice.advice import FleetSummary, Group, Suspect

MOST_SHOWN = 12
"""Rows of a table; JSON has all."""
HEADS = ("GPUs", "in use", "$/month", "waste $/month")


def fleet_sections(found: FleetSummary) -> list[Section]:
    """The tables that say something: one verdict alone, one host, or jobs that nothing names, are left out."""
    sections = [_groups("By verdict", "verdict", found.by_verdict)]
    if len(found.by_job) > 1:
        sections.append(_groups("By job", "job", found.by_job))
    if len(found.by_host) > 1:
        sections.append(_groups("By host", "host", found.by_host))
    if found.suspects:
        sections.append(_suspects(found.suspects))
    return sections


def _groups(title: str, what: str, groups: Sequence[Group]) -> Section:
    rows = [_row(one) for one in groups[:MOST_SHOWN]]
    parts: list[Part] = [text_table((what, *HEADS), rows, HEADS)]
    if len(groups) > MOST_SHOWN:
        rest = groups[MOST_SHOWN:]
        waste = usd_text(sum(one.waste_usd_per_month for one in rest))
        parts.append(
            Paragraph(f"… and {len(rest):,} more with {sum(one.gpus for one in rest):,} GPUs, waste {waste} $/month.", "faint")
        )
    return Section(title, parts)


def _row(one: Group) -> tuple[str, ...]:
    waste = f"{'≤ ' if one.at_most else ''}{usd_text(one.waste_usd_per_month)}" if one.waste_usd_per_month else "0"
    return (one.name, f"{one.gpus:,}", percent_text(one.busy), usd_text(one.usd_per_month), waste)


def _suspects(found: Sequence[Suspect]) -> Section:
    """GPUs of one host with one reason share a row."""
    together: dict[tuple[str, str, str], list[int]] = {}
    for one in found:
        together.setdefault((one.host, one.job, one.why), []).append(one.index)
    rows = [(place_text(host, indices), job or UNKNOWN, why) for (host, job, why), indices in together.items()]
    parts: list[Part] = [text_table(("GPU", "job", "why"), rows[: 4 * MOST_SHOWN])]
    if len(rows) > 4 * MOST_SHOWN:
        parts.append(Paragraph(f"… and {len(rows) - 4 * MOST_SHOWN:,} more.", "faint"))
    return Section("Slow or sick", parts)


def place_text(host: str, indices: Sequence[int]) -> str:
    """'node005 GPU 0-7', 'node013 GPU 3', 'node014 GPU 1, 4'."""
    return f"{host} GPU {numbers_text(indices)}"
