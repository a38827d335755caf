"""Fits what TensorRT-LLM's fused experts take beside arithmetic and reading of weights: the numbers of `PERMUTED` in `operators.expert_kernels`.

    python scripts/calibration/fit_expert_kernels.py FOLDER

FOLDER holds moe.csv.gz: the `moe_perf.parquet` files of aiconfigurator-core (PyPI, Apache-2.0; systems/data/GPU/moe/trtllm/RELEASE) as one table
with the columns gpu, framework, dtype, kernel, tokens, width, inner, top_k, experts, tp, ep, distribution, latency_us. One row in `SAMPLE` is fitted of
those that are balanced or distributed by a power law of 1.01, over up to `MOST_TP` and `MOST_EP` ranks, with the kernels that the engine chooses by
itself (`UNUSUAL`); those of a shape that any balanced row has read faster than the memory of the part are left out. It minimises Huber's loss (turning at
10 %) of ln(predicted ÷ measured) of

    t = L + M · experts / ep + ((FLOP / (F·rate))^p + (weights / (B·read))^p)^(1/p) + (own · routed + every · tokens · top_k) · 2 width · 2 bytes / bandwidth

with F, B and p of the shipped ceilings, and routed = tokens · top_k / ep, by the power law ep^0.25 times as many. Printed for each generation and kind
of weights: the numbers, the error, and both without each GPU together with the error that this one then has. Packed weights have no M, and on Hopper, where
few long passes were timed, the arithmetic of single products.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from fit_experts import DTYPES, GPUS, chip_of, chip_or_none, shape_of
from fitting import Fit, columns, read, robust_fit
from published import options_of

from planner.engine.performance.operators.expert_kernels import ALIKE

if TYPE_CHECKING:
    from fitting import Floats, Row

SAMPLE, MOST_TP, MOST_EP = 6, 8, 16
UNFITTED = {"fp8", "int4_wo"}
"""dtypes of which TensorRT-LLM has no kernels fitted apart."""
BLACKWELL = {"B200 SXM", "GB200", "GB300"}
UNUSUAL = (r".* (\S*min_lat\S*|\S*nongated\S*)", r"RTX.* \S*triton_fp8\S*")
"""GPU, dtype and kernel that nothing chooses unasked, or that the engine has for lack of another."""
NAMES = ("L", "M", "read", "rate", "own", "every")
START = np.log([30e-6, 0.05e-6, 1.0, 0.7, 2.0, 1.0])
NONE = float(np.log(1e-18))


def main() -> None:
    """Print the fit of each generation and kind."""
    folder = options_of(__doc__).parse_args().folder
    rows = [row for row in read(folder / "moe.csv.gz")[::SAMPLE] if _used(row)]
    impossible = {
        shape_of(row)
        for row in rows
        if row["distribution"] == "balanced"
        and _weight_bytes(row) / (float(row["latency_us"]) * 1e-6) > chip_of(row).gpu.memory_bandwidth_bytes_per_s
    }
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if shape_of(row) not in impossible:
            groups["Blackwell" if row["gpu"] in BLACKWELL else "other", DTYPES[row["dtype"]][0]].append(row)
    for (generation, kind), found in sorted(groups.items()):
        print(f"{generation}, {kind}: {len(found)} timings, {_text(_fitted(found, kind))}")
        for line in _without(found, kind):
            print(f"  {line}", flush=True)


def _without(found: Sequence[Row], kind: str) -> Iterator[str]:
    """The fit without each GPU, and the error that this one then has."""
    for name in sorted({row["gpu"] for row in found}):
        others, own = ([row for row in found if (row["gpu"] == name) == wanted] for wanted in (False, True))
        if others:
            fit = _fitted(others, kind)
            errors = np.log(_seconds(own)(fit.values)) - np.log(columns(own, "latency_us")[0] * 1e-6)
            yield f"without {name}: {_text(fit)}; it then has median {np.median(np.abs(errors)):.0%}, bias {np.median(errors):+.0%}"


def _used(row: Row) -> bool:
    known = (
        row["gpu"] in GPUS and row["dtype"] in DTYPES.keys() - UNFITTED and row["distribution"] in {"balanced", "power_law_1.01"}
    )
    few = float(row["tp"]) <= MOST_TP and float(row["ep"]) <= MOST_EP
    named = " ".join(row[name] for name in ("gpu", "dtype", "kernel"))
    odd = any(re.fullmatch(pattern, named) for pattern in UNUSUAL)
    ours = row["framework"] == "trtllm"
    return ours and known and few and not odd and chip_or_none(GPUS[row["gpu"]], row["dtype"]) is not None


def _touched(row: Row) -> float:
    """Experts of a layer that get a token."""
    tokens, top_k, experts = (float(row[name]) for name in ("tokens", "top_k", "experts"))
    if row["distribution"] == "balanced":
        return min(experts, tokens * top_k)
    return float(experts * (1 - (1 - top_k / experts) ** (max(tokens, 1.0) ** ALIKE)))


def _weight_bytes(row: Row) -> float:
    ep, width, inner, tp = (float(row[name]) for name in ("ep", "width", "inner", "tp"))
    return max(1.0, _touched(row) / ep) * 3 * width * inner / tp * DTYPES[row["dtype"]][3]


def _seconds(rows: Sequence[Row]) -> Callable[[Floats], Floats]:
    """Seconds of each row by the logarithms of `NAMES`."""
    tokens, top_k, ep, width, inner, tp, experts = columns(list(rows), "tokens", "top_k", "ep", "width", "inner", "tp", "experts")
    chips = [chip_of(row) for row in rows]
    rate, weights, memory, knee = (
        np.array([getattr(chip, name) for chip in chips])
        for name in ("flop_per_s", "weight_bandwidth_bytes_per_s", "bandwidth_bytes_per_s", "knee")
    )
    busiest = np.array([1.0 if row["distribution"] == "balanced" else float(row["ep"]) ** 0.25 for row in rows])
    routed = tokens * top_k / ep * busiest
    flop_s = 6 * routed * width * inner / tp / rate
    read_s = np.array([_weight_bytes(row) for row in rows]) / weights
    own_s, every_s = (count * 2 * width * 2 / memory for count in (routed, tokens * top_k))

    def seconds(logs: Floats) -> Floats:
        latency, each, faster, reached, own, every = np.exp(logs)
        product: Floats = (
            latency
            + each * experts / ep
            + ((flop_s / reached) ** knee + (read_s / faster) ** knee) ** (1 / knee)
            + own * own_s
            + every * every_s
        )
        return product

    return seconds


def _fitted(rows: Sequence[Row], kind: str) -> Fit:
    held: dict[int, float] = {}
    if kind == "packed":
        held = {1: NONE} if rows[0]["gpu"] in BLACKWELL else {1: NONE, 3: 0.0}
    return robust_fit(_seconds(rows), columns(list(rows), "latency_us")[0] * 1e-6, START, held)


def _text(fit: Fit) -> str:
    latency, each, faster, reached, own, every = np.exp(fit.values)
    times = f"L {latency * 1e6:.0f} µs, M {each * 1e6:.2f} µs, read × {faster:.2f}, rate × {reached:.2f}"
    return f"{times}, own {own:.2f}, every {every:.2f}, {fit}"


if __name__ == "__main__":
    main()
