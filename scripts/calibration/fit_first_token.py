"""Fits `waiting_prompts` of engines: prompts that end up waiting for each other in a closed loop of requests of one length.

    scripts/calibration/fit_first_token.py FOLDER [--simulate CLIENTS]

FOLDER holds published measurements (docs/evidence/validation.md): mean times to first token at a concurrency, with fixed lengths. Only
engines whose prompts share iterations with running sequences have such a number; it minimises Huber's loss (turning at 10 %) of
ln(predicted ÷ measured), given `loops.ROUNDS` requests a client that all start together. Printed: each engine's number and
error, the number without each source (a release of an engine on a GPU) and the error that source then has, the same for one
number of all engines, and, of loops of up to CLIENTS clients (16; 0: none), what the simulation says of the very same loop.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from fitting import Floats, each_left_out, experiments_of, loss, options_of, plain_session
from msgspec.structs import replace

from planner.engine.answers.answer import Answer
from planner.engine.columns import Table
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.engine import Engine
from planner.engine.job.engines import find_engine
from planner.engine.job.resolve import resolve
from planner.engine.memory import memory_of
from planner.engine.performance.operators.chip import chip_of
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.simulation.batching_rules import batching_rules
from planner.engine.performance.simulation.continuous_batching import run_batches
from planner.engine.performance.simulation.iteration_time import iteration_time
from planner.engine.performance.simulation.load import Load, token_lengths
from planner.engine.performance.simulation.traffic import traffic_of
from planner.session import Session
from planner.workload.published.experiments import Experiment
from planner.workload.traffic.lengths import ROUNDS

TRIED = np.arange(1.0, 10.01, 0.25)


@dataclass(frozen=True)
class Loop:
    """One published mean time, and the replica on which it was measured."""

    source: str
    engine: Engine
    clients: int
    """Clients of one replica."""
    table: Table
    measured_s: float

    def first_token_s(self, together: float) -> float:
        """Predicted time to first token with that many prompts together."""
        engine = replace(self.table.engine, waiting_prompts=np.array([together]))
        return float(serve_of(replace(self.table, engine=engine), continuous=True).ttft_s.mean[0])

    @cached_property
    def line(self) -> tuple[float, float, float]:
        """(seconds with one prompt together, additional seconds for each further one, the largest possible number); linear up to there."""
        one, two, most = (self.first_token_s(together) for together in (1.0, 2.0, 1e9))
        return one, two - one, 1 + (most - one) / (two - one) if two > one else 1.0

    def error(self, together: float | None = None) -> float:
        """ln(predicted ÷ measured); with the engine's own number if none is given."""
        one, more, most = self.line
        given = self.engine.waiting_prompts if together is None else together
        return math.log(one + more * (min(given, most) - 1)) - math.log(self.measured_s)

    def simulated_s(self) -> float:
        """Mean over all requests when every client starts at once and sends `ROUNDS`, one after the other."""
        job = self.table.job
        inputs, outputs = (token_lengths([None], [float(tokens[0])]) for tokens in (job.input_tokens, job.output_tokens))
        zero, clients, count = np.zeros(1), np.array([float(self.clients)]), int(ROUNDS) * self.clients
        rules = batching_rules(self.table, np.broadcast_to(memory_of(self.table).max_sequences, 1))
        traffic = traffic_of(Load(zero, clients, inputs, outputs, zero, zero, zero), [0], count + 1)
        trace = run_batches(iteration_time(self.table), rules, traffic, warm=np.array([0]), measured=np.array([count]))
        return float((trace.first_s - trace.sent_s)[0, :count].mean())


def loops(session: Session, folder: Path, quantity: str = "ttft_s") -> Iterator[Loop]:
    """The closed loops of fixed lengths, each with its published `quantity`."""
    experiments = experiments_of(session, folder).experiments
    kept = [one for one in experiments if isinstance(one.request.concurrency, int) and one.request.task == "serve"]
    answers = session.estimate([one.request for one in kept], basis="spec")
    for one, answer in zip(kept, answers, strict=True):
        measured = [value.value for value in one.values if value.quantity == quantity]
        lengths = (one.request.input_tokens, one.request.output_tokens)
        if not measured or not isinstance(answer, Answer) or not all(isinstance(length, int) for length in lengths):
            continue
        if "waiting_per_replica" in answer.assumed:  # the other clients are not in flight
            continue
        yield from (_loop(session, one, answer, value) for value in measured)


def _loop(session: Session, one: Experiment, answer: Answer, measured_s: float) -> Loop:
    job = resolve(one.request, session.models_of(one.request))
    gpu = session.gpus.find(one.request.gpu)
    chip = chip_of(gpu, session.ceilings(gpu, basis="spec"), job.dtype, job.stored)
    assert chip is not None
    assert answer.layout is not None
    table = candidate_of(job, chip, answer.layout).table()
    source = f"{one.source}: {' '.join(one.framework.split())} on {one.gpu}, {one.model}"
    return Loop(source, job.engine, math.ceil(job.concurrency / answer.layout.dp), table, measured_s)


def errors(loops: Iterable[Loop], together: float | None = None) -> Floats:
    """Logarithmic error of each loop."""
    return np.array([loop.error(together) for loop in loops])


def best(loops: Sequence[Loop]) -> float:
    """The number with the lowest loss."""
    return float(min(TRIED, key=lambda together: loss(errors(loops, float(together)))))


def error_text(logarithmic: Floats) -> str:
    """'n 357, median 22 %, p90 80 %, signed -9 %' of logarithmic errors."""
    share = np.expm1(logarithmic)
    size = np.abs(share)
    return f"n {size.size:3}, median {np.median(size):.1%}, p90 {np.quantile(size, 0.9):.0%}, signed {np.median(share):+.1%}"


def report(name: str, loops: Sequence[Loop]) -> Iterator[str]:
    """The fit of these loops, and without each of their sources."""
    fitted = best(loops)
    yield f"{name}: {fitted:.2f}; {error_text(errors(loops, fitted))}; as shipped {error_text(errors(loops))}"
    for source, rest, own in each_left_out(loops, lambda loop: loop.source):
        without = best(rest)
        yield f"  without {source}: {without:.2f}; it then has {error_text(errors(own, without))}"


def compared(name: str, loops: Sequence[Loop]) -> Iterator[str]:
    """The simulation of the same loops."""
    simulated = np.log([loop.simulated_s() for loop in loops])
    measured = np.log([loop.measured_s for loop in loops])
    yield f"{name}, simulated: {error_text(simulated - measured)}; the formula {error_text(errors(loops))},"
    yield f"  against the simulation {error_text(errors(loops) + measured - simulated)}"


def main() -> None:
    """Print the fits."""
    options = options_of(__doc__)
    options.add_argument("--simulate", type=int, default=16, metavar="CLIENTS")
    given = options.parse_args()
    session = plain_session()
    found = list(loops(session, given.folder))
    names = sorted({loop.engine.name for loop in found})
    shared = [loop for loop in found if not loop.engine.prompts_first]
    if not shared:
        sys.exit("no closed loop with a time to first token that can be used")
    print("\n".join(report("all engines", shared)))
    for name in names:
        own = [loop for loop in found if loop.engine.name == name]
        few = [loop for loop in own if loop.clients <= given.simulate]
        if not find_engine(name).prompts_first:
            print("\n".join(report(name, own)))
        if few:
            print("\n".join(compared(f"{name}, up to {given.simulate} clients", few)))


if __name__ == "__main__":
    main()
