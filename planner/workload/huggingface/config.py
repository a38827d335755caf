"""Reading of a Hugging Face `config.json` into an `Architecture`, family by family, exact to the parameter.

Each family is one function from the config's keys to sizes (`keys.family`); it states what the modelling code of
`transformers` builds for that `model_type`, and its default for a missing key. An unknown `model_type` is rejected.
A model of text and something else (`gemma3`, `mistral3`, …) has its text part under `text_config`, which is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from planner.errors import Problem, Problems, UserError, nearest_names, shown
from planner.paths import read_shipped_part
from planner.workload.architecture import Architecture
from planner.workload.huggingface.families import (  # noqa: F401  # each adds its families
    blt,
    compressed,
    experts,
    gemma,
    gpt,
    hybrid,
    line,
    llama,
    recurrent,
    remote,
    selective,
    uncommon,
)
from planner.workload.huggingface.families.encoders import bert, beside_bert, deberta  # noqa: F401  # the same
from planner.workload.huggingface.keys import FAMILIES, STORED_AS, TAKEN_AS, ConfigKeys
from planner.workload.huggingface.two_stacks_parts import TWO_STACKS  # adds its families

TEXT_PART = "text_config"
_TEXT_NAMES = ("llm_config", "language_config")
"""Other names of the text part in published wrappers."""
_THINKER, _SPEAKERS = "thinker_config", ("talker_config", "code2wav_config", "token2wav_config")
"""Part of Qwen Omni that answers in text, and the parts that convert it to speech."""
_OTHER_PARTS = ("vision_config", "audio_config", *_SPEAKERS)
_FURTHER = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers")
"""Keys of the number of layers that predict further tokens, which transformers does not build."""
_ALSO_CALLED = read_shipped_part(dict[str, tuple[str, ...]], "also_called", "families", "also_called.toml")
_WIDELY_COPIED = ("llama", "qwen3_moe", "deepseek_v3")
"""Families whose keys many other configs use."""
_SAME = {name: family for family, names in _ALSO_CALLED.items() for name in names}
"""`model_type` -> the family as which it is built."""


_OTHER_TWO_STACKS = (
    "encoder-decoder", "moonshine", "prophetnet", "speech_to_text", "trocr", "udop", "vision-encoder-decoder",
)  # fmt: skip
"""Model types of an encoder and a decoder that are no family here."""
_DECODER_ALONE = frozenset({"prophetnet", "trocr"})
"""Model types of an encoder and a decoder for which transformers 5.23 builds only the decoder."""


def known_family(config: Mapping[str, Any]) -> bool:
    """True if the family of `config` or its text part is known; not for a decoder taken from a model with an encoder."""
    config = with_text_part(config)
    if _decoder_taken_out(config):
        return False
    part = config.get(TEXT_PART)
    inner = _type_of_text(config, part) if isinstance(part, Mapping) else None
    return any(isinstance(name, str) and _SAME.get(name, name) in FAMILIES for name in (_type(config), inner))


def with_text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """`config` with its text part under the library's name, where a published one has another."""
    if isinstance(inner := config.get(_THINKER), Mapping):
        kept = {name: config[name] for name in (*_SPEAKERS, "quantization_config") if config.get(name) is not None}
        return {**inner, **kept, "model_type": inner.get("model_type") or f"{config.get('model_type')}_thinker"}
    other = next((name for name in _TEXT_NAMES if isinstance(config.get(name), Mapping)), None)
    return {**config, TEXT_PART: config[other]} if other and TEXT_PART not in config else config


def _type(config: Mapping[str, Any]) -> object:
    """`model_type` of a config; for an unknown one the family after which its class is named, if there is one."""
    given = config.get("model_type")
    if isinstance(given, str) and (given in FAMILIES or given in _SAME or TEXT_PART in config):
        return given
    classes = config.get("architectures")
    name = str(classes[0]).removesuffix("ForCausalLM").casefold() if isinstance(classes, list) and len(classes) == 1 else ""
    return next((family for family in FAMILIES if name and family.replace("_", "").replace("-", "") == name), given)


def _type_of_text(config: Mapping[str, Any], part: Mapping[str, Any]) -> object:
    """`model_type` of the text of a wrapper, from the wrapper where the part does not state it."""
    return part.get("model_type") or next(
        (f"{given}_text" for given in (str(config.get("model_type")),) if f"{given}_text" in FAMILIES), None
    )


def one_stack(config: Mapping[str, Any]) -> bool:
    """True if `config` has a single stack of layers, without an encoder for a decoder."""
    return not config.get("is_encoder_decoder", str(config.get("model_type")) in (*TWO_STACKS, *_OTHER_TWO_STACKS))


def _decoder_taken_out(config: Mapping[str, Any]) -> bool:
    return str(config.get("model_type")) in TWO_STACKS and config.get("is_encoder_decoder") is False


def read_architecture(config: Mapping[str, Any], where: str = "") -> Architecture:
    """Architecture that a config describes; raises `UserError` naming every missing, unusable or contradictory key.

    For a wrapper the text part and a known picture tower are counted; `Architecture.left_out` names the others.
    """
    config = with_text_part(config)
    family = _type(config)
    part = config.get(TEXT_PART)
    if isinstance(part, Mapping) and (not isinstance(family, str) or family not in FAMILIES):
        inner = _type_of_text(config, part)
        own = config.get("tie_word_embeddings")
        tied = {} if own is None else {"tie_word_embeddings": own}
        return in_published_format(_with_towers(_read(inner, {**part, **tied}, where, f"model.{TEXT_PART}."), config), config)
    return in_published_format(_with_towers(_read(family, config, where, "model."), config), config)


def in_published_format(found: Architecture, config: Mapping[str, Any]) -> Architecture:
    """`found` with the format of its checkpoint, from a GGUF file or a `quantization_config`."""
    if isinstance(named := config.get(TAKEN_AS), str):
        found = replace(found, taken_as=named)
    if isinstance(named := config.get(STORED_AS), str):
        return replace(found, stored_as=named)
    if not any(isinstance(part, Mapping) and "quantization_config" in part for part in (config, config.get(TEXT_PART))):
        return found
    from planner.workload.huggingface.quantization import mixed_formats, quantised_format

    stored = quantised_format(config)
    return replace(found, stored_as=stored, stored_parts=mixed_formats(config, stored, found)) if stored else found


def parts_beside_text(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of the parts of a model that read pictures and sound."""
    return tuple(name for name in _OTHER_PARTS if config.get(name) is not None)


def _with_towers(text: Architecture, config: Mapping[str, Any]) -> Architecture:
    """`text` with the tower that reads pictures; unknown parts are named as left out."""
    others = parts_beside_text(config)
    if not others:
        return text
    from planner.workload.huggingface.vision import read_tower, sound_parameters, tower_architecture

    tower, sound = read_tower(config, text.width), sound_parameters(config, text.width)
    counted = (tower and "vision_config", sound and "audio_config")
    left = tuple(name for name in others if name not in counted)
    text = replace(text, towers=sound)
    if tower is None:
        return replace(text, left_out=(*text.left_out, *left))
    patches = (tower.stack.patches / (tower.tokens or 1)) if tower.stack else 0
    return replace(
        text,
        towers=tower.parameters + sound,
        tower=tower_architecture(tower),
        picture_tokens=tower.tokens,
        pixels_per_token=tower.pixels,
        token_patches=patches,
        left_out=(*text.left_out, *left),
    )


def _read(given: object, config: Mapping[str, Any], where: str, prefix: str) -> Architecture:
    name = _SAME.get(given, given) if isinstance(given, str) else given
    if not isinstance(name, str) or name not in FAMILIES or _decoder_taken_out(config):
        raise UserError(_unknown(name, where, f"{prefix}model_type", config))
    problems = Problems(where)
    family, config = FAMILIES[name], _of_the_stack(config)
    keys = ConfigKeys(config, problems, prefix)
    sizes = family.read_sizes(keys)
    further = next((name for name in _FURTHER if keys.count(name)), "")
    if further:
        sizes |= {"mtp_layers": keys.count(further)}
    sizes |= {"left_out": (*sizes.get("left_out", ()), *([further] if further else ()), *keys.sizes_not_read())}
    groups, chosen = keys.count("n_group"), keys.count("topk_group")
    if 0 < chosen < groups:
        sizes["routed_share"] = chosen / groups
    if not problems.found:
        _check(sizes, config, problems, prefix)
    problems.raise_if_any()
    usual = {"block": family.block, "eager_attention": family.eager_attention}
    return Architecture(**{"family": name, **usual, **sizes})


def _of_the_stack(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """`config` with the kinds of its own layers only, where those that predict further tokens are listed after them."""
    kinds, layers = config.get("layer_types"), config.get("num_hidden_layers")
    if not isinstance(kinds, list) or not isinstance(layers, int) or len(kinds) <= layers:
        return config
    listed = any(len(kinds) - layers == config.get(name) for name in _FURTHER)
    return {**config, "layer_types": kinds[:layers]} if listed else config


def _unknown(name: object, where: str, key: str, config: Mapping[str, Any]) -> Problem:
    """Problem of an unknown family, with the command or the line that would solve it."""
    supported = f"supported: {', '.join(sorted(FAMILIES))}."
    if name is None:
        return Problem(where, key, f"missing; {supported}")
    if name in _OTHER_TWO_STACKS:
        alone = (
            "is_encoder_decoder = false plans its decoder alone"
            if name in _DECODER_ALONE
            else "transformers builds no part of it alone"
        )
        why = f"{shown(name)} is an encoder with a decoder that reads its output, and of these {', '.join(TWO_STACKS)} are known; {alone}"
    else:
        why = f"{shown(name)} is not supported: the transformers package of this Python does not build it (`gpu-planner models show PATH --exact` says why)"
        if alike := _read_as(str(name), config):
            why += f"; every size of this config is read by {alike!r}: if it is built like that, write model_type = {alike!r}"
    return Problem(where, key, f"{why}; {supported}", nearest_names(str(name), FAMILIES))


def _read_as(name: str, config: Mapping[str, Any]) -> str | None:
    """Family that can read every size of `config`, with a name that begins like `name` or widely copied keys; None: there is none."""
    relatives = [family for family in nearest_names(name, FAMILIES) if family[:4] == name[:4]]
    for family in (*relatives, *_WIDELY_COPIED):
        problems = Problems("")
        keys = ConfigKeys(_of_the_stack(config), problems)
        FAMILIES[family].read_sizes(keys)
        if not problems.found and set(keys.sizes_not_read(repeated=True)) <= set(_FURTHER):
            return family
    return None


def _check(sizes: Mapping[str, Any], config: Mapping[str, Any], problems: Problems, prefix: str) -> None:
    """Check sizes that are usable one by one, but not together."""
    heads, groups, layers = sizes["heads"], sizes["kv_heads"], sizes["layers"]
    if heads % groups:
        name = "num_kv_heads" if "num_kv_heads" in config else "num_key_value_heads"
        problems.add(f"{prefix}{name}", f"{groups} does not divide num_attention_heads = {heads}.")
    routed, used = sizes.get("experts", 0), sizes.get("experts_per_token", 0)
    if used > routed:
        problems.add(f"{prefix}num_experts_per_tok", f"{used} is more than the {routed} experts there are.")
    if sizes["dense_layers"] > layers:
        problems.add(f"{prefix}first_k_dense_replace", f"{sizes['dense_layers']} is more than the {layers} layers there are.")
    if isinstance(kinds := config.get("layer_types"), list) and kinds and len(kinds) != layers:
        problems.add(f"{prefix}layer_types", f"names {len(kinds)} layers; num_hidden_layers is {layers}.")
