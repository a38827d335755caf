"""Models described by tracing their code, in a process under an interpreter with torch and transformers; stored by config."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bench import protocol
from planner.durable import write_whole
from planner.errors import Problem, UserError
from planner.reading import read_json

FORMAT = 3
"""Format of `bench.describe`; a description of another format is created again."""
LONGEST_S = 300.0
"""Time limit of one description in seconds: a hundred layers take 40 s on two busy cores, and more if their code loops over tokens."""
MOST_LAYERS = 200
"""Maximum number of traced layers, each of which runs about seven times; the deepest model of the catalogue has 126."""
_LAYERS = re.compile(r"(n_|num_)?((hidden|decoder|encoder)_)?(layers?|blocks?)")
"""Names of counts of layers: n_layer, num_hidden_layers, decoder_layers, num_blocks."""
INSTALL = "pip install 'gpu-planner[models]'"
_NAMES = re.compile(
    r"^MODEL_FOR_(?:CAUSAL_LM|IMAGE_TEXT_TO_TEXT|SEQ_TO_SEQ_CAUSAL_LM|MASKED_LM)_MAPPING_NAMES\b(.*?)^\)", re.MULTILINE | re.DOTALL
)
"""Tables in transformers of the model types that it builds to predict tokens: of text, also about pictures or sound."""


@cache
def described_types() -> frozenset[str]:
    """Model types with which the installed transformers can generate; empty without it or torch. Neither is imported."""
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None or importlib.util.find_spec("torch") is None:
        return frozenset()
    try:
        text = (Path(found.origin).parent / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return frozenset()
    return frozenset(name for table in _NAMES.findall(text) for name in re.findall(r'\(\s*"([^"]+)",', table))


def require_few_layers(config: Mapping[str, Any], within: str = "model.") -> None:
    """Raise `UserError` for a key with more layers than can be traced."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            require_few_layers(value, f"{within}{name}.")
        elif _LAYERS.fullmatch(name) and isinstance(value, int | float) and value > MOST_LAYERS:
            raise UserError(Problem("", f"{within}{name}", f"more than {MOST_LAYERS} layers are not traced by their own code."))


def stored_description(config: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """Description of `config` in `folder`; None if none is stored."""
    try:
        found = read_json(_file(config, folder))
    except UserError:
        return None
    return found if found.get("format") == FORMAT else None


def make_description(config: Mapping[str, Any], folder: Path, python: Path | None = None) -> dict[str, Any]:
    """Describe `config` with `python` (the running one if None) and store the result; raises `UserError` with advice."""
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
