"""Right-sizing advice: for each GPU what was seen and what limits it, then the actions with what they save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from planner.present.cells import LEAST_SHARE, Cell, Fact, Facts, Paragraph, Part, Section
from planner.units import HOURS_PER_MONTH, duration_text, percent_text, usd_text

if TYPE_CHECKING:
    from planner.engine.advice.advice import Action, Advice, RightSizing


def advice_sections(advice: Advice) -> list[Section]:
    """A section a GPU, one for what concerns several of them, and the remarks below."""
    sections = [gpu_section(one) for one in advice.gpus]
    if advice.together:
        sections.append(Section("Together", [Facts(list(action_facts(advice.together)))]))
    return [*sections, *fleet_remarks(advice)]


def fleet_remarks(advice: Advice) -> list[Section]:
    """Cost of the whole fleet, the age of prices, and what could not be said."""
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
    """Observation: every share with its zone, what limits the work, and what cannot be known."""
    seen, judgement = one.observed, one.judgement
    lost = f", {seen.lost} of them without an answer" if seen.lost else ""
    yield Fact("watched", "", f"{duration_text(seen.seconds)}, {seen.readings} readings{lost}; taken at {price_text(one)}")
    for zone in judgement.zones:
        yield Fact(zone.name, Cell("", share=zone.share), zone.text)
    yield Fact("limited by", "", f"{judgement.limiter}: {', '.join(judgement.because)}")
    held = [f"{reason} {percent_text(share)}" for reason, share in seen.held_back.items() if share >= LEAST_SHARE]
    if held:
        yield Fact("held back by", "", f"{', '.join(held)} of the time")
    for words in judgement.cannot_know:
        yield Fact("not known", "", words)


def price_text(one: RightSizing) -> str:
    """Assumed cost of the GPU, and whose price that is."""
    return one.price.text if one.price is not None else "no price known"


def action_facts(actions: Iterable[Action]) -> Iterator[Fact]:
    """Each action beside what it saves, then the sum behind that and what it was checked by."""
    for number, action in enumerate(actions, start=1):
        yield Fact(f"{number}. {action.saving_text}".rstrip(), "", action.text)
        for detail in action_details(action):
            yield Fact("", "", detail)


def action_details(action: Action) -> list[str]:
    """The sum behind a saving, what the action was checked by, and a remark."""
    how = [action.saves.how] if action.saves is not None else []
    return [*how, *action.checks, *([action.note] if action.note else [])]


def remarks(advice: Advice) -> Iterator[str]:
    """Cost of all GPUs, what could not be said, and the age of the prices."""
    if advice.usd_per_month is not None and len(advice.gpus) > 1:
        yield f"{len(advice.gpus):,} GPUs cost {usd_text(advice.usd_per_month)} $ a month."
    yield from advice.notes
    if advice.prices_as_of is not None:
        yield f"Prices as of {advice.prices_as_of} and later; a month is {HOURS_PER_MONTH:.0f} h."
