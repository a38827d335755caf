"""Right-sizing advice: use and limits of each GPU, actions and their savings; for a fleet, tables of cost and waste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from planner.engine.advice.mig_slices import SLICE_SM_MARGIN
from planner.engine.advice.observation import MARGIN
from planner.present.cells import LEAST_SHARE, Cell, Fact, Facts, Paragraph, Part, Section, text_table
from planner.units import HOURS_PER_MONTH, UNKNOWN, duration_text, numbers_text, percent_text, usd_text

if TYPE_CHECKING:
    from planner.engine.advice.advice import Action, Advice, FleetSummary, Group, RightSizing, Suspect


def advice_sections(advice: Advice) -> list[Section]:
    """One section per GPU, one for several GPUs together, and remarks."""
    sections = [gpu_section(one) for one in advice.gpus]
    if advice.together:
        sections.append(Section("Together", [Facts(list(action_facts(advice.together)))]))
    return [*sections, *fleet_remarks(advice)]


def fleet_remarks(advice: Advice) -> list[Section]:
    """Cost of the whole fleet, age of prices, and missing information."""
    notes: list[Part] = [Paragraph(line) for line in remarks(advice)]
    return [Section("", notes)] if notes else []


def gpu_section(one: RightSizing) -> Section:
    """Observed use of one GPU, and the advice on it."""
    seen = one.observed
    place = f"{seen.host} GPU {seen.index}" if seen.host else f"GPU {seen.index}"
    facts = [*judgement_facts(one), *action_facts(one.actions)]
    if one.rent_or_buy is not None:
        facts.append(Fact("rent or buy", "", one.rent_or_buy.text))
    return Section(f"{place}  {seen.gpu}  {one.judgement.headline}", [Facts(facts)])


def judgement_facts(one: RightSizing) -> Iterator[Fact]:
    """Observed shares with their zones, the limit of the work, and unknown values."""
    seen, judgement = one.observed, one.judgement
    lost = f", {seen.lost} of them without an answer" if seen.lost else ""
    price = one.price.text if one.price is not None else "no price known"
    yield Fact("watched", "", f"{duration_text(seen.seconds)}, {seen.readings} readings{lost}; taken at {price}")
    for zone in judgement.zones:
        yield Fact(zone.name, Cell("", share=zone.share), zone.text)
    yield Fact("limited by", "", f"{judgement.limiter}: {', '.join(judgement.because)}")
    held = [f"{reason} {percent_text(share)}" for reason, share in seen.held_back.items() if share >= LEAST_SHARE]
    if held:
        yield Fact("held back by", "", f"{', '.join(held)} of the time")
    for words in judgement.cannot_know:
        yield Fact("not known", "", words)


def action_facts(actions: Iterable[Action]) -> Iterator[Fact]:
    """Actions with their savings, calculations and checks."""
    for number, action in enumerate(actions, start=1):
        yield Fact(f"{number}. {action.saving_text}".rstrip(), "", action.text)
        for detail in action_details(action):
            yield Fact("", "", detail)


def action_details(action: Action) -> list[str]:
    """Calculation of a saving, check of the action, and a remark."""
    how = [action.saves.how] if action.saves is not None else []
    return [*how, *action.checks, *([action.note] if action.note else [])]


def remarks(advice: Advice) -> Iterator[str]:
    """Cost of all GPUs, missing information, and age of the prices."""
    if advice.usd_per_month is not None and len(advice.gpus) > 1:
        yield f"{len(advice.gpus):,} GPUs cost {usd_text(advice.usd_per_month)} $ a month."
    yield from advice.notes
    more, more_sm = percent_text(MARGIN - 1), percent_text(SLICE_SM_MARGIN - 1)
    yield f"Another GPU needs what was used plus {more} more; a slice {more_sm} more than SM active shows."
    if advice.prices_as_of is not None:
        yield f"Prices as of {advice.prices_as_of} and later; a month is {HOURS_PER_MONTH:.0f} h."


MOST_SHOWN = 12
"""Maximum rows of a table; JSON has all."""
HEADS = ("GPUs", "in use", "$/month", "waste $/month")


def fleet_sections(found: FleetSummary) -> list[Section]:
    """Informative tables; one with a single host, or with only unnamed jobs, is left out."""
    sections = [_groups("By verdict", "verdict", found.by_verdict)]
    if len(found.by_job) > 1:
        sections.append(_groups("By job", "job", found.by_job))
    if len(found.by_host) > 1:
        sections.append(_groups("By host", "host", found.by_host))
    if found.suspects:
        sections.append(_suspects(found.suspects))
    return sections


def _groups(title: str, what: str, groups: Sequence[Group]) -> Section:
    rows = [_group_row(one) for one in groups[:MOST_SHOWN]]
    parts: list[Part] = [text_table((what, *HEADS), rows, HEADS)]
    if len(groups) > MOST_SHOWN:
        rest = groups[MOST_SHOWN:]
        waste = usd_text(sum(one.waste_usd_per_month for one in rest))
        parts.append(
            Paragraph(f"… and {len(rest):,} more with {sum(one.gpus for one in rest):,} GPUs, waste {waste} $/month.", "faint")
        )
    return Section(title, parts)


def _group_row(one: Group) -> tuple[str, ...]:
    waste = f"{'≤ ' if one.at_most else ''}{usd_text(one.waste_usd_per_month)}" if one.waste_usd_per_month else "0"
    return (one.name, f"{one.gpus:,}", percent_text(one.busy), usd_text(one.usd_per_month), waste)


def _suspects(found: Sequence[Suspect]) -> Section:
    """Table in which GPUs of one host with the same reason share a row."""
    together: dict[tuple[str, str, str], list[int]] = {}
    for one in found:
        together.setdefault((one.host, one.job, one.why), []).append(one.index)
    rows = [(f"{host} GPU {numbers_text(indices)}", job or UNKNOWN, why) for (host, job, why), indices in together.items()]
    parts: list[Part] = [text_table(("GPU", "job", "why"), rows[: 4 * MOST_SHOWN])]
    if len(rows) > 4 * MOST_SHOWN:
        parts.append(Paragraph(f"… and {len(rows) - 4 * MOST_SHOWN:,} more.", "faint"))
    return Section("Slow or sick", parts)
