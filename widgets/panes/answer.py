"""Answer in one sentence, on top of everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_clauses, shorten_end

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.present.choice.sentence import Sentence
    from planner.present.choice.trial import Trial

PLANNING = "planning"
UNNOTICED_S = 0.3
"""Time of a plan below which nothing shows that one is being made."""
LEAST_PART = 45
"""Cells below which no part of an answer is begun: where nothing fits, what is nearest, or helps, matters more than that it is whole."""
LEAST_ANSWER = 20
"""Cells below which no answer is begun behind the badge."""


class AnswerLine(Static):
    """Answer: what to do, highlighted, then how sure that is and what comes next.

    Before it a badge where a change is tried out; behind it a word while another plan is made. An answer that is not to the workload
    in the form is dim, behind what is wrong with that.
    """

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="answer")
        self._symbols = symbols
        self._sentence: Sentence | None = None
        self._trial: Trial | None = None
        self.problem = ""
        """What is wrong with the workload in the form, which cannot be planned; '' for nothing."""
        self._planning = True
        self._notice: Timer | None = None

    def wait(self) -> None:
        """Another plan is being made: show that if it takes long."""
        if self._notice is None:
            self._notice = self.set_timer(UNNOTICED_S, self._say_planning)

    def show(self, plan: Plan, trial: Trial | None = None, keeps: Callable[[PlanRow], bool] | None = None) -> None:
        """Answer of a plan, among the rows that a filter `keeps`; `trial`: what was changed for it, and the difference that made."""
        from planner.present.choice.sentence import answer_sentence

        self._sentence, self._trial, self.problem = answer_sentence(plan, keeps), trial, ""
        self._answered()

    def refuse(self, problem: str) -> None:
        """Keep the last answer, dim, behind what is wrong with the workload."""
        self.problem = problem
        self._answered()

    @property
    def is_of_before(self) -> bool:
        """True if the answer is not to the workload in the form, which cannot be planned."""
        return bool(self.problem)

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _say_planning(self) -> None:
        self._planning = True
        self._draw()

    def _answered(self) -> None:
        if self._notice is not None:
            self._notice.stop()
        self._notice, self._planning = None, False
        self._draw()

    def _draw(self) -> None:
        room = self.content_size.width
        if not room:
            return
        planning = f"{PLANNING} {self._symbols.ellipsis}" if self._planning else ""
        if self.problem:
            drawn = self._refused(room)
        elif self._sentence is not None:
            drawn = self._answer(self._sentence, room - len(planning) - 2 if planning else room)
        else:
            drawn = Content("")
        gap = " " * (room - drawn.cell_length - len(planning)) if planning and drawn.cell_length else ""
        self.update(Content.assemble(drawn, gap, (planning, "$quiet")), layout=False)

    def _refused(self, room: int) -> Content:
        """Problem, and the last answer where there is room."""
        problem = shorten_end(self.problem, room, self._symbols.ellipsis)
        left = room - len(problem) - 3
        rest = " · ".join(self._sentence.within(max(0, left))) if self._sentence is not None else ""
        return Content.assemble((problem, "bold $text-error"), ("   " + rest if len(rest) <= left else "", "$quiet"))

    def _begun(self, part: str, room: int) -> list[str]:
        """Beginning of a part for which there is too little room."""
        return [shorten_clauses(part, room, self._symbols.ellipsis)] if room >= LEAST_PART else []

    def _answer(self, sentence: Sentence, room: int) -> Content:
        badges, gap = (_badges(self._trial), "  ") if self._trial is not None else ([""], "")
        wanted = len(sentence.parts[0]) + len(gap)
        badge = next((badge for badge in badges if len(badge) + wanted <= room), badges[-1])
        left = room - len(badge) - len(gap)
        first, *others = sentence.within(left)
        style = "bold $text-success" if sentence.solved else "bold $text-warning"
        answer = shorten_end(first, left, self._symbols.ellipsis) if left >= LEAST_ANSWER else ""
        if not sentence.solved and len(others) + 1 < len(sentence.parts):
            others += self._begun(sentence.parts[len(others) + 1], left - len(" · ".join([answer, *others])) - 3)
        parts = [(answer, style), *((f" · {part}", "") for part in others if answer)]
        return Content.assemble((shorten_end(badge, room, self._symbols.ellipsis), "reverse $text-warning"), gap, *parts)


def _badges(trial: Trial) -> list[str]:
    """Change that is tried out, longest first: the answer beside it stays whole."""
    forms = (f"{trial.text}  u undoes", trial.text, trial.short_text, trial.change, trial.change.partition(": ")[0])
    return [*(f" WHAT-IF  {words} " for words in forms), " WHAT-IF "]
