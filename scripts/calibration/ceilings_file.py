"""Records of `presets/ceilings/public.toml`: the one for an unmeasured GPU, made from the others, and how they are written."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np

SINGLE = (
    "bandwidth_efficiency",
    "kernel_latency_s",
    "attention_efficiency",
    "attention_latency_s",
    "attention_bandwidth_efficiency",
    "decode_attention_efficiency",
    "decode_attention_latency_s",
    "decode_head_s",
    "quantise_efficiency",
)
"""Figures of a record with a single value."""
NORMAL_90 = 1.645
"""Half width of the 90 % range of a normal distribution, in standard deviations."""


def pooled(records: list[dict[str, Any]], source: str) -> dict[str, Any]:
    """Likely ceilings of a GPU that nobody measured: means of the logarithms, and the spread of one more draw."""
    mean: dict[str, Any] = {"name": "any GPU", "source": source}
    for key in SINGLE:
        mean[key] = drawn([record[key] for record in records if key in record])
    for key in ("compute_efficiency", "weight_bandwidth_efficiency"):
        names = sorted({name for record in records for name in record[key]})
        mean[key] = {name: drawn([record[key][name] for record in records if name in record[key]]) for name in names}
    for key in ("knee", "attention_knee"):
        mean[key] = float(np.exp(np.mean(np.log([record[key] for record in records]))))
    every = [one for record in records for one in record["collective"]]
    mean["collective"] = [
        {
            **same[0],
            "latency_s": drawn([one["latency_s"] for one in same]),
            "efficiency": (best_host if first["link"] == "pcie" else drawn)([one["efficiency"] for one in same]),
        }
        for first in every
        if (same := [one for one in every if all(one[key] == first[key] for key in ("link", "op", "gpus"))])[0] is first
    ]
    return mean


def without_host(record: dict[str, Any]) -> dict[str, Any]:
    """`record` without collectives over PCIe, which depend on the host and not on the GPU."""
    return record | {"collective": [one for one in record["collective"] if one["link"] != "pcie"]}


def best_host(figures: list[tuple[float, float]]) -> tuple[float, float]:
    """The largest value, as of a host whose PCIe switches allow peer-to-peer traffic; the spread reaches to the smallest."""
    values = [value for value, _ in figures]
    return max(values), float(max(*(spread for _, spread in figures), np.log(max(values) / min(values))))


def drawn(figures: list[tuple[float, float]]) -> tuple[float, float]:
    """Geometric mean of the values and the spread of one more; of a single one, twice its own spread."""
    logs = np.log([value for value, _ in figures])
    if len(logs) == 1:
        return float(figures[0][0]), 2 * figures[0][1]
    own = max(spread for _, spread in figures)
    return float(np.exp(logs.mean())), float(max(own, NORMAL_90 * logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))))


@dataclass(frozen=True)
class Error:
    """Limits of a fit, absolute and logarithmic."""

    median: float
    p90: float


def toml(records: list[dict[str, Any]], methods: dict[str, str]) -> str:
    """The records as a ceilings file; `methods`: how the figures of each source were obtained."""
    today = dt.datetime.now(dt.UTC).date()
    lines = [
        f"# Written by scripts/calibration/fit_ceilings.py on {today}; the script says the formulas. Do not edit: run it again.",
        "# Efficiencies are fractions of the catalogue's dense peak, bandwidth, or one direction of the link.",
        "# spread: half width of the 90 % range of the logarithm. *_error: median and 90th percentile of |ln(formula / measured)|.",
    ]
    for record in records:
        lines += [
            "",
            "[[ceilings]]",
            f'gpu = "{record["gpu"]}"' if "gpu" in record else f'name = "{record["name"]}"',
            f'source = "{record["source"]}"',
        ]
        lines += [f"retrieved = {today}", f'method = "{methods[record["source"]]}"']
        for key, value in record.items():
            if key in {"gpu", "name", "source"}:
                continue
            lines.append(f"{key} = {shown(value)}")
    return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    """A figure, a table of figures, a list or a text in TOML."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {shown(one)}" for key, one in value.items()) + " }"
        case (float() as middle, float() as spread):
            return f"{{ value = {number(middle)}, spread = {number(spread)} }}"
        case Error():
            return f"{{ median = {number(value.median)}, p90 = {number(value.p90)} }}"
        case list():
            return "[\n" + "".join(f"  {shown(one)},\n" for one in value) + "]"
        case str():
            return f'"{value}"'
        case _:
            return number(float(str(value)))


def number(value: float) -> str:
    """Three significant digits."""
    return str(int(value)) if value == int(value) and value >= 2 else f"{value:.3g}"
