"""Families whose code needs values, which the tracer has none of: small models of them run on the processor, and their FLOPs are counted."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from planner.engine.performance.operators.matrix_products import pass_products
from planner.workload.huggingface.config import read_architecture

SMALL: dict[str, dict[str, Any]] = {
    "jetmoe": {"num_hidden_layers": 2, "hidden_size": 256, "num_key_value_heads": 4, "kv_channels": 32, "intermediate_size": 192},
    "xlm": {"n_layers": 2, "emb_dim": 128, "n_heads": 4},
    "xlnet": {"n_layer": 2, "d_model": 128, "n_head": 4, "d_inner": 256},
    "xmod": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256}
    | {"languages": ["en_XX", "de_DE", "fr_XX"], "default_language": "en_XX"},
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
