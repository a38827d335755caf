"""Descriptions of models by their own code: made by a process under an interpreter with torch and transformers, and kept by config."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import protocol
from planner.durable import write_whole
from planner.errors import Problem, UserError
from planner.reading import read_json

FORMAT = 1
"""Format of `bench.tracing.describe`; a description of another format is made again."""
LONGEST_S = 600.0
INSTALL = "pip install 'gpu-planner[models]'"


def kept_description(config: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """The description of `config` in `folder`; None where none is kept."""
    try:
        found = read_json(_file(config, folder))
    except UserError:
        return None
    return found if found.get("format") == FORMAT else None


def make_description(config: Mapping[str, Any], folder: Path, python: Path | None = None) -> dict[str, Any]:
    """Describe `config` under `python` (the running one when None) and keep the result; raises `UserError` with what would help."""
    command = [str(python or sys.executable), "-u", str(Path(protocol.__file__).parent), "describe"]
    try:
        done = subprocess.run(
            command, input=json.dumps(config, default=str).encode(), capture_output=True, timeout=LONGEST_S, check=False
        )
        found = json.loads(done.stdout)
    except OSError as error:
        raise _refused(f"{command[0]} cannot be started: {error.strerror}. Name another with --python PATH.") from None
    except subprocess.TimeoutExpired:
        raise _refused(f"its code took longer than {LONGEST_S:.0f} s on the meta device.") from None
    except ValueError:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise _refused(f"{command[0]} said: {said}") from None
    if missing := found.get("missing"):
        raise _refused(f"{command[0]} has no {missing}: {INSTALL}, or name a Python that has it with --python PATH.")
    if raised := found.get("error"):
        raise _refused(f"the code of the installed transformers did not build or run it ({raised}). Remote code is never run.")
    write_whole(_file(config, folder), json.dumps(found))
    return dict(found)


def _refused(why: str) -> UserError:
    return UserError(Problem("", "model", f"cannot be described by its own code: {why}"))


def _file(config: Mapping[str, Any], folder: Path) -> Path:
    return folder / f"{hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()[:24]}.json"
