"""Models of an encoder and a decoder as `transformers` builds and runs them on the meta device: parameters, FLOPs of each pass, cache."""

from __future__ import annotations

from typing import Any

from golden import ORACLES, Golden

GOLDEN = Golden("two_stacks", ORACLES / "two_stack_cases.py")
NAMES = (
    "bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "mt5", "mvp", "pegasus", "plbart", "t5", "t5gemma", "umt5", "whisper",
)  # fmt: skip
SOURCE = 300
"""Tokens of the prompt, or Whisper's own number."""


def compute(name: str) -> dict[str, Any]:
    """What the library has from the defaults of `name`: its config, parameters, and what a prompt and one further token take."""
    import torch
    import transformers
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class HidingNothing(TorchDispatchMode):
        """Says that all of a mask is set, where code asks: there are no values here."""

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked = function is torch.ops.aten._local_scalar_dense.default and args[0].dtype == torch.bool
            return True if asked else function(*args, **(kwargs or {}))

    config = transformers.AutoConfig.for_model(name)
    config._attn_implementation = "eager"
    speech = name == "whisper"
    kind = transformers.AutoModelForSpeechSeq2Seq if speech else transformers.AutoModelForSeq2SeqLM
    length = config.max_source_positions if speech else min(SOURCE, getattr(config, "max_position_embeddings", SOURCE))
    with torch.device("meta"):
        model = kind.from_config(config, dtype=torch.bfloat16).eval()
        one = torch.zeros(1, 1, dtype=torch.long)
        sound = {"input_features": torch.zeros(1, 80, 2 * length, dtype=torch.bfloat16)}
        prompt = sound if speech else {"input_ids": torch.zeros(1, length, dtype=torch.long)}
    with torch.no_grad():
        with FlopCounterMode(display=False) as counted, HidingNothing():
            encoded = model.get_encoder()(**prompt)
            answer = model(encoder_outputs=encoded, decoder_input_ids=one, use_cache=True)
        first = counted.get_total_flops()
        with FlopCounterMode(display=False) as counted, HidingNothing():
            kept = model(encoder_outputs=encoded, decoder_input_ids=one, past_key_values=answer.past_key_values).past_key_values
        step = counted.get_total_flops()
    return {
        "config": {
            key: value
            for key, value in config.to_dict().items()
            if isinstance(value, (int, float, str)) or key in {"encoder", "decoder"}
        },
        "parameters": sum(one.numel() for one in model.parameters()),
        "prompt_tokens": length,
        "prompt_flop": first,
        "step_flop": step,
        "own_cache": sum(one.numel() for layer in kept.self_attention_cache.layers for one in (layer.keys, layer.values)),
        "prompt_cache": sum(one.numel() for layer in kept.cross_attention_cache.layers for one in (layer.keys, layer.values)),
    }
