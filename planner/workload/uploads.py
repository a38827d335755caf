"""Uploads of a known model under other names: the model that a name means, and the format of its weights that the name ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_FORMATS = tuple(
    (re.compile(rf"(?:^|[-_.:])(?:{pattern})$"), stored)
    for pattern, stored in (
        (r"(?:unsloth[-_])?bnb[-_]4bit|nf4", "nf4"),
        (r"bnb[-_]8bit|(?:quantized[-_.])?w8a8|int8", "int8"),
        (r"awq(?:[-_](?:int4|4bit|g128))?|int4[-_]awq", "awq"),
        (r"gptq[-_](?:int8|8bit)", "gptq-int8"),
        (r"gptq(?:[-_](?:int4|4bit|g128|128g))*|(?:int4|4bit)[-_]gptq", "gptq-int4"),
        (r"(?:quantized[-_.])?w4a16", "w4a16"),
        (r"(?:quantized[-_.])?w8a16", "w8a16"),
        (r"nvfp4|fp4", "nvfp4"),
        (r"mxfp4", "mxfp4"),
        (r"fp8(?:[-_](?:dynamic|block|kv|static|pertensor|tensorwise))*", "fp8"),
        (r"(?:mlx[-_])?4bit", "int4-g64"),
        (r"bf16|fp16|f16", "bf16"),
    )
)
"""End of a name -> the format that it says. MLX's 4 bits have a scale and an offset of 16 bits a group of 64."""
_GGUF = re.compile(
    r"(?:[-.:](?P<before>(?:ud-)?i?q\d\w*))?[-_.]gguf(?:[-.:](?P<after>(?:ud-)?i?q\d\w*))?$|[-.:](?P<alone>(?:ud-)?i?q\d_\w+)$"
)
_UNSLOTH = {"q2_k_xl": "q2_k", "q3_k_xl": "q3_k_m", "q4_k_xl": "q4_k_m", "q5_k_xl": "q5_k_m", "q6_k_xl": "q6_k", "q8_k_xl": "q8_0"}
"""Names of Unsloth's files behind `UD-`, whose types differ from model to model -> the mix of about as many bits."""
GGUF_USUAL = "q4_k_m"
"""Format of a repository of GGUF files that names none: what Ollama and LM Studio fetch."""
_TUNED = frozenset({"instruct", "chat", "it", "hf", "base", "pt", "text", "mlx"})
"""Words of a name that leave the architecture as it is."""


class Upload(NamedTuple):
    """The model of the catalogue that a name means, and the format that it says ('': none)."""

    model: str
    stored_as: str
    alike: bool = False
    """Whether the format is one of about as many bits instead."""
    gguf: bool = False
    """Whether the files are llama.cpp's."""


class Uploads:
    """Models by the last part of their names, whoever uploaded them."""

    def __init__(self, spellings: Mapping[str, Iterable[str]], formats: Iterable[str]) -> None:
        """`spellings`: the names of each model; `formats`: those of weights that are known."""
        self._formats = frozenset(formats)
        self._whole: dict[str, set[str]] = {}
        self._untuned: dict[str, set[str]] = {}
        for model, names in spellings.items():
            for name in names:
                self._whole.setdefault(_plain(name), set()).add(model)
                self._untuned.setdefault(_without_tuning(_plain(name)), set()).add(model)

    def find(self, name: str) -> Upload | None:
        """The model and the format that `name` says; None where it names no model, or more than one."""
        rest, said = self._without_format(_plain(name))
        plain = said.removeprefix("ud-")
        stored = plain if plain == said else _UNSLOTH.get(plain, plain)
        if stored and stored not in self._formats:
            return None
        for known, asked in ((self._whole, rest), (self._untuned, _without_tuning(rest))):
            if len(found := known.get(asked, set())) == 1:
                return Upload(next(iter(found)), stored, alike=stored != said, gguf=_GGUF.search(_plain(name)) is not None)
        return None

    def _without_format(self, name: str) -> tuple[str, str]:
        """('qwen3-8b', 'awq') of 'qwen3-8b-awq'."""
        if gguf := _GGUF.search(name):
            return name[: gguf.start()], gguf["after"] or gguf["before"] or gguf["alone"] or GGUF_USUAL
        for pattern, stored in _FORMATS:
            if end := pattern.search(name):
                return name[: end.start()], stored
        return name, ""


def _plain(name: str) -> str:
    """The last part of `name`, in small letters."""
    return re.sub(r"\s+", "-", name.strip().casefold().rpartition("/")[2])


def _without_tuning(name: str) -> str:
    return "-".join(word for word in name.split("-") if word not in _TUNED)
