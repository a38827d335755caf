"""Published measurements in a folder: rows of CSV files, and the architecture a row's model name means."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture

BYTES = {"MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}
_FAMILIES = {"llama-2": r"llama-2|vicuna", "llama-1": r"llama-\d+b", "mistral": r"mistral", "internlm": r"internlm"}


def rows(folder: Path, task: str, framework: str) -> Iterator[dict[str, str]]:
    """Rows of `task` whose framework matches the pattern."""
    for path in sorted(folder.glob("*.csv")):
        for row in csv.DictReader(path.open()):
            if row.get("task") == task and re.search(framework, row["framework"]):
                yield row | {"file": path.stem}


@cache
def _models(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "models.json").read_text()))


def config_of(folder: Path, name: str) -> dict[str, Any] | None:
    """The config in models.json of the same family and size as `name`; None where there is none."""
    if name.lower() in _models(folder):
        return dict(_models(folder)[name.lower()])
    size = re.search(r"(\d+)b", name.lower())
    family = next((known for known, pattern in _FAMILIES.items() if re.search(pattern, name.lower())), None)
    models = _models(folder)
    found = next((key for key in models if size and family and key.startswith(family) and f"-{size[1]}b" in key), None)
    return dict(models[found]) if found else None


def architecture_of(folder: Path, name: str) -> Architecture | None:
    """The architecture of that config."""
    config = config_of(folder, name)
    return read_architecture(config) if config else None
