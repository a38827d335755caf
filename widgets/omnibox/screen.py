"""One box for everything: it searches while the user types, lists what it found, and enter takes an entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from planner.errors import UserError
from planner.present.labels import problem_text
from planner.text import one_line
from widgets.base_app import BaseApp
from widgets.drawing.text import shorten_clauses, shorten_end, shorten_middle
from widgets.drawing.text_field import TextField
from widgets.omnibox.finding import Suggestion, find, near, setting
from widgets.panes.workload.fields import fields_for
from widgets.panes.workload.history import difference
from widgets.panes.workload.values import put
from widgets.screens.overlay import NarrowedList

if TYPE_CHECKING:
    from planner.session import Session

WIDTH, EDGES = 96, 6
"""Cells of the box where there is room, and those beside its texts."""
KIND, NAME, LEAST_NAME = 9, 34, 22
"""Cells of what a suggestion is, and of its name at most and at least: what is known of it stands behind the longest."""
FOUND, FAULTY, NOTHING = "$foreground", "$text-error", "$text-warning"
"""Styles of what is known of a suggestion, of why it cannot be taken, and of that there is none."""
MOST = 60
"""Things that are listed at most: each key that is typed lists them anew."""
QUIET_S = 0.15
"""Seconds without another key after which what is highlighted is looked up."""
EMPTY = "type a part of a name, or key=value; down goes through the list"
KEYS = "enter takes it · esc back"
HINT = "model, hub id, path, preset, GPU, 8 x L40S, command, field, key=value"
MODEL_HINT = "name, Hugging Face id, or path of a config.json"


class OmniScreen(NarrowedList[Suggestion | None]):
    """Returns the entry that the user takes; None if the user backs out."""

    DEFAULT_CSS = """
    OmniScreen {
        align: center top;
        #omnibox { width: 96; margin: 3 0 0 0; padding: 0 1; }
        #omni-text { border: none; height: 1; background: $panel; }
        #omni-list { text-wrap: nowrap; text-overflow: ellipsis; height: auto; max-height: 12; border: none; background: $surface; padding: 0; margin: 1 0 0 0; scrollbar-size-vertical: 1; }
        #omni-preview { height: auto; min-height: 2; margin: 1 0 0 0; }
    }
    """

    def __init__(self, app: BaseApp, suggestions: Callable[[], Sequence[Suggestion]], title: str, hint: str = HINT) -> None:
        """`suggestions`: everything that can be found so far."""
        super().__init__()
        self._app, self._all, self._heading, self._accepts = app, suggestions, title, hint
        self._suggestions = suggestions()
        self._found: Sequence[Suggestion] = ()

    def compose(self) -> ComposeResult:
        """Text, its possible meanings, and facts of the one under the cursor."""
        with Vertical(id="omnibox", classes="box") as box:
            box.border_title = Content(self._heading)
            box.border_subtitle = Content(KEYS)
            yield TextField(placeholder=self._accepts, id="omni-text")
            yield OptionList(id="omni-list", compact=True)
            yield Static(Content.styled(EMPTY, "$quiet"), id="omni-preview")

    def renew(self) -> None:
        """Find what was typed among the lists that have been read meanwhile."""
        self._suggestions = self._all()
        self._narrow(self.query_one(TextField).value)

    def _narrow(self, text: str) -> None:
        listing = self.query_one(OptionList)
        found = find(text, self._suggestions, fields_for(self._app.form.workload))
        self._found = found[:MOST] or near(text, self._suggestions)
        more = f" · {MOST} of {len(found)}" if len(found) > MOST else ""
        self.query_one(".box").border_title = Content(self._heading + more)
        longest = max((len(one_line(suggestion.value)) for suggestion in self._found), default=0)
        listing.set_options([self._option(suggestion, min(NAME, max(LEAST_NAME, longest))) for suggestion in self._found])
        listing.highlighted = 0 if found and text.strip() else None
        if found and not text.strip():
            self._show_words(EMPTY)
        elif not found and not self._app.form.models:
            self._show_words("reading the catalogue …")
        elif not found:
            also = (
                "down selects similar names"
                if self._found
                else "a Hugging Face id is organisation/name; a path begins with ./ or /"
            )
            self._show_words(f"no match; {also}", NOTHING)

    def _option(self, suggestion: Suggestion, cells: int) -> Option:
        ellipsis = self._app.symbols.ellipsis
        name = shorten_middle(one_line(suggestion.value), cells, ellipsis)
        room = min(WIDTH, self._laid_out_for) - EDGES - KIND - cells - 2
        detail = shorten_clauses(one_line(suggestion.detail), room, ellipsis)
        return Option(Content.assemble((f"{suggestion.kind:<{KIND}}", "$quiet"), f"{name:<{cells + 2}}", (detail, "$quiet")))

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        self.run_worker(self._look_up(), group="preview", exit_on_error=False)

    async def _look_up(self) -> None:
        """Show facts of the entry under the cursor."""
        suggestion = self._current
        if suggestion is None:
            return
        if suggestion.kind in {"command", "preset", "session", "field"}:
            sets = f"; {suggestion.value}=VALUE sets it" if suggestion.kind == "field" else ""
            self._show_words(suggestion.detail + sets)
            return
        await asyncio.sleep(QUIET_S)
        if suggestion != self._current:
            return
        self._show_words("looking …")
        words, style = await self._words_on(suggestion)
        if suggestion == self._current:
            self._show_words(words, style)

    async def _words_on(self, suggestion: Suggestion) -> tuple[str, str]:
        """Facts of a suggestion, or the reason why it cannot be taken; with a style."""
        try:
            return await self._known_of(suggestion), FOUND
        except UserError as wrong:
            return _reason(wrong), FAULTY
        except ValueError as wrong:
            return str(wrong), FAULTY

    async def _known_of(self, suggestion: Suggestion) -> str:
        from planner.present.names import gpu_summary, model_summary

        workload, where = dict(self._app.form.workload), str(self._app.preset.path) if self._app.preset else ""
        if suggestion.kind == "model":
            return await self._app.ask(lambda session: model_summary(session.architecture(suggestion.value, where)))
        if suggestion.kind in {"gpu", "machines"}:
            gpu = suggestion.value.rpartition(" × ")[2]
            return await self._app.ask(lambda session: gpu_summary(session.gpus.find(gpu)))
        changed = with_setting(workload, suggestion.value)
        return await self._app.ask(lambda session: _checked(session, workload, changed, where))

    @property
    def _current(self) -> Suggestion | None:
        place = self.query_one(OptionList).highlighted if self.is_open else None
        return self._found[place] if place is not None and place < len(self._found) else None

    def _show_words(self, text: str, style: str = "$quiet") -> None:
        if self.is_open:
            preview = self.query_one("#omni-preview", Static)
            most = max(40, preview.size.width * 6)
            preview.update(Content.styled(shorten_end(text, most, self._app.symbols.ellipsis), style))
            self.query_one(".box").border_subtitle = Content(KEYS if style not in {FAULTY, NOTHING} else "esc back")

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _submit(self) -> None:
        self.run_worker(self._take(), group="take", exit_on_error=False)

    async def _take(self) -> None:
        """Close with the entry under the cursor; if it cannot be used, show the reason and stay open."""
        suggestion = self._current
        if suggestion is None:
            return
        if suggestion.kind in {"model", "setting"}:
            self._show_words("looking …")
            words, style = await self._words_on(suggestion)
            if style == FAULTY:
                self._show_words(words, style)
                return
        if self.is_open:
            self.dismiss(suggestion)


def with_setting(workload: Mapping[str, Any], text: str) -> dict[str, Any]:
    """`workload` with the change that 'key=value' spells; raises ValueError."""
    changed = dict(workload)
    for key, value in setting(text, workload).items():
        changed = put(changed, key, value)
    return changed


def _checked(session: Session, workload: Mapping[str, Any], changed: Mapping[str, Any], where: str) -> str:
    session.workload(changed, where)
    return difference(workload, changed)


def _reason(wrong: UserError) -> str:
    problem = wrong.problems[0]
    near = f"\nDid you mean {' or '.join(problem.nearest)}?" if problem.nearest else ""
    return f"{problem_text(problem)}{near}"
