"""Fits `host_step_s` of serving engines: what of a decoding step is neither products nor attention nor communication.

    scripts/fit_host_step.py FOLDER

FOLDER holds published measurements (docs/validation.md): mean times per output token at a concurrency. Of loops of up to 16
requests a replica, whose steps are short, measured less predicted without any host time is what the host takes; engines that
schedule the next step beside the current one show none of it. Printed: for each engine the mean of its sources' medians (a source:
a release on a GPU with a model), not below 0, and each source's median with the number of its loops.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from pathlib import Path

from planner.engine.answers import Answer
from planner.engine.job.engines import find_engine
from planner.session import Session
from planner.workload.published import read_published

MOST_REQUESTS = 16
MILLISECOND = 1e-3


def remainders(session: Session, folder: Path) -> dict[str, dict[str, list[float]]]:
    """Engine -> source -> seconds of a step that the formulas do not hold."""
    shelf = frozenset(session.models.names())
    gpus = frozenset(name.casefold() for name in session.gpus.names())
    published = read_published(folder, gpus, lambda key: session.models.config(key) if key in shelf else None)
    kept = [one for one in published.experiments if isinstance(one.request.concurrency, int) and one.request.task == "serve"]
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one, answer in zip(kept, session.estimate([one.request for one in kept], basis="spec"), strict=True):
        measured = [value.value for value in one.values if value.quantity == "tpot_s"]
        if not measured or not isinstance(answer, Answer) or answer.tpot_s is None or answer.layout is None:
            continue
        if math.ceil(int(one.request.concurrency or 0) / answer.layout.dp) > MOST_REQUESTS:
            continue
        engine = find_engine(one.request.engine or "generic")
        source = f"{' '.join(one.framework.split())} on {one.gpu}, {one.model}"
        found[engine.name][source] += [value - answer.tpot_s.mean.value + engine.host_step_s for value in measured]
    return found


def main() -> None:
    """Print the seconds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    session = Session.open(state=Path("/nonexistent"), config=Path("/nonexistent"))
    for engine, by_source in sorted(remainders(session, options.parse_args().folder).items()):
        medians = {source: statistics.median(seconds) for source, seconds in by_source.items()}
        fitted = max(0.0, statistics.mean(medians.values()))
        shipped = find_engine(engine).host_step_s
        print(f"{engine}: host_step_s {fitted / MILLISECOND:.1f} ms (shipped {shipped / MILLISECOND:.1f})")
        for source, middle in sorted(medians.items()):
            print(f"  {source:60} {len(by_source[source]):4} loops, {middle / MILLISECOND:+.2f} ms")


if __name__ == "__main__":
    main()
