"""Fits a serving engine's overhead per iteration: `host_step_s`, `host_sequence_s`, `mixed_launches_per_layer`, `mixed_factor`.

    scripts/calibration/fit_host_step.py FOLDER

FOLDER holds published measurements (docs/evidence/validation.md): mean times per output token at a concurrency, with fixed lengths. Products,
attention and communication are predicted without any of them. The latter two are of engines that launch an iteration of prompts and
running sequences operator by operator (`LAUNCHED`). It minimises Huber's loss (turning at 10 %) of ln(predicted ÷ measured). Printed:
for each engine the four and the error, the error as shipped, and the four without each source (a release on a GPU with a model) and
the error that source then has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from fit_first_token import Loop, error_text, loops
from fitting import Floats, each_left_out, loss, options_of, plain_session, robust_fit
from msgspec.structs import replace

from planner.engine.performance.prefill_decode.generation import serve_of

LAUNCHED = {"tensorrt-llm"}
"""Engine that captures only graphs of decoding, unless piecewise graphs are requested: nvidia.github.io/TensorRT-LLM, "Torch Compile &
Piecewise CUDA Graph"."""
MIXED = tuple(itertools.product(np.arange(0.0, 201.0, 20.0), np.arange(1.0, 1.26, 0.05)))
"""Launches per layer and factors of the device that are tried for mixed iterations."""
OWN = ((0.0, 0.0), (1e-3, 0.0), (0.0, 1e-3))
START = np.log([0.5e-3, 10e-6])
LEAST = np.log(1e-7)
MILLISECOND, MICROSECOND = 1e-3, 1e-6


@dataclass(frozen=True)
class Host:
    """Host seconds per step and per sequence; for mixed iterations, launches per layer and the factor on device time."""

    step_s: float
    sequence_s: float
    launches: float
    factor: float

    def __str__(self) -> str:
        own = f"{self.step_s / MILLISECOND:.2f} ms, {self.sequence_s / MICROSECOND:.0f} µs a sequence"
        return own + (f", {self.launches:.0f} launches a mixed layer, × {self.factor:.2f}" if self.launches else "")


@dataclass(frozen=True)
class Timed:
    """One published mean time per output token, and the replica on which it was measured."""

    loop: Loop

    @property
    def mixed(self) -> tuple[tuple[float, float], ...]:
        """Combinations of launches and factor that are tried for mixed iterations."""
        return MIXED if self.loop.engine.name in LAUNCHED else ((0.0, 1.0),)

    def predicted_s(self, host: Host) -> float:
        """Predicted time per output token with that host."""
        table = self.loop.table
        names = ("host_step_s", "host_sequence_s", "mixed_launches_per_layer", "mixed_factor")
        given = (host.step_s, host.sequence_s, host.launches, host.factor)
        engine = replace(table.engine, **{name: np.array([value]) for name, value in zip(names, given, strict=True)})
        return float(serve_of(replace(table, engine=engine), continuous=True).tpot_s.mean[0])

    @cached_property
    def planes(self) -> Floats:
        """Seconds without host time, and their slopes over host seconds per step and per sequence, for each of `mixed`."""
        found = []
        for mixed in self.mixed:
            none, step, sequence = (self.predicted_s(Host(*own, *mixed)) for own in OWN)
            found.append((none, (step - none) / MILLISECOND, (sequence - none) / MILLISECOND))
        return np.array(found)


def fitted(timed: Sequence[Timed]) -> tuple[Host, Floats]:
    """The host with the lowest loss, and the logarithmic errors with it."""
    measured = np.array([one.loop.measured_s for one in timed])
    planes = np.array([one.planes for one in timed])
    found: list[tuple[float, Host, Floats]] = []
    for place in range(planes.shape[1]):
        none, step, sequence = planes[:, place].T

        def seconds(logs: Floats, none: Floats = none, step: Floats = step, sequence: Floats = sequence) -> Floats:
            a, b = np.exp(np.maximum(logs, LEAST))
            return none + a * step + b * sequence

        fit = robust_fit(seconds, measured, START, {})
        a, b = np.exp(np.maximum(fit.values, LEAST))
        found.append((loss(fit.errors), Host(float(a), float(b), *timed[0].mixed[place]), fit.errors))
    _, host, errors = min(found, key=lambda one: one[0])
    return host, errors


def shipped(timed: Sequence[Timed]) -> Floats:
    """Logarithmic errors with the shipped values of the engines."""
    engines = (one.loop.engine for one in timed)
    hosts = (Host(e.host_step_s, e.host_sequence_s, e.mixed_launches_per_layer, e.mixed_factor) for e in engines)
    return with_hosts(timed, hosts)


def with_hosts(timed: Sequence[Timed], hosts: Iterable[Host]) -> Floats:
    """Logarithmic errors, each with its host."""
    return np.array([np.log(one.predicted_s(host) / one.loop.measured_s) for one, host in zip(timed, hosts, strict=True)])


def report(name: str, timed: Sequence[Timed]) -> Iterator[str]:
    """The fit of these loops, and without each of their sources."""
    host, errors = fitted(timed)
    yield f"{name}: {host}; {error_text(errors)}; as shipped {error_text(shipped(timed))}"
    for source, rest, own in each_left_out(timed, lambda one: one.loop.source):
        without, _ = fitted(rest)
        yield f"  without {source}: {without}; it then has {error_text(with_hosts(own, [without] * len(own)))}"


def main() -> None:
    """Print the fits."""
    folder = options_of(__doc__).parse_args().folder
    timed = [Timed(loop) for loop in loops(plain_session(), folder, "tpot_s")]
    for engine in sorted({one.loop.engine.name for one in timed}):
        for line in report(engine, [one for one in timed if one.loop.engine.name == engine]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
