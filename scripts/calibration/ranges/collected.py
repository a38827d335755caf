"""Rows of measurements collected in addition to the folder that ranges are fitted to (tests/data/unseen), and their requests."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitting import ROOT

FOLDER = ROOT / "tests" / "data" / "unseen"
JUDGES = frozenset({"experts", "repositories"})
"""Files that are only used to judge: no fit reads them, not even to decide which generations of GPUs count as seen."""
SHARES = ("p50", "p95")
NOT_ASKED = {"group", "source", "metric", "value"} | {f"{side}_{share}" for side in ("input", "output") for share in SHARES}
WHOLE = {
    "gpus",
    "tp",
    "pp",
    "dp",
    "ep",
    "batch",
    "requests",
    "max_num_seqs",
    "max_num_batched_tokens",
    "input_tokens",
    "output_tokens",
}
REAL = {"request_rate_per_s", "memory_fraction", "power_limit_w"}


def request_of(row: Mapping[str, str]) -> dict[str, Any]:
    """The request of a row of such a file, as `estimate` reads it."""
    request: dict[str, Any] = {key: value for key, value in row.items() if value and key not in NOT_ASKED}
    request |= {key: int(value) for key, value in request.items() if key in WHOLE}
    if request.get("concurrency", "max") != "max":
        request["concurrency"] = int(request["concurrency"])
    request |= {key: float(request[key]) for key in REAL & request.keys()}
    for side in ("input", "output"):
        if shares := {share: int(row[f"{side}_{share}"]) for share in SHARES if row.get(f"{side}_{share}")}:
            request[f"{side}_tokens"] = {"mean": request[f"{side}_tokens"]} | shares
    return request


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file, each a published value."""
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))
