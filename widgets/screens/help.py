"""Help screen: every key from the registry, what the pane shows, and what the signs mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from planner.paths import read_shipped
from planner.present.cells import BASIS_WORDS
from planner.present.names import VERDICT_WORDS
from widgets.actions.action import ActionState
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import labelled, styled_lines
from widgets.drawing.text_field import TextField
from widgets.screens.overlay import TextOverlay

FIRST: Mapping[str, Sequence[str]] = {
    "workload": ("Workload", "Move"),
    "ranking": ("Plan", "Move"),
    "memory": ("Plan",),
    "machine": ("Measure",),
    "benchmark": ("Measure",),
}
"""Pane -> groups of keys that are listed first."""
TERM = re.compile(r"[\w×. ]{1,20}: ")
"""Beginning of a line of `panes` that explains a term."""
KEY, GAP = 10, 2
"""Cells of the keys at the left at least, and of the blanks beside them."""


class Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """File of words."""

    panes: Mapping[str, str]
    """What each pane shows."""
    ranges: Mapping[str, str]
    """A range as it is written -> its meaning."""


class HelpScreen(TextOverlay):
    """Help for one pane, with all keys."""

    WIDTH = 112
    AUTO_FOCUS = "#text"
    WAITING = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "dismiss", "back", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("escape", "back", "back", show=False, priority=True),
    ]

    def __init__(self, pane: str, actions: Callable[[], Mapping[str, Sequence[ActionState]]], symbols: Symbols) -> None:
        """`actions`: every action as it stands now, by group."""
        super().__init__("Help", "/ searches · j k scroll · esc back")
        self._words: list[str] = []
        self._pane, self._actions, self._symbols = pane, actions, symbols
        self._texts = read_shipped(Texts, "screen", "help.toml")

    def above(self) -> Iterator[TextField]:
        """Searched text; out of sight until that begins."""
        entry = TextField(placeholder="words of the screen, or about a key", id="help-words")
        entry.display = False
        yield entry

    def action_search(self) -> None:
        """Show only keys that are about what is typed."""
        entry = self.query_one("#help-words", TextField)
        entry.display = True
        self.set_focus(entry)

    def action_back(self) -> None:
        """End the search, or else the help."""
        entry = self.query_one("#help-words", TextField)
        if not entry.display:
            self.dismiss()
            return
        entry.value, entry.display = "", False
        self.set_focus(self.scrolled)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._words = event.value.casefold().split()
        self.draw()

    def lines(self, width: int) -> Iterator[Content]:
        """Pane, the signs, and the keys by group."""
        if self._words:
            yield from self._found(width)
            return
        yield from self._keys(width)
        yield from (Content(""), _heading(self._pane.capitalize()))
        for text in self._texts.panes[self._pane].split("\n"):
            yield from styled_lines(text, width)
        yield from (Content(""), _heading("Signs"))
        signs = [(self._symbols.basis[basis], words) for basis, words in BASIS_WORDS.items() if basis in self._symbols.basis]
        signs += [(sign, VERDICT_WORDS[verdict]) for verdict, sign in self._symbols.verdict.items()]
        for sign, words in (*signs, (self._symbols.marked, "marked for c"), *self._texts.ranges.items()):
            yield from labelled(f"  {sign}", KEY, words, width, "$quiet", "")
        yield Content("")

    def _found(self, width: int) -> Iterator[Content]:
        """Terms that what is typed is about, one that begins with it first, then the keys."""
        terms = [text for pane in self._texts.panes.values() for text in pane.split("\n") if TERM.match(text)]
        about = [text for text in terms if all(word in text.casefold() for word in self._words)]
        if about:
            yield _heading("Words")
            for text in sorted(about, key=lambda text: not text.casefold().startswith(self._words[0])):
                yield from styled_lines(f"  {text}", width)
            yield Content("")
        yield from self._keys(width, "" if about else "Nothing here is about that.")

    def _keys(self, width: int, nothing: str = "") -> Iterator[Content]:
        """Keys by group, those of the pane first; where words were typed, the ones that are about them, else `nothing`."""
        groups = self._actions()
        first = FIRST.get(self._pane, ())
        cells = max([KEY, *(GAP + len(state.keys) + GAP for states in groups.values() for state in states)])
        found = False
        for group in sorted(groups, key=lambda name: first.index(name) if name in first else len(first)):
            states = [state for state in groups[group] if all(word in _about(state) for word in self._words)]
            if not states:
                continue
            yield from ((Content(""), _heading(group)) if found else (_heading(group),))
            found = True
            for state in states:
                style, key_style = ("", "bold $accent") if state.reason is None else ("$quiet", "$quiet")
                yield from labelled(f"  {state.keys}", cells, state.action.description, width, style, key_style)
                if state.reason is not None:
                    yield from labelled("", cells, state.reason, width, "italic $text-warning")
        if not found and nothing:
            yield Content.styled(nothing, "$quiet")


def _about(state: ActionState) -> str:
    """Words of an action that are searched."""
    return f"{state.keys} {state.label} {state.action.description}".casefold()


def _heading(text: str) -> Content:
    return Content.styled(text, "bold $accent")
