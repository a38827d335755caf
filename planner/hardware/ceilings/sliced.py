"""Ceilings of a slice of a GPU: those of the whole at its share of multiprocessors and memory."""

from __future__ import annotations

from msgspec.structs import replace

from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import Ceiling, Ceilings

SPREAD = 0.1
"""Further spread: a slice's kernels fill fewer multiprocessors, and its neighbours share clock and power. An assumption."""


def ceilings_of_slice(part: Gpu, whole: Gpu, found: Ceilings) -> Ceilings:
    """Ceilings of `part`, a slice of `whole`, which reaches `found`; latencies stay, and no link joins slices."""
    dtype = next(iter(whole.compute_flop_per_s))
    compute = part.compute_flop_per_s[dtype] / whole.compute_flop_per_s[dtype]
    memory = part.memory_bandwidth_bytes_per_s / whole.memory_bandwidth_bytes_per_s

    def at(ceiling: Ceiling, share: float) -> Ceiling:
        source = f"{ceiling.source}; {share:.0%} of the GPU"
        return Ceiling(ceiling.value * share, ceiling.spread + SPREAD, ceiling.basis, source)

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
