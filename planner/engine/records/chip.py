"""Figures of a device at the job's compute dtype."""

from __future__ import annotations

import math
from typing import Generic

import msgspec

from planner.engine.records.fields import N, default
from planner.hardware.catalogue.interconnects import FABRIC_EFFICIENCY, FABRIC_LATENCY

HOST_LINK_BYTES_PER_S = 20e9
"""Between GPU and host memory over PCIe 4 x16: 26 GB/s with pinned memory (nvbandwidth), less for pageable copies."""
PCIE_BYTES_PER_S = 32e9
"""PCIe 4 x16 in one direction: where a part's own link is not known."""
PCIE_SHARE = 0.8
"""Share of PCIe's rate in one direction that copies from pinned memory reach: 26 of 32 GB/s (PCIe 4 x16, nvbandwidth)."""
HOST_READ_BYTES_PER_S = 60e9
"""Rate at which a processor reads the weights it multiplies with: two channels of DDR5-5600 (89.6 GB/s by JEDEC) at two thirds; servers with eight
and more channels are several times as fast."""
HOST_RATES = f"read at {HOST_READ_BYTES_PER_S / 1e9:.0f} GB/s, moved to the GPU at {HOST_LINK_BYTES_PER_S / 1e9:.0f} GB/s"


class ChipNumbers(msgspec.Struct, Generic[N], frozen=True, kw_only=True):
    """Figures of one device for the timing formulas (`Chip`), or columns of many.

    Rates are those that are reached. `*_spread`: 90 % half width of the logarithm. `*_2`, `*_8`: an all-reduce of 2 or 8 GPUs
    of a node, NaN if nothing is known of the link.
    """

    capacity_bytes: N
    peak_flop_per_s: N
    """Vendor's dense figure."""
    flop_per_s: N
    wide_flop_per_s: N
    """`flop_per_s` in 16 bit, whatever the compute dtype; that of the compute dtype where it is not known."""
    flop_spread: N
    cycles_per_s: N = default(0.0)
    """Cycles of all multiprocessors together at boost clock; 0: not known."""
    cdna_flop_per_s: N = default(0.0)
    """Vendor's dense figure in 16 bit of an AMD part with matrix units; 0 of any other."""
    is_cdna3: N = default(0.0)
    """1 for AMD's CDNA 3, whose kernels for experts below 16 bit are slower than its other products."""
    fp16_accumulate_gain: N
    """Rate of FP16 products that add up in FP16, over FP32."""
    is_geforce: N = default(0.0)
    """1 for a GeForce card, whose hosts are slower than servers."""
    is_hbm: N
    attention_flop_per_s: N
    attention_latency_s: N
    narrow_attention_gain: N = default(1.0)
    """Rate of latent attention on an 8-bit cache over that in 16 bit."""
    bandwidth_bytes_per_s: N
    bandwidth_spread: N
    weight_bandwidth_bytes_per_s: N
    decode_bandwidth_bytes_per_s: N
    decode_latency_s: N
    decode_head_s: N
    quantise_bytes_per_s: N
    latency_s: N
    clock_hz: N = default(0.0)
    """Boost clock of an NVIDIA part; 0: not known."""
    launch_s: N
    launch_spread: N
    """Half width of the logarithm of `launch_s`, which is the host's."""
    knee: N
    train_factor: N
    nvlink_latency_2: N
    nvlink_latency_8: N
    nvlink_efficiency_2: N
    nvlink_efficiency_8: N
    pcie_latency_2: N
    pcie_latency_8: N
    pcie_efficiency_2: N
    pcie_efficiency_8: N
    measured_nodes_few: N = default(0.0)
    """Minimum number of nodes over which an all-reduce was measured; 0: none was."""
    measured_nodes_mid: N = default(0.0)
    """A count between fewest and most where one was measured; else the most."""
    measured_nodes_many: N = default(0.0)
    measured_per_node: N = default(0.0)
    """GPUs of each node in those measurements."""
    fabric_efficiency_few: N = default(FABRIC_EFFICIENCY)
    """Measured rate over the rate of the adapters."""
    fabric_efficiency_mid: N = default(FABRIC_EFFICIENCY)
    fabric_efficiency_many: N = default(FABRIC_EFFICIENCY)
    fabric_latency_few: N = default(FABRIC_LATENCY)
    """Measured latency over that of as many ranks inside a node."""
    fabric_latency_mid: N = default(FABRIC_LATENCY)
    fabric_latency_many: N = default(FABRIC_LATENCY)
    compute_capability: N = default(0.0)
    """NVIDIA's; infinite for other vendors' parts."""
    grouped_rate: N = default(1.0)
    """Rate of torch's grouped products of experts over that of single products, as measured."""
    exchange_rate: N = default(1.0)
    """Rate of an all-to-all inside a node over that of an all-reduce's ring, as measured."""
    exchange_latency: N = default(1.0)
    pcie_bytes_per_s: N = default(PCIE_BYTES_PER_S)
    """Bandwidth of the link to the host, in one direction."""
    power_w: N
    """Limit it ships with."""
    power_limit_w: N = default(math.inf)
    """Limit that is asked for; infinite: none."""
    power_doubt: N = default(0.0)
    """90 % half width of the logarithm of what the limit slows."""
    is_cpu: N
    own_training_memory: N = default(1.0)
    """Factor on the half width of the memory of training, by this user's own results."""
    own_inference_memory: N = default(1.0)
    context_bytes: N = default(math.nan)
    """Memory of a process with PyTorch before its first tensor, as measured; NaN: the engine's record applies."""
    allocator_slack: N = default(math.nan)
    """Share the allocator keeps above what is allocated in training, as measured; NaN: the engine's record applies."""
