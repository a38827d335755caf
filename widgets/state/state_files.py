"""Files of the state folder: what the app remembers between starts, the last copy, the last fault."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import Any

from planner.durable import WriteResult, write_whole
from planner.errors import UserError
from planner.reading import check_depth, read_text

VERSION = 1
CHOICES = "choices.json"
SESSION = "session.json"
NAMED = "sessions"
SESSION_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
LAST_COPY = "last-copy.txt"
LAST_FAULT = "last-fault.txt"


def state_folder(given: Path | None) -> Path:
    """Folder given, or the user's own."""
    if given is not None:
        return given
    from planner import paths

    return paths.state_folder()


def load_choices(state: Path | None) -> dict[str, str]:
    """Remembered choices; empty if there are none that can be read."""
    return {name: value for name, value in _document(state, CHOICES).items() if isinstance(value, str)}


def save_choices(state: Path | None, choices: dict[str, str]) -> WriteResult:
    """Remember these; a file of a later version is left alone."""
    return _save(state, CHOICES, choices)


def load_session(state: Path | None, name: str = "") -> dict[str, Any]:
    """State of the screen as it was kept under a name, or else when it was left; empty if it cannot be read."""
    document = _document(state, _session_file(name))
    return document if _version(document) <= VERSION else {}


def save_session(state: Path | None, session: dict[str, Any], name: str = "") -> WriteResult:
    """Keep how the screen was left, or a session under a name, in the place of what was kept there; a file of a later version is left alone."""
    return _save(state, _session_file(name), session)


def _session_file(name: str) -> str:
    return f"{NAMED}/{name}.json" if name else SESSION


def session_names(state: Path | None) -> list[str]:
    """Names of the sessions that were kept, the last one first."""
    with contextlib.suppress(OSError):
        kept = (state_folder(state) / NAMED).glob("*.json")
        return [path.stem for path in sorted(kept, key=lambda path: (-path.stat().st_mtime, path.stem))]
    return []


def day_of_session(state: Path | None, name: str) -> dt.date:
    """Day on which a session was kept, by its file; raises OSError where that is gone."""
    return dt.datetime.fromtimestamp((state_folder(state) / _session_file(name)).stat().st_mtime, dt.UTC).date()


def _save(state: Path | None, name: str, document: dict[str, Any]) -> WriteResult:
    path = state_folder(state) / name
    if _version(_document(state, name)) > VERSION:
        return WriteResult(path, "was written by a later version")
    import json

    return write_whole(path, json.dumps({"version": VERSION, **document}, indent=1))


def _document(state: Path | None, name: str) -> dict[str, Any]:
    """File, whatever it holds; empty if it cannot be read."""
    with contextlib.suppress(UserError, ValueError, RecursionError):
        text = read_text(state_folder(state) / name)
        import json  # before the first paint where there is a file, and msgspec comes after it

        found = json.loads(text, parse_constant=_refuse)
        check_depth(found, name)
        return found if isinstance(found, dict) else {}
    return {}


def _refuse(constant: str) -> float:
    """NaN and Infinity are no JSON."""
    raise ValueError(constant)


def _version(document: dict[str, Any]) -> int:
    version = document.get("version")
    return version if isinstance(version, int) else VERSION
