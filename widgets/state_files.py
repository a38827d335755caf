"""What the app remembers between starts: small choices, in a file of its own that is ignored when it cannot be read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

VERSION = 1
FILE = "choices.json"
LAST_COPY = "last-copy.txt"


def folder(given: Path | None) -> Path:
    """The state folder."""
    if given is not None:
        return given
    from planner.paths import state_folder

    return state_folder()


def load(state: Path | None) -> dict[str, str]:
    """Remembered choices; empty when there are none."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder(state) / FILE).read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("version") == VERSION:
            return {str(key): value for key, value in found.items() if isinstance(value, str)}
    return {}


def save(state: Path | None, choices: dict[str, str]) -> None:
    """Remember these; a folder that cannot be written is no reason to stop."""
    with contextlib.suppress(OSError):
        write_whole(folder(state) / FILE, json.dumps({"version": VERSION, **choices}, indent=1))


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
