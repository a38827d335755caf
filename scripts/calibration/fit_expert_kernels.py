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
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
from fit_experts import DTYPES, GPUS, Work, chip_or_none, plausible
from fitting import Fit, Floats, Row, columns, each_left_out, latencies_s, left_out_text, options_of, read, robust_fit

SAMPLE, MOST_TP, MOST_EP = 6, 8, 16
UNFITTED = {"fp8", "int4_wo"}
"""dtypes for which TensorRT-LLM has no separately fitted kernels."""
BLACKWELL = {"B200 SXM", "GB200", "GB300"}
UNUSUAL = (r".* (\S*min_lat\S*|\S*nongated\S*)", r"RTX.* \S*triton_fp8\S*")
"""GPU, dtype and kernel of variants that are not chosen by default, or only for lack of another."""
NAMES = ("L", "M", "read", "rate", "own", "every")
START = np.log([30e-6, 0.05e-6, 1.0, 0.7, 2.0, 1.0])
NONE = float(np.log(1e-18))


def main() -> None:
    """Print the fit of each generation and kind."""
    folder = options_of(__doc__).parse_args().folder
    rows = [row for row in read(folder / "moe.csv.gz")[::SAMPLE] if _used(row)]
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in plausible(rows):
        groups["Blackwell" if row["gpu"] in BLACKWELL else "other", DTYPES[row["dtype"]][0]].append(row)
    for (generation, kind), found in sorted(groups.items()):
        print(f"{generation}, {kind}: {len(found)} timings, {_text(_fitted(found, kind))}")
        for gpu, others, own in each_left_out(found, itemgetter("gpu")):
            fit = _fitted(others, kind)
            errors = np.log(_seconds(own)(fit.values)) - np.log(latencies_s(own))
            print(f"  {left_out_text(gpu, _text(fit), errors)}", flush=True)


def _used(row: Row) -> bool:
    known = (
        row["gpu"] in GPUS and row["dtype"] in DTYPES.keys() - UNFITTED and row["distribution"] in {"balanced", "power_law_1.01"}
    )
    few = float(row["tp"]) <= MOST_TP and float(row["ep"]) <= MOST_EP
    named = " ".join(row[name] for name in ("gpu", "dtype", "kernel"))
    odd = any(re.fullmatch(pattern, named) for pattern in UNUSUAL)
    ours = row["framework"] == "trtllm"
    return ours and known and few and not odd and chip_or_none(GPUS[row["gpu"]], row["dtype"]) is not None


def _seconds(rows: Sequence[Row]) -> Callable[[Floats], Floats]:
    """Seconds of each row by the logarithms of `NAMES`."""
    work, (experts, ep) = Work(rows), columns(rows, "experts", "ep")
    own_s, every_s = (count * 2 * work.width * 2 / work.memory for count in (work.routed, work.sent))

    def seconds(logs: Floats) -> Floats:
        latency, each, faster, reached, own, every = np.exp(logs)
        return latency + each * experts / ep + work.product_s(reached, faster) + own * own_s + every * every_s

    return seconds


def _fitted(rows: Sequence[Row], kind: str) -> Fit:
    held: dict[int, float] = {}
    if kind == "packed":
        held = {1: NONE} if rows[0]["gpu"] in BLACKWELL else {1: NONE, 3: 0.0}
    return robust_fit(_seconds(rows), latencies_s(rows), START, held)


def _text(fit: Fit) -> str:
    latency, each, faster, reached, own, every = np.exp(fit.values)
    times = f"L {latency * 1e6:.0f} µs, M {each * 1e6:.2f} µs, read × {faster:.2f}, rate × {reached:.2f}"
    return f"{times}, own {own:.2f}, every {every:.2f}, {fit}"


if __name__ == "__main__":
    main()
