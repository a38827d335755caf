"""Fits the memory that eager `transformers` reserves but does not allocate: PyTorch's caching allocator and the CUDA context.

    scripts/calibration/fit_allocator.py FOLDER

FOLDER holds published measurements (columns config_id, model, framework, micro_batch, isl, metric, value, unit) and
models.json (Hugging Face configs by name). Experiments of `transformers` with both a device peak (`peak_mem_nvml`) and
PyTorch's own (`peak_mem_allocated`) give their difference; it is fitted, without negative coefficients, as

    constant + a · cache + b · temporaries          cache = 4·L·k·tokens bytes, temporaries = (6f + 8h)·tokens bytes

L layers · h width · k key elements of a token · f feed-forward width. Printed: the coefficients (`cache_slack`,
`kept_activations` of presets/engines), the residual, and each model's error when it is left out of the fit.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
from fitting import config_of, options_of, rows
from numpy.typing import NDArray

from planner.workload.huggingface.config import read_architecture

Floats = NDArray[np.float64]
BYTES = {"MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}


def read(folder: Path) -> tuple[list[str], Floats, Floats]:
    """(model, [1, cache, temporaries] in bytes, reserved - allocated in bytes) of each usable experiment."""
    peaks: dict[tuple[str, str, int], dict[str, float]] = defaultdict(dict)
    for row in rows(folder, "prefill", "transformers"):
        if row["metric"].startswith("peak_mem_"):
            key = (row["config_id"], row["model"], int(row["micro_batch"]) * int(row["isl"]))
            peaks[key][row["metric"]] = float(row["value"]) * BYTES[row["unit"]]
    names, terms, differences = [], [], []
    for (_, name, tokens), found in peaks.items():
        config = config_of(folder, name)
        if config is None or len(found) < 2:
            continue
        a = read_architecture(config)
        names.append(name)
        terms.append([1.0, 4.0 * a.layers * a.key * tokens, (6.0 * a.ffn + 8.0 * a.width) * tokens])
        differences.append(found["peak_mem_nvml"] - found["peak_mem_allocated"])
    return names, np.array(terms), np.array(differences)


def fit(terms: Floats, differences: Floats) -> Floats:
    """Least squares with no coefficient below 0: the best of all subsets of the terms whose solution has none."""
    best, least = np.zeros(terms.shape[1]), np.inf
    for count in range(1, terms.shape[1] + 1):
        for chosen in combinations(range(terms.shape[1]), count):
            solved = np.linalg.lstsq(terms[:, chosen], differences, rcond=None)[0]
            error = float(np.sum((terms[:, chosen] @ solved - differences) ** 2))
            if np.all(solved >= 0) and error < least:
                best, least = np.zeros(terms.shape[1]), error
                best[list(chosen)] = solved
    return best


def main() -> None:
    """Print the fit."""
    names, terms, differences = read(options_of(__doc__).parse_args().folder)
    if not names:
        sys.exit("no experiment has both a device peak and PyTorch's own")
    found = fit(terms, differences)
    residual = np.abs(terms @ found - differences) / differences
    print(
        f"{len(names)} experiments: constant {found[0] / 1e9:.2f} GB, cache_slack {found[1]:.2f}, kept_activations {found[2]:.2f}"
    )
    print(f"residual of the difference: median {np.median(residual):.1%}, 90th percentile {np.quantile(residual, 0.9):.1%}")
    for left_out in sorted(set(names)):
        others = np.array([name != left_out for name in names])
        error = np.abs(terms[~others] @ fit(terms[others], differences[others]) / differences[~others] - 1)
        print(f"  without {left_out:32} its error: median {np.median(error):.1%}")


if __name__ == "__main__":
    main()
