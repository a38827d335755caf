"""Description of a model from the names and shapes of its tensors and its config, without a known family or its code.

Names are those that Hugging Face's libraries give projections. Parts that shapes do not describe (recurrences, short convolutions, packed
weights) are rejected. The result has the form of a traced description, so that one function makes the architecture of both.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import Problem, UserError
from planner.workload.checkpoints.tensors import StoredTensor

LENGTHS = (256, 512)
"""Tokens of the two prompts whose comparison shows what grows with their number."""

_SCALES = re.compile(r"(_scale|_scale_inv|\.scales?|_zero_point|input_scale|k_scale|v_scale|rotary_emb\.inv_freq)$")
"""Tensors of a format or a table, which are no parameters."""
_PACKED = re.compile(r"\.(qweight|qzeros|weight_packed|weight_blocks|absmax|quant_state.*)$|_blocks$")
_RECURRENT = re.compile(r"(A_log|dt_bias|dt_proj|conv1d|ssm|mamba|time_decay|linear_attn|short_conv|rg_lru|\.conv\.)")
_INDEXED = re.compile(r"(indexer|compressor|lambda_q1)")
_ENCODER = re.compile(r"(^|\.)(encoder\.layers?|token_type_embeddings)\b")
_TOWER = re.compile(r"(^|\.)(visual|vision\w*|vit|audio\w*|mm_projector|multi_modal_projector|image_\w+)(\.|$)")
"""Stacks in addition to the text's: pictures and sound."""
_ATTENDS = {"full_attention", "sliding_attention", "attention"}
"""Values of `layer_types` whose work follows from shapes."""
_EXPERT = re.compile(r"^(.*experts)\.(\d+)\.(.+)$")
_ROUTER = re.compile(r"\.(gate|router|gating|wg)(\.|$)")
_NAMES: dict[str, tuple[str, ...]] = {
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "moe_top_k"),
}
"""Keys with the same meaning in different configs."""


def description_by_shapes(config: Mapping[str, Any], tensors: Iterable[StoredTensor], where: str) -> dict[str, Any]:
    """Description; raises `UserError` with what shapes do not describe, and the command that traces the model."""
    part = config.get("text_config")
    text = {**config, **part} if isinstance(part, Mapping) else dict(config)
    found = [one for one in tensors if not _SCALES.search(one.name)]
    stack = _main_stack(one for one in found if not _TOWER.search(one.name))
    _refuse_unsaid(text, found, stack, where)
    layers = _number_in(text, "layers", 0)
    shapes = {
        name: shape for name, shape in _with_experts_joined(found).items() if layers == 0 or (_layer(name, stack) or 0) < layers
    }
    kinds = {name: _kind(name, shape) for name, shape in shapes.items()}
    if not stack or "embedding" not in kinds.values():
        raise _unsaid(where, "no list of layers or no embedding is found among its tensors")
    for name, kind in kinds.items():
        loose = kind == "other" or (kind == "matrix" and not name.endswith(".weight"))
        if loose and _layer(name, stack) is not None and not name.endswith("sinks"):
            raise _unsaid(where, f"the purpose of {name} does not follow from its shape")
    embedding = max((name for name, kind in kinds.items() if kind == "embedding"), key=lambda name: shapes[name][0])
    head = next((name for name in shapes if re.search(r"(lm_head|embed_out|output)\.weight$", name)), embedding)
    if len(shapes[head]) != 2:
        raise _unsaid(where, f"{head}, the last product, is no matrix")
    products = [
        [name.removesuffix(".weight"), name, shape[-1], shape[-2], 1]
        for name, shape in shapes.items()
        if kinds[name] == "matrix" and not _TOWER.search(name) and name != head
    ]
    products.append([head.removesuffix(".weight"), head, shapes[head][1], shapes[head][0], 1])
    attention = _attention(text, shapes, stack, where)
    return {
        "model_type": config.get("model_type"),
        "stack": stack,
        "corrections": 0,
        "tensors": [[name, kinds[name], list(shape)] for name, shape in shapes.items()],
        "used": [name for _, name, *_ in products] + [name for name, kind in kinds.items() if kind == "router"],
        "products": products,
        "expert_flops": _expert_flops(text, shapes, kinds, stack, where),
        "flops": dict.fromkeys(map(str, LENGTHS), 0),
        "saved_bytes": None,
        **attention,
    }


def _refuse_unsaid(config: Mapping[str, Any], tensors: list[StoredTensor], stack: str, where: str) -> None:
    """Raise `UserError` for models with parts whose work does not follow from shapes."""
    for pattern, what in (
        (_PACKED, "packed weights, whose shapes are not the model's"),
        (_RECURRENT, "layers with a state"),
        (_INDEXED, "attention to chosen tokens"),
        (_ENCODER, "an encoder"),
    ):
        if name := next((one.name for one in tensors if pattern.search(one.name)), ""):
            raise _unsaid(where, f"its tensors show {what} ({name})")
    kinds = config.get("layer_types")
    if other := sorted({str(kind) for kind in kinds} - _ATTENDS) if isinstance(kinds, list) else []:
        raise _unsaid(where, f"it has layers called {other[0]}")
    for key, what in (("attention_chunk_size", "attend in chunks"), ("num_kv_shared_layers", "use the keys of others")):
        if config.get(key):
            raise _unsaid(where, f"some of its layers {what}")
    if config.get("sliding_window") and not kinds and config.get("use_sliding_window") is not False:
        raise _unsaid(where, "its config has a window but does not say in which layers")
    if any(
        _layer(one.name, stack) is not None and re.search(r"\.\d+\.self_attn\.\d+\.|cross_attn|encoder_attn", one.name)
        for one in tensors
    ):
        raise _unsaid(where, "its layers have several attentions")


def _unsaid(where: str, why: str) -> UserError:
    return UserError(
        Problem(where, "model", f"is of no known family, and {why}; `gpu-planner models show PATH --exact` traces its code.")
    )


def _number_in(config: Mapping[str, Any], key: str, otherwise: int) -> int:
    return next((value for name in _NAMES[key] if isinstance(value := config.get(name), int) and value > 0), otherwise)


def _main_stack(tensors: Iterable[StoredTensor]) -> str:
    """List of modules with most of the parameters."""
    stacks: Counter[str] = Counter()
    for one in tensors:
        parts = one.name.split(".")
        number = next((at for at, part in enumerate(parts) if part.isdigit()), None)
        if number:
            stacks[".".join(parts[:number])] += one.elements
    return stacks.most_common(1)[0][0] if stacks else ""


def _layer(name: str, stack: str) -> int | None:
    number = name[len(stack) + 1 :].split(".", maxsplit=1)[0] if name.startswith(f"{stack}.") else ""
    return int(number) if number.isdigit() else None


def _with_experts_joined(tensors: Iterable[StoredTensor]) -> dict[str, tuple[int, ...]]:
    """Name -> shape; matrices of single experts are joined into one tensor, whose first dimension is their number."""
    shapes: dict[str, tuple[int, ...]] = {}
    experts: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for one in tensors:
        if match := _EXPERT.match(one.name):
            experts[f"{match[1]}.{match[3]}"].append(one.shape)
        else:
            shapes[one.name] = one.shape
    return shapes | {name: (len(each), *each[0]) for name, each in experts.items()}


def _kind(name: str, shape: tuple[int, ...]) -> str:
    path, _, leaf = name.rpartition(".")
    module = path.rpartition(".")[2].lower()
    if "norm" in module or module.startswith(("ln_", "ln1", "ln2", "ln_f")):
        return "norm"
    if "experts" in path and "shared" not in path:
        return "expert"
    if _ROUTER.search(f".{path}."):
        return "router"
    if len(shape) == 2 and ("embed" in module or module in {"wte", "wpe"}):
        return "embedding"
    if leaf.endswith("bias"):
        return "bias"
    return "matrix" if len(shape) == 2 else "other"  # rows and columns


def _attention(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], stack: str, where: str) -> dict[str, Any]:
    """Scores and caches of the layers that have keys, by their heads."""
    heads = _number_in(config, "heads", 0)
    groups = _number_in(config, "kv_heads", heads)
    kinds = config.get("layer_types") or []
    window = config.get("sliding_window") if isinstance(kinds, list) else None
    scores: dict[str, dict[str, int]] = {str(tokens): {} for tokens in LENGTHS}
    made: dict[str, list[list[int]]] = {}
    caches: dict[str, list[dict[str, Any]]] = {str(tokens): [] for tokens in LENGTHS}
    for name, shape in shapes.items():
        number = _layer(name, stack)
        if number is None or not re.search(r"(k_proj|qkv\w*|query_key_value|Wqkv|c_attn|kv_a_proj_with_mqa|\.key)\.weight$", name):
            continue
        if not heads:
            raise _unsaid(where, "its config does not give the number of heads")
        path, latent = name.rsplit(".", 2)[0], "kv_a_proj_with_mqa" in name
        if latent:
            score, value = (
                sum(int(config.get(key) or 0) for key in names)
                for names in (("qk_nope_head_dim", "qk_rope_head_dim"), ("v_head_dim",))
            )
            kept = [(1, shape[0])]
        elif re.search(r"(k_proj|\.key)\.weight$", name):
            query = shapes.get(name.replace("k_proj", "q_proj").replace(".key.", ".query."), (0,))
            score = query[0] // heads or 1
            own = shape[0] // score
            values = shapes.get(name.replace("k_proj", "v_proj").replace(".key.", ".value."), shape)
            value = values[0] // max(1, own)
            kept = [(own, score), (own, value)]
        else:
            score = value = shape[0] // (heads + 2 * groups)
            kept = [(groups, score), (groups, value)]
        if (
            not score
            or not value
            or (not latent and shape[0] % score)
            or ((config.get("head_dim") or score) != score and not latent)
        ):
            raise _unsaid(where, f"the heads of its config do not divide {name}")
        sliding = window if number < len(kinds) and kinds[number] == "sliding_attention" else None
        made[path] = [[heads, LENGTHS[0], LENGTHS[0], score]]
        for tokens in LENGTHS:
            scores[str(tokens)][path] = 2 * heads * (score + value) * tokens * tokens
            seen = min(tokens, sliding - 1) if sliding else tokens
            caches[str(tokens)] += [
                {"path": ["layers", str(number), part], "shape": [1, heads, seen, dim], "bytes": 2, "window": sliding}
                for part, (heads, dim) in zip(("keys", "values"), kept, strict=False)
            ]
    if not made:
        raise _unsaid(where, "no projections of keys are found among its tensors")
    return {"scores": scores, "score_shapes": made, "caches": caches}


def _expert_flops(
    config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], kinds: Mapping[str, str], stack: str, where: str
) -> dict[str, int]:
    """FLOPs of the routed experts of a layer for the first length."""
    each: Counter[str] = Counter()
    for name, shape in shapes.items():
        number = _layer(name, stack)
        if kinds[name] == "expert" and len(shape) > 2 and number is not None:  # experts, rows, columns
            each[f"{stack}.{number}.experts"] += shape[1] * shape[2]
    chosen = _number_in(config, "per_token", 0)
    if each and not chosen:
        raise _unsaid(where, "its config does not say how many experts a token has")
    return {path: 2 * size * chosen * LENGTHS[0] for path, size in each.items()}
