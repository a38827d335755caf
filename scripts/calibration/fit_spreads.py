"""Fits what remains of the ranges: the smallest half widths for which nine in ten published values lie inside low-high.

    scripts/calibration/fit_spreads.py FOLDER

FOLDER holds published measurements (docs/validation.md). The half width s of the logarithm of a prediction is made of parts; of each
value the width w of the part in question is found that just reaches it, the other parts as they are shipped:

    times, rates     s² = w² + others²                 w: MODEL_SPREAD[task]            of planner.engine.evaluate.ranges
    decode           s² = w² + others²                 w: STREAM_SPREAD, of the rate of one stream of a fixed batch
    first token      s  = sqrt(model² + others²) + w   w: FIRST_TOKEN_SPREAD, with the MODEL_SPREAD found just before
    memory           s² = w² + others²                 w: TRAINING_SPREAD, INFERENCE_SPREAD of planner.engine.memory.total

The 90th percentile of w is the answer. Printed: it, the shipped one, the one where every source counts as much as every other, and for each source the width found without it and the share of
that source's values inside it; the last line of a kind is their share over all sources, each left out in turn.
A value below what is known to be in memory (weights, states, cache) is inside no range, however wide.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from published import experiments_of, options_of, plain_session

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.ranges import FIRST_TOKEN_SPREAD, MODEL_SPREAD, STREAM_SPREAD
from planner.engine.memory.total import INFERENCE_SPREAD, TRAINING_SPREAD
from planner.engine.validation import Comparison, compared
from planner.workload.published.experiments import Experiment

SHARE = 0.9
MEMORY = {"training memory": TRAINING_SPREAD, "inference memory": INFERENCE_SPREAD}
FIRST, STREAM = "first token", "decode"
SHIPPED = {**MODEL_SPREAD, STREAM: STREAM_SPREAD, FIRST: FIRST_TOKEN_SPREAD, **MEMORY}


@dataclass(frozen=True)
class Reach:
    """One published value: its logarithmic error, and the other parts of its range as half widths of the logarithm."""

    source: str
    framework: str
    off: float
    others: float

    def width(self) -> float:
        """The part whose range just reaches the value."""
        return math.sqrt(max(0.0, self.off**2 - self.others**2))


def reaches(pairs: list[tuple[Experiment, Comparison]]) -> dict[str, list[Reach]]:
    """Every predicted value, by the spread its width is a part of."""
    found: dict[str, list[Reach]] = defaultdict(list)
    for experiment, one in pairs:
        if one.predicted is None or one.high is None or one.kind == "fits":
            continue
        task = experiment.request.task
        if one.kind in MEMORY:
            total, measured = one.predicted + one.part_bytes, one.measured + one.part_bytes
            spread = math.log((one.high + one.part_bytes) / total)
            off = math.inf if measured < min(one.known_bytes, total) else abs(math.log(measured / total))
            found[one.kind].append(Reach(one.source, one.framework, off, rest(spread, MEMORY[one.kind])))
            continue
        spread, off = math.log(one.high / one.predicted), abs(math.log(one.measured / one.predicted))
        if one.kind == "time to first token" and task == "serve":
            found[FIRST].append(Reach(one.source, one.framework, off, rest(spread - FIRST_TOKEN_SPREAD, MODEL_SPREAD[task])))
        else:
            of = STREAM if one.kind == STREAM and task == "generate" else task
            found[of].append(Reach(one.source, one.framework, off, rest(spread, SHIPPED[of])))
    return found


def rest(spread: float, part: float) -> float:
    """The spread of the other parts together."""
    return math.sqrt(max(0.0, spread**2 - part**2))


def widths(kind: str, group: list[Reach], serve: float) -> list[float]:
    """The widths that just reach each value; of a first token what is missing beyond the model's range."""
    if kind != FIRST:
        return [one.width() for one in group]
    return [max(0.0, one.off - math.hypot(serve, one.others)) for one in group]


def half_width(found: list[float], weights: list[float] | None = None) -> float:
    """The smallest that holds nine in ten, each value counting its weight."""
    order = np.argsort(found)
    counted = np.cumsum(np.asarray(weights or [1.0] * len(found))[order])
    return float(np.asarray(found)[order][np.searchsorted(counted, SHARE * counted[-1] - 1e-9)])


def report(kind: str, group: list[Reach], serve: float) -> Iterator[str]:
    """The lines about one kind; where there is one source, its frameworks are left out in turn."""
    needed = widths(kind, group, serve)
    sources = {one.source for one in group}
    names = [one.source if len(sources) > 1 else one.framework or "not stated" for one in group]
    sizes = Counter(names)
    alike = half_width(needed, [1 / sizes[name] for name in names])
    yield f"{kind:18} {half_width(needed):5.2f} (shipped {SHIPPED[kind]:.2f}; each source counting alike {alike:.2f}), {len(group)} values"
    held = 0
    for left_out in sorted(sizes) if len(sizes) > 1 else ():
        own = [width for name, width in zip(names, needed, strict=True) if name == left_out]
        without = half_width([width for name, width in zip(names, needed, strict=True) if name != left_out])
        inside = sum(width <= without for width in own)
        held += inside
        yield f"  without {left_out:32} {without:5.2f}, inside it {inside / len(own):5.0%} of its {len(own)}"
    if len(sizes) > 1:
        yield f"  left out in turn: {held / len(group):.0%} inside"


def main() -> None:
    """Print the widths."""
    folder = options_of(__doc__).parse_args().folder
    session = plain_session()
    experiments = experiments_of(session, folder).experiments
    answers = session.estimate([experiment.request for experiment in experiments], basis="spec")
    pairs = [
        (experiment, one)
        for experiment, answer in zip(experiments, answers, strict=True)
        if isinstance(answer, Answer)
        for one in compared([experiment], [answer])
    ]
    groups = reaches(pairs)
    serve = half_width(widths("serve", groups["serve"], 0.0)) if groups["serve"] else MODEL_SPREAD["serve"]
    for kind in SHIPPED:
        if groups[kind]:
            print("\n".join(report(kind, groups[kind], serve)))


if __name__ == "__main__":
    main()
