"""The answer in one sentence, on top of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_end

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan
    from planner.present.choice.sentence import Sentence


class AnswerLine(Static):
    """The answer: what to do, what it costs, how sure that is, and what comes next; a badge for a trial, dim where it is of the workload before."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="answer")
        self._symbols = symbols
        self._sentence: Sentence | None = None
        self._trial = ""
        self._problem = ""

    def show(self, plan: Plan, trial: str = "") -> None:
        """The answer of a plan; `trial`: what was changed for it, and the difference that made."""
        from planner.present.choice.sentence import answer_sentence

        self._sentence, self._trial, self._problem = answer_sentence(plan), trial, ""
        self._draw()

    def refuse(self, problem: str) -> None:
        """Keep the last answer, dim, behind what is wrong with the workload."""
        self._problem = problem
        self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        room = self.content_size.width
        if not room or self._sentence is None:
            return
        if self._problem:
            told = shorten_end(self._problem, room, self._symbols.ellipsis)
            rest = self._sentence.within(max(0, room - len(told) - 3))
            rest = rest if len(told) + 3 + len(rest) <= room else ""
            self.update(Content.assemble((told, "bold $text-error"), "   ", (rest, "$quiet")), layout=False)
            return
        badge = f" WHAT-IF  {self._trial}  u undoes " if self._trial else ""
        gap = "  " if badge else ""
        left = max(20, room - len(badge) - len(gap))
        text = shorten_end(self._sentence.within(left), left, self._symbols.ellipsis)
        style = "bold" if self._sentence.solved else "bold $text-warning"
        self.update(Content.assemble((badge, "reverse $text-warning"), gap, (text, style)), layout=False)
