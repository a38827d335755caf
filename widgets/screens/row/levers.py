"""Changes to try, by number: what would make a loser fit, or what would change the answer, each with the difference it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from planner.engine.answers.plan import Plan, PlanRow
from planner.errors import UserError
from planner.present.choice.levers import cost_text
from planner.present.choice.trial import Alternative, Effect, Trial, alternatives, effect_of
from planner.present.lines.folding import folded
from planner.present.names import device_name
from widgets.background import questions
from widgets.background.opened import PlanQuestion
from widgets.base_app import BaseApp
from widgets.drawing.symbols import Symbols
from widgets.panes.workload.values import put
from widgets.screens.overlay import Overlay

MOST = 9
PRICES = re.compile(r"([\d,.]+) → ([\d,.]+) (.+?) (\([^()]*\))")
"""Parts of a difference between two prices."""
WIDTH = 100
"""Cells of the box where there is room."""
WORDS, LEAST_WORDS = 40, 26
"""Cells of what is changed, where there is room and at least."""
EFFECT = 38
"""Cells of the difference it makes, as long as some are not known; then as many as the longest has."""
BESIDE = 10
"""Cells of the number, the gaps and the border."""


class Proposal(msgspec.Struct, frozen=True):
    """One change to try."""

    words: str
    change: Mapping[str, Any]
    effect: str = ""
    """Saving and cost, or the difference it makes; empty: not known yet."""


async def open_screen(app: BaseApp) -> None:
    """List what can be changed about the highlighted row, and try what is chosen."""
    row, plan = app.table.highlighted, app.plan
    if row is None or plan is None:
        return
    tried = alternatives(plan.task)[:MOST]
    changes = [Proposal(one.words, one.change) for one in tried] if row.rank else await _helping(app, row, plan)
    screen = LeverScreen(row, changes[:MOST], app.symbols)

    def chosen(change: Proposal | None) -> None:
        if change is not None:
            app.run_worker(try_out(app, change), group="trial", exit_on_error=False)

    await app.push_screen(screen, chosen)
    if row.rank:
        await _tell_effects(app, screen, plan, tried)


async def _helping(app: BaseApp, row: PlanRow, plan: Plan) -> list[Proposal]:
    """Changes that would make the row a solution, or else anything fit."""
    levers = await app.search(questions.levers, row)
    known = [*levers, *(lever for lever in plan.levers if lever.change not in [one.change for one in levers])]
    return [Proposal(lever.text, lever.change, cost_text(lever) or " ") for lever in known]


async def _tell_effects(app: BaseApp, screen: LeverScreen, plan: Plan, tried: Sequence[Alternative]) -> None:
    """Plan with each change, one after the other, and show the difference to the answer; then keep what is worth it, the best first."""
    workload, where = app.planned
    effects: list[Effect] = []
    for number, one in enumerate(tried):
        if not screen.is_open:
            return
        changed = changed_by(workload, one.change)
        try:
            found, _ = await app.session_thread.search(questions.ranking, PlanQuestion(changed, where, app.basis))
            effects.append(effect_of(plan, found))
        except UserError as wrong:
            effects.append(Effect(wrong.problems[0].message, solved=False))
        screen.show_effect(number, effects[-1].text)
    named = [number for number, one in enumerate(tried) if effects[number].is_worth_naming(one, plan.task)]
    screen.keep(sorted(named, key=lambda number: effects[number].order(tried[number])))


def changed_by(workload: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`workload` with the values of `change` at its dotted keys."""
    changed = dict(workload)
    for key, value in change.items():
        changed = put(changed, key, value)
    return changed


async def try_out(app: BaseApp, change: Proposal) -> None:
    """Plan with the change; a badge shows that until it is taken back."""
    if app.plan is None:
        return
    app.trial = Trial(change.words, app.plan)
    await app.form.change(change.change, change.words)


def aligned(effects: Sequence[str]) -> list[str]:
    """`effects` with the new prices, and the changes behind them, below each other: '8,730 →  4,380 $/month  (-50 %)'."""
    found = [(effect, PRICES.fullmatch(effect)) for effect in effects]
    widths = [max((len(prices[part]) for _, prices in found if prices), default=0) for part in (1, 2, 3, 4)]
    return [
        f"{prices[1]:>{widths[0]}} → {prices[2]:>{widths[1]}} {prices[3]:<{widths[2]}} {prices[4]:>{widths[3]}}"
        if prices
        else effect
        for effect, prices in found
    ]


class LeverScreen(Overlay[Proposal | None]):
    """Choice of one of the changes; a digit takes it at once."""

    DEFAULT_CSS = """
    LeverScreen {
        #levers { padding: 0 1; }
        #lever-list { text-wrap: nowrap; text-overflow: ellipsis; height: auto; max-height: 12; border: none; background: $surface; padding: 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,a,q", "dismiss", "back", show=False),
        *(Binding(str(number), f"take({number})", f"change {number}", show=False) for number in range(1, MOST + 1)),
    ]

    def __init__(self, row: PlanRow, changes: Sequence[Proposal], symbols: Symbols) -> None:
        super().__init__()
        self._row, self.changes, self._symbols = row, list(changes), symbols

    def compose(self) -> ComposeResult:
        """List."""
        with Vertical(id="levers", classes="box") as box:
            box.styles.width = WIDTH
            name = device_name(self._row.gpu)
            box.border_title = Content("What would change the answer" if self._row.rank else f"What would help · {name}")
            box.border_subtitle = Content(f"{'a digit tries it at once · u undoes · ' if self.changes else ''}esc back")
            yield OptionList(id="lever-list", compact=True)

    def on_mount(self) -> None:
        """Show the changes."""
        self._draw()

    def on_resize(self) -> None:
        """Words of changes as long as the new width allows."""
        self._draw()

    def show_effect(self, number: int, effect: str) -> None:
        """Say what the change of this place makes of the answer."""
        self.changes[number] = replace(self.changes[number], effect=effect)
        if self.is_open:
            self._draw()

    def keep(self, places: Sequence[int]) -> None:
        """Show the changes of these places alone, in this order; the cursor stays on its change, or goes to the first."""
        at = self.query_one(OptionList).highlighted if self.is_open else None
        chosen = self.changes[at] if at else None
        self.changes = [self.changes[place] for place in places]
        if self.is_open:
            self._draw()
            self.query_one(OptionList).highlighted = (
                self.changes.index(chosen) if chosen in self.changes else 0 if self.changes else None
            )

    def _draw(self) -> None:
        listing = self.query_one(OptionList)
        at = listing.highlighted
        effects = aligned([one.effect for one in self.changes])
        pairs = zip(self.changes, effects, strict=True)
        widest = max([0 if all(effects) else EFFECT, *map(len, effects)])
        room = max(LEAST_WORDS, min(self.app.size.width, WIDTH) - widest - BESIDE)
        room = min(room, max([WORDS, *(len(one.words) for one in self.changes)]))
        listing.set_options([self._option(number, one, effect, room) for number, (one, effect) in enumerate(pairs, start=1)])
        if not self.changes:
            listing.set_options([Option(Content.styled("No known change would help.", "$foreground"), disabled=True)])
        listing.highlighted = at if at is not None else (0 if self.changes else None)

    def _option(self, number: int, one: Proposal, effect: str, room: int) -> Option:
        first, *more = folded(one.words, room)
        rest = "".join(f"\n  {line}" for line in more)
        return Option(
            Content.assemble(
                (f"{number} ", "bold $accent"), f"{first.ljust(room)}  ", (effect or self._symbols.ellipsis, "$quiet"), rest
            )
        )

    def action_take(self, number: int) -> None:
        """Close with the change of this number."""
        if number <= len(self.changes):
            self.dismiss(self.changes[number - 1])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.action_take(event.option_index + 1)
