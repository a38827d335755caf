"""Writes fitted figures as a file of `presets/ceilings/`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Error:
    """Of a fit, absolute and logarithmic."""

    median: float
    p90: float


def toml(records: list[dict[str, Any]], methods: dict[str, str]) -> str:
    """The records as a ceilings file; `methods` says for each source how its figures came about."""
    today = dt.datetime.now(dt.UTC).date()
    lines = [
        f"# Written by scripts/fit_ceilings.py on {today}; the script says the formulas. Do not edit: run it again.",
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
