"""Published measurements of serving and generating to which nothing was fitted: errors and coverage of what the program says of them.

tests/data/unseen/services.csv: a value a row, the request in the program's own keys, and where it was published. Lengths of MLPerf's and of ShareGPT's data are their
means; NIM's and tt-inference-server's releases are taken by month. These rows are never part of the folder that ranges and constants are fitted to.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from engine_sample import ask_all

from planner.engine.answers.answer import Answer

ROWS = Path(__file__).parents[1] / "data" / "unseen" / "services.csv"
NOT_ASKED = {"group", "source", "metric", "value"}
WHOLE = {"gpus", "tp", "pp", "dp", "ep", "requests", "max_num_seqs", "input_tokens", "output_tokens"}
MEDIANS = {
    "output_tokens_per_s": 0.16,
    "tpot_s": 0.18,
    "decode_tokens_per_s": 0.15,
    "request_s": 0.15,
    "requests_per_s": 0.12,
    "ttft_s": 0.70,
}
"""Kind of figure -> largest median error."""
INSIDE = {"ttft_s": 0.70}
"""Kind of figure -> least share inside the ranges, where it is not `USUAL`: how long a first token waits depends on how load generators send requests."""
USUAL = 0.85


class Compared(NamedTuple):
    group: str
    off: float
    """ln(predicted / published)."""
    inside: bool


def request_of(row: dict[str, str]) -> dict[str, Any]:
    request: dict[str, Any] = {key: value for key, value in row.items() if value and key not in NOT_ASKED}
    request |= {key: int(value) for key, value in request.items() if key in WHOLE}
    if request.get("concurrency", "max") != "max":
        request["concurrency"] = int(request["concurrency"])
    return request


@cache
def compared() -> dict[str, list[Compared]]:
    """Every row by its metric."""
    with ROWS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[Compared]] = defaultdict(list)
    for row, answer in zip(rows, ask_all(*(request_of(row) for row in rows)), strict=True):
        assert isinstance(answer, Answer), (row, answer)
        figure = getattr(answer, row["metric"])
        figure = getattr(figure, "mean", figure)
        published = float(row["value"])
        found[row["metric"]].append(
            Compared(row["group"], math.log(figure.value / published), figure.low <= published <= figure.high)
        )
    return found


@pytest.mark.parametrize("metric", list(MEDIANS))
def test_figures_nobody_fitted_to_are_met(metric: str) -> None:
    errors = [abs(math.expm1(one.off)) for one in compared()[metric]]
    assert median(errors) < MEDIANS[metric]


@pytest.mark.parametrize("metric", list(MEDIANS))
def test_ranges_hold_figures_nobody_fitted_to(metric: str) -> None:
    inside = [one.inside for one in compared()[metric]]
    assert sum(inside) / len(inside) >= INSIDE.get(metric, USUAL)


def test_every_row_is_of_a_kind_that_is_checked() -> None:
    assert set(compared()) == set(MEDIANS)
    assert sum(map(len, compared().values())) > 150
