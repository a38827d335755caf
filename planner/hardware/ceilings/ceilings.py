"""Record of the compute rates, bandwidths and latencies that one device really reaches, each with a basis and a spread.

The formulas that use these figures, to which all of them were fitted (`scripts/calibration/fit_ceilings.py`):

product      t = kernel latency + ((FLOP / F)^p + (bytes / B)^p)^(1/p), p = `knee`; B = `weight_bandwidth(dtype)`
8 or 4 bit   before each product a pass that quantises its input: (2 + bytes of the narrow type) · tokens · width / quantise
prefill      the same formula with `attention_*`, FLOP of the lower triangle only: 2 · heads · head width · s²
decode       t = decode attention latency + cache bytes / decode bandwidth + sequences · key-value heads · `decode_head_s`
collective   t = (latency^q + (wire bytes / (efficiency · one direction of the link))^q)^(1/q), q = `COLLECTIVE_KNEE`,
             wire bytes = message · (n − 1)/n, twice that for an all-reduce
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import CollectiveOp, Fabric, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.hardware.measurements.measurement import Measurement

Basis = Literal["spec", "public", "transferred", "measured"]
"""Weakest to strongest. 'spec': the vendor's figure times the usual share of its kind; 'public': measured elsewhere on this part;
'transferred': scaled by a measurement of another dtype or a related part; 'measured': on this device."""
COLLECTIVE_KNEE = 0.62
"""Exponent with which a collective's latency and transfer add up: to more than their sum, because the pipeline fills late."""
SLICE_SPREAD = 0.1
"""Additional spread of a slice, whose kernels fill fewer multiprocessors, and whose neighbours share clock and power. An assumption."""
WEAK_SPREADS = {"unstable": 0.35, "throttled": 0.35, "shared": 0.7}
"""Spread of a disturbed point by its status; such a point is only used where less is known without it."""
LEAST_SPREAD = 0.05
"""Difference between two measurements of the same board an hour apart."""
ELSEWHERE_SPREAD = 0.10
"""Spread between boards of a part in different hosts: two published campaigns on six parts differ by a median of 4-9.5 % a shape."""
NORMAL_90, NORMAL_95 = 1.645, 1.960
"""Half widths of the 90 % and 95 % ranges of a normal distribution, in standard deviations."""


class Ceiling(msgspec.Struct, frozen=True):
    """One reachable rate (or latency). `spread`: half width of the 90 % range of its logarithm, low = value·exp(-spread)."""

    value: float
    spread: float
    basis: Basis
    source: str

    @property
    def low(self) -> float:
        """Lower end of the 90 % range."""
        return self.value * math.exp(-self.spread)

    @property
    def high(self) -> float:
        """Upper end of the 90 % range."""
        return self.value * math.exp(self.spread)


class Collective(msgspec.Struct, frozen=True):
    """One operation among `gpus` devices over one kind of link."""

    link: Link
    op: CollectiveOp
    gpus: int
    latency_s: Ceiling
    efficiency: Ceiling
    """Share of one direction of the link that one device's traffic reaches."""


class NodeCollective(msgspec.Struct, frozen=True):
    """One operation among `gpus` devices that fill `nodes` machines, as it was measured."""

    op: CollectiveOp
    nodes: int
    gpus: int
    fabric: Fabric
    """Network between the nodes."""
    latency_s: Ceiling
    bytes_per_s: Ceiling
    """Wire bytes per second of one device."""
    adapters_bytes_per_s: float
    """Assumed rate of the adapters of a node, one direction, without a measurement."""

    @property
    def gpus_per_node(self) -> int:
        """Devices of one machine."""
        return self.gpus // self.nodes

    @property
    def efficiency(self) -> float:
        """Share of the adapters' assumed rate."""
        return self.bytes_per_s.value / self.adapters_bytes_per_s


class TrainPoint(msgspec.Struct, frozen=True):
    """One training step that was measured on the device."""

    point: str
    dtype: str
    parameters: dict[str, object]
    """Parameters of the measurement: model, parameters, batch, sequence, tokens, recipe, optimizer."""
    flop_per_s: Ceiling
    """Model FLOP/s of the whole step, by `flop` of the measurement."""
    step_s: float | None
    """Seconds of one step; None if the measurement does not state its FLOP."""


class Ceilings(msgspec.Struct, frozen=True):
    """Everything the timing formulas need of one device."""

    device: str
    """Canonical name."""
    compute_flop_per_s: dict[str, Ceiling]
    """Dtype -> sustained GEMM rate; a missing dtype cannot be timed."""
    bandwidth_bytes_per_s: Ceiling
    """Bandwidth of the memory for matrix products and elementwise kernels."""
    weight_bandwidth_bytes_per_s: dict[str, Ceiling]
    """Stored type of the weights ('fp8', 'int8', 'int4', 'fp4', or a measured dtype) -> rate at which its kernels read them."""
    knee: float
    """p of the product formula: 1 adds compute and memory time, large takes the longer one."""
    kernel_latency_s: Ceiling
    """Floor of one kernel on the device."""
    launch_s: Ceiling
    """Host time to launch one operator in eager mode."""
    quantise_bytes_per_s: Ceiling
    """Rate of the pass that converts 16-bit activations to 8 or 4 bits."""
    attention_flop_per_s: dict[str, Ceiling]
    """Dtype -> rate of prefill attention (fused kernels); only the 16-bit types and fp32."""
    attention_bandwidth_bytes_per_s: Ceiling
    attention_knee: float
    attention_latency_s: Ceiling
    """Latency of one call of prefill attention."""
    decode_bandwidth_bytes_per_s: Ceiling
    """Rate of reading the key-value cache while decoding."""
    decode_attention_latency_s: Ceiling
    """Latency of one call of decode attention."""
    decode_head_s: Ceiling
    """Additional time per sequence and key-value head."""
    collectives: tuple[Collective, ...]
    train_factor: Ceiling
    """Measured ÷ predicted time of a training step (1 when never measured)."""
    train_points: tuple[TrainPoint, ...] = ()
    context_bytes: Ceiling | None = None
    """Device memory of a process with torch before its first tensor; None: not measured, the serving engine's record applies."""
    allocator_slack: Ceiling | None = None
    """Share that the caching allocator reserves beyond its allocations in a training step; None: not measured."""
    grouped_rate: Ceiling | None = None
    """Rate of torch's grouped expert products ÷ that of single ones; None: not measured, or no better than 1."""
    node_collectives: tuple[NodeCollective, ...] = ()
    """Collectives measured over several nodes; without a measurement `planner.hardware.catalogue.interconnects` gives the assumed network."""

    def weight_bandwidth(self, stored: str) -> Ceiling:
        """Bytes per second at which weights stored as `stored` are read."""
        return self.weight_bandwidth_bytes_per_s.get(stored, self.bandwidth_bytes_per_s)

    def collective(self, op: CollectiveOp, gpus: int, link: Link) -> Collective | None:
        """Figures for `gpus` devices; None when that link is not known.

        The latency is interpolated as a power of the count; the efficiency is that of the nearest smaller count. Beyond the largest
        known count both are less certain.
        """
        known = sorted((one for one in self.collectives if one.op == op and one.link == link), key=lambda one: one.gpus)
        if not known or gpus < 2:
            return None
        below = [one for one in known if one.gpus <= gpus] or known[:1]
        base = below[-1]
        if base.gpus == gpus or len(known) == 1:
            return base
        first, last = (base, known[len(below)]) if len(below) < len(known) else (known[-2], known[-1])
        power = math.log(last.latency_s.value / first.latency_s.value) / math.log(last.gpus / first.gpus)
        wider = 0.0 if gpus < known[-1].gpus else 0.2 * math.log2(gpus / known[-1].gpus)
        latency = base.latency_s.value * (gpus / base.gpus) ** power
        return Collective(
            link, op, gpus, _changed(base.latency_s, latency, wider), _changed(base.efficiency, base.efficiency.value, wider)
        )


def _changed(ceiling: Ceiling, value: float, wider: float) -> Ceiling:
    return Ceiling(value, ceiling.spread + wider, ceiling.basis, ceiling.source)


def ceilings_of_slice(part: Gpu, whole: Gpu, found: Ceilings) -> Ceilings:
    """Ceilings of `part`, a slice of `whole`, which reaches `found`; latencies stay the same, and no link joins slices."""
    dtype = next(iter(whole.compute_flop_per_s))
    compute = part.compute_flop_per_s[dtype] / whole.compute_flop_per_s[dtype]
    memory = part.memory_bandwidth_bytes_per_s / whole.memory_bandwidth_bytes_per_s

    def at(ceiling: Ceiling, share: float) -> Ceiling:
        source = f"{ceiling.source}; {share:.0%} of the GPU"
        return Ceiling(ceiling.value * share, ceiling.spread + SLICE_SPREAD, ceiling.basis, source)

    return replace(
        found,
        device=part.name,
        compute_flop_per_s={name: at(one, compute) for name, one in found.compute_flop_per_s.items()},
        bandwidth_bytes_per_s=at(found.bandwidth_bytes_per_s, memory),
        weight_bandwidth_bytes_per_s={name: at(one, memory) for name, one in found.weight_bandwidth_bytes_per_s.items()},
        quantise_bytes_per_s=at(found.quantise_bytes_per_s, memory),
        attention_flop_per_s={name: at(one, compute) for name, one in found.attention_flop_per_s.items()},
        attention_bandwidth_bytes_per_s=at(found.attention_bandwidth_bytes_per_s, memory),
        decode_bandwidth_bytes_per_s=at(found.decode_bandwidth_bytes_per_s, memory),
        decode_head_s=at(found.decode_head_s, 1 / compute),
        collectives=(),
        train_points=(),
        node_collectives=(),
    )


def spread_of(point: Measurement) -> float:
    """Half width of the 90 % range of one point, by its 95 % interval and its status."""
    interval = 0.0
    if point.value and point.low and point.high:
        interval = math.log(point.high / point.low) / 2 * NORMAL_90 / NORMAL_95
    board = LEAST_SPREAD if point.origin == "own" else math.hypot(LEAST_SPREAD, ELSEWHERE_SPREAD)
    return math.hypot(max(interval, 0.0), board, WEAK_SPREADS.get(point.status, 0.0))


def basis_of(points: Iterable[Measurement]) -> Basis:
    """'measured' if own points are included, 'public' if all come from other machines."""
    return "measured" if any(one.origin == "own" for one in points) else "public"


def source_of(points: Sequence[Measurement], what: str) -> str:
    """Evidence of a figure, in words."""
    return f"benchmark: {what}" if basis_of(points) == "measured" else f"benchmark on another machine: {what}"


def ceiling_from(point: Measurement, value: float, spread: float = 0.0) -> Ceiling:
    """`value` as a ceiling based on one point; `spread`: the formula's, added to that of the point."""
    return Ceiling(value, math.hypot(spread_of(point), spread), basis_of([point]), source_of([point], point.point))


def undisturbed(points: Sequence[Measurement]) -> Sequence[Measurement]:
    """Undisturbed points, or all if every one was disturbed."""
    return [one for one in points if one.reliable] or points


def replaces(ceiling: Ceiling, prior: Ceiling | None, points: Iterable[Measurement]) -> bool:
    """True if a measurement replaces `prior`: always when undisturbed, else where less was known without it."""
    return prior is None or any(one.reliable for one in points) or ceiling.spread < prior.spread
