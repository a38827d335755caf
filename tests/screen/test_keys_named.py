"""Keys that README and the guide name: each is one of the program's."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from repository import ROOT
from textual.screen import Screen

import widgets.omnibox
import widgets.screens
from widgets.actions.registry import ACTIONS

PAGES = ("README.md", *(f"docs/guide/{name}.md" for name in ("screen", "tutorial", "telemetry", "measuring", "troubleshooting")))
KEY = re.compile(r"`(\^?[A-Za-z:/?]|enter|esc|space|[][+-]|[→←])`")
NAMES = {"esc": "escape", ":": "colon", "/": "slash", "?": "question_mark", "+": "plus", "-": "minus", "→": "right", "←": "left"}
NAMES |= {"[": "left_square_bracket", "]": "right_square_bracket"}


def keys_of_screens() -> Iterator[str]:
    """Keys that only a screen over the panes has."""
    for package in (widgets.screens, widgets.omnibox):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: list[type[Screen[object]]] = [Screen]
    for screen in found:
        found += screen.__subclasses__()
        for binding in screen.__dict__.get("BINDINGS", ()):
            yield from (binding[0] if isinstance(binding, tuple) else binding.key).split(",")


@pytest.mark.parametrize("page", PAGES)
def test_every_key_that_is_named_is_one(page: str) -> None:
    known = {key for action in ACTIONS for key in action.keys.split(",")} | set(keys_of_screens()) | {"plus", "minus"}
    named = {NAMES.get(key, key.replace("^", "ctrl+")) for key in KEY.findall((ROOT / page).read_text())}
    assert named <= known, named - known
