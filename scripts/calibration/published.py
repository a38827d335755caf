"""Shared parts of these scripts: the arguments, a planner without this user's files, and a folder of published measurements."""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from planner.session import Session
from planner.workload.published.experiments import PublishedSet, read_published
from planner.workload.published.names import model_key

ROOT = Path(__file__).resolve().parents[2]


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser that takes FOLDER, and shows the script's docstring as its help."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    return options


def plain_session() -> Session:
    """A session on the shipped data alone."""
    nowhere = ROOT / "build" / "no-state"
    return Session.open(state=nowhere, config=nowhere)


def experiments_of(session: Session, folder: Path) -> PublishedSet:
    """The experiments of a folder, as `gpu-planner validate` reads them."""
    models = frozenset(session.models.names())
    gpus = frozenset(name.casefold() for name in session.gpus.names())
    return read_published(folder, gpus, lambda key: session.models.config(key) if key in models else None)


def rows(folder: Path, task: str, framework: str) -> Iterator[dict[str, str]]:
    """The plain rows of `task` whose framework matches the pattern, each with the name of its `file`."""
    for path in sorted(folder.glob("*.csv")):
        for row in csv.DictReader(path.open()):
            if row.get("task") == task and re.search(framework, row["framework"]):
                yield row | {"file": path.stem}


@cache
def _configs(folder: Path) -> dict[str, dict[str, Any]]:
    return {model_key(name): config for name, config in json.loads((folder / "models.json").read_text()).items()}


def config_of(folder: Path, name: str) -> dict[str, Any] | None:
    """The Hugging Face config in models.json for a row's model name, or None."""
    return _configs(folder).get(model_key(name))


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A GitHub table whose first `text_columns` columns are words, the others figures."""
    rules = [*["---"] * text_columns, *["---:"] * (len(heads) - text_columns)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))
