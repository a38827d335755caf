"""Families whose code needs values, which the tracer has none of: small models of them run on the processor, and their FLOPs are counted."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from parameter_cases import components

from planner.engine.performance.operators.matrix_products import pass_products
from planner.workload.huggingface.config import read_architecture

SMALL: dict[str, dict[str, Any]] = {
    "jetmoe": {"num_hidden_layers": 2, "hidden_size": 256, "num_key_value_heads": 4, "kv_channels": 32, "intermediate_size": 192},
    "xlm": {"n_layers": 2, "emb_dim": 128, "n_heads": 4},
    "xlnet": {"n_layer": 2, "d_model": 128, "n_head": 4, "d_inner": 256},
    "xmod": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256}
    | {"languages": ["en_XX", "de_DE", "fr_XX"], "default_language": "en_XX"},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "albert": {"num_hidden_layers": 4, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 192, "num_hidden_groups": 2},
    "deberta-v2": {"num_hidden_layers": 3, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 192, "relative_attention": True}
    | {"position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False},
    "esm": {"num_hidden_layers": 3, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 192, "pad_token_id": 1}
    | {"position_embedding_type": "rotary", "mask_token_id": 32, "emb_layer_norm_before": True},
    "squeezebert": {"num_hidden_layers": 3, "hidden_size": 96, "embedding_size": 96, "num_attention_heads": 4, "intermediate_size": 192},
}  # fmt: skip
PROJECTED = {"albert": 0, "esm": 0, "deberta-v2": 3 * 2 * 2 * 32 * 96 * 96, "squeezebert": 2 * 96 * 96}
"""FLOPs that every batch takes whatever it holds: of 32 distances by two projections in each layer; of the pooler, which reads one token."""
DISTANCES: list[dict[str, Any]] = [
    {"model_type": "deberta", "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False},
    {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": False, "conv_kernel_size": 3},
    {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": ["p2c"], "max_relative_positions": 64, "type_vocab_size": 2},
]  # fmt: skip
_LARGE = {"hidden_size_global": 128, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
BYTES: dict[str, Any] = {
    "encoder_hash_byte_group_vocab": 50,
    "patcher_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
    | {"intermediate_size": 48, "head_dim": 8},
    "encoder_config": _LARGE | {"num_hidden_layers": 2, "intermediate_size": 80},
    "decoder_config": _LARGE | {"num_hidden_layers": 3, "intermediate_size": 96, "head_dim": 16},
    "global_config": {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    | {"intermediate_size": 192, "head_dim": 32},
}
TOKENS = 128


@pytest.mark.torch
@pytest.mark.parametrize("name", SMALL)
def test_small_models_make_the_products_that_their_family_says(torch: ModuleType, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.AutoConfig.for_model(name, **SMALL[name], vocab_size=1000)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    a = read_architecture(config.to_dict())
    assert a.total == sum(one.numel() for one in model.parameters())
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        answer = model(torch.ones(1, TOKENS, dtype=torch.long))
    counted = sum(one.flop for one in pass_products(a, TOKENS, TOKENS, head_rows=TOKENS, new=TOKENS))
    assert counted == pytest.approx(counter.get_total_flops(), rel=1e-3)
    if not a.encoder:
        layers = answer.past_key_values.layers
        assert a.cached_all * TOKENS == sum(one.numel() for layer in layers for one in (layer.keys, layer.values))


@pytest.mark.torch
@pytest.mark.parametrize("name", ENCODERS)
def test_small_encoders_make_the_products_that_their_family_says(torch: ModuleType, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.AutoConfig.for_model(name, **ENCODERS[name], vocab_size=1000)
    model = transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="eager").eval()
    a = read_architecture(config.to_dict() | {"architectures": None})
    assert a.total == sum(one.numel() for one in model.parameters())
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(torch.ones(1, TOKENS, dtype=torch.long))
    counted = TOKENS * (2 * a.active_matrix + 2 * a.attended_all * TOKENS + a.scan_flop)
    assert counted + PROJECTED[name] == counter.get_total_flops()
    assert (a.encoder, a.cached_all) == (True, 0)


@pytest.mark.torch
@pytest.mark.parametrize("given", DISTANCES)
def test_parameters_of_distances(torch: ModuleType, given: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"num_hidden_layers": 2, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 192, "vocab_size": 1000}
    config = transformers.AutoConfig.for_model(
        given["model_type"], **sizes, **{k: v for k, v in given.items() if k != "model_type"}
    )
    with torch.device("meta"):
        model = transformers.AutoModelForMaskedLM.from_config(config)
    a = read_architecture(config.to_dict() | {"architectures": None})
    assert a.total == sum(one.numel() for one in model.parameters()) == sum(components(a).values())


@pytest.mark.torch
def test_bytes_and_patches(torch: ModuleType) -> None:
    """Every parameter and FLOP of a prompt whose patches have four bytes each; what is kept grows by patches in the large stack alone."""
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    whole = transformers.AutoConfig.for_model("blt")
    with torch.device("meta"):
        assert read_architecture(whole.to_dict()).total == sum(
            one.numel() for one in transformers.AutoModelForCausalLM.from_config(whole).parameters()
        )
    config = transformers.AutoConfig.for_model("blt", **BYTES)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    a = read_architecture(config.to_dict())
    assert a.total == sum(one.numel() for one in model.parameters()) == sum(components(a).values())
    text, counter = torch.randint(4, 250, (1, TOKENS)), FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(text, patch_lengths=torch.full((1, TOKENS // 4), 4), use_cache=False)
        model.model.patcher(text, patch_size=4, threshold=1.3, patching_batch_size=1, use_cache=False)
    assert 2 * TOKENS * (a.active_matrix + (a.attended_all + a.attended_window) * TOKENS) == counter.get_total_flops()
    assert (a.cached_window, a.cached_all) == (5 * 2 * 64, 2 * 2 * 128 / 4)
