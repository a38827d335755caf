"""Fits the memory traffic of latent attention beyond products and scores: `ABSORBED_PASSES` and `EXPANDED_PASSES`.

    python scripts/calibration/fit_latent.py FOLDER

FOLDER holds latent.csv.gz: the `mla_context_module_perf` and `mla_generation_module_perf` files of aiconfigurator-core (PyPI, Apache-2.0;
systems/data/GPU/mla/ENGINE/RELEASE) as one table with the columns gpu, framework, phase, gemm, kv_dtype, heads, batch, isl, step, latency_us.
Each row is the whole attention of one layer of DeepSeek V3: projections, scores, and all between them. Those with weights in FP8 are fitted, one
in `SAMPLE`. It minimises Huber's loss (turning at 10 %) of ln(predicted ÷ measured) of

    t = L + t(projections) + t(scores) + bytes of norms, rotary embedding and rounding / bandwidth + P · elements · 2 bytes / bandwidth

with everything but L and P as the planner has it. `elements` are those of `attention.latent_elements`: of absorbed queries and outputs while decoding, of
keys and values of every head in a prompt. L is fitted for each framework and phase, as it holds kernels that the planner counts apart. Printed: P of both
phases, the error, P without each framework and without each GPU, and the error that these then have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter

import numpy as np
from fitting import Fit, Floats, Row, each_left_out, latencies_s, left_out_text, options_of, plain_session, read, robust_fit
from msgspec.structs import replace

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.columns import Table
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.attention import attention_time, latent_elements
from planner.engine.performance.operators.chip import chip_of
from planner.engine.performance.operators.elementwise import elementwise_bytes
from planner.engine.performance.operators.products import layer_products, product_time
from planner.schema import read_struct
from planner.workload.tasks import Request

SAMPLE = 3
HEADS = 128
PHASES = ("decode", "prefill")
"""Order of the passes that are fitted."""
START = 3.0
LATENCY_S = 60e-6
MODEL = "DeepSeek-V3"


def main() -> None:
    """Print the fit of all rows, and without each framework and each GPU."""
    folder = options_of(__doc__).parse_args().folder
    rows = [row for row in read(folder / "latent.csv.gz") if row["gemm"] == "fp8_block"][::SAMPLE]
    print(f"{len(rows)} timings: {_text(_fitted(rows))}")
    for column in ("framework", "gpu"):
        for left, others, own in each_left_out(rows, itemgetter(column)):
            fit = _fitted(others)
            print(f"  {left_out_text(left, _text(fit), _fitted(own, fit.values[:2]).errors)}")


@cache
def _table(gpu: str, kv_dtype: str, heads: int) -> Table:
    """One layer's attention with that many heads on a GPU: a rank of tensor parallelism."""
    session = plain_session()
    cache_dtype = {"fp8": "fp8", "bfloat16": "bf16"}[kv_dtype]
    given = {"model": MODEL, "gpu": gpu, "gpus": 8, "dp": 8, "ep": 8, "task": "serve", "dtype": "fp8", "kv_dtype": cache_dtype}
    request = read_struct(Request, given | {"engine": "vllm", "input_tokens": 1000, "output_tokens": 100, "concurrency": 8}, MODEL)
    job, found = resolve(request, session.models_of(request)), session.gpus.find(gpu)
    chip = chip_of(found, session.ceilings(found, basis="spec"), job.dtype, job.stored)
    assert chip is not None
    table = candidate_of(job, chip, LayoutAnswer(gpus=8, dp=8, ep=8, gpus_per_node=8)).table()
    return replace(table, layout=replace(table.layout, tp=np.full(1, HEADS / heads)))


@cache
def _parts(gpu: str, kv_dtype: str, phase: str, heads: int, batch: int, isl: int, step: int) -> tuple[float, float]:
    """(seconds as planned, seconds of one pass over the elements)."""
    t, one = _table(gpu, kv_dtype, heads), np.ones(1)
    new = float(isl) if phase == "prefill" else 1.0
    rows, context = one * batch * new, one * (step + isl / 2 if phase == "prefill" else step + 1)
    scores_s = attention_time(t, rows, context, one * new).fused_s
    projections_s = product_time(t, layer_products(t, rows)["attention"]).seconds
    between = sum((elementwise_bytes(t, rows, kind) for kind in ("norms", "rotary embedding")), start=np.zeros(1))
    rounding_s = rows * 2 * t.model.width * (2 + t.job.narrow_bytes) / t.chip.quantise_bytes_per_s
    planned = scores_s + projections_s + between / t.chip.bandwidth_bytes_per_s + rounding_s
    moved = rows * latent_elements(t, one * new) * 2 / t.chip.bandwidth_bytes_per_s
    return float(np.ravel(planned)[0]), float(np.ravel(moved)[0])


def _seconds(rows: Sequence[Row]) -> Callable[[Floats], Floats]:
    """Seconds of each row by the logarithms of the passes of both phases and of the latencies of each framework and phase."""
    groups = sorted({(row["framework"], row["phase"]) for row in rows})
    group = np.array([groups.index((row["framework"], row["phase"])) for row in rows])
    phase = np.array([PHASES.index(row["phase"]) for row in rows])
    names = ("heads", "batch", "isl", "step")
    found = [_parts(row["gpu"], row["kv_dtype"], row["phase"], *(int(row[name]) for name in names)) for row in rows]
    planned, moved = np.array(found).T

    def seconds(logs: Floats) -> Floats:
        passes, latency = np.exp(logs[:2]), np.exp(logs[2:])
        return latency[group] + planned + passes[phase] * moved

    return seconds


def _fitted(rows: Sequence[Row], passes: Floats | None = None) -> Fit:
    """The fit of all parameters, or of the latencies alone with these `passes`."""
    groups = {(row["framework"], row["phase"]) for row in rows}
    start = np.log([START, START, *[LATENCY_S] * len(groups)])
    held = {} if passes is None else {index: float(value) for index, value in enumerate(passes)}
    return robust_fit(_seconds(rows), latencies_s(rows), start, held)


def _text(fit: Fit) -> str:
    absorbed, expanded, *latencies = np.exp(fit.values)
    return f"absorbed × {absorbed:.1f}, expanded × {expanded:.1f}, {', '.join(f'{one * 1e6:.0f}' for one in latencies)} µs, {fit}"


if __name__ == "__main__":
    main()
