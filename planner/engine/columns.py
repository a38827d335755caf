"""The table of candidates: a row a candidate, every attribute an array of float64.

Attributes of a part that all rows share (one model, one job) have length 1 and broadcast. Formulas are written once
over these columns; one candidate is a table of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
C = TypeVar("C", bound="Columns")


def added(parts: Iterable[Floats]) -> Floats:
    """The sum of arrays that broadcast, one after the other, so that a row adds up the same alone and among others."""
    return reduce(np.add, parts)


class Columns:
    """Base of the parts of a table; every field is an array."""

    @classmethod
    def gather(cls, records: Sequence[Any], index: Rows) -> Self:
        """One array a field: the attribute of that name of `records`, taken at `index` (shape [rows], or [1] if shared)."""
        different = {id(record): record for record in records}
        names = [item.name for item in fields(cls)]  # type: ignore[arg-type]  # every subclass is a dataclass
        values = np.array([[getattr(record, name) or 0.0 for record in different.values()] for name in names], dtype=np.float64)
        if len(records) > 1:
            place = dict(zip(different, range(len(different)), strict=True))
            values = values.take(np.array([place[id(record)] for record in records])[index], axis=1)
        return cls(**dict(zip(names, values, strict=True)))

    def take(self, keep: Flags | Rows) -> Self:
        """The rows `keep`; shared attributes stay shared."""
        arrays = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # as above
        return type(self)(**{name: array if array.size == 1 else array[keep] for name, array in arrays.items()})


@dataclass(frozen=True)
class ModelColumns(Columns):
    """Sizes of an `Architecture`; see there."""

    layers: Floats
    width: Floats
    heads: Floats
    kv_heads: Floats
    query: Floats
    key: Floats
    attended: Floats
    ffn: Floats
    gated: Floats
    vocabulary: Floats
    tied: Floats
    embedding: Floats
    head: Floats
    attention_matrix: Floats
    dense_mlp_matrix: Floats
    expert_matrix: Floats
    shared_matrix: Floats
    router_matrix: Floats
    cached_per_token: Floats
    latent_rank: Floats
    qk_norm: Floats
    norms: Floats
    centred: Floats
    rotary: Floats
    dropout: Floats
    window: Floats
    windowed_layers: Floats
    experts: Floats
    experts_per_token: Floats
    expert_ffn: Floats
    shared_ffn: Floats
    moe_layers: Floats
    layers_shared: Floats
    experts_total: Floats
    total: Floats
    active: Floats
    active_matrix: Floats
    final_vector: Floats


@dataclass(frozen=True)
class JobColumns(Columns):
    """Numbers of a `Job`; see there."""

    train: Floats
    adapters: Floats
    linear_bytes: Floats
    other_bytes: Floats
    weight_bits_packed: Floats
    unpacked_bytes: Floats
    keeps_unpacked: Floats
    unpack_host_s: Floats
    frozen_bytes: Floats
    trained_beside: Floats
    draft_cached: Floats
    adapter_bytes: Floats
    draft_tokens: Floats
    acceptance: Floats
    gptq: Floats
    kv_bytes: Floats
    activation_bytes: Floats
    narrow_bytes: Floats
    gradient_bytes: Floats
    master_bytes: Floats
    cast_bytes: Floats
    state_bytes: Floats
    state_traffic: Floats
    autocast: Floats
    eager_attention: Floats
    in_backward: Floats
    offload_optimizer: Floats
    offload_parameters: Floats
    offload_activations: Floats
    compiled: Floats
    sequence: Floats
    global_batch: Floats
    input_tokens: Floats
    output_tokens: Floats
    prefix_tokens: Floats
    lockstep: Floats
    memory_fraction: Floats
    headroom: Floats


@dataclass(frozen=True)
class FootprintColumns(Columns):
    """Numbers of a `memory.footprint.Footprint`; see there."""

    norms: Floats
    attention: Floats
    attention_recomputed: Floats
    scores: Floats
    mlp: Floats
    dropout: Floats
    boundary: Floats
    backward: Floats
    head: Floats
    logits_alive: Floats
    logits_forward: Floats
    logits_backward: Floats
    logits_gradient: Floats
    head_gradient: Floats
    head_product: Floats
    early_gradient: Floats
    arriving_gradient: Floats
    step: Floats
    step_matrix: Floats
    layer_matrix: Floats


@dataclass(frozen=True)
class EngineColumns(Columns):
    """Numbers of an `Engine`; see there."""

    launches_per_layer: Floats
    launches_per_expert: Floats
    kernels_per_layer: Floats
    host_step_s: Floats
    host_sequence_s: Floats
    mixed_launches_per_layer: Floats
    mixed_factor: Floats
    context_bytes: Floats
    communicator_bytes: Floats
    slack: Floats
    cache_slack: Floats
    kept_activations: Floats
    cache_grows: Floats
    expands_latent: Floats
    copied_layers: Floats
    gptq_scratch_tokens: Floats
    unpacks: Floats
    fp32_between: Floats
    fp16_accumulate: Floats
    rounds_apart: Floats
    hbm_share: Floats
    hop_s: Floats
    pipelined_prompt: Floats
    device_factor: Floats
    prompt_logits: Floats
    cache_block_tokens: Floats
    prefill_chunk: Floats
    prompts_first: Floats
    prompts_together: Floats
    reserves_output: Floats
    fused_elementwise: Floats


@dataclass(frozen=True)
class ChipColumns(Columns):
    """What the timing formulas need of one device at the job's compute dtype; `*_spread`: 90 % half width of the logarithm."""

    capacity_bytes: Floats
    peak_flop_per_s: Floats
    flop_per_s: Floats
    flop_spread: Floats
    fp16_accumulate_gain: Floats
    is_hbm: Floats
    attention_flop_per_s: Floats
    attention_latency_s: Floats
    bandwidth_bytes_per_s: Floats
    bandwidth_spread: Floats
    weight_bandwidth_bytes_per_s: Floats
    decode_bandwidth_bytes_per_s: Floats
    decode_latency_s: Floats
    decode_head_s: Floats
    quantise_bytes_per_s: Floats
    latency_s: Floats
    launch_s: Floats
    knee: Floats
    train_factor: Floats
    train_spread: Floats
    nvlink_latency_2: Floats
    nvlink_latency_8: Floats
    nvlink_efficiency_2: Floats
    nvlink_efficiency_8: Floats
    pcie_latency_2: Floats
    pcie_latency_8: Floats
    pcie_efficiency_2: Floats
    pcie_efficiency_8: Floats
    measured_nodes_few: Floats
    """The fewest nodes that all-reduces were measured over; 0: never."""
    measured_nodes_mid: Floats
    """Between them, where three counts or more were; else the most."""
    measured_nodes_many: Floats
    measured_per_node: Floats
    """GPUs of a node then."""
    fabric_efficiency_few: Floats
    """Of the rate the adapters are taken to have."""
    fabric_efficiency_mid: Floats
    fabric_efficiency_many: Floats
    fabric_latency_few: Floats
    """Over that of as many ranks inside a node."""
    fabric_latency_mid: Floats
    fabric_latency_many: Floats
    power_w: Floats
    is_cpu: Floats
    context_bytes: Floats
    """Memory of a process with PyTorch before its first tensor, as measured; NaN: the engine's record tells."""
    allocator_slack: Floats
    """Share the allocator keeps above what is allocated in training, as measured; NaN: the engine's record tells."""


@dataclass(frozen=True)
class LayoutColumns(Columns):
    """How the job is spread."""

    gpus: Floats
    gpus_per_node: Floats
    tp: Floats
    pp: Floats
    dp: Floats
    cp: Floats
    ep: Floats
    virtual_stages: Floats
    zero: Floats
    """ZeRO stage 0-3."""
    shard: Floats
    """Ranks the ZeRO stage divides by (dp·cp; inside a node for hybrid sharding)."""
    checkpointing: Floats
    """0 none, 1 selective, 2 full."""
    micro_batch: Floats
    sequences: Floats
    """Concurrent sequences of one replica while generating or serving."""
    nvlink: Floats
    """1: the GPUs of a node are joined by NVLink or its like; 0: PCIe."""
    link_bytes_per_s: Floats
    """Per GPU and direction, inside a node."""
    fabric_bytes_per_s: Floats
    """Per GPU and direction, between nodes."""
    prefill: Floats = field(default_factory=lambda: np.zeros(1))
    """Of the dp replicas of a disaggregated service, those that only read prompts; 0: every replica does both."""


@dataclass(frozen=True)
class DraftColumns(Columns):
    """Numbers of a `drafts.Draft` beside its architecture's; see there."""

    linear_bytes: Floats
    other_bytes: Floats
    weight_bits_packed: Floats
    unpack_host_s: Floats
    gptq: Floats


@dataclass(frozen=True)
class Table:
    """Candidates, a row each."""

    model: ModelColumns
    job: JobColumns
    kept: FootprintColumns
    engine: EngineColumns
    chip: ChipColumns
    layout: LayoutColumns
    draft_model: ModelColumns | None = None
    """Of draft models, of rows without one their own; None where no row has one that is timed."""
    draft: DraftColumns | None = None

    @property
    def rows(self) -> int:
        """Number of candidates."""
        return int(self.layout.gpus.size)

    def take(self, keep: Flags | Rows) -> Table:
        """The candidates `keep`."""
        parts: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(Table)}
        taken: dict[str, Any] = {name: part if part is None else part.take(keep) for name, part in parts.items()}
        return Table(**taken)
