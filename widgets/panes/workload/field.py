"""A line of the workload form: its key, its words, what it takes, and which tasks have it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from planner.numbers import in_unit
from planner.workload.changes import LABELS
from planner.workload.tasks import TaskName
from widgets.panes.workload.values import Kind, parse

CHOSEN = "auto"
"""Text of a field whose value the planner chooses; its choice is shown behind it."""


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the form."""

    key: str
    """Dotted name in the workload."""
    kind: Kind = "number"
    about: str = ""
    """Accepted input, in words."""
    unit: str = ""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Meaning of each choice."""
    tasks: tuple[str, ...] = get_args(TaskName)
    empty: str = CHOSEN
    """Text while nothing is given; CHOSEN: by the planner."""
    group: str = ""
    """Heading below which it stands; empty: at the top."""
    needs: str = ""
    """Other key; the field is shown while that has a value."""

    @property
    def label(self) -> str:
        """Words before its editor."""
        return LABELS[self.key]

    @property
    def picked(self) -> bool:
        """True if its value is picked from a list."""
        return self.kind in {"choice", "switch"}

    def read(self, text: str) -> Any:
        """Value typed, or None for an empty field and for the words that stand in one; raises ValueError with what is accepted."""
        word = text.strip().casefold()
        if word.isalpha() and word in {CHOSEN, self.empty} and word not in self.choices:
            return None
        return parse(self.kind, in_unit(text, self.unit) if self.unit else text)
