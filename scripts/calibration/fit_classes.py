"""Fit factors on the ranges of generations of GPUs to collected measurements, and write presets/spreads/collected.toml.

    scripts/calibration/fit_classes.py FOLDER

A class without values of a kind in the folder that ranges are fitted to has a range that is `unseen_class` times wider. A generation with
values in tests/data/unseen (without the files of `JUDGES`), of several sources, has the smallest factor with which they lie inside as often as
the nominal share, if it is below that of an unseen class. Training speed of a program that is not compared with published peaks has the
smallest factor with nearly the lowest interval score over the sources of FOLDER and those collected (`ranges.programs`). Run it after fit_ranges.py.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import defaultdict
from statistics import fmean

import msgspec
from fitting import ROOT, options_of, plain_session
from ranges.collected import FOLDER, JUDGES, request_of, rows_of
from ranges.programs import KIND, program_factor

from planner.schema import read_struct
from planner.session import Session
from planner.workload.published.spreads import NOMINAL, Spreads, published_spreads
from planner.workload.tasks import Request

OUT = ROOT / "presets" / "spreads" / "collected.toml"
KIND_OF = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "output_tokens_per_s": "serving throughput",
    "request_s": "request time",
}
"""Metric of a service -> kind of figure."""
Inside = dict[tuple[str, str], dict[str, list[bool]]]
"""Kind and generation -> source -> one flag per collected value, True inside its range."""
LEAST_VALUES, LEAST_SOURCES = 10, 2
STEP = 0.05
"""Distance of the factors that are tried, from 1 on."""


def values_inside(session: Session) -> Inside:
    """Kind and generation -> source -> one flag per collected value: True if it is inside the range from `session`."""
    files = (path for path in sorted(FOLDER.glob("*.csv")) if path.stem not in JUDGES)
    rows = [row for path in files for row in rows_of(path) if row["task"] == "serve" and row["metric"] in KIND_OF]
    answers = session.estimate([read_struct(Request, request_of(row), "") for row in rows], basis="spec")
    inside: Inside = defaultdict(lambda: defaultdict(list))
    for row, answer in zip(rows, answers, strict=True):
        figure = getattr(answer, row["metric"], None)
        figure = getattr(figure, "mean", figure)
        if figure is not None:
            of_class = inside[KIND_OF[row["metric"]], session.gpus.find(row["gpu"]).architecture]
            of_class[row["group"]].append(figure.low <= float(row["value"]) <= figure.high)
    return inside


def held(of_sources: dict[str, list[bool]]) -> bool:
    """Whether `NOMINAL` of the values lie inside, with each source counting as one, and there are `LEAST_VALUES` of `LEAST_SOURCES`."""
    enough = len(of_sources) >= LEAST_SOURCES and sum(map(len, of_sources.values())) >= LEAST_VALUES
    return enough and fmean(fmean(values) for values in of_sources.values()) >= NOMINAL


def factors_of(spreads: Spreads) -> tuple[dict[str, dict[str, float]], Inside]:
    """Smallest factor that holds the values, by kind and generation; and the flags of every value with the last factor tried."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for one in spreads.kinds.values():
        one.collected.clear()
    session, unseen = plain_session(), spreads.unseen_class
    inside: Inside = {}
    for step in range(math.ceil((unseen - 1) / STEP)):
        factor = round(1 + step * STEP, 2)
        msgspec.structs.force_setattr(spreads, "unseen_class", factor)
        inside = values_inside(session)
        for (kind, generation), of_sources in sorted(inside.items()):
            if held(of_sources) and generation not in spreads.kinds[kind].classes:
                found[kind].setdefault(generation, factor)
    return found, inside


def _entries(factors: dict[str, float]) -> str:
    return ", ".join(f"{json.dumps(generation)} = {factor:g}" for generation, factor in factors.items())


def main() -> None:
    """Fit the factors, and write."""
    folder = options_of(__doc__).parse_args().folder
    of_programs, runs_of = program_factor(plain_session(), folder)
    classes, inside = factors_of(published_spreads())
    values = sum(len(one) for of_sources in inside.values() for one in of_sources.values())
    sources = {source for of_sources in inside.values() for source in of_sources}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    lines = [
        f"# Written by scripts/calibration/fit_classes.py on {today}; the script says the method. Do not edit: run it again.",
        f'source = "{values:,} values of {len(sources)} sources of services (tests/data/unseen), {runs_of} sources of training"',
        f"retrieved = {today}",
        f'method = "the smallest factor with which ranges hold {NOMINAL:.0%} of a generation of GPUs, a source counting as one; of open programs: the smallest factor with nearly the lowest interval score"',
        "",
        "[open_programs]",
        f"{json.dumps(KIND)} = {of_programs:g}",
        "",
        "[classes]",
        *(f"{json.dumps(kind)} = {{ {_entries(factors)} }}" for kind, factors in sorted(classes.items())),
        "",
    ]
    OUT.write_text("\n".join(lines), encoding="utf-8")
    print(OUT)


if __name__ == "__main__":
    main()
