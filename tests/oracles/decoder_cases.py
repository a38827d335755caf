"""Every decoder that `transformers` builds for generation from its defaults: its parameters, or why it is not built."""

from __future__ import annotations

from typing import Any

from golden import ORACLES, Golden

GOLDEN = Golden("decoders", ORACLES / "decoder_cases.py")

CROSS = "a decoder that reads an encoder's output; its code is traced where its config says is_encoder_decoder = false"
OWN = "its code is traced"
WITHOUT_FAMILY: dict[str, str] = {
    **dict.fromkeys(
        (
            "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp", "pegasus", "plbart",
            "prophetnet", "trocr", "whisper",
        ),
        CROSS,
    ),
    **dict.fromkeys(
        (
            "big_bird", "dots3_note", "dots3_note_text", "git", "inkling2_text", "inkling_text",
        ),
        OWN,
    ),
}  # fmt: skip
"""`model_type` of those that no family answers -> why."""


def compute() -> dict[str, Any]:
    """By `model_type`: parameters of what is built from its defaults, and the `model_type` of its text part; or what was raised."""
    import torch
    import transformers
    from default_configs import GIVEN
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found: dict[str, Any] = {}
    for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            config = CONFIG_MAPPING[name](**GIVEN.get(name, {}))
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
        except Exception as error:  # noqa: BLE001  # whatever the code of a model raises
            found[name] = {"not built": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"}
        else:
            text = config.to_dict().get("text_config") or {}
            found[name] = {
                "parameters": sum(one.numel() for one in model.parameters()),
                "model_type": config.model_type,
                "text": text.get("model_type", ""),
            }
    return found
