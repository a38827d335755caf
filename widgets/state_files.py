"""Files of the state folder: what the app remembers between starts, the last copy, the last fault."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from planner.durable import WriteResult, write_whole
from planner.errors import UserError
from planner.reading import read_json

VERSION = 1
CHOICES = "choices.json"
LAST_COPY = "last-copy.txt"
LAST_FAULT = "last-fault.txt"


def state_folder(given: Path | None) -> Path:
    """The folder given, or the user's own."""
    if given is not None:
        return given
    from planner import paths

    return paths.state_folder()


def load_choices(state: Path | None) -> dict[str, str]:
    """Remembered choices; empty when there are none that can be read."""
    return {name: value for name, value in _document(state).items() if isinstance(value, str)}


def save_choices(state: Path | None, choices: dict[str, str]) -> WriteResult:
    """Remember these; a file of a later version is left alone."""
    path = state_folder(state) / CHOICES
    if _version(_document(state)) > VERSION:
        return WriteResult(path, "was written by a later version")
    return write_whole(path, json.dumps({"version": VERSION, **choices}, indent=1))


def _document(state: Path | None) -> dict[str, Any]:
    """The file, whatever it holds; empty when it cannot be read."""
    with contextlib.suppress(UserError):
        return read_json(state_folder(state) / CHOICES)
    return {}


def _version(document: dict[str, Any]) -> int:
    version = document.get("version")
    return version if isinstance(version, int) else VERSION
