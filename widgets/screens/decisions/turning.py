"""A scrolling answer to a question with choices: each key goes to the next of its choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec.structs import replace
from textual.binding import Binding, BindingType
from textual.content import Content

from planner.errors import UserError
from widgets.drawing.sections import section_lines
from widgets.drawing.symbols import ASCII
from widgets.drawing.text import styled_lines
from widgets.screens.overlay import TextOverlay

if TYPE_CHECKING:
    from planner.present.cells import Section
    from widgets.base_app import BaseApp


class Turn(msgspec.Struct, frozen=True):
    """A key and the choices it goes through."""

    key: str
    label: str
    choices: Sequence[str]


def turn_bindings(turns: Sequence[Turn]) -> list[BindingType]:
    """Keys of `turns`, for the BINDINGS of a screen."""
    return [Binding(turn.key, f"turn({number})", turn.label, show=False) for number, turn in enumerate(turns)]


class TurningScreen(TextOverlay):
    """Sections of an answer, or the problems of the question."""

    WIDTH = 150
    DEFAULT_CSS = "TurningScreen #box { min-height: 60%; }"
    TURNS: ClassVar[Sequence[Turn]] = ()
    KEYS = "j k scroll · esc back"
    """Keys beside those of `TURNS`."""
    ASKING = "asking …"
    ENTITLED = False
    """True if the border has the title of the first section."""
    ASKS_AT_ONCE = True
    """True if the question is put when the screen opens, not only by a key."""

    def __init__(self, app: BaseApp, title: str) -> None:
        super().__init__(title)
        self._planner = app
        self._chosen = [0] * len(self.TURNS)
        self._sections: Sequence[Section] = ()
        self._problems: Sequence[str] = ()

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """Answer for the choices, by label; raises `UserError`."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """Heading before the choices."""
        return self._heading

    @property
    def chosen(self) -> dict[str, str]:
        """Choice of each key, by its label."""
        return {turn.label: turn.choices[place % len(turn.choices)] for turn, place in zip(self.TURNS, self._chosen, strict=True)}

    def on_mount(self) -> None:
        """Ask for the first time, or wait until the user does."""
        if self.ASKS_AT_ONCE:
            self.ask_again()
        else:
            self._tell_keys()

    def action_turn(self, number: int) -> None:
        """Next choice of a key."""
        self._chosen[number] += 1
        self.ask_again()

    def ask_again(self) -> None:
        """Ask for the choices there are now; the heading says so while an answer to others stands below it."""
        self._tell_keys(*([self.ASKING] if self._sections else []))
        self.run_worker(self._ask(), group="ask", exclusive=True, exit_on_error=False)

    def _tell_keys(self, *more: str) -> None:
        chosen = self.chosen
        keys = [f"{turn.key} {turn.label}" for turn in self.TURNS if turn.label in chosen]
        self.entitle(" · ".join([self.subject, *chosen.values(), *more]), " · ".join([*keys, self.KEYS]))

    async def _ask(self) -> None:
        try:
            self._sections, self._problems = await self.sections(self.chosen), ()
        except UserError as wrong:
            self._sections, self._problems = (), [str(problem) for problem in wrong.problems]
        if self.is_open:
            self._tell_keys()
        self.draw()

    def lines(self, width: int) -> Iterator[Content]:
        """Lines of the problems of the question, or of the answer."""
        for problem in self._problems:
            yield from styled_lines(problem, width, "$text-error")
        if self._sections:
            first, *others = self._sections
            first = replace(first, title="") if self.ENTITLED else first
            ascii_only = self._planner.symbols is ASCII
            yield from section_lines([first, *others], width, height=self.most_lines, ascii_only=ascii_only)
