"""Effect of measuring a part: the plans of a fixed set of workloads, and the points that judge the calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.present.cells import Paragraph, Section, text_table
from planner.units import digits, percent_text, si_text

if TYPE_CHECKING:
    from planner.engine.estimate.calibration_check import CalibrationCheck
    from planner.session.before_after import Change


def change_sections(change: Change) -> Iterator[Section]:
    """Plans before and after, then the check."""
    rows = []
    for plan in change.plans:
        moved = f"{plan.after / plan.before - 1:+.0%}" if plan.before and plan.after else ""
        rows.append((plan.workload, digits(plan.before or None), digits(plan.after or None), moved))
    heads = ("workload on one device", "published tok/s", "measured tok/s", "change")
    known = any(plan.after for plan in change.plans)
    nothing = Paragraph("None of the plans that are compared has a known speed on it.")
    yield Section(f"What measuring {change.gpu} changed", [text_table(heads, rows, numeric=heads[1:]) if known else nothing])
    yield check_section(change.check)


def check_section(check: CalibrationCheck) -> Section:
    """Points that no ceiling was fitted to, beside what published and measured ceilings predict of them."""
    heads = ("independent point", "seen", "published", "measured")
    rows = [
        (one.point, si_text(one.measured, one.unit), *(f"{rate / one.measured - 1:+.0%}" for rate in (one.before, one.after)))
        for one in check.points
    ]
    parts = [text_table(heads, rows, numeric=heads[1:])] if rows else []
    return Section("Whether it predicts better", [*parts, Paragraph(check_text(check))])


def check_text(check: CalibrationCheck) -> str:
    """Whether plans rest on the measured ceilings, in a sentence."""
    if not check.points:
        return "Nothing judges the measured ceilings: no whole step, prompt or decoding was measured (--suite standard does)."
    errors = f"mean error {percent_text(check.before)} by published figures, {percent_text(check.after)} by measured ones"
    if check.accepted:
        return f"Plans rest on the measured ceilings: {errors}."
    return f"Plans do not rest on the measured rates, which predict whole steps worse: {errors}."
