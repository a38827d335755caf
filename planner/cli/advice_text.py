"""Right-sizing advice as text: one block a GPU, the numbers it rests on, and the actions with what they save."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from planner.engine.advice.advice import Action, Advice, RightSizing
from planner.engine.advice.diagnosis import Zone
from planner.units import duration_text, percent_text, usd_text

LABEL, ACTION = 15, 27
UNIT = re.compile(r"(?<=\d) (?=(?:%|\$|[GM]iB|[TGM]?B/s|[TG]FLOP|W|h)(?:\W|$))")
"""The space between a number and its unit, where no line ends."""


def advice_lines(advice: Advice, badge: str = "") -> Iterator[str]:
    """Every line, none of them wrapped."""
    if badge:
        yield f"[{badge}]"
    for one in advice.gpus:
        yield from gpu_lines(one)
        yield ""
    if advice.together:
        yield "Together"
        for number, action in enumerate(advice.together, start=1):
            yield from action_lines(action, number)
        yield ""
    if advice.usd_per_month is not None and len(advice.gpus) > 1:
        yield f"{len(advice.gpus)} GPUs cost {usd_text(advice.usd_per_month)} $ a month."
    yield from advice.notes
    if advice.prices_as_of is not None:
        yield f"Prices as of {advice.prices_as_of} and later; a month is 730 h."


def gpu_lines(one: RightSizing) -> Iterator[str]:
    """One GPU."""
    seen = one.observed
    place = f"{seen.host} GPU {seen.index}" if seen.host else f"GPU {seen.index}"
    lost = f", {seen.lost} of them without an answer" if seen.lost else ""
    price = one.price.text if one.price is not None else "no price known"
    yield f"{place}  {seen.gpu}  {one.judgement.headline}"
    yield f"  {'watched':<{LABEL}}{duration_text(seen.seconds)}, {seen.readings} readings{lost}; taken at {price}"
    for zone in one.judgement.zones:
        yield zone_line(zone)
    yield f"  {'limited by':<{LABEL}}{one.judgement.limiter}: {', '.join(one.judgement.because)}"
    held = [f"{reason} {percent_text(share)}" for reason, share in seen.held_back.items() if share >= 0.005]
    if held:
        yield f"  {'held back by':<{LABEL}}{', '.join(held)} of the time"
    for words in one.judgement.cannot_know:
        yield f"  {'not known':<{LABEL}}{words}"
    for number, action in enumerate(one.actions, start=1):
        yield from action_lines(action, number)
    if one.rent_or_buy is not None:
        yield f"  {'rent or buy':<{LABEL}}{one.rent_or_buy.text}"


def zone_line(zone: Zone) -> str:
    """A share with its zone."""
    return f"  {zone.name:<{LABEL}}{zone.text}"


def action_lines(action: Action, number: int) -> Iterator[str]:
    """An action, what it saves, and what it was checked by."""
    saves = action.saving_text
    yield f"  {number}. {saves:<21} {action.text}"
    if action.saves is not None:
        yield f"       {action.saves.how}"
    for check in action.checks:
        yield f"       {check}"
    if action.note:
        yield f"       {action.note}"


def print_advice(advice: Advice, badge: str) -> None:
    """Write it to stdout, folded to the terminal."""
    from planner.cli.listing import console

    width = max(40, console().width)
    for line in advice_lines(advice, badge):
        print(
            "\n".join(textwrap.wrap(UNIT.sub("\xa0", line), width, subsequent_indent=" " * continuation(line))).replace("\xa0", " ")
        )


def continuation(line: str) -> int:
    """Where the text of a line begins, and with it what is folded."""
    if re.match(r"  \d+\. ", line):
        return ACTION
    leading = len(line) - len(line.lstrip())
    return 2 + LABEL if leading == 2 else leading
