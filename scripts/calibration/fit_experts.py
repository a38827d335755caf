"""Fits the time of fused experts beyond arithmetic and reading of weights: the numbers of `ANY` in `operators.expert_kernels`.

    python scripts/calibration/fit_experts.py FOLDER

FOLDER holds moe.csv.gz: the `moe_perf.parquet` files of aiconfigurator-core (PyPI, Apache-2.0; systems/data/GPU/moe/ENGINE/RELEASE) as one table
with the columns gpu, framework, dtype, tokens, width, inner, top_k, experts, tp, ep, distribution, latency_us. Balanced ones of up to eight
parts are fitted, one in `SAMPLE`; those of a shape that any row has read faster than the memory of the part are left out, as not all experts were
touched there. It minimises Huber's loss (turning at 10 %) of ln(predicted ÷ measured) of

    t = L + ((FLOP / F)^p + (weights / B)^p)^(1/p) + A · tokens · top_k · (2 width + 3 inner) · 2 bytes / bandwidth

with F, B and p of the shipped ceilings. Printed for each kind of weights: L, A, the factor of B (4 bit alone), the error, and both without
each framework together with the error that framework then has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter

import numpy as np
from fitting import (
    Fit,
    Floats,
    Row,
    columns,
    each_left_out,
    latencies_s,
    left_out_text,
    options_of,
    plain_session,
    read,
    robust_fit,
)

from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.operators.expert_kernels import ALIKE

SAMPLE = 8
MOST_PARTS = 8
DTYPES = {
    "bfloat16": ("16 bit", "bf16", "bf16", 2.0),
    "fp8": ("8 bit", "fp8", "fp8", 1.0),
    "fp8_block": ("8 bit blocks", "fp8", "fp8", 1.0),
    "nvfp4": ("4 bit", "fp4", "nvfp4", 0.5625),
    "w4a8_mxfp4_mxfp8": ("4 bit", "fp8", "mxfp4", 0.53125),
    "w4a16_mxfp4": ("packed", "bf16", "mxfp4", 0.53125),
    "int4_wo": ("packed", "bf16", "awq", 0.53),
}
"""dtype of the table -> (kind of weights, compute dtype, storage, bytes of a stored weight)."""
GPUS = {
    "A100 SXM": "A100 80GB SXM",
    "H100 SXM": "H100 SXM5 80GB",
    "H200 SXM": "H200 SXM",
    "B200 SXM": "B200 SXM",
    "GB200": "GB200",
    "GB300": "GB300",
    "L40S": "L40S",
    "RTX PRO 6000 Server": "RTX PRO 6000 Blackwell Server",
}
AMPERE = "A100 SXM"
"""A GPU of the table that only `fit_expert_kernels` fits."""
UNTUNED = ("vllm", "fp8", ("H100 SXM", "H200 SXM"))
"""Rows that are not representative: per-tensor FP8 of vLLM 0.24 on Hopper reads weights at a tenth of the memory's rate there."""
START = np.log([30e-6, 3.0, 1.0])


def main() -> None:
    """Print the fit of each kind of weights."""
    folder = options_of(__doc__).parse_args().folder
    rows = [row for row in read(folder / "moe.csv.gz")[::SAMPLE] if _used(row)]
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in plausible(rows):
        by_kind[DTYPES[row["dtype"]][0]].append(row)
    for kind, found in by_kind.items():
        print(f"{kind}: {len(found)} timings, {_text(_fitted(found, kind))}")
        for framework, others, own in each_left_out(found, itemgetter("framework")):
            fit = _fitted(others, kind)
            print(f"  {left_out_text(framework, _text(fit), np.log(_seconds(own)(fit.values)) - np.log(latencies_s(own)))}")


def _used(row: Row) -> bool:
    framework, dtype, gpus = UNTUNED
    odd = row["framework"].startswith(framework) and row["dtype"] == dtype and row["gpu"] in gpus
    known = (
        row["gpu"] in GPUS.keys() - {AMPERE}
        and row["dtype"] in DTYPES
        and row["distribution"] == "balanced"
        and float(row["ep"]) <= MOST_PARTS
    )
    return known and not odd and chip_or_none(GPUS[row["gpu"]], row["dtype"]) is not None


def plausible(rows: Sequence[Row]) -> list[Row]:
    """Rows of shapes (a model's experts on one GPU) that no balanced row has read faster than the memory of the part."""
    shapes = [tuple(row[name] for name in ("gpu", "framework", "dtype", "width", "inner", "experts", "top_k")) for row in rows]
    impossible = {
        shape
        for row, shape in zip(rows, shapes, strict=True)
        if row["distribution"] == "balanced"
        and _weight_bytes(row) / (float(row["latency_us"]) * 1e-6) > chip_of(row).gpu.memory_bandwidth_bytes_per_s
    }
    return [row for row, shape in zip(rows, shapes, strict=True) if shape not in impossible]


@cache
def chip_or_none(gpu: str, dtype: str) -> Chip | None:
    """Ceilings of `gpu` of the catalogue for `dtype` of the table; None where it does not support it."""
    session = plain_session()
    _, compute, stored, _ = DTYPES[dtype]
    return session.ceilings_cache.chips("spec")(session.gpus.find(gpu), compute, stored)


def chip_of(row: Row) -> Chip:
    """Ceilings of the GPU and dtype of a fitted row."""
    chip = chip_or_none(GPUS[row["gpu"]], row["dtype"])
    assert chip is not None
    return chip


def _weight_bytes(row: Row) -> float:
    tokens, top_k, experts, ep, width, inner, tp = (
        float(row[name]) for name in ("tokens", "top_k", "experts", "ep", "width", "inner", "tp")
    )
    if row["distribution"] == "balanced":
        touched = min(experts, tokens * top_k)
    else:
        touched = float(experts * (1 - (1 - top_k / experts) ** (max(tokens, 1.0) ** ALIKE)))
    return max(1.0, touched / ep) * 3 * width * inner / tp * DTYPES[row["dtype"]][3]


class Work:
    """Seconds in which each row computes, reads and moves at the ceilings of its GPU."""

    def __init__(self, rows: Sequence[Row]) -> None:
        tokens, top_k, ep, self.width, inner, tp = columns(rows, "tokens", "top_k", "ep", "width", "inner", "tp")
        chips = [chip_of(row) for row in rows]
        rate, weights, self.memory, self.knee = (
            np.array([getattr(chip, name) for chip in chips])
            for name in ("flop_per_s", "weight_bandwidth_bytes_per_s", "bandwidth_bytes_per_s", "knee")
        )
        busiest = np.array([1.0 if row["distribution"] == "balanced" else float(row["ep"]) ** 0.25 for row in rows])
        self.sent, self.inner = tokens * top_k, inner / tp
        self.routed = self.sent / ep * busiest
        self.flop_s = 6 * self.routed * self.width * inner / tp / rate
        self.read_s = np.array([_weight_bytes(row) for row in rows]) / weights

    def product_s(self, reached: float, faster: float) -> Floats:
        """Seconds of the products at these factors of the arithmetic's and the weights' rate."""
        return ((self.flop_s / reached) ** self.knee + (self.read_s / faster) ** self.knee) ** (1 / self.knee)


def _seconds(rows: Sequence[Row]) -> Callable[[Floats], Floats]:
    """Seconds of each row by the logarithms of (L, A, factor of B)."""
    work = Work(rows)
    moved_s = work.routed * (2 * work.width + 3 * work.inner) * 2 / work.memory

    def seconds(logs: Floats) -> Floats:
        latency, traffic, faster = np.exp(logs)
        return latency + work.product_s(1.0, faster) + traffic * moved_s

    return seconds


def _fitted(rows: Sequence[Row], kind: str) -> Fit:
    return robust_fit(_seconds(rows), latencies_s(rows), START, {} if kind == "4 bit" else {2: 0.0})


def _text(fit: Fit) -> str:
    latency, traffic, faster = np.exp(fit.values)
    return f"{latency * 1e6:.0f} µs, traffic × {traffic:.1f}, read × {faster:.2f}, {fit}"


if __name__ == "__main__":
    main()
