"""Changes of the workload that can be taken back and made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from widgets.panes.workload import fields as spec
from widgets.panes.workload import values

DEPTH = 100


class Step(msgspec.Struct, frozen=True):
    """A workload before or after a change."""

    workload: dict[str, Any]
    change: str
    """Change: the key of a field, or what was done in words."""


class History:
    """Two stacks of workloads; keystrokes in one field are one change."""

    def __init__(self) -> None:
        self._done: list[Step] = []
        self._undone: list[Step] = []
        self._open = ""

    @property
    def can_undo(self) -> bool:
        """True if there is a change to take back."""
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        """True if there is one to make again."""
        return bool(self._undone)

    def forget(self) -> None:
        """Begin with another workload."""
        self._done, self._undone, self._open = [], [], ""

    def close(self) -> None:
        """End the change that was being typed."""
        self._open = ""

    def keep(self, workload: dict[str, Any], change: str, *, typed: bool) -> None:
        """Keep `workload`, which `change` comes after; what is typed on in the same field is part of the same change."""
        self._undone = []
        if not (typed and self._open == change):
            self._done = [*self._done[-DEPTH + 1 :], Step(workload, change)]
        self._open = change if typed else ""

    def undo(self, workload: dict[str, Any]) -> dict[str, Any] | None:
        """Workload before the last change of `workload`; None if there is none."""
        return self._move(self._done, self._undone, workload)

    def redo(self, workload: dict[str, Any]) -> dict[str, Any] | None:
        """Workload after the change of `workload` taken back last; None if there is none."""
        return self._move(self._undone, self._done, workload)

    def _move(self, source: list[Step], target: list[Step], workload: dict[str, Any]) -> dict[str, Any] | None:
        self._open = ""
        while source and source[-1].workload == workload:  # typed, and put back before the cursor left
            source.pop()
        if not source:
            return None
        step = source.pop()
        target.append(Step(workload, step.change))
        return step.workload


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Keys of the form's fields whose values differ."""
    keys = dict.fromkeys(field.key for field in spec.FIELDS)
    return [key for key in keys if values.get(before, key) != values.get(after, key)]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Differences in the words of the form: 'output 400 → 200'; several fields with commas."""
    changes = []
    for key in changed_keys(before, after):
        field = next(field for field in spec.FIELDS if field.key == key)
        was, now = (values.show(field.kind, values.get(workload, key)) or field.empty for workload in (before, after))
        changes.append(f"{field.label} {was} → {now}")
    return ", ".join(changes) or "what the form does not show"


def spelled(workload: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Fields of these keys in the words of the form, with their units: 'load 16.7 req/s, input 600 tokens'."""
    fields = {field.key: field for field in spec.fields_for(workload)}
    shown = [fields[key] for key in keys if key in fields]
    return ", ".join(f"{one.label} {values.show(one.kind, values.get(workload, one.key))} {one.unit}".rstrip() for one in shown)
