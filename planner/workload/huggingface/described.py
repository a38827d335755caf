"""Architecture of a model that was described by tracing its own code (`bench.describe`): groups of equal layers as measured."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.workload.architecture import Architecture
from planner.workload.block import Block
from planner.workload.sublayers import AttentionGroup, Matrices, Role, Sublayer

_ROLES: tuple[tuple[str, Role], ...] = (
    (r"(q_proj|wq|query)$", "q"),
    (r"(k_proj|wk|key)$", "k"),
    (r"(v_proj|wv|value)$", "v"),
    (r"(c_attn|qkv\w*|query_key_value|Wqkv)$", "qkv"),
    (r"(o_proj|out_proj|attention\.dense|attn\.dense|attn\.c_proj)$", "o"),
    (r"gate_up_proj$", "gate_up"),
    (r"(gate_proj|w1)$", "gate"),
    (r"(up_proj|w3|fc1|c_fc|fc_in|dense_h_to_4h|input_linear)$", "up"),
    (r"(down_proj|w2|fc2|c_proj|fc_out|dense_4h_to_h|output_linear)$", "down"),
)
"""Names of projections in libraries -> their role."""
_ROUTERS = {"gate", "router", "gating"}
"""Modules whose product with their weight may use a copy in FP32."""
_MIXING = re.compile(r"attn|attention|mixer|mamba|conv|ssm|temporal|recurrent")


TOLERANCE = 0.02
"""Tolerated relative difference between the FLOPs of the architecture and traced ones; some small products without a layer are not found."""


class _Layer(msgspec.Struct):
    """Measured parameters and work of one layer."""

    sums: Counter[str] = msgspec.field(default_factory=Counter)
    """Kind of parameter -> number."""
    products: Counter[tuple[str, Role, int, int, bool]] = msgspec.field(default_factory=Counter)
    """(part, role, inputs, outputs, weights used for the first time) of products with weights."""
    experts: tuple[int, bool] = (0, False)
    """Number of experts, and whether they have a gate."""
    flops: dict[int, int] = msgspec.field(default_factory=dict)
    """Length -> FLOPs of products of activations."""
    expert_flops: int = 0
    routing: int = 0
    """Parameters of products that choose experts."""
    shapes: list[list[int]] = msgspec.field(default_factory=list)
    cache: list[tuple[float, float, int, int, int]] = msgspec.field(default_factory=list)
    """(elements per token, as many as in 16 bit, other elements, bytes of one, key heads, window) of each tensor of the cache."""

    @property
    def signature(self) -> str:
        """A text that is equal for equal layers."""
        return repr(
            (sorted(self.sums.items()), sorted(self.products.items()), self.experts, sorted(self.flops.items()), self.cache)
        )


def described_architecture(found: Mapping[str, Any]) -> Architecture:
    """Architecture; raises `ValueError` if the description does not add up."""
    layers, outside = _layers(found)
    first = int(min(found["flops"], key=int))
    head = max((one for one in found["products"] if _number(one[0], found["stack"]) is None), key=lambda one: one[3], default=None)
    if head is None or not layers:
        raise ValueError("no output head or no layers were found in its code")
    _, head_name, token_width, vocabulary, heads = head
    read = Counter(inputs for layer in layers for _, _, inputs, _, _ in layer.products.elements())
    width = token_width if token_width in read or not read else read.most_common(1)[0][0]
    tied, size_of_head = next(
        (kind == "embedding", math.prod(shape)) for name, kind, shape in found["tensors"] if name == head_name
    )
    sparse = [layer for layer in layers if layer.experts[0]]
    instead, beside, windows = _sublayers(layers, found)
    sums = Counter[str]()
    for name, kind, shape in found["tensors"]:
        if _number(name, found["stack"]) is None and name != head_name:
            sums[kind] += math.prod(shape)
    loose = sum(sums[kind] for kind in ("matrix", "other", "convolution", "router", "expert"))
    embedding = sums["embedding"] + size_of_head * tied
    attended = next((one for part in instead for one in part.attending if one.heads), AttentionGroup(layers=1))
    experts: dict[str, Any] = {}
    if sparse:
        loose += sum(layer.sums["router"] - sparse[0].sums["router"] for layer in sparse)
        further = max(0, sparse[0].routing - width * sparse[0].experts[0])
        beside += [Sublayer(part="router", layers=len(sparse), convolution=further)] if further else []
        experts = _experts(sparse[0], width, first, found["corrections"] // len(sparse) - further)
    beside += _ends(
        [one for one in outside if one[1] != head_name], (token_width, vocabulary, heads - 1), norm=sums["norm"], loose=loose
    )
    saved = found.get("saved_bytes") or {}
    architecture = Architecture(
        **{"gated": True, **experts},
        family=str(found["model_type"]),
        block=Block(),
        eager_attention=False,
        layers=len(layers),
        width=width,
        heads=max(1, attended.heads),
        kv_heads=attended.kv_heads,
        head_dim=max(1, attended.score_dim),
        value_dim=attended.value_dim if attended.value_dim != attended.score_dim else 0,
        ffn=max((one[2] for layer in layers for one in layer.products if one[1] == "down"), default=width),
        vocabulary=vocabulary,
        tied=tied,
        embedding_width=token_width if token_width != width else None,
        per_layer_embedding=embedding - vocabulary * token_width,
        instead=tuple(instead),
        beside=tuple(beside),
        norms=2,
        norm_parameters=0,
        final_bias=sums["bias"],
        dense_layers=0,
        window=max(windows, default=None),
        saved_bytes=sum(saved.values()) / len(layers) if saved else None,
        towers=found.get("towers", 0),
        encoder=bool(found.get("encoder")),
    )
    _require_sums(architecture, found, first)
    return architecture


def _sublayers(layers: Sequence[_Layer], found: Mapping[str, Any]) -> tuple[list[Sublayer], list[Sublayer], set[int]]:
    """(attentions and MLPs, further parts, windows) of the layers, with equal ones combined."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        groups[layer.signature].append(number)
    instead: list[Sublayer] = []
    beside: list[Sublayer] = []
    windows: set[int] = set()
    for numbers in groups.values():
        layer = layers[numbers[0]]
        attending, window = _attending(layer, len(numbers), found)
        windows |= {window} if window else set()
        mixing, rest = (_parts(layer, part, numbers, attending if part == "attention" else ()) for part in ("attention", "mlp"))
        instead += mixing[:1]
        (beside if layer.experts[0] else instead).extend(rest[:1])
        beside += (*mixing[1:], *rest[1:])  # a further use of another layer's weights
    return instead, beside, windows


def _experts(layer: _Layer, width: int, tokens: int, corrections: int) -> dict[str, Any]:
    """Sizes of a layer's routed experts, from a prompt of `tokens`; `corrections`: further parameters of its router."""
    number, gated = layer.experts
    each = layer.sums["expert"] // number
    matrices = (3 if gated else 2) * width
    return {
        "experts": number,
        "experts_per_token": round(layer.expert_flops / tokens / (2 * each)),
        "expert_ffn": each // matrices,
        "expert_vector": each % matrices,
        "router_vector": layer.sums["router"] + corrections - width * number,
        "gated": gated,
    }


def _ends(outside: list[list[Any]], head: tuple[int, int, int], *, norm: int, loose: int) -> list[Sublayer]:
    """Products outside the layers, vectors and other `loose` parameters; then repeated uses of products and `head`."""
    stored = {(name, inputs, outputs) for _, name, inputs, outputs, _ in outside}
    matrices: Matrices = tuple(("other", inputs, outputs) for _, _, inputs, outputs, _ in outside)
    uses = [*((inputs, outputs, count - 1) for *_, inputs, outputs, count in outside), head]
    again: Matrices = tuple(("other", inputs, outputs) for inputs, outputs, count in uses for _ in range(count))
    other = loose - sum(inputs * outputs for _, inputs, outputs in stored)
    own = Sublayer(part="mlp", layers=1, matrices=matrices, norm=norm, other=other)
    return [own, Sublayer(part="mlp", layers=1, stored=0, matrices=again)] if again else [own]


def _require_sums(a: Architecture, found: Mapping[str, Any], tokens: int) -> None:
    """Raise `ValueError` if parameters differ, or a prompt's FLOPs in eager code: the head for every token, scores without windows."""
    counted = sum(math.prod(shape) for _, _, shape in found["tensors"]) + found["corrections"] + a.towers
    if a.total != counted:
        raise ValueError(f"its description adds up to {a.total:,} parameters, its code has {counted:,}")
    seen = a.attended_all + a.attended_window + a.attended_chosen
    described, made = tokens * (2 * a.active_matrix + 2 * seen * tokens + a.scan_flop), found["flops"][str(tokens)]
    if made and abs(described / made - 1) > TOLERANCE:
        raise ValueError(f"its description takes {described:,.0f} FLOP for {tokens} tokens, its code takes {made:,}")


def _layers(found: Mapping[str, Any]) -> tuple[list[_Layer], list[list[Any]]]:
    """Every layer, and the products outside them."""
    stack = found["stack"]
    numbers = {number for name, _, _ in found["tensors"] if (number := _number(name, stack)) is not None}
    layers = [_Layer() for _ in range(max(numbers, default=-1) + 1)]
    at_home = {name for where, name, *_ in found["products"] if _number(where, stack) == _number(name, stack)}
    ran = {
        name
        for name, kind, _ in found["tensors"]
        if kind == "expert" and any(name.startswith(f"{one}.") for one in found["expert_flops"])
    }
    for name, given, shape in found["tensors"]:
        kind = "other" if given == "expert" and ran and name not in ran else given  # experts that no text passes
        if (number := _number(name, stack)) is not None:
            used = name in at_home or (kind == "router" and name in found["used"])
            layers[number].sums["other" if kind == "matrix" and not used else kind] += math.prod(shape)
            if kind == "expert" and len(shape) == 3:
                experts, gated = layers[number].experts
                layers[number].experts = (max(experts, shape[0]), gated or "gate" in name or "w3" in name)
    outside = []
    kinds = {name: kind for name, kind, _ in found["tensors"]}
    for where, name, inputs, outputs, count in found["products"]:
        number = _number(where, stack)
        if number is None:
            outside.append([where, name, inputs, outputs, count])
        elif kinds[name] == "router":
            layers[number].routing += inputs * outputs * count
        else:
            own = _number(name, stack) == number
            part = "attention" if _MIXING.search(where) else "mlp"
            layers[number].products[part, _role(name), inputs, outputs, True] += own
            layers[number].products[part, _role(name), inputs, outputs, False] += count - own
    for tokens, flops in found["scores"].items():
        for where, count in flops.items():
            if (number := _number(where, stack)) is not None and not _ROUTERS & set(where.split(".")):
                layers[number].flops[int(tokens)] = layers[number].flops.get(int(tokens), 0) + count
    for where, count in found["expert_flops"].items():
        if (number := _number(where, stack)) is not None:
            layers[number].expert_flops += count
    for where, made in found["score_shapes"].items():
        if (number := _number(where, stack)) is not None:
            layers[number].shapes += made
    _fill_caches(found, layers)
    return layers, outside


def _fill_caches(found: Mapping[str, Any], layers: list[_Layer]) -> None:
    """Growth per token and constant part of every tensor of the cache, from prompts of two lengths."""
    first, second = sorted(map(int, found["caches"]))[:2]
    later = {tuple(one["path"]): one for one in found["caches"][str(second)]}
    for one in found["caches"][str(first)]:
        number = next((int(part) for part in one["path"] if part.isdigit()), len(layers))
        if number < len(layers) and (after := later.get(tuple(one["path"]))):
            size, grown = math.prod(one["shape"]), math.prod(after["shape"])
            each = (grown - size) / (second - first)
            constant = size - each * first
            window = (one["window"] or 0) * (len(one["shape"]) == 4)  # keys and values; other entries grow with every token
            if window:
                each, constant = size / one["shape"][-2], 0
            heads = one["shape"][1] if len(one["shape"]) == 4 else 1
            layers[number].cache.append((each * one["bytes"] / 2, constant, one["bytes"], heads, window))


def _attending(layer: _Layer, layers: int, found: Mapping[str, Any]) -> tuple[tuple[AttentionGroup, ...], int]:
    """Access of the layer to earlier tokens, and its window (0: none): FLOPs of two lengths give a square and a linear part."""
    first, second = sorted(map(int, found["flops"]))[:2]
    a, b = layer.flops.get(first, 0) / first, layer.flops.get(second, 0) / second
    attended = (b - a) / (second - first) / 2
    linear = a - 2 * attended * first - 2 * layer.sums["convolution"]
    heads = max((batch for batch, m, n, _ in layer.shapes if m == n == first), default=0)
    scores = max((k for batch, m, n, k in layer.shapes if m == n == first and batch == heads), default=0)
    window = max((one[4] for one in layer.cache), default=0)
    growing, near = (sum(one[0] for one in layer.cache if bool(one[4]) == windowed) for windowed in (False, True))
    kept = [(one[1], one[2]) for one in layer.cache]
    if not (attended or growing or near or any(size for size, _ in kept) or linear > 0):
        return (), 0
    if attended and not heads:  # scores of more than the tokens: only their total size is known
        heads, scores = 1, round(attended / 2)
    base = AttentionGroup(layers=layers, kv_heads=max((one[3] for one in layer.cache if one[0]), default=1))
    own = replace(
        base,
        heads=heads,
        score_dim=scores,
        value_dim=round(attended / heads) - scores if heads else 0,
        attends_to="window" if window and not growing else "all",
        cached=growing or near,
        read=growing or near,
        state=round(sum(size for size, width in kept if width < 4)),
        wide_state=round(sum(size for size, width in kept if width >= 4)),
        scan_flop=max(0.0, linear),
    )
    both = (replace(base, attends_to="window", cached=near, read=near),) if growing and near else ()
    return (own, *both), window


def _parts(layer: _Layer, part: Any, numbers: list[int], attending: tuple[AttentionGroup, ...]) -> list[Sublayer]:
    """Layer's attention or MLP; vectors are counted with the attention, and a use of another layer's weights stores none."""
    own, borrowed = (
        tuple((role, inputs, outputs) for (product_part, role, inputs, outputs, mine), count in sorted(layer.products.items()) for _ in range(count) if product_part == part and mine == which)
        for which in (True, False)
    )  # fmt: skip
    first = part == "attention"
    found = [
        Sublayer(
            part=part,
            layers=len(numbers),
            first=numbers[0],
            matrices=own,
            convolution=layer.sums["convolution"] * first,
            other=layer.sums["other"] * first,
            bias=layer.sums["bias"] * first,
            norm=layer.sums["norm"] * first,
            attending=attending,
        )
    ]
    if borrowed:
        found.append(Sublayer(part=part, layers=len(numbers), first=numbers[0], stored=0, matrices=borrowed))
    return found


def _number(path: str, stack: str) -> int | None:
    """Layer of a module or parameter with that path; None: it is outside the layers."""
    if not path.startswith(f"{stack}."):
        return None
    number = path[len(stack) + 1 :].split(".", maxsplit=1)[0]
    return int(number) if number.isdigit() else None


def _role(name: str) -> Role:
    path = name.removesuffix(".weight")
    return next((role for pattern, role in _ROLES if re.search(pattern, path)), "other")
