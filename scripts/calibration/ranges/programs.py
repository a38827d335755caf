"""Factor on ranges of training speed for a program that none of the fits knows: by the folder's sources and by those collected in addition."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from fitting import experiments_of

from planner.engine.answers.answer import Answer
from planner.engine.validation import kind_of, predicted_of
from planner.schema import read_struct
from planner.session import Session
from planner.workload.published.spreads import NOMINAL, PROGRAM_OPEN, published_spreads
from planner.workload.tasks import Request
from ranges.collected import FOLDER

KIND = "training speed"
FACTORS = tuple(round(1 + step / 20, 2) for step in range(15))
"""Factors that are tried."""
FLAT = 1.01
"""Scores that are alike: a few programs that are twice too fast in the prediction make the lowest one a matter of chance (1.46 at 1.4, 1.47 at 1.2; 59 sources)."""


class Run(NamedTuple):
    """Speeds of one published run of training, and the request for it."""

    source: str
    request: Request
    measured: dict[str, float]
    """Quantity -> value; speeds of training alone."""


def _speeds(measured: Mapping[Any, float], request: Request) -> dict[str, float]:
    return {quantity: value for quantity, value in measured.items() if kind_of(quantity, request) == KIND and value > 0}


def runs_of(session: Session, folder: Path) -> Iterator[Run]:
    """Runs of training with a measured speed, of the folder and of tests/data/unseen/programs.jsonl."""
    for experiment in experiments_of(session, folder).experiments:
        measured = {value.quantity: value.value for value in experiment.values}
        if speeds := _speeds(measured, experiment.request):
            yield Run(experiment.source, experiment.request, speeds)
    for line in (FOLDER / "programs.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        request = read_struct(Request, row["request"], "")
        if speeds := _speeds(row["seen"], request):
            yield Run(row["group"], request, speeds)


def scores_of(session: Session, runs: list[Run]) -> dict[str, float]:
    """Source -> mean interval score (Gneiting and Raftery, 2007) of its speeds whose program is open; smaller is better."""
    scores: dict[str, list[float]] = defaultdict(list)
    for run, answer in zip(runs, session.estimate([run.request for run in runs], basis="spec"), strict=True):
        if not isinstance(answer, Answer) or not answer.evidence.get(PROGRAM_OPEN):
            continue
        for quantity, measured in run.measured.items():
            figure = predicted_of(quantity, answer, run.request).figure
            if figure is not None:
                outside = max(0.0, math.log(figure.low / measured), math.log(measured / figure.high))
                scores[run.source].append(math.log(figure.high / figure.low) + 2 / (1 - NOMINAL) * outside)
    return {source: fmean(values) for source, values in scores.items()}


def program_factor(session: Session, folder: Path) -> tuple[float, int]:
    """The smallest of `FACTORS` with a mean score of the sources like the lowest one (`FLAT`), and the number of sources."""
    engines, runs = published_spreads().kinds[KIND].engines, list(runs_of(session, folder))
    means: dict[float, float] = {}
    sources = 0
    for factor in FACTORS:
        engines[PROGRAM_OPEN] = math.log(factor)
        scores = scores_of(session, runs)
        means[factor], sources = fmean(scores.values()), len(scores)
    return min(factor for factor, mean in means.items() if mean <= FLAT * min(means.values())), sources
