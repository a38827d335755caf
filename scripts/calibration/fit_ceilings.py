"""Fit the rates that GPUs reach to published operator timings, and print the errors of the formulas.

    python scripts/calibration/fit_ceilings.py FOLDER [--out public.toml]

FOLDER holds gemm.csv.gz, attention_prefill.csv.gz, attention_decode.csv.gz and collectives.csv.gz (columns as in the code below;
the timings of aiconfigurator-core, Apache-2.0) and mamf.csv (best sustained matrix products of stas00/ml-engineering).

GEMM:       t = L + ((FLOP / F)^p + (bytes / B)^p)^(1/p), and in 8 and 4 bits a pass before it that quantises the input: (2 + w)·m·k / Q
prefill:    t = L + ((FLOP / F)^p + (bytes / B)^p)^(1/p) with F and B of its own; FLOP counts the lower triangle only
decode:     t = L + cache bytes / B + sequences · key-value heads · u, where the cache is beyond the last-level cache or tiny
collective: t = (latency^q + (wire bytes / rate)^q)^(1/q) with one q for all

Efficiencies are fractions of the catalogue's dense peak, memory bandwidth and one direction of the link. The report goes to
stderr: median error of each fit, and of each GPU predicted from the means of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ceilings_file import NORMAL_90, Error, pooled, toml, without_host
from fitting import ROOT, Fit, Floats, Row, columns, frameworks, matching, options_of, read, report_line, robust_fit

from planner.hardware.catalogue.gpus import load_gpus

if TYPE_CHECKING:
    from collections.abc import Callable


NAMES = {
    "A100 SXM 80GB": "A100 80GB SXM",
    "H100 SXM": "H100 SXM5 80GB",
    "L40S": "L40S",
    "B200 SXM": "B200 SXM",
    "RTX PRO 6000 Server": "RTX PRO 6000 Blackwell Server",
}
"""Name in the timings -> name in the catalogue."""
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4"}
WEIGHT_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625, "int8_wo": 1.0, "int4_wo": 0.53}
"""Bytes per weight, including the scales of groups: 16 to one byte for nvfp4, 128 to four for int4."""
OPERATORS_SOURCE = "aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), measured operator tables"
MAMF_SOURCE = "stas00/ml-engineering, compute/accelerator, table of maximum achievable matmul FLOPS (commit 744d01e1)"
METHODS = {
    OPERATORS_SOURCE: "least Huber loss of the logarithmic error over all frameworks of the tables; bf16 bounded by MAMF where there is one",
    MAMF_SOURCE: "best shape after a soak × the share of it that the fits of the GPUs with operator tables have",
}
LEAST_SPREAD = 0.10
"""Smallest spread: the difference between two boards of one model, and between two collections of one board."""
COLLECTIVE_KNEE = 0.62
"""q of collectives: the median over GPUs, operations and counts when it is fitted too (most values of NVLink are between 0.5 and 0.7)."""


@dataclass(frozen=True)
class Spec:
    """Vendor figures of one GPU."""

    architecture: str
    compute: dict[str, float]
    bandwidth: float
    l2_bytes: float
    fabric: str
    """'nvlink' (or the vendor's equivalent) or 'pcie'."""
    link: float
    """Rate of one direction: NVLink where available, else PCIe."""


def main() -> None:
    """Read, fit, report, write."""
    options = options_of(__doc__)
    options.add_argument("--out", type=Path, help="write the TOML here instead of to stdout")
    arguments = options.parse_args()
    records = public_records(arguments.folder, specs())
    text = toml(records, METHODS)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


def specs() -> dict[str, Spec]:
    """The catalogue's figures by canonical name."""
    return {
        gpu.name: Spec(
            gpu.architecture.split()[0],
            gpu.compute_flop_per_s,
            gpu.memory_bandwidth_bytes_per_s,
            gpu.l2_bytes or 0.0,
            "nvlink" if gpu.nvlink_bytes_per_s else "pcie",
            (gpu.nvlink_bytes_per_s or gpu.pcie_bytes_per_s or 0.0) / 2,
        )
        for gpu in load_gpus(ROOT / "presets" / "gpus").all
    }


def public_records(folder: Path, known: dict[str, Spec]) -> list[dict[str, Any]]:
    """One record per GPU: those with operator tables, then those with a MAMF figure only."""
    gemm, prefill = read(folder / "gemm.csv.gz"), read(folder / "attention_prefill.csv.gz")
    decode, collectives = read(folder / "attention_decode.csv.gz"), read(folder / "collectives.csv.gz")
    records, gemm_rows = [], {}
    for given, name in NAMES.items():
        spec = known[name]
        rows = [row for row in gemm if row["gpu"] == given]
        gemm_rows[name] = (spec, matching(rows, dtype="bfloat16"))
        record: dict[str, Any] = {"gpu": name, "source": OPERATORS_SOURCE}
        record |= gemm_figures(name, spec, rows)
        record |= attention_figures(
            name, spec, matching(prefill, gpu=given), matching(decode, gpu=given), record["compute_efficiency"]["bf16"][0]
        )
        record |= collective_figures(name, spec, matching(collectives, gpu=given))
        records.append(record)
    report_leave_one_out(gemm_rows)
    measured = len(records)
    records = apply_mamf(records, read(folder / "mamf.csv"), known)
    anywhere = pooled(records[:measured], OPERATORS_SOURCE)
    return [anywhere, *(without_host(record) if "collective" in record else record for record in records)]


# --- matrix products ---------------------------------------------------------------------------------------------------------


def usual_products(rows: list[Row]) -> list[Row]:
    """The products whose matrix is at least 512 wide both ways, as in models."""
    return [row for row in rows if int(row["n"]) >= 512 and int(row["k"]) >= 512]


def gemm_terms(rows: list[Row]) -> tuple[Floats, Floats, Floats]:
    """FLOP, bytes and measured seconds of each row."""
    m, n, k, latency_us = columns(rows, "m", "n", "k", "latency_us")
    weights = np.array([WEIGHT_BYTES[row["dtype"]] for row in rows])
    inputs = np.array([2.0 if row["dtype"].endswith("_wo") else WEIGHT_BYTES[row["dtype"]] for row in rows])
    return 2 * m * n * k, inputs * m * k + weights * n * k + 2 * m * n, latency_us * 1e-6


def roofline(spec_flop: float, spec_bytes: float, flop: Floats, moved: Floats) -> Callable[[Floats], Floats]:
    """Seconds as a function of (e, b, L, p), all given as logarithms."""

    def seconds(logs: Floats) -> Floats:
        e, b, latency, p = np.exp(logs)
        work = ((flop / (spec_flop * e)) ** p + (moved / (spec_bytes * b)) ** p) ** (1 / p)
        return np.asarray(latency + work)

    return seconds


def gemm_figures(name: str, spec: Spec, rows: list[Row]) -> dict[str, Any]:
    """Efficiencies, latency and knee of the matrix products of one GPU."""
    usual = usual_products(rows)
    plain = matching(usual, dtype="bfloat16")
    by_framework = [fit_roofline(spec, matching(plain, framework=one)) for one in frameworks(plain)]
    whole = fit_roofline(spec, plain)
    spreads = between([fit.values for fit in by_framework])
    e, b, latency, p = np.exp(whole.values)
    report_line(
        f"{name:30} gemm bf16  e {e:.3f} b {b:.3f} L {latency * 1e6:4.1f} us p {p:.2f}  {whole}  {[np.round(np.exp(fit.values[[0, 1, 3]]), 2).tolist() for fit in by_framework]}"
    )
    record: dict[str, Any] = {
        "compute_efficiency": {"bf16": (e, spreads[0])},
        "bandwidth_efficiency": (b, spreads[1]),
        "weight_bandwidth_efficiency": {},
        "kernel_latency_s": (latency, max(0.3, spreads[2])),
        "knee": p,
        "gemm_error": Error(whole.median, whole.p90),
    }
    for given in ("fp8", "nvfp4", "int8_wo", "int4_wo"):
        chosen = matching(usual, dtype=given)
        if chosen:
            add_narrow_figures(name, spec, chosen, given, p, record)
    return record


def add_narrow_figures(name: str, spec: Spec, rows: list[Row], given: str, knee: float, record: dict[str, Any]) -> None:
    """Figures of products whose weights (and with units for it, inputs) have fewer than 16 bits."""
    peak, held = spec.compute[DTYPES.get(given, "bf16")], {3: float(np.log(knee))}
    if given not in DTYPES:
        held[4] = np.inf  # the input is not converted
    parts = [fit_narrow(peak, spec.bandwidth, matching(rows, framework=one), held) for one in frameworks(rows)]
    fit = fit_narrow(peak, spec.bandwidth, rows, held)
    e, b, latency, _, q = np.exp(fit.values)
    spread = between([part.values[:2] for part in parts])
    shown = [np.round(np.exp(part.values[[0, 1]]), 2).tolist() for part in parts]
    report_line(f"{name:30} gemm {given:7} e {e:.3f} b {b:.3f} L {latency * 1e6:4.1f} us q {q:.2f}  {fit}  {shown}")
    if given in DTYPES:
        record["compute_efficiency"][DTYPES[given]] = (e, max(spread[0], 0.15))
    if given == "fp8":
        record["quantise_efficiency"] = (min(q, 1.0), 0.7)
    label = {"nvfp4": "fp4", "int8_wo": "int8", "int4_wo": "int4"}.get(given, given)
    record["weight_bandwidth_efficiency"][label] = (min(b, 1.0), spread[1])


def fit_narrow(peak: float, bandwidth: float, rows: list[Row], held: dict[int, float]) -> Fit:
    """Fit (e, b, L, p, q), where q is the share of the bandwidth that quantising the input reaches."""
    flop, moved, measured = gemm_terms(rows)
    m, k = columns(rows, "m", "k")
    passed = (2 + np.array([WEIGHT_BYTES[row["dtype"]] for row in rows])) * m * k / bandwidth
    product = roofline(peak, bandwidth, flop, moved)

    def seconds(logs: Floats) -> Floats:
        return np.asarray(product(logs[:4]) + passed / np.exp(logs[4]))

    return robust_fit(seconds, measured, np.log([0.6, 0.8, 1e-5, 2.0, 0.6]), held)


def fit_roofline(spec: Spec, rows: list[Row]) -> Fit:
    """Fit (e, b, L, p) to products in bf16."""
    flop, moved, measured = gemm_terms(rows)
    start = np.log([0.75, 0.8, 4e-6, 2.0])
    return robust_fit(roofline(spec.compute["bf16"], spec.bandwidth, flop, moved), measured, start, {})


def report_leave_one_out(rows_of: dict[str, tuple[Spec, list[Row]]]) -> None:
    """Each GPU predicted with the geometric mean of the parameters of the others."""
    usual = {name: usual_products(rows) for name, (_, rows) in rows_of.items()}
    fits = {name: fit_roofline(spec, usual[name]) for name, (spec, _) in rows_of.items()}
    for name, (spec, _) in rows_of.items():
        others = np.mean([fit.values for other, fit in fits.items() if other != name], axis=0)
        flop, moved, measured = gemm_terms(usual[name])
        errors = np.log(roofline(spec.compute["bf16"], spec.bandwidth, flop, moved)(others) / measured)
        ideal = np.maximum(flop / spec.compute["bf16"], moved / spec.bandwidth)
        report_line(
            f"{name:30} left out   median {np.median(np.abs(errors)):.1%} p90 {np.quantile(np.abs(errors), 0.9):.1%}  (bias {np.median(errors):+.1%}; spec sheet alone {np.median(np.abs(np.log(ideal / measured))):.1%})"
        )
    report_line(
        f"mean of all: {np.round(np.exp(np.mean([fit.values for fit in fits.values()], axis=0)), 7).tolist()}  std of logs {np.round(np.std([fit.values for fit in fits.values()], axis=0, ddof=1), 2).tolist()}"
    )


# --- attention ---------------------------------------------------------------------------------------------------------------


def attention_figures(name: str, spec: Spec, prefill: list[Row], decode: list[Row], gemm_efficiency: float) -> dict[str, Any]:
    """Share that attention reaches, with the 16-bit cache and the head sizes language models have."""
    chosen = [row for row in matching(prefill, kv_dtype="bfloat16", head_dim="128") if int(row["isl"]) >= 16]
    batch, length, heads, kv_heads, width, latency_us = columns(
        chosen, "batch", "isl", "heads", "kv_heads", "head_dim", "latency_us"
    )
    flop = 2 * batch * heads * width * length**2
    moved = 4 * batch * length * width * (heads + kv_heads)
    product = roofline(spec.compute["bf16"], spec.bandwidth, flop, moved)
    fit = robust_fit(product, latency_us * 1e-6, np.log([0.5, 0.6, 1e-5, 1.0]), {})
    e, b, latency, p = map(float, np.exp(fit.values))
    figures = f"e {e:.3f} b {b:.3f} L {latency * 1e6:4.1f} us p {p:.2f}  {fit}  ({e / gemm_efficiency:.2f} of GEMM)"
    report_line(f"{name:30} prefill    {figures}")
    found: dict[str, Any] = {
        "attention_efficiency": (e, 0.15),
        "attention_knee": p,
        "attention_latency_s": (latency, 0.3),
        "attention_bandwidth_efficiency": (min(b, 1.0), 0.3),
        "attention_error": Error(fit.median, fit.p90),
    }

    chosen = [row for row in matching(decode, kv_dtype="bfloat16") if row["head_dim"] in {"64", "128"} and int(row["batch"]) <= 512]
    batch, step, heads, kv_heads, width, latency_us = columns(
        chosen, "batch", "step", "heads", "kv_heads", "head_dim", "latency_us"
    )
    moved = 4 * batch * kv_heads * width * (step + 1) + 4 * batch * heads * width
    cold = (moved > 1.5 * spec.l2_bytes) | (moved < 1e6)
    ideal, units, measured = moved[cold] / spec.bandwidth, (batch * kv_heads)[cold], latency_us[cold] * 1e-6

    def seconds(logs: Floats) -> Floats:
        b, latency, unit = np.exp(logs)
        return np.asarray(latency + ideal / b + units * unit)

    fit = robust_fit(seconds, measured, np.log([0.8, 1e-5, 1e-8]), {})
    b, latency, unit = np.exp(fit.values)
    report_line(f"{name:30} decode     b {b:.3f} L {latency * 1e6:4.1f} us u {unit * 1e9:.1f} ns  {fit} ({len(measured)} rows)")
    found["decode_attention_efficiency"] = (min(float(b), 1.0), 0.12)
    found["decode_attention_latency_s"] = (float(latency), 0.3)
    found["decode_head_s"] = (float(unit), 0.7)
    found["decode_error"] = Error(fit.median, fit.p90)
    return found


# --- collectives -------------------------------------------------------------------------------------------------------------


def wire_share(op: str, gpus: int) -> float:
    """Bytes one GPU sends ÷ size of the whole message, with a ring."""
    return (gpus - 1) / gpus * (2 if op == "all_reduce" else 1)


def collective_figures(name: str, spec: Spec, rows: list[Row]) -> dict[str, Any]:
    """Latency and share of one direction of the link per operation and count, for the newest library measured."""
    newest = max(
        (row["framework"] for row in rows if row["op"] == "all_reduce"),
        key=lambda text: [int(x) for x in text.split()[1].split(".")],
    )
    found: list[dict[str, Any]] = []
    errors = []
    for op in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        for gpus in (2, 4, 8):
            chosen = matching(rows, framework=newest, op=op, n_gpus=str(gpus), dtype="half")
            elements, latency_us = columns(chosen, "message_elements_or_bytes", "latency_us")
            wire = 2 * elements * wire_share(op, gpus) / spec.link

            def seconds(logs: Floats, wire: Floats = wire) -> Floats:
                latency, efficiency, q = np.exp(logs)
                return np.asarray((latency**q + (wire / efficiency) ** q) ** (1 / q))

            fit = robust_fit(seconds, latency_us * 1e-6, np.log([1e-5, 0.7, COLLECTIVE_KNEE]), {2: float(np.log(COLLECTIVE_KNEE))})
            latency, efficiency, _ = np.exp(fit.values)
            errors.append(fit.errors)
            found.append(
                {
                    "link": spec.fabric,
                    "op": op,
                    "gpus": gpus,
                    "latency_s": (latency, 0.2),
                    "efficiency": (efficiency, 0.12 if spec.fabric == "nvlink" else 0.5),
                }
            )
    whole = np.abs(np.concatenate(errors))
    report_line(
        f"{name:30} {newest} error median {np.median(whole):.1%} p90 {np.quantile(whole, 0.9):.1%}  "
        + "; ".join(f"{one['op']} {one['gpus']}: {one['latency_s'][0] * 1e6:.1f} us {one['efficiency'][0]:.2f}" for one in found)
    )
    return {
        "collective": found,
        "collective_library": newest,
        "collective_error": Error(float(np.median(whole)), float(np.quantile(whole, 0.9))),
    }


# --- best sustained products -------------------------------------------------------------------------------------------------


def apply_mamf(records: list[dict[str, Any]], rows: list[Row], known: dict[str, Spec]) -> list[dict[str, Any]]:
    """MAMF (the best shape after a soak) bounds the fits; GPUs without a fit get the usual share of it."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        dtype = row["dtype"].split("_")[0]
        best.setdefault(row["gpu"], {})[dtype] = float(row["mamf_tflops"]) * 1e12 / known[row["gpu"]].compute[dtype]
    shares: dict[str, dict[str, float]] = {}
    for record in records:
        for dtype, (value, spread) in list(record["compute_efficiency"].items()):
            bound = best.get(record["gpu"], {}).get(dtype)
            if bound is not None:
                shares.setdefault(dtype, {})[known[record["gpu"]].architecture] = float(np.log(min(value / bound, 1.0)))
                record["compute_efficiency"][dtype] = (min(value, bound), spread)
                report_line(f"{record['gpu']:30} MAMF {dtype} {bound:.3f}; fit {value:.3f} is {value / bound:.2f} of it")
    for name, by_dtype in best.items():
        if any(record["gpu"] == name for record in records):
            continue
        efficiency = {}
        for dtype, bound in by_dtype.items():
            usual = list(shares[dtype].values())
            share = shares[dtype].get(known[name].architecture, float(np.mean(usual)))
            efficiency[dtype] = (bound * float(np.exp(share)), max(0.12, NORMAL_90 * float(np.std(usual, ddof=1))))
            report_line(f"{name:30} MAMF {dtype} {bound:.3f} -> {efficiency[dtype][0]:.3f}")
        records.append({"gpu": name, "source": MAMF_SOURCE, "compute_efficiency": efficiency})
    return records


def between(values: list[Floats]) -> Floats:
    """Spread of each parameter between collections of one GPU, never below `LEAST_SPREAD`."""
    if len(values) < 2:
        return np.full(len(values[0]), 0.15)
    return np.asarray(np.maximum(LEAST_SPREAD, NORMAL_90 * np.std(values, axis=0, ddof=1) / np.sqrt(len(values))))


if __name__ == "__main__":
    main()
