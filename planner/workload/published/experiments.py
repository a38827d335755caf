"""Reading of published measurements, CSV files with one measured value per row, into requests and their expected values.

Rows of a file with one `config_id` are one experiment. Units become SI, and every metric becomes the quantity of an answer that it
is compared with (`QUANTITIES`): rates per GPU become the deployment's, prompt rates seconds, sums over GPUs means.
"""

from __future__ import annotations

import csv
import io
import math
import re
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.reading import kind_of, open_file
from planner.schema import read_struct
from planner.workload.published.asked import Rule, read_names, read_rules, ruled
from planner.workload.published.names import Quantity, model_key, published_names
from planner.workload.published.rules import NotPredicted, Row, request_fields, with_release
from planner.workload.published.values import quantity_of
from planner.workload.tasks import Request

REQUIRED = ("config_id", "task", "gpu", "n_gpus", "model", "framework", "metric", "value", "unit")
OPTIONAL_TEXT = ("precision", "weight_quant", "kv_precision", "sharding", "checkpointing", "optimizer", "note", "source")
COUNTS = (
    *("n_layers", "d_model", "n_heads", "vocab", "micro_batch", "global_batch", "concurrency", "seq_len", "isl", "osl"),
    *("tp", "pp", "vp", "dp", "cp", "ep"),
)
NUMBERS = ("n_gpus", *COUNTS, "request_rate", "value")
COLUMNS = (*REQUIRED, *OPTIONAL_TEXT, *COUNTS, "request_rate")
"""Columns that are read; others are ignored."""

LIMITED = re.compile(r"(?P<gpu>.+)-(?P<watts>\d+)W", re.IGNORECASE)
"""A GPU under a power limit: 'A100-SXM-80GB-330W'."""
FLAGGED = re.compile(r"\b(OUTLIER|SUSPECT|AMBIGUOUS|exclude)\b", re.IGNORECASE)


class PublishedValue(msgspec.Struct, frozen=True):
    """One measured value, in SI, as the quantity of an answer; 0 or 1 for `fits`."""

    quantity: Quantity
    value: float
    line: int


class Experiment(msgspec.Struct):
    """One published configuration and its measurements."""

    source: str
    """Name of its file, without the ending."""
    name: str
    framework: str
    gpu: str
    model: str
    request: Request
    values: list[PublishedValue] = msgspec.field(default_factory=list)


class PublishedSet(msgspec.Struct):
    """Experiments of a folder, and how many rows were left out, by reason."""

    folder: str
    experiments: list[Experiment] = msgspec.field(default_factory=list)
    left_out: Counter[str] = msgspec.field(default_factory=Counter)


def read_published(
    folder: Path, gpu_names: Container[str], catalogue: Callable[[str], dict[str, Any] | None], only: str = ""
) -> PublishedSet:
    """Experiments of `folder`'s CSV files with `only` in their name; raises `UserError` with every row that cannot be read.

    `catalogue`: the config of a model's key; configs in the folder's models.json and models_extra.json take precedence. Files named
    models_*.csv contain no measurements. `asked.json` contains rules about rows, gpus_extra.json further labels of GPUs.
    """
    paths = [
        path
        for path in sorted(folder.glob("*.csv") if kind_of(folder) else ())
        if not path.name.startswith("models_") and only in path.stem
    ]
    if not paths:
        text = f"has no CSV file{f' with {only!r} in its name' if only else ''}."
        raise UserError(Problem(str(folder), "", text if kind_of(folder) == stat.S_IFDIR else "is not a folder."))
    given = read_names(folder / "models_extra.json") | read_names(folder / "models.json")
    configs = {model_key(name): config for name, config in given.items()}
    rules, labels = read_rules(folder), read_names(folder / "gpus_extra.json")
    found, problems = PublishedSet(folder.resolve().name), list[Problem]()
    for path in paths:
        rows = [(line, row | {"gpu": labels.get(row["gpu"], row["gpu"])}) for line, row in _rows(path, problems)]
        _read_file(path, rows, rules, lambda key: configs.get(key) or catalogue(key), gpu_names, found, problems)
    if problems:
        raise UserError(sorted(problems, key=_place))
    return found


def _place(problem: Problem) -> tuple[str, int]:
    """File and line of a problem."""
    path, _, line = problem.where.rpartition(":")
    return (path, int(line)) if line.isdigit() else (problem.where, 0)


def _read_file(
    path: Path,
    rows: Sequence[tuple[int, dict[str, str]]],
    rules: Sequence[Rule],
    config_of: Callable[[str], dict[str, Any] | None],
    gpu_names: Container[str],
    found: PublishedSet,
    problems: list[Problem],
) -> None:
    experiments: dict[str, Experiment | str] = {}
    rates = {row["config_id"]: row["value"] for _, row in rows if row["metric"] == "request_rate"}
    for line, given in rows:
        where, name = f"{path}:{line}", given["config_id"]
        if given["metric"] not in published_names().metrics:
            found.left_out[f"metric {given['metric']}"] += 1
            continue
        if FLAGGED.search(given["note"]):
            found.left_out["flagged in its note"] += 1
            continue
        try:
            row, fields = ruled(rules, path.stem, given)
            known = experiments.get(name)
            if known is None:
                rated = {**row, "request_rate": row["request_rate"] or rates.get(name, "")}
                known = experiments[name] = _experiment(path, where, rated, fields, config_of, gpu_names, problems)
                if isinstance(known, Experiment):
                    found.experiments.append(known)
            if isinstance(known, str):
                found.left_out[known] += 1
            else:
                known.values.append(PublishedValue(*quantity_of(row, known.request, where), line))
        except NotPredicted as why:
            found.left_out[str(why)] += 1
        except UserError as error:
            problems += error.problems


def _rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, row with every column of `COLUMNS`); a row that cannot be read becomes a problem."""
    try:
        with open_file(path) as file:
            reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), restval="")
            missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
            if missing:
                problems.append(Problem(str(path), "", f"has no column {', '.join(missing)}."))
                return
            for given in reader:
                row = dict.fromkeys(COLUMNS, "") | {name: text for name, text in given.items() if isinstance(text, str)}
                faults = [Problem(f"{path}:{reader.line_num}", name, text) for name, text in _faults(row)]
                problems += faults
                if not faults:
                    yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problems.append(Problem(str(path), "", f"cannot be read: {error}."))


def _faults(row: Row) -> Iterator[tuple[str, str]]:
    for name in ("config_id", "task", "metric", "value"):
        if not row[name]:
            yield name, "is empty."
    for name in NUMBERS:
        try:
            good = not row[name] or (math.isfinite(number := float(row[name])) and (number >= 0 or name == "value"))
        except ValueError:
            good = False
        if not good:
            yield (
                name,
                f"{row[name]!r} is not accepted; it has to be a number{'' if name == 'value' else ', at least 0, or empty'}.",
            )


def _experiment(
    path: Path,
    where: str,
    row: Row,
    fields: dict[str, Any],
    config_of: Callable[[str], dict[str, Any] | None],
    gpu_names: Container[str],
    problems: list[Problem],
) -> Experiment | str:
    """Experiment, or why its rows are left out; a request that is wrong without the rules' `fields` is added to `problems`."""
    limited = LIMITED.fullmatch(row["gpu"])
    if limited and row["gpu"].casefold() not in gpu_names:
        row, fields = {**row, "gpu": limited["gpu"]}, {"power_limit_w": float(limited["watts"]), **fields}
    if row["gpu"].casefold() not in gpu_names:
        return f"GPU {row['gpu'] or 'not stated'}"
    try:
        stated = with_release(request_fields(row, config_of) | fields, row)
        request = read_struct(Request, {name: value for name, value in stated.items() if value is not None}, where)
    except NotPredicted as why:
        return str(why)
    except UserError as error:
        if fields:
            return f"{error.problems[0].key}: {error.problems[0].message}"
        problems += error.problems
        return "wrong"
    return Experiment(path.stem, row["config_id"], row["framework"].strip(), row["gpu"], row["model"], request)
