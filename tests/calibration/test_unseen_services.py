"""Published measurements of serving and generating to which nothing was fitted: errors and coverage of what the program says of them.

tests/data/unseen/*.csv: a value a row, the request in the program's own keys, and where it was published. `services`: lengths of MLPerf's and of ShareGPT's data
are their means, InferenceX's are drawn from 0.8 to 1 of what is named; DGX Spark's and the cloud's answers are all alike; NIM's and tt-inference-server's releases are taken by month. `recent`: releases of 2025 and 2026; SGLang's cookbook draws lengths evenly up
to twice their mean, and its times to the first token are taken where one client sends alone, as later runs find the prompts of earlier ones in the
cache. `latencies`: requests one by one and fixed batches, of which the other files have few. `later`: closed loops found after the ranges
and constants of 2026-11-26 were fitted. `reports`: runs in issues, pull requests and a repository, found on 2026-11-27. `tuned`: pull
requests that tune kernels of experts, found later that day. `elsewhere`: single streams of desktop parts, fixed batches of TurboMind, bursts of vLLM 0.5.4 and closed
loops of a cloud, found after those. `deployments`: vLLM 0.27 and 0.29 on AWS's G7, G7e and H200 instances, found after those. `repositories`: repositories and pull
requests of 2025 and 2026, found on 2026-11-28 and read by no fit. `further`: releases, issues and pull requests of 2023 to 2026 from RTX 5090 to MI355X,
found later that day. `experts`: mixtures of experts by vLLM 0.11 to 0.16, found after decision 350 and read by no fit. These rows are never part of the folder that ranges and
constants are fitted to, and were written before the program was asked.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from statistics import median
from typing import NamedTuple

import pytest
from engine_sample import ask_all, session
from fit_classes import held, values_inside
from ranges.collected import FOLDER, request_of, rows_of

from planner.engine.answers.answer import Answer
from planner.paths import read_shipped
from planner.workload.published.spreads import Collected

pytestmark = pytest.mark.sweep

MEDIANS = {
    ("services", "output_tokens_per_s"): 0.16,
    ("services", "tpot_s"): 0.10,
    ("services", "decode_tokens_per_s"): 0.15,
    ("services", "request_s"): 0.15,
    ("services", "requests_per_s"): 0.12,
    ("services", "ttft_s"): 0.52,
    ("recent", "output_tokens_per_s"): 0.16,
    ("recent", "tpot_s"): 0.15,
    ("recent", "requests_per_s"): 1.10,
    ("recent", "ttft_s"): 0.60,
    ("latencies", "ttft_s"): 0.40,
    ("latencies", "tpot_s"): 0.10,
    ("latencies", "request_s"): 0.10,
    ("latencies", "output_tokens_per_s"): 0.45,
    ("later", "output_tokens_per_s"): 0.11,
    ("later", "tpot_s"): 0.09,
    ("later", "request_s"): 0.07,
    ("later", "ttft_s"): 0.40,
    ("reports", "output_tokens_per_s"): 0.32,
    ("reports", "tpot_s"): 0.30,
    ("reports", "ttft_s"): 0.40,
    ("tuned", "output_tokens_per_s"): 0.30,
    ("tuned", "tpot_s"): 0.35,
    ("tuned", "requests_per_s"): 0.10,
    ("tuned", "ttft_s"): 0.60,
    ("elsewhere", "decode_tokens_per_s"): 0.11,
    ("elsewhere", "output_tokens_per_s"): 0.11,
    ("elsewhere", "ttft_s"): 0.40,
    ("elsewhere", "tpot_s"): 0.35,
    ("deployments", "output_tokens_per_s"): 0.25,
    ("deployments", "ttft_s"): 0.50,
    ("deployments", "tpot_s"): 0.30,
    ("repositories", "output_tokens_per_s"): 0.18,
    ("repositories", "tpot_s"): 0.14,
    ("repositories", "ttft_s"): 0.25,
    ("repositories", "request_s"): 0.26,
    ("repositories", "decode_tokens_per_s"): 0.06,
    ("further", "output_tokens_per_s"): 0.24,
    ("further", "tpot_s"): 0.27,
    ("further", "ttft_s"): 0.62,
    ("further", "requests_per_s"): 0.14,
    ("further", "decode_tokens_per_s"): 0.06,
    ("experts", "output_tokens_per_s"): 0.09,
    ("experts", "tpot_s"): 0.10,
    ("experts", "ttft_s"): 0.42,
    ("experts", "requests_per_s"): 0.31,
}
"""File and kind of figure -> largest median error.

Two throughputs of `latencies`: one counts 20 requests of gpt-oss 20B whose first tokens waited 2.7 s for compilation (20 ms otherwise)."""
INSIDE = {
    ("recent", "tpot_s"): 0.90,
    ("recent", "requests_per_s"): 0.0,
    ("latencies", "tpot_s"): 0.70,
    ("reports", "output_tokens_per_s"): 0.70,
    ("reports", "tpot_s"): 0.70,
    ("elsewhere", "tpot_s"): 0.80,
    ("deployments", "tpot_s"): 0.70,
    ("deployments", "ttft_s"): 0.75,
    ("repositories", "output_tokens_per_s"): 0.80,
    ("repositories", "request_s"): 0.30,
    ("further", "tpot_s"): 0.80,
}
"""File and kind of figure -> least share inside the ranges, where it is not `USUAL`: how long a first token waits depends on how load generators send requests."""
USUAL = 0.85
LEAST_VALUES = {
    "services": 150,
    "recent": 100,
    "latencies": 34,
    "later": 120,
    "reports": 85,
    "tuned": 13,
    "elsewhere": 85,
    "deployments": 33,
    "repositories": 120,
    "further": 120,
    "experts": 11,
}
"""File -> values that it has more of."""


class Compared(NamedTuple):
    group: str
    off: float
    """ln(predicted / published)."""
    inside: bool


@cache
def compared(file: str) -> dict[str, list[Compared]]:
    """Every row of a file by its metric."""
    rows = rows_of(FOLDER / f"{file}.csv")
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


@pytest.mark.parametrize(("file", "metric"), list(MEDIANS))
def test_figures_nobody_fitted_to_are_met(file: str, metric: str) -> None:
    errors = [abs(math.expm1(one.off)) for one in compared(file)[metric]]
    assert median(errors) < MEDIANS[file, metric]


@pytest.mark.parametrize(("file", "metric"), list(MEDIANS))
def test_ranges_hold_figures_nobody_fitted_to(file: str, metric: str) -> None:
    inside = [one.inside for one in compared(file)[metric]]
    assert sum(inside) / len(inside) >= INSIDE.get((file, metric), USUAL)


@pytest.mark.parametrize("file", list(LEAST_VALUES))
def test_every_row_is_of_a_kind_that_is_checked(file: str) -> None:
    assert {(file, metric) for metric in compared(file)} == {key for key in MEDIANS if key[0] == file}
    assert sum(map(len, compared(file).values())) > LEAST_VALUES[file]


def test_generations_that_count_as_seen_lie_inside_plain_ranges() -> None:
    inside, collected = values_inside(session()), read_shipped(Collected, "spreads", "collected.toml")
    assert collected.classes
    for kind, generations in collected.classes.items():
        for generation in generations:
            assert held(inside[kind, generation]), (kind, generation)
