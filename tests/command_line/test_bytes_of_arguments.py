"""Arguments and paths that are no UTF-8: a path is opened, JSON says it as far as it can, and text is refused in words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from repository import RunPlanner

BYTES = os.fsdecode(b"a\xff")
REFUSED = (
    ("plan", "--set", f"title={BYTES}"),
    ("plan", "--set", f"model=./{BYTES}"),
    ("plan", "--gpu", BYTES, "--json"),
    ("plan", "--set", f'providers=["{BYTES}"]', "--json"),
    ("report", "--set", f"title={BYTES}", "--json"),
)
WITH_PATHS = (
    ("plan", "{}/p.toml", "--top", "1", "--json"),
    ("report", "{}/p.toml", "--json"),
    ("presets", "show", "{}/p.toml", "--json"),
    ("--config", "{}", "--state", "{}", "doctor", "--json"),
)


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_text_that_is_no_utf_8_is_refused(arguments: tuple[str, ...], run_planner: RunPlanner) -> None:
    done = run_planner(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not text in UTF-8" in done.stderr


@pytest.mark.process  # `doctor` asks an interpreter
@pytest.mark.parametrize("arguments", WITH_PATHS, ids=" ".join)
def test_a_path_that_is_no_utf_8_is_opened_and_told(arguments: tuple[str, ...], run_planner: RunPlanner, tmp_path: Path) -> None:
    folder = tmp_path / BYTES
    folder.mkdir()
    (folder / "p.toml").write_text('model = "llama-3.1-8b"\ntask = "generate"\ngpus_considered = ["L40S"]\n')
    done = run_planner(*(one.format(folder) for one in arguments))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
