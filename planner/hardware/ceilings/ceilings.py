"""Record of the compute rates, bandwidths and latencies that one device really reaches, each with a basis and a spread.

The formulas that use these figures (all were fitted to them, see `scripts/calibration/fit_ceilings.py`):

product      t = kernel latency + ((FLOP / F)^p + (bytes / B)^p)^(1/p), p = `knee`; B = `weight_bandwidth(dtype)`
8 or 4 bit   before each product a pass that quantises its input: (2 + bytes of the narrow type) · tokens · width / quantise
prefill      the same formula with `attention_*`, FLOP of the lower triangle only: 2 · heads · head width · s²
decode       t = decode attention latency + cache bytes / decode bandwidth + sequences · key-value heads · `decode_head_s`
collective   t = (latency^q + (wire bytes / (efficiency · one direction of the link))^q)^(1/q), q = `COLLECTIVE_KNEE`,
             wire bytes = message · (n − 1)/n, twice that for an all-reduce
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from planner.hardware.catalogue.interconnects import CollectiveOp, Fabric, Link

Basis = Literal["spec", "public", "transferred", "measured"]
"""Weakest to strongest. 'spec': the vendor's figure times the usual share of its kind; 'public': measured elsewhere on this part;
'transferred': scaled by a measurement of another dtype or a related part; 'measured': on this device."""
COLLECTIVE_KNEE = 0.62
"""Exponent by which a collective's latency and transfer add up: to more than their sum, as the pipeline fills late."""


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
    """Wire bytes of one device a second."""
    adapters_bytes_per_s: float
    """Assumed rate of the adapters of a node, one direction, where nobody measured."""

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
    """Seconds of one step; None when the measurement does not say its FLOP."""


class Ceilings(msgspec.Struct, frozen=True):
    """Everything the timing formulas need of one device."""

    device: str
    """Canonical name."""
    compute_flop_per_s: dict[str, Ceiling]
    """Dtype -> sustained GEMM rate; a missing dtype cannot be timed."""
    bandwidth_bytes_per_s: Ceiling
    """Memory, as matrix products and elementwise kernels stream it."""
    weight_bandwidth_bytes_per_s: dict[str, Ceiling]
    """Stored type of the weights ('fp8', 'int8', 'int4', 'fp4', or a measured dtype) -> rate its kernels read them with."""
    knee: float
    """p of the product formula: 1 adds compute and memory time, large takes the longer one."""
    kernel_latency_s: Ceiling
    """Floor of one kernel on the device."""
    launch_s: Ceiling
    """Host time to launch one operator in eager mode."""
    quantise_bytes_per_s: Ceiling
    """The pass that turns 16-bit activations into 8 or 4 bits."""
    attention_flop_per_s: dict[str, Ceiling]
    """Dtype -> rate of prefill attention (fused kernels); only the 16-bit types and fp32."""
    attention_bandwidth_bytes_per_s: Ceiling
    attention_knee: float
    attention_latency_s: Ceiling
    """One call of prefill attention."""
    decode_bandwidth_bytes_per_s: Ceiling
    """Reading the key-value cache while decoding."""
    decode_attention_latency_s: Ceiling
    """One call of decode attention."""
    decode_head_s: Ceiling
    """Per sequence and key-value head, on top."""
    collectives: tuple[Collective, ...]
    train_factor: Ceiling
    """Measured ÷ predicted time of a training step (1 when never measured)."""
    train_points: tuple[TrainPoint, ...] = ()
    context_bytes: Ceiling | None = None
    """Device memory of a process with torch before its first tensor; None: not measured, the serving engine's record gives it."""
    allocator_slack: Ceiling | None = None
    """Share that the caching allocator reserves beyond its allocations in a training step; None: not measured."""
    grouped_rate: Ceiling | None = None
    """Rate of torch's grouped expert products over that of single ones; None: not measured, or no better than 1."""
    node_collectives: tuple[NodeCollective, ...] = ()
    """Measured over several nodes; without a measurement `planner.hardware.catalogue.interconnects` gives the assumed network."""

    def weight_bandwidth(self, stored: str) -> Ceiling:
        """Bytes per second at which weights stored as `stored` are read."""
        return self.weight_bandwidth_bytes_per_s.get(stored, self.bandwidth_bytes_per_s)

    def collective(self, op: CollectiveOp, gpus: int, link: Link) -> Collective | None:
        """The figures for `gpus` devices; None when nothing is known of that link.

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
