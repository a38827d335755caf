"""Models of an encoder and a decoder as `transformers` builds and runs them on the meta device: parameters, FLOPs of each pass, cache."""

from __future__ import annotations

from typing import Any

from golden import ORACLES, Golden

GOLDEN = Golden("two_stacks", ORACLES / "two_stack_cases.py")
NAMES = (
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "fsmt", "led", "longt5", "m2m_100", "marian", "mbart", "mt5", "mvp", "nllb-moe", "pegasus",
    "pegasus_x", "plbart", "seamless_m4t", "seamless_m4t_v2", "switch_transformers", "t5", "t5gemma", "t5gemma2", "umt5", "whisper",
)  # fmt: skip
SOURCE = 300
"""Tokens of the prompt, or Whisper's own number."""
_BART = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 64,
}  # fmt: skip
_T5 = {"vocab_size": 100, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_heads": 4}
SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "bigbird_pegasus": (8192, _BART | {"block_size": 8, "max_position_embeddings": 8192}),
    "led": (
        8192,
        _BART | {"attention_window": [16, 8], "max_encoder_position_embeddings": 8192, "max_decoder_position_embeddings": 64},
    ),
    "longt5": (
        8192,
        _T5 | {"num_layers": 2, "num_decoder_layers": 3, "local_radius": 15, "encoder_attention_type": "transient-global"},
    ),
    "nllb-moe": (60, _BART | {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 1}),
    "pegasus_x": (8192, _BART | {"block_size": 16, "num_global_tokens": 2, "max_position_embeddings": 8192}),
    "switch_transformers": (
        60,
        _T5
        | {
            "num_layers": 4,
            "num_decoder_layers": 4,
            "num_sparse_encoder_layers": 2,
            "num_sparse_decoder_layers": 4,
            "num_experts": 4,
        },
    ),
}
"""Families whose code needs values: tokens of a prompt, and sizes of a small model that is run on the processor."""
TOWERS = ("vision_tower", "multi_modal_projector")
"""Modules that are not counted here."""


def compute(name: str) -> dict[str, Any]:
    """What the library has from the defaults of `name`: its config, parameters, and what a prompt and one further token take.

    Of a family of `SMALL` the latter is of a small model, whose config is under "small".
    """
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(name)
    config._attn_implementation = "eager"
    speech = name == "whisper"
    kind = transformers.AutoModelForSpeechSeq2Seq if speech else transformers.AutoModelForSeq2SeqLM
    length = config.max_source_positions if speech else min(SOURCE, getattr(config, "max_position_embeddings", SOURCE))
    with torch.device("meta"):
        model = kind.from_config(config, dtype=torch.bfloat16).eval()
    own = [one.numel() for module, one in model.named_parameters() if not any(tower in module for tower in TOWERS)]
    found = {"config": said(config), "parameters": sum(own)}
    if name not in SMALL:
        sound = {"input_features": torch.zeros(1, 80, 2 * length, dtype=torch.bfloat16, device="meta")}
        prompt = sound if speech else {"input_ids": torch.zeros(1, length, dtype=torch.long, device="meta")}
        return found | {"prompt_tokens": length, **passes(model, prompt)}
    length, sizes = SMALL[name]
    small = transformers.AutoConfig.for_model(name, **sizes)
    small._attn_implementation = "eager"
    torch.manual_seed(0)
    words = torch.randint(3, sizes["vocab_size"], (1, length))
    return found | {"small": said(small), "prompt_tokens": length, **passes(kind.from_config(small).eval(), {"input_ids": words})}


def said(config: Any) -> dict[str, Any]:
    """The keys of sizes of `config`."""
    kept = {"encoder", "decoder", "attention_window"}
    return {key: value for key, value in config.to_dict().items() if isinstance(value, (int, float, str)) or key in kept}


def passes(model: Any, prompt: dict[str, Any]) -> dict[str, Any]:
    """FLOPs of a prompt with the first token, and of the second; elements of both caches after it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class HidingNothing(TorchDispatchMode):
        """Says that all of a mask is set, where code asks: there are no values on the meta device."""

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked = function is torch.ops.aten._local_scalar_dense.default and args[0].dtype == torch.bool and args[0].is_meta
            return True if asked else function(*args, **(kwargs or {}))

    one = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    with torch.no_grad():
        with FlopCounterMode(display=False) as counted, HidingNothing():
            encoded = model.get_encoder()(**prompt)
            answer = model(encoder_outputs=encoded, decoder_input_ids=one, use_cache=True)
        first = counted.get_total_flops()
        with FlopCounterMode(display=False) as counted, HidingNothing():
            kept = model(encoder_outputs=encoded, decoder_input_ids=one, past_key_values=answer.past_key_values).past_key_values
        step = counted.get_total_flops()
    return {
        "prompt_flop": first,
        "step_flop": step,
        "own_cache": sum(one.numel() for layer in kept.self_attention_cache.layers for one in (layer.keys, layer.values)),
        "prompt_cache": sum(one.numel() for layer in kept.cross_attention_cache.layers for one in (layer.keys, layer.values)),
    }
