"""Small questions: yes or no, and a name."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from widgets.drawing.text_field import TextField
from widgets.screens.overlay import Overlay


class ConfirmScreen(Overlay[bool]):
    """Asks yes or no; escape is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "yes", show=False),
        Binding("n,escape", "answer(False)", "no", show=False),
    ]

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        """Question and its two keys."""
        with Vertical(classes="box dialog"):
            yield Static(Content(self._question), classes="dialog-text")
            yield Static(
                Content.from_markup(
                    "[@click=screen.answer(True)][bold $accent]y[/] $yes[/]     [@click=screen.answer(False)][bold $accent]n[/] $no[/]",
                    yes=self._yes,
                    no=self._no,
                )
            )

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class NameScreen(Overlay[str | None]):
    """Asks for a name; what is suggested is selected, so that typing replaces it. Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back", show=False)]

    def __init__(self, title: str, name: str, hint: str) -> None:
        super().__init__()
        self._heading, self._suggested, self._hint = title, name, hint

    def compose(self) -> ComposeResult:
        """One field."""
        with Vertical(classes="box dialog") as box:
            box.border_title = Content(self._heading)
            box.border_subtitle = Content("enter saves · esc back")
            yield TextField(self._suggested, select_on_focus=True)
            yield Static(Content(self._hint), classes="dialog-hint")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())
