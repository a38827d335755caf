"""Comparison of a study with a published one, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from planner.engine.answers.study import StudyAnswer, StudyCurve, range_text, size_of, size_text
from planner.units import count_text, usd_text
from planner.workload.studies import PublishedLead, PublishedStudy


def compared(answer: StudyAnswer, published: PublishedStudy) -> list[str]:
    """The findings of the published study, and where this one agrees; empty where they cannot be compared."""
    if answer.axis != "width" or not answer.leads or answer.curves[0].points[0].tokens_per_step != published.tokens_per_step:
        return []
    lines = [f"Published ({published.source}; {published.prices}): {_finding(published)}."]
    lines += _changes(answer, published.lead)
    for rare in published.rarely:
        lines += [text for curve in answer.curves if curve.gpu in rare.parts and (text := _rarely(answer, curve))]
    return lines


def _finding(published: PublishedStudy) -> str:
    parts = []
    for lead in published.lead:
        low, high = lead.from_parameters, lead.to_parameters
        where = f"below {count_text(high)}" if high and not low else f"above {count_text(low)}" if low and not high else ""
        parts.append(f"{lead.gpu} best {where or f'from {count_text(low)} to {count_text(high)}'} parameters")
    return ", ".join([*parts, *(f"{rare.gpu} nearly never" for rare in published.rarely)])


def _changes(answer: StudyAnswer, leads: Sequence[PublishedLead]) -> Iterator[str]:
    """Each published change of the best GPU beside the crossover of the same two here."""
    for before, after in pairwise(leads):
        left = [curve.gpu for curve in answer.curves if curve.gpu in before.parts]
        right = [curve.gpu for curve in answer.curves if curve.gpu in after.parts]
        if not left or not right or before.to_parameters is None:
            continue
        found = [one for one in answer.pair_crossovers if one.left in left and one.right in right]
        if not found:
            yield f"Here {right[0]} and {left[0]} do not pass each other in this direction at the sizes studied."
        for one in found:
            low, high = (0.0 if one.open_low else one.parameters.low), (float("inf") if one.open_high else one.parameters.high)
            agrees = "within its range" if low <= before.to_parameters <= high else "outside its range"
            size = size_text(size_of(one, answer.axis).value, answer.axis)
            published = count_text(before.to_parameters)
            yield f"Here {one.right} passes {one.left} at {size} ({range_text(one, answer.axis)}): {published} is {agrees}."


def _rarely(answer: StudyAnswer, curve: StudyCurve) -> str:
    """Sentence on a GPU that leads here and hardly ever in the published study; '' where it does not lead."""
    leads = [lead for lead in answer.leads if lead.gpu == curve.gpu]
    if not leads or curve.usd_per_gpu_h is None or curve.leads_below_usd_per_gpu_h is None:
        return ""
    stretches = " and ".join(f"{count_text(lead.from_parameters)} to {count_text(lead.to_parameters)}" for lead in leads)
    return (
        f"Here {curve.gpu} leads from {stretches} at {usd_text(curve.usd_per_gpu_h)} $/h; "
        f"from {usd_text(curve.leads_below_usd_per_gpu_h)} $/h on it would lead nowhere."
    )
