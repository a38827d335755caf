"""One device at one compute dtype, with the figures that the timing formulas use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from planner.engine.records.chip import PCIE_BYTES_PER_S, ChipNumbers
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import Link, fabric_of, link_of, usual_fabric
from planner.hardware.ceilings.ceilings import Basis, Ceilings, NodeCollective
from planner.units import percent_text, si_text

__all__ = ["Chip", "FindChip", "chip_of", "chip_over", "fabric_of", "link_of", "measured_between", "with_fabric"]

USABLE_SHARE = 0.97
"""Usable ÷ label where no driver figure is known: GPUs range from 0.92 (ECC on GDDR6) to 0.99 (HBM)."""
GEFORCE_FP16_GAIN = 1.72
"""GeForce tensor cores add up in FP16 at twice the rate; 1.72 is reached (RTX 4060, triton-lang/triton issue 10851)."""
NARROW_ATTENTION_GAIN = 1.7
"""Blackwell decodes latent attention of 128 heads on an FP8 cache in 0.58 of the time in 16 bit, Hopper in 0.91 (TensorRT-LLM 1.3, SGLang 0.5.14:
decoding tables of aiconfigurator-core 0.12.0)."""
_ORDER: tuple[Basis, ...] = ("spec", "public", "transferred", "measured")
"""Bases from the weakest to the strongest."""
_READ_AS = {
    "fp8": "fp8",
    "int8": "int8",
    "gptq-int8": "int8",
    "w8a16": "int8",
    "q8_0": "int8",
    "mxfp8": "fp8",
    "fp4": "fp4",
    "nvfp4": "fp4",
    "nvfp4-a16": "fp4",
    "mxfp4": "fp4",
}
"""Storage format below 16 bit -> the kind of weights whose measured read rate applies; int4 for any other."""
_PLAIN = {"fp32", "tf32", "fp16", "bf16"}


class Chip(ChipNumbers[float], frozen=True, kw_only=True):
    """One device at one compute dtype."""

    gpu: Gpu
    dtype: str
    node_collectives: tuple[NodeCollective, ...] = ()
    """Collectives measured over several nodes, over any network."""
    joined: tuple[NodeCollective, ...] = ()
    """Sources of the `measured_*` and `fabric_*` figures, by the number of nodes."""
    own_ranges: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Kind of figure -> factor on the half width of its range, from this user's own results."""
    own_results: int = 0
    """Number of these results."""
    basis: Basis
    """Weaker basis of compute and bandwidth."""
    sources: tuple[str, ...]


FindChip = Callable[[Gpu, str, str], Chip | None]
"""(GPU, compute dtype, stored weights) -> its chip; None if the dtype cannot be timed on it."""


def chip_of(gpu: Gpu, ceilings: Ceilings, dtype: str, stored: str) -> Chip | None:
    """Device at compute `dtype` with weights stored as `stored`; None if it has no figure for the dtype."""
    rates = ceilings.compute_flop_per_s
    compute = rates.get(dtype)
    peak = gpu.compute_flop_per_s.get(dtype)
    if compute is None or peak is None:
        return None
    bandwidth = ceilings.bandwidth_bytes_per_s
    attention = next(
        (ceilings.attention_flop_per_s[name] for name in (dtype, "bf16", "fp16") if name in ceilings.attention_flop_per_s), compute
    )
    kind = None if stored in _PLAIN else _READ_AS.get(stored, "int4")
    weights = bandwidth if kind is None else ceilings.weight_bandwidth(kind)
    chip = Chip(
        gpu=gpu,
        dtype=dtype,
        capacity_bytes=gpu.usable_memory_bytes or gpu.memory_bytes * (USABLE_SHARE if gpu.kind == "gpu" else 1.0),
        peak_flop_per_s=peak,
        flop_per_s=compute.value,
        wide_flop_per_s=next((rates[name].value for name in ("bf16", "fp16") if name in rates), compute.value),
        flop_spread=compute.spread,
        cycles_per_s=(gpu.sm_count or 0) * (gpu.boost_clock_hz or 0.0) * (gpu.vendor == "NVIDIA"),
        clock_hz=(gpu.boost_clock_hz or 0.0) * (gpu.vendor == "NVIDIA"),
        cdna_flop_per_s=gpu.compute_flop_per_s.get("bf16", 0.0) * gpu.architecture.startswith("CDNA"),
        is_cdna3=float(gpu.architecture == "CDNA 3"),
        is_hbm=float((gpu.memory_type or "").upper().startswith("HBM")),
        is_geforce=float(gpu.form_factor == "GeForce"),
        fp16_accumulate_gain=GEFORCE_FP16_GAIN if gpu.form_factor == "GeForce" and dtype == "fp16" else 1.0,
        attention_flop_per_s=attention.value,
        attention_latency_s=ceilings.attention_latency_s.value,
        narrow_attention_gain=NARROW_ATTENTION_GAIN if (gpu.compute_capability or "").startswith("10.") else 1.0,
        bandwidth_bytes_per_s=bandwidth.value,
        bandwidth_spread=bandwidth.spread,
        weight_bandwidth_bytes_per_s=weights.value,
        decode_bandwidth_bytes_per_s=ceilings.decode_bandwidth_bytes_per_s.value,
        decode_latency_s=ceilings.decode_attention_latency_s.value,
        decode_head_s=ceilings.decode_head_s.value,
        quantise_bytes_per_s=ceilings.quantise_bytes_per_s.value,
        latency_s=ceilings.kernel_latency_s.value,
        launch_s=ceilings.launch_s.value,
        launch_spread=ceilings.launch_s.spread,
        knee=ceilings.knee,
        train_factor=ceilings.train_factor.value,
        **_collectives(ceilings),  # type: ignore[arg-type]  # only names of rates
        grouped_rate=ceilings.grouped_rate.value if ceilings.grouped_rate else 1.0,
        **_exchange(gpu, ceilings),  # type: ignore[arg-type]  # only names of ratios
        compute_capability=float(gpu.compute_capability or 0) if gpu.vendor == "NVIDIA" else math.inf,
        pcie_bytes_per_s=gpu.pcie_bytes_per_s / 2 if gpu.pcie_bytes_per_s else PCIE_BYTES_PER_S,
        power_w=gpu.tdp_w or float("nan"),
        is_cpu=float(gpu.kind == "cpu"),
        context_bytes=ceilings.context_bytes.value if ceilings.context_bytes else math.nan,
        allocator_slack=ceilings.allocator_slack.value if ceilings.allocator_slack else math.nan,
        basis=min(compute.basis, bandwidth.basis, key=_ORDER.index),
        sources=tuple(dict.fromkeys((compute.source, bandwidth.source))),
        node_collectives=ceilings.node_collectives,
        joined=(),
    )
    return with_fabric(chip, None) if chip.node_collectives else chip


def with_fabric(chip: Chip, fabric: str | float | None) -> Chip:
    """`chip` with the figures measured over `fabric` (None: the usual network of the GPU), and without those of other networks."""
    wanted = usual_fabric(chip.gpu) if fabric is None else fabric
    measured = {}
    for one in sorted(chip.node_collectives, key=lambda one: one.gpus):
        if one.op == "all_reduce" and one.fabric == wanted and math.isfinite(_inside_s(chip, one.gpus)):
            measured[one.nodes] = one
    joined = tuple(measured[nodes] for nodes in sorted(measured))
    if not joined:
        return replace(
            chip, joined=(), measured_nodes_few=0.0, measured_nodes_mid=0.0, measured_nodes_many=0.0, measured_per_node=0.0
        )
    few, many = joined[0], joined[-1]
    mid = min(joined[1:-1], key=lambda one: abs(math.log(one.nodes**2 / few.nodes / many.nodes)), default=many)
    return replace(
        chip,
        joined=joined,
        measured_nodes_few=float(few.nodes),
        measured_nodes_mid=float(mid.nodes),
        measured_nodes_many=float(many.nodes),
        measured_per_node=float(min(one.gpus_per_node for one in (few, mid, many))),
        fabric_efficiency_few=few.efficiency,
        fabric_efficiency_mid=mid.efficiency,
        fabric_efficiency_many=many.efficiency,
        fabric_latency_few=few.latency_s.value / _inside_s(chip, few.gpus),
        fabric_latency_mid=mid.latency_s.value / _inside_s(chip, mid.gpus),
        fabric_latency_many=many.latency_s.value / _inside_s(chip, many.gpus),
    )


def chip_over(chip: Chip, fabric: str) -> Chip:
    """`chip` with the figures measured over `fabric`, if anything was measured over several nodes."""
    return with_fabric(chip, fabric) if chip.node_collectives else chip


def measured_between(chip: Chip, nodes: int) -> dict[str, str]:
    """Remark on the network between `nodes` nodes for the answer; empty if it is assumed, not measured."""
    if nodes < 2 or not chip.joined:
        return {}
    nearest = min(chip.joined, key=lambda one: abs(math.log(one.nodes / nodes)))
    rate, share = si_text(nearest.bytes_per_s.value, "B/s"), percent_text(nearest.efficiency)
    found = f"all-reduce of {nearest.gpus} over {nearest.nodes} nodes {rate}, {share} of the adapters"
    return {"between_nodes": f"{nearest.bytes_per_s.basis}: {found}; {nearest.bytes_per_s.source}"}


def _inside_s(chip: Chip, ranks: int) -> float:
    """Latency of an all-reduce among `ranks` of one node, by the formula of `collective_s`; NaN if nothing is known of the link."""
    link, _ = link_of(chip.gpu)
    low, high = getattr(chip, f"{link}_latency_2"), getattr(chip, f"{link}_latency_8")
    return float(low * (high / low) ** (math.log2(ranks / 2) / 2))


def _exchange(gpu: Gpu, ceilings: Ceilings) -> dict[str, float]:
    """Rate and latency of the largest all-to-all measured inside a node ÷ those of an all-reduce of as many GPUs."""
    link, _ = link_of(gpu)
    measured = [
        one for one in ceilings.collectives if one.op == "alltoall" and one.link == link and one.latency_s.basis == "measured"
    ]
    largest = max(measured, key=lambda one: one.gpus, default=None)
    ring = ceilings.collective("all_reduce", largest.gpus, largest.link) if largest else None
    if largest is None or ring is None:
        return {}
    return {
        "exchange_rate": largest.efficiency.value / ring.efficiency.value,
        "exchange_latency": largest.latency_s.value / ring.latency_s.value,
    }


def _collectives(ceilings: Ceilings) -> dict[str, float]:
    """Latency and efficiency of all-reduces of 2 and 8 GPUs over both kinds of link; NaN if the link is not known."""
    figures: dict[str, float] = {}
    links: tuple[Link, ...] = ("nvlink", "pcie")
    for link in links:
        for gpus in (2, 8):
            known = ceilings.collective("all_reduce", gpus, link)
            figures[f"{link}_latency_{gpus}"] = known.latency_s.value if known else float("nan")
            figures[f"{link}_efficiency_{gpus}"] = known.efficiency.value if known else float("nan")
    for gpus in (2, 8):  # latency is no longer on a faster link
        links_s = (figures[f"nvlink_latency_{gpus}"], figures[f"pcie_latency_{gpus}"])
        figures[f"nvlink_latency_{gpus}"] = min((one for one in links_s if not math.isnan(one)), default=math.nan)
    return figures
