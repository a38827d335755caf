"""Files of the state folder: what the app remembers between starts, the last copy, the last fault."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

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
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((state_folder(state) / CHOICES).read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("version") == VERSION:
            return {str(key): value for key, value in found.items() if isinstance(value, str)}
    return {}


def save_choices(state: Path | None, choices: dict[str, str]) -> None:
    """Remember these; a folder that cannot be written is no reason to stop."""
    from planner.paths import write_whole

    with contextlib.suppress(OSError):
        write_whole(state_folder(state) / CHOICES, json.dumps({"version": VERSION, **choices}, indent=1))
