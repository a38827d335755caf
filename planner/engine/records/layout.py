"""Spread of a job over GPUs: degrees of every kind of parallelism."""

from __future__ import annotations

from typing import Generic

import msgspec

from planner.engine.records.fields import N

ZERO_STAGE = {"none": 0.0, "zero1": 1.0, "zero2": 2.0, "zero3": 3.0, "hsdp": 3.0}
"""Sharding -> its ZeRO stage."""
CHECKPOINTING = {"none": 0.0, "selective": 1.0, "full": 2.0, "selective-op": 3.0}
"""Activation checkpointing -> its number in a column."""


class Layout(msgspec.Struct, Generic[N], frozen=True, kw_only=True):
    """Degrees of parallelism, batch sizes and links of one candidate, or columns of many."""

    gpus: N
    gpus_per_node: N
    tp: N
    pp: N
    dp: N
    cp: N
    ep: N
    """Expert-parallel degree: parts into which the experts of a layer are divided, tensor-parallel ranks among them."""
    virtual_stages: N
    zero: N
    """ZeRO stage 0-3."""
    shard: N
    """Ranks the ZeRO stage divides by (dp·cp; inside a node for hybrid sharding)."""
    checkpointing: N
    """Its number in `CHECKPOINTING`."""
    micro_batch: N
    sequences: N
    """Concurrent sequences of one replica while generating or serving."""
    nvlink: N
    """1: NVLink or its like joins the GPUs of a node; 0: PCIe does."""
    link_bytes_per_s: N
    """Per GPU and direction, inside a node."""
    fabric_bytes_per_s: N
    """Per GPU and direction, between nodes."""
    prefill: N
    """Number of the dp replicas of a disaggregated service that only read prompts; 0: every replica does both."""


def spread(
    *,
    tp: int,
    pp: int,
    dp: int,
    cp: int,
    ep: int,
    virtual_stages: int,
    gpus_per_node: int,
    sharding: str,
    checkpointing: str,
    micro_batch: float,
    sequences: float,
    prefill: int,
    link: tuple[str, float],
    fabric_bytes_per_s: float,
) -> Layout[float]:
    """Layout of tp·pp·dp·cp GPUs in nodes of `gpus_per_node`, with `sharding` and `checkpointing` by name.

    `link`: name and bytes/s inside a node.
    """
    ranks = dp * cp
    name, link_bytes_per_s = link
    return Layout(
        gpus=float(tp * pp * ranks),
        gpus_per_node=float(gpus_per_node),
        tp=float(tp),
        pp=float(pp),
        dp=float(dp),
        cp=float(cp),
        ep=float(ep),
        virtual_stages=float(virtual_stages),
        zero=ZERO_STAGE[sharding],
        shard=float(min(ranks, gpus_per_node) if sharding == "hsdp" else ranks),
        checkpointing=CHECKPOINTING[checkpointing],
        micro_batch=micro_batch,
        sequences=sequences,
        nvlink=float(name == "nvlink"),
        link_bytes_per_s=link_bytes_per_s,
        fabric_bytes_per_s=fabric_bytes_per_s,
        prefill=float(prefill),
    )
