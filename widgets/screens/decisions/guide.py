"""Guided way: five questions, filled with what the form has, then the steps from a profile to a commitment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from planner.errors import Problem, UserError
from planner.present.cells import Section
from planner.present.guide import AMOUNTS, LIMITS, MODEL, MONTHS, TASK, Question
from widgets.base_app import BaseApp
from widgets.drawing.text_field import TextField
from widgets.panes.workload.values import get, number_text, parse_number
from widgets.screens.decisions.turning import TurningScreen
from widgets.screens.overlay import SCROLLS

SUPPLY = (
    "own", "owning", "capex_usd", "price_usd_per_gpu_h", "market", "providers", "kinds", "regions", "countries", "certifications",
    "exclude", "fabric", "max_nodes", "gpus_considered", "max_gpus",
)  # fmt: skip
"""Keys of a workload that have the same meaning for any task."""
LOW = 34
"""Rows of a screen below which questions and answer are not both in sight."""
ASKS, READS, ANSWERS = (
    "enter answers · tab next question · esc back",
    f"{SCROLLS}tab questions · esc back",
    f"{SCROLLS}esc questions",
)
"""Keys in the questions, in the answer below them, and in an answer that took their place."""
NUMBERS = slice(2, None)
"""Questions that are answered with a number."""


def open_screen(app: BaseApp) -> None:
    """Open the five questions."""
    app.push_screen(GuideScreen(app))


class GuideScreen(TurningScreen):
    """Five fields above the steps they lead to; enter in one of them asks."""

    WIDTH = 112
    DEFAULT_CSS = """
    GuideScreen {
        .question { color: $quiet; height: 1; }
        TextField { height: 1; border: none; background: $panel; margin: 0 0 0 3; }
        #text { margin: 1 0 0 0; }
    }
    """
    KEYS = ASKS
    WAITING = "enter computes the steps: profile, bottleneck, right size, provider, commitment"
    ASKS_AT_ONCE = False
    AUTO_FOCUS = "#answer-0"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "back", "back"),
        ("down", "down(1)", "next"),
        ("up", "down(-1)", "previous"),
    ]

    def __init__(self, app: BaseApp) -> None:
        super().__init__(app, "Guide")
        self._workload = app.facets.over(app.form.workload)
        self._questions = questions_for(str(self._workload.get("task", TASK.usual)), self._workload)

    def above(self) -> Iterator[Widget]:
        """Questions with their fields."""
        for number, one in enumerate(self._questions):
            yield Static(_numbered(number, one), classes="question", id=f"question-{number}")
            yield TextField(usual_answer(one, self._workload), select_on_focus=True, id=f"answer-{number}")

    def action_down(self, step: int) -> None:
        """Next field; in the answer the next line."""
        if not isinstance(self.focused, TextField):
            self.action_scroll(step)
        elif step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.ask_again()

    @on(Input.Changed, "#answer-0")
    def _task_typed(self, event: Input.Changed) -> None:
        """Third and fourth question depend on the first answer."""
        if event.value not in AMOUNTS or event.value == self._questions[2].key:
            return
        before, self._questions = self._questions, questions_for(event.value, self._workload)
        for number, (was, one) in enumerate(zip(before, self._questions, strict=True)):
            if one != was:
                self.query_one(f"#question-{number}", Static).update(_numbered(number, one))
                self.query_one(f"#answer-{number}", TextField).value = usual_answer(one, self._workload)

    @on(events.DescendantFocus)
    def _moved(self) -> None:
        self._tell_keys()

    def _tell_keys(self, *more: str) -> None:
        self.KEYS = ASKS if isinstance(self.focused, TextField) else READS if self._shows_questions else ANSWERS
        super()._tell_keys(*more)

    def action_back(self) -> None:
        """Go back to the questions where they made room for the answer, or else leave."""
        if self._shows_questions:
            self.dismiss()
        else:
            self._make_room(for_answer=False)
            self.query_one("#answer-0").focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fold for the new width; on a screen that got low the questions make room."""
        if self._sections and not isinstance(self.focused, TextField):
            self._make_room(for_answer=True)
            self._tell_keys()
        super().on_resize(event)

    @property
    def _shows_questions(self) -> bool:
        return bool(self.query_one("#question-0").display)

    def _make_room(self, *, for_answer: bool) -> None:
        """Show either the questions or the answer on a low screen."""
        for node in self.query(".question, TextField"):
            node.display = not (for_answer and self.app.size.height < LOW)
        if for_answer:
            self.scrolled.focus()

    async def sections(self, _chosen: Mapping[str, str]) -> Sequence[Section]:
        """Five steps."""
        from planner.engine.procurement.guide import Answers
        from planner.present.guide import guide_sections
        from planner.schema import read_struct

        texts = [self.query_one(f"#answer-{number}", TextField).value.strip() for number in range(len(self._questions))]
        answers = read_struct(Answers, answers_of(self._questions, texts, self._workload), "")
        basis, (_, where) = self._planner.basis, self._planner.planned
        found = await self._planner.ask(lambda session: session.guide(answers, basis=basis, where=where))
        self._make_room(for_answer=True)
        return guide_sections(found.guide)


def _numbered(number: int, one: Question) -> str:
    choices = f" {', '.join(AMOUNTS)}" if one is TASK else ""
    return f"{number + 1}. {one.words}{choices}"


def questions_for(task: str, workload: Mapping[str, Any]) -> tuple[Question, ...]:
    """Five questions; of several about the same the one whose answer the workload has."""

    def about(alternatives: Sequence[Question]) -> Question:
        return next((one for one in alternatives if _known(one, workload) is not None), alternatives[0])

    return TASK, MODEL, about(AMOUNTS[task]), about(LIMITS[task]), MONTHS


def usual_answer(one: Question, workload: Mapping[str, Any]) -> str:
    """Value of the workload, or else the default for a question without an answer."""
    answer = _known(one, workload) or one.usual
    return number_text(answer) if isinstance(answer, int | float) else str(answer)


def _known(one: Question, workload: Mapping[str, Any]) -> Any:
    return workload.get(one.key) or get(workload, f"targets.{one.key}")


def answers_of(asked: Sequence[Question], texts: Sequence[str], workload: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `Answers`: what the texts spell, and all else that the workload has, so that both mean the same plan.

    If the first text is another task than the workload's, only its keys in `SUPPLY` are taken. Raises `UserError` for what is no task or number.
    """
    task, model, *_ = texts
    if task not in AMOUNTS:
        raise UserError(Problem(TASK.words, "", f"{task!r} is not one of {', '.join(AMOUNTS)}."))
    amounts = {one.key for one in AMOUNTS[task]}
    same = task == workload.get("task")
    also = {key: value for key, value in workload.items() if (same or key in SUPPLY) and key not in amounts}
    found: dict[str, Any] = {"task": task, "model": model, "also": also}
    for one, text in zip(asked[NUMBERS], texts[NUMBERS], strict=True):
        if text == usual_answer(one, workload) and isinstance(known := _known(one, workload), int | float):
            found[one.key] = known  # all its digits, not those that are shown
            continue
        try:
            found[one.key] = parse_number(text)
        except ValueError as wrong:
            raise UserError(Problem(one.words, "", str(wrong))) from wrong
    return found | {"months": int(found["months"])}
