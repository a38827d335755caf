"""Seconds of communication between GPUs: collectives inside a node, and over a network that is assumed or was measured.

Symbols: r tokens of a pass · h width · n nodes · k ranks of the ring in one node · f rate of the network adapters of a GPU, bytes/s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planner.engine.columns import Flags, Floats, Table, soft_maximum
from planner.engine.performance.operators.experts import imbalance
from planner.hardware.catalogue.interconnects import ELSEWHERE_SHARE, FABRIC_EFFICIENCY, FABRIC_LATENCY
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE

FP32_BYTES = 4.0
DIVIDED_PRODUCTS = 7.0
"""Products of a layer of Llama: q, k, v, o, gate, up, down."""
SUMS_BYTES = 2 * FP32_BYTES
"""Bytes of two sums in FP32."""
RING_EXPOSED = 0.1
"""Share of a ring's traffic that attention cannot hide: its first and its last step. An assumption."""


def collective_s(t: Table, ranks: Floats, volume_bytes: Floats, *, per_node: Floats, slower: Floats | float = 1.0) -> Floats:
    """Seconds of moving `volume_bytes` per rank over a ring of `ranks`, with `per_node` of them in each node.

    t = (latency^0.62 + (volume/bandwidth)^0.62)^(1/0.62). Latency and efficiency are known for 2 and 8 ranks and follow a power
    of n between and beyond. Beyond a node: see `network_rates`. `slower`: latency ÷ that of an all-reduce.
    """
    c, s = t.chip, t.layout
    power = np.log2(np.maximum(ranks, 2.0) / 2) / 2  # 0 for 2 ranks, 1 for 8
    low = np.where(s.nvlink > 0, c.nvlink_latency_2, c.pcie_latency_2)
    high = np.where(s.nvlink > 0, c.nvlink_latency_8, c.pcie_latency_8)
    few = np.where(s.nvlink > 0, c.nvlink_efficiency_2, c.pcie_efficiency_2)
    many = np.where(s.nvlink > 0, c.nvlink_efficiency_8, c.pcie_efficiency_8)
    inside = s.link_bytes_per_s * few * (many / few) ** np.minimum(power, 1.0)
    outside, farther = network_rates(t, ranks, per_node, inside)
    crosses = ranks > per_node
    bandwidth = np.where(crosses, outside, inside)
    latency = low * (high / low) ** power * np.where(crosses, farther, 1.0) * slower
    transfer = volume_bytes / np.where(bandwidth > 0, bandwidth, np.inf)
    return np.where(ranks > 1, soft_maximum(latency, transfer, COLLECTIVE_KNEE), 0.0)


def divided_bytes(t: Table, rows: Floats) -> Floats:
    """Bytes over the first GPU's link where it sends the inputs of one layer's products to the others and receives their outputs, in FP32."""
    m, s = t.model, t.layout
    inputs, outputs = 5 * m.width + m.query + m.ffn, 2 * m.width + m.query + 2 * m.key + 2 * m.ffn
    return rows * FP32_BYTES * (s.tp - 1) * (inputs + outputs / s.tp)


def divided_products_s(t: Table, rows: Floats) -> Floats:
    """Seconds of that exchange: `divided_product_s` for each product and GPU after the first, and the bytes at the link's rate."""
    s, c = t.layout, t.chip
    reached = s.link_bytes_per_s * np.where(s.nvlink > 0, c.nvlink_efficiency_2, c.pcie_efficiency_2)
    return DIVIDED_PRODUCTS * t.engine.divided_product_s * (s.tp + 2) + divided_bytes(t, rows) / np.where(
        reached > 0, reached, np.inf
    )


def layer_collectives_s(t: Table, rows: Floats) -> tuple[Floats, Floats]:
    """Seconds of one layer: (two all-reduces of r·h elements over tp ranks, sending tokens to their experts and back).

    Engines that divide products otherwise use `divided_products_s` instead.

    Norms of query and key over all heads add up two sums of squares per token in a third all-reduce (vLLM's MiniMaxText01RMSNormTP.forward_qk).
    """
    m, j, s = t.model, t.job, t.layout
    share, per_node = 2 * (s.tp - 1) / s.tp, np.minimum(s.tp, s.gpus_per_node)
    reduce_s = 2 * collective_s(t, s.tp, share * rows * m.width * j.activation_bytes, per_node=per_node)
    if m.norms_all_heads.any():
        reduce_s = reduce_s + m.norms_all_heads * collective_s(t, s.tp, share * rows * SUMS_BYTES, per_node=per_node)
    reduce_s = reduce_s * t.engine.all_reduce_factor
    if t.engine.divided_product_s.any():
        reduce_s = np.where((t.engine.divided_product_s > 0) & (s.tp > 1), divided_products_s(t, rows), reduce_s)
    return reduce_s, m.moe_share * expert_exchange_s(t, rows)[1]


def context_exchange_s(t: Table, rows: Floats, new: Floats, attention_s: Floats) -> Floats:
    """Seconds of one layer in which cp ranks exchange a prompt's keys and values, in the faster of two ways.

    A ring passes all of them around in parallel with the attention that uses them. Or an all-to-all gives each rank whole sequences of some
    heads, and the outputs back. With r tokens on each rank the ring sends (cp - 1)·2k·r elements, the other (cp - 1)/cp·2(q + k)·r; for a
    latent r·latent.
    """
    m, j, s = t.model, t.job, t.layout
    exchanges = (s.cp > 1) & (new > 1)
    if not exchanges.any():
        return np.zeros(1)
    keys = np.where(m.latent_rank > 0, (m.cached_all + m.cached_window) / m.layers, 2 * m.key / s.tp) * rows * j.activation_bytes
    heads = 2 * (m.query + m.key) / s.tp * rows * j.activation_bytes / s.cp
    per_node = np.clip(s.gpus_per_node / s.tp, 1, s.cp)
    ring, whole = (collective_s(t, s.cp, (s.cp - 1) * size, per_node=per_node) for size in (keys, heads))
    ring = np.maximum(RING_EXPOSED * ring, ring - attention_s)
    fastest = np.where(s.cp * s.tp <= m.heads, np.minimum(ring, whole), ring)
    return np.where(exchanges, fastest, 0.0)


def routed_bytes(t: Table, rows: Floats) -> tuple[Floats, Floats]:
    """Bytes that a GPU sends to the experts of one layer and gets back: (over the links of its node, over the network).

    For its r/tp tokens one copy goes to every GPU with a chosen expert, and between nodes one to every node, where it is passed on. Tokens
    are sent in the format the products read, and come back in 16 bit; training sends 16 bit both ways. 0 where all ranks have the same
    tokens. A service inside a node gathers them instead (`gathers`): every rank gets all tokens, and the sums of its experts for each go back.
    """
    m, j, s = t.model, t.job, t.layout
    narrow, gathered = (j.narrow_bytes > 0) & (j.train == 0), gathers(t)
    there = np.where(narrow & (~gathered | (j.narrow_bytes < 1)), j.narrow_bytes, j.activation_bytes)
    tokens = np.where(s.expert_streams > 1, rows / s.tp * m.expert_width * (there + j.activation_bytes), 0.0)
    busiest = imbalance(t)
    near = np.where(gathered, s.ep - 1, _elsewhere(t, s.ep) * busiest)
    return tokens * near, tokens * busiest * _elsewhere(t, np.maximum(1.0, s.ep / s.gpus_per_node))


def gathers(t: Table) -> Flags:
    """True if ranks gather each other's tokens before the experts and add up their outputs after them, instead of sending each to its experts.

    This is the default of services. TensorRT-LLM sends single tokens only with more ranks than a token has experts, and with NVLink between
    nodes or DeepEP (CutlassFusedMoE.select_alltoall_method_type, 1.1); vLLM and SGLang do where DeepEP or a similar library is requested
    (--all2all-backend allgather_reducescatter, --moe-a2a-backend none). Over several nodes such a library is assumed.
    """
    return (t.job.train <= 0) & (t.layout.expert_streams > 1) & (t.layout.ep <= t.layout.gpus_per_node)


def _elsewhere(t: Table, places: Floats) -> Floats:
    """Different places among `places` that a token's experts are in, apart from its own."""
    among = np.maximum(1.0, places * t.model.routed_share)
    return (1 - 1 / places) * among * (1 - (1 - 1 / among) ** t.model.experts_per_token)


def expert_exchange_s(t: Table, rows: Floats) -> tuple[Floats, Floats]:
    """Seconds to send one layer's tokens to their experts and back: (over links, over links and every GPU's own adapter at once)."""
    s, c = t.layout, t.chip
    apart = s.expert_streams > 1
    if not apart.any():
        return np.zeros(1), np.zeros(1)
    near, far = routed_bytes(t, rows)
    ranks = np.where(apart, s.ep, 1.0)
    gathered = gathers(t)
    rate, slower = (np.where(gathered, 1.0, column) for column in (c.exchange_rate, c.exchange_latency))
    inside = 2 * collective_s(t, ranks, near / 2 / rate, per_node=ranks, slower=slower)
    return inside, np.maximum(inside, far / np.where(far > 0, peer_bytes_per_s(t, ranks > s.gpus_per_node), 1.0))


def stage_handover_s(t: Table, rows: Floats) -> Floats:
    """Seconds in which a stage of an inference pipeline sends the activations of r tokens to the next, r·h/tp elements per rank.

    It uses the network where the stages are in several nodes. An engine's own time replaces it where it is known; training counts its
    hand-overs separately.
    """
    s = t.layout
    unknown = (s.pp > 1) & (t.engine.hop_s == 0) & (t.job.train == 0)
    if not unknown.any():
        return t.engine.hop_s
    size = rows * t.model.width * t.job.activation_bytes / s.tp
    apart = s.tp * s.pp > s.gpus_per_node
    seconds = collective_s(t, np.full(1, 2.0), size, per_node=np.where(apart, 1.0, 2.0))
    return np.where(unknown, seconds, t.engine.hop_s)


def network_rates(t: Table, ranks: Floats, per_node: Floats, inside: Floats) -> tuple[Floats, Floats]:
    """(bytes/s, latency ÷ that of as many ranks inside a node) of a ring over several nodes with `per_node` ranks in each.

    Every GPU has its own share of the network, so a ring with several ranks in a node uses all their adapters, k·f·0.8,
    and is not faster than `inside`. A measurement over as many nodes replaces both figures. Between the node counts that were
    measured, the logarithm of measured ÷ assumed is linear in log n; beyond them each doubling of n halves it.
    """
    c, k = t.chip, np.maximum(per_node, 1.0)
    adapters = t.layout.fabric_bytes_per_s * k
    assumed = np.minimum(inside, adapters * FABRIC_EFFICIENCY)
    if not c.measured_nodes_few.any():
        return assumed, np.full(1, FABRIC_LATENCY)
    known = c.measured_nodes_few > 0
    nodes = np.log2(np.maximum(np.ceil(ranks / k), 2.0))
    counts = [np.log2(np.maximum(each, 2.0)) for each in (c.measured_nodes_few, c.measured_nodes_mid, c.measured_nodes_many)]
    nearest = np.clip(nodes, counts[0], counts[-1])
    share = np.exp(math.log(ELSEWHERE_SHARE) * np.abs(nodes - nearest))
    efficiency = _log_ratio(
        nearest, counts, (c.fabric_efficiency_few, c.fabric_efficiency_mid, c.fabric_efficiency_many), FABRIC_EFFICIENCY
    )
    latency = _log_ratio(nearest, counts, (c.fabric_latency_few, c.fabric_latency_mid, c.fabric_latency_many), FABRIC_LATENCY)
    measured = t.layout.fabric_bytes_per_s * c.measured_per_node * FABRIC_EFFICIENCY * np.exp(efficiency)
    rate = np.minimum(adapters * FABRIC_EFFICIENCY * np.exp(share * efficiency), np.maximum(inside, measured))
    return np.where(known, rate, assumed), np.where(known, FABRIC_LATENCY * np.exp(share * latency), FABRIC_LATENCY)


def peer_bytes_per_s(t: Table, apart: Flags) -> Floats:
    """Bytes/s from one GPU to another: over its own adapter where they are in different nodes (`apart`), else over the node's link."""
    link = t.layout.link_bytes_per_s
    outside, _ = network_rates(t, np.full(1, 2.0), np.ones(1), link)
    return np.where(apart, outside, link)


def _log_ratio(at: Floats, counts: Sequence[Floats], figures: Sequence[Floats], usual: float) -> Floats:
    """ln(measured ÷ usual) at the logarithm `at` of a number of nodes, interpolated between three measured ones."""
    few, mid, many = (np.log(np.maximum(each, np.finfo(float).tiny) / usual) for each in figures)
    return np.where(at <= counts[1], _line(at, counts[:2], few, mid), _line(at, counts[1:], mid, many))


def _line(at: Floats, ends: Sequence[Floats], first: Floats, last: Floats) -> Floats:
    width = ends[1] - ends[0]
    return first + (last - first) * (at - ends[0]) / np.where(width > 0, width, 1.0)
