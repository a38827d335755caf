"""One device at one compute dtype, as the timing formulas read it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.hardware.ceilings import Basis, Ceilings, Link
from planner.hardware.gpus import Gpu

HOPPER_YEAR = 2022
USABLE_SHARE = 0.97
"""Usable ÷ label where no driver figure is known: parts with one range from 0.92 (ECC on GDDR6) to 0.99 (HBM)."""
GEFORCE_FP16_GAIN = 1.72
"""GeForce tensor cores add up in FP16 at twice the rate; 1.72 is reached (RTX 4060, triton-lang/triton issue 10851)."""
_ORDER: tuple[Basis, ...] = ("spec", "public", "transferred", "measured")


_STORED = {"fp8": "fp8", "int8": "int8", "gptq-int8": "int8", "q8_0": "int8", "fp4": "fp4", "nvfp4": "fp4", "mxfp4": "fp4"}
_SIXTEEN = {"fp32", "tf32", "fp16", "bf16"}


@dataclass(frozen=True, kw_only=True)
class Chip:
    """See `ChipColumns`; rates are what is reached, `peak_flop_per_s` is the vendor's dense figure."""

    gpu: Gpu
    dtype: str
    capacity_bytes: float
    peak_flop_per_s: float
    flop_per_s: float
    flop_spread: float
    is_hbm: float
    fp16_accumulate_gain: float
    """Rate of FP16 products that add up in FP16, over FP32."""
    attention_flop_per_s: float
    attention_latency_s: float
    bandwidth_bytes_per_s: float
    bandwidth_spread: float
    weight_bandwidth_bytes_per_s: float
    decode_bandwidth_bytes_per_s: float
    decode_latency_s: float
    decode_head_s: float
    quantise_bytes_per_s: float
    latency_s: float
    launch_s: float
    knee: float
    train_factor: float
    train_spread: float
    nvlink_latency_2: float
    nvlink_latency_8: float
    nvlink_efficiency_2: float
    nvlink_efficiency_8: float
    pcie_latency_2: float
    pcie_latency_8: float
    pcie_efficiency_2: float
    pcie_efficiency_8: float
    power_w: float
    is_cpu: float
    context_bytes: float = math.nan
    allocator_slack: float = math.nan
    basis: Basis
    """The weaker of compute and bandwidth."""
    sources: tuple[str, ...]


def chip_of(gpu: Gpu, ceilings: Ceilings, dtype: str, stored: str) -> Chip | None:
    """The device at compute `dtype` with weights kept as `stored`; None where it has no figure for the dtype."""
    compute = ceilings.compute_flop_per_s.get(dtype)
    peak = gpu.compute_flop_per_s.get(dtype)
    if compute is None or peak is None:
        return None
    bandwidth = ceilings.bandwidth_bytes_per_s
    attention = next(
        (ceilings.attention_flop_per_s[name] for name in (dtype, "bf16", "fp16") if name in ceilings.attention_flop_per_s), compute
    )
    kind = None if stored in _SIXTEEN else _STORED.get(stored, "int4")
    weights = bandwidth if kind is None else ceilings.weight_bandwidth(kind)
    return Chip(
        gpu=gpu,
        dtype=dtype,
        capacity_bytes=gpu.usable_memory_bytes or gpu.memory_bytes * (USABLE_SHARE if gpu.kind == "gpu" else 1.0),
        peak_flop_per_s=peak,
        flop_per_s=compute.value,
        flop_spread=compute.spread,
        is_hbm=float((gpu.memory_type or "").upper().startswith("HBM")),
        fp16_accumulate_gain=GEFORCE_FP16_GAIN if gpu.form_factor == "GeForce" and dtype == "fp16" else 1.0,
        attention_flop_per_s=attention.value,
        attention_latency_s=ceilings.attention_latency_s.value,
        bandwidth_bytes_per_s=bandwidth.value,
        bandwidth_spread=bandwidth.spread,
        weight_bandwidth_bytes_per_s=weights.value,
        decode_bandwidth_bytes_per_s=ceilings.decode_bandwidth_bytes_per_s.value,
        decode_latency_s=ceilings.decode_attention_latency_s.value,
        decode_head_s=ceilings.decode_head_s.value,
        quantise_bytes_per_s=ceilings.quantise_bytes_per_s.value,
        latency_s=ceilings.kernel_latency_s.value,
        launch_s=ceilings.launch_s.value,
        knee=ceilings.knee,
        train_factor=ceilings.train_factor.value,
        train_spread=ceilings.train_factor.spread,
        **_collectives(ceilings),
        power_w=gpu.tdp_w or float("nan"),
        is_cpu=float(gpu.kind == "cpu"),
        context_bytes=ceilings.context_bytes.value if ceilings.context_bytes else math.nan,
        allocator_slack=ceilings.allocator_slack.value if ceilings.allocator_slack else math.nan,
        basis=min(compute.basis, bandwidth.basis, key=_ORDER.index),
        sources=tuple(dict.fromkeys((compute.source, bandwidth.source))),
    )


def _collectives(ceilings: Ceilings) -> dict[str, float]:
    """Latency and efficiency of an all-reduce among 2 and 8, over both kinds of link; NaN where nothing is known of the link."""
    figures: dict[str, float] = {}
    links: tuple[Link, ...] = ("nvlink", "pcie")
    for link in links:
        for gpus in (2, 8):
            known = ceilings.collective("all_reduce", gpus, link)
            figures[f"{link}_latency_{gpus}"] = known.latency_s.value if known else float("nan")
            figures[f"{link}_efficiency_{gpus}"] = known.efficiency.value if known else float("nan")
    return figures


def link_of(gpu: Gpu, asked: str | float | None, *, nvlink: bool | None) -> tuple[str, float]:
    """(name, bytes/s per GPU and direction) of the connection inside a node.

    NVLink counts where GPUs sit on a baseboard (SXM, OAM, superchip) or the offer says so; cards with a bridge joining pairs
    are taken as PCIe. Vendor figures add both directions.
    """
    if isinstance(asked, (int, float)):
        return "given", float(asked)
    baseboard = (gpu.form_factor or "").upper().startswith(("SXM", "OAM", "SUPERCHIP"))
    joined = baseboard if nvlink is None else nvlink and bool(gpu.nvlink_bytes_per_s)
    if gpu.nvlink_bytes_per_s and (asked == "nvlink" or (asked is None and joined)):
        return "nvlink", gpu.nvlink_bytes_per_s / 2
    pcie = gpu.pcie_bytes_per_s or 32e9
    return "pcie", pcie / 2


def fabric_of(gpu: Gpu, asked: str | float | None, gpus_per_node: int) -> tuple[str, float]:
    """(name, bytes/s per GPU and direction) between nodes, where nothing was said.

    Baseboards: one 400 Gb/s adapter a GPU since Hopper (AWS p5, Azure ND H100 v5), 200 Gb/s before (Azure ND A100 v4).
    Other hosts: one 100 Gb/s port shared by the node.
    """
    if isinstance(asked, (int, float)):
        return "given", float(asked)
    modern = (gpu.release_year or 0) >= HOPPER_YEAR or gpu.architecture.startswith(("CDNA", "Gaudi"))
    infiniband = (gpu.form_factor or "").upper().startswith(("SXM", "OAM", "SUPERCHIP"))
    if asked == "infiniband" or (asked is None and infiniband):
        return ("infiniband 400 Gb/s a GPU", 50e9) if modern else ("infiniband 200 Gb/s a GPU", 25e9)
    return "ethernet 100 Gb/s a node", 12.5e9 / gpus_per_node
