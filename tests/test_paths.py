"""The user's folders are those that `platformdirs` names, whatever the variables hold."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import platformdirs
import pytest
from each_case import each_case

from planner import paths

HOMES = (None, "", "/", "/root/", "/home/a//b", "relative", "/a/../b", "~", "/home/ü")
GIVEN = (None, "", " ", "/x", "/x/", " /y", "relative", "~/z", "//q")


def _named(kind: str, usual: str) -> Path:
    try:
        return Path(getattr(platformdirs, f"user_{kind}_dir")("gpu-planner", appauthor=False))
    except RuntimeError:
        return Path(paths.HOMELESS) / usual / "gpu-planner"


@each_case("home, given", product(HOMES, GIVEN))
def test_folders_are_where_platformdirs_says(monkeypatch: pytest.MonkeyPatch, home: str | None, given: str | None) -> None:
    for name, value in (("HOME", home), ("XDG_CONFIG_HOME", given), ("XDG_STATE_HOME", given)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert paths.config_folder() == _named("config", ".config")
    assert paths.state_folder() == _named("state", ".local/state")
