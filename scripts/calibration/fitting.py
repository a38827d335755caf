"""Shared parts of these scripts: arguments, a session on the shipped data, published rows and timings, and robust least squares."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from planner.session import Session
from planner.workload.published.experiments import PublishedSet, read_published
from planner.workload.published.names import model_key

Floats = np.ndarray[Any, np.dtype[np.float64]]
Row = dict[str, str]
T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the argument FOLDER and the script's docstring as its help."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    return options


def plain_session() -> Session:
    """A session on shipped data only."""
    nowhere = ROOT / "build" / "no-state"
    return Session.open(state=nowhere, config=nowhere)


def experiments_of(session: Session, folder: Path) -> PublishedSet:
    """The experiments of a folder, as `gpu-planner validate` reads them."""
    models = frozenset(session.models.names())
    gpus = frozenset(name.casefold() for name in session.gpus.names())
    return read_published(folder, gpus, lambda key: session.models.config(key) if key in models else None)


def rows(folder: Path, task: str, framework: str) -> Iterator[Row]:
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


@dataclass(frozen=True)
class Fit:
    """Parameters that minimise the robust logarithmic error, and that error per row."""

    values: Floats
    errors: Floats

    @property
    def median(self) -> float:
        """Median of the absolute logarithmic error."""
        return float(np.median(np.abs(self.errors)))

    @property
    def p90(self) -> float:
        """90th percentile of the absolute logarithmic error."""
        return float(np.quantile(np.abs(self.errors), 0.9))

    def __str__(self) -> str:
        return f"error median {self.median:.1%} p90 {self.p90:.1%}"


def robust_fit(seconds: Callable[[Floats], Floats], measured: Floats, start: Floats, held: dict[int, float]) -> Fit:
    """Minimise Huber's loss (turning at 10 %) of ln(predicted ÷ measured): reweighted, damped Gauss-Newton."""
    logs = np.array(start, dtype=float)
    for index, value in held.items():
        logs[index] = value
    free = [index for index in range(len(logs)) if index not in held]
    damping, target = 1e-2, np.log(measured)
    errors = np.log(seconds(logs)) - target
    for _ in range(200):
        slopes = np.empty((len(errors), len(free)))
        for column, index in enumerate(free):
            moved = logs.copy()
            moved[index] += 1e-5
            slopes[:, column] = (np.log(seconds(moved)) - target - errors) / 1e-5
        weights = np.minimum(1.0, 0.1 / np.maximum(np.abs(errors), 1e-12))
        normal = slopes.T @ (weights[:, None] * slopes)
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -slopes.T @ (weights * errors))
        tried = logs.copy()
        tried[free] += np.clip(step, -0.5, 0.5)
        after = np.log(seconds(tried)) - target
        if loss(after) < loss(errors):
            done = loss(errors) - loss(after) < 1e-9 * loss(errors)
            logs, errors, damping = tried, after, damping / 3
            if done:
                break
        else:
            damping *= 4
            if damping > 1e8:
                break
    return Fit(logs, errors)


def loss(errors: Floats) -> float:
    """Huber's loss, quadratic up to 0.1 and linear beyond, summed over the errors."""
    size = np.abs(errors)
    return float(np.where(size < 0.1, size**2 / 2, 0.1 * size - 0.005).sum())


def each_left_out(items: Sequence[T], group: Callable[[T], str]) -> Iterator[tuple[str, list[T], list[T]]]:
    """Every group with the items of all others and its own items; nothing where all belong to one."""
    groups = sorted({group(one) for one in items})
    for name in groups if len(groups) > 1 else ():
        rest, own = ([one for one in items if (group(one) == name) == wanted] for wanted in (False, True))
        yield name, rest, own


def left_out_text(name: str, fit: object, errors: Floats) -> str:
    """The fit without a group, and the errors that this group then has."""
    return f"without {name}: {fit}; it then has median {np.median(np.abs(errors)):.0%}, bias {np.median(errors):+.0%}"


def latencies_s(rows: Sequence[Row]) -> Floats:
    """The measured seconds of each row."""
    return columns(rows, "latency_us")[0] * 1e-6


def read(path: Path) -> list[Row]:
    """The rows of a CSV file, gzipped or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def matching(rows: list[Row], **values: str) -> list[Row]:
    """The rows with these values in the columns of these names."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def frameworks(rows: list[Row]) -> list[str]:
    """The frameworks that the rows were collected with, sorted."""
    return sorted({row["framework"] for row in rows})


def columns(rows: Sequence[Row], *names: str) -> tuple[Floats, ...]:
    """The named columns as arrays of numbers."""
    return tuple(np.array([float(row[name]) for row in rows]) for name in names)


def report_line(text: str) -> None:
    """Print a line of the report on stderr, because stdout is for the fitted file."""
    print(text, file=sys.stderr)
