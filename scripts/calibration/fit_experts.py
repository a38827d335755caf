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
from typing import TYPE_CHECKING

import numpy as np
from fitting import Fit, columns, read, robust_fit
from published import options_of, plain_session

from planner.engine.performance.operators.chip import Chip

if TYPE_CHECKING:
    from fitting import Floats, Row

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
"""A GPU of the table that `fit_expert_kernels` alone fits to."""
UNTUNED = ("vllm", "fp8", ("H100 SXM", "H200 SXM"))
"""Per-tensor FP8 of vLLM 0.24 on Hopper reads weights at a tenth of the memory's rate there: a kernel that is not used so."""
START = np.log([30e-6, 3.0, 1.0])


def main() -> None:
    """Print the fit of each kind of weights."""
    folder = options_of(__doc__).parse_args().folder
    rows = [row for row in read(folder / "moe.csv.gz")[::SAMPLE] if _used(row)]
    impossible = {
        shape_of(row)
        for row in rows
        if _weight_bytes(row) / (float(row["latency_us"]) * 1e-6) > chip_of(row).gpu.memory_bandwidth_bytes_per_s
    }
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if shape_of(row) not in impossible:
            by_kind[DTYPES[row["dtype"]][0]].append(row)
    for kind, found in by_kind.items():
        print(f"{kind}: {len(found)} timings, {_text(_fitted(found, kind))}")
        for framework in sorted({row["framework"] for row in found}):
            others = [row for row in found if row["framework"] != framework]
            kept = [row for row in found if row["framework"] == framework]
            if others:
                fit = _fitted(others, kind)
                errors = np.log(_seconds(kept)(fit.values)) - np.log(columns(kept, "latency_us")[0] * 1e-6)
                print(
                    f"  without {framework}: {_text(fit)}; it then has median {np.median(np.abs(errors)):.0%}, bias {np.median(errors):+.0%}"
                )


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


def shape_of(row: Row) -> tuple[str, ...]:
    """What rows of one model's experts on one GPU have in common."""
    return tuple(row[name] for name in ("gpu", "framework", "dtype", "width", "inner", "experts", "top_k"))


@cache
def chip_or_none(gpu: str, dtype: str) -> Chip | None:
    """Ceilings of `gpu` of the catalogue for `dtype` of the table; None where it does not compute in it."""
    session = plain_session()
    _, compute, stored, _ = DTYPES[dtype]
    return session.ceilings_cache.chips("spec")(session.gpus.find(gpu), compute, stored)


def chip_of(row: Row) -> Chip:
    """Ceilings of the GPU and dtype of a row that is fitted."""
    chip = chip_or_none(GPUS[row["gpu"]], row["dtype"])
    assert chip is not None
    return chip


def _weight_bytes(row: Row) -> float:
    tokens, top_k, experts, ep, width, inner, tp = (
        float(row[name]) for name in ("tokens", "top_k", "experts", "ep", "width", "inner", "tp")
    )
    return max(1.0, min(experts, tokens * top_k) / ep) * 3 * width * inner / tp * DTYPES[row["dtype"]][3]


def _seconds(rows: Sequence[Row]) -> Callable[[Floats], Floats]:
    """Seconds of each row by the logarithms of (L, A, factor of B)."""
    tokens, top_k, ep, width, inner, tp = columns(list(rows), "tokens", "top_k", "ep", "width", "inner", "tp")
    chips = [chip_of(row) for row in rows]
    rate, weights, memory, knee = (
        np.array([getattr(chip, name) for chip in chips])
        for name in ("flop_per_s", "weight_bandwidth_bytes_per_s", "bandwidth_bytes_per_s", "knee")
    )
    routed = tokens * top_k / ep
    flop_s = 6 * routed * width * inner / tp / rate
    read_s = np.array([_weight_bytes(row) for row in rows]) / weights
    moved_s = routed * (2 * width + 3 * inner / tp) * 2 / memory

    def seconds(logs: Floats) -> Floats:
        latency, traffic, faster = np.exp(logs)
        product: Floats = latency + (flop_s**knee + (read_s / faster) ** knee) ** (1 / knee) + traffic * moved_s
        return product

    return seconds


def _fitted(rows: Sequence[Row], kind: str) -> Fit:
    return robust_fit(_seconds(rows), columns(list(rows), "latency_us")[0] * 1e-6, START, {} if kind == "4 bit" else {2: 0.0})


def _text(fit: Fit) -> str:
    latency, traffic, faster = np.exp(fit.values)
    return f"{latency * 1e6:.0f} µs, traffic × {traffic:.1f}, read × {faster:.2f}, {fit}"


if __name__ == "__main__":
    main()
