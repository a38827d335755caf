"""The user's config.toml: `[keys]` remaps actions by id, `[app]` sets the theme.

[keys]
why = "v"
benchmark = "ctrl+b,B"

[app]
theme = "nord"
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problems, UserError, nearest_names
from planner.reading import read_toml
from widgets.drawing.theme import NAMES

FILE = "config.toml"
TABLES = {"keys", "app"}


class Settings(msgspec.Struct, frozen=True):
    """Content of the file; empty if there is none."""

    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    theme: str | None = None


def read(config: Path | None, actions: Collection[str]) -> tuple[Settings, Problems]:
    """Settings of the folder (None: the user's own), and everything in the file that cannot be used.

    `actions`: ids of the actions whose keys may be remapped.
    """
    if config is None:
        from planner.paths import config_folder

        config = config_folder()
    path = config / FILE
    problems = Problems(str(path))
    if not os.path.lexists(path):
        return Settings(), problems
    try:
        document = read_toml(path)
    except UserError as wrong:
        problems.found += wrong.problems
        return Settings(), problems
    keys = _table(document, "keys", problems)
    app = _table(document, "app", problems)
    for name in document.keys() - TABLES:
        problems.add(name, "is not a table of this file; [keys] and [app] are.", nearest_names(name, TABLES))
    return Settings(_keys(keys, actions, problems), _theme(app, problems)), problems


def _table(document: Mapping[str, Any], name: str, problems: Problems) -> Mapping[str, Any]:
    table = document.get(name, {})
    if isinstance(table, dict):
        return table
    problems.add(name, f"is {table!r}; a table is expected.")
    return {}


def _keys(table: Mapping[str, Any], actions: Collection[str], problems: Problems) -> dict[str, str]:
    usable = {}
    for name, keys in table.items():
        if name not in actions:
            problems.add(f"keys.{name}", "is not an action; the help screen lists all actions.", nearest_names(name, actions))
        elif not isinstance(keys, str) or not keys.strip():
            problems.add(f"keys.{name}", f'is {keys!r}; use key names such as "ctrl+b,B".')
        else:
            usable[name] = keys
    return usable


def _theme(table: Mapping[str, Any], problems: Problems) -> str | None:
    for name in table.keys() - {"theme"}:
        problems.add(f"app.{name}", "is not a setting; theme is.", nearest_names(name, ["theme"]))
    wanted = table.get("theme")
    if wanted is None or wanted in NAMES:
        return wanted
    problems.add("app.theme", f"is {wanted!r}, which is not a theme.", nearest_names(str(wanted), NAMES))
    return None
