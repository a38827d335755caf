"""Other names under which a known model is uploaded: the model that a name means, and the format of its weights at the end of the name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_FORMATS = tuple(
    (re.compile(rf"(?:^|[-_.:])(?:{pattern})(?:[-_](?:v\d+|preview))?$"), stored)
    for pattern, stored in (
        (r"(?:qat[-_])?(?:q4_0|int4)[-_]unquantized", "bf16"),
        (r"(?:unsloth[-_])?bnb[-_]4bit|nf4", "nf4"),
        (r"bnb[-_]8bit|(?:quantized[-_.])?w8a8|int8", "int8"),
        (r"awq(?:[-_](?:int4|4bit|g128))?|int4[-_]awq", "awq"),
        (r"gptq[-_](?:int8|8bit)", "gptq-int8"),
        (r"gptq(?:[-_](?:int4|4bit|4b|g128|128g))*|(?:int4|4bit)[-_]gptq", "gptq-int4"),
        (r"(?:int4[-_])?(?:auto[-_]?round|sym[-_](?:gptq[-_])?inc)|int4", "gptq-int4"),
        (r"(?:quantized[-_.])?w4a16", "w4a16"),
        (r"(?:quantized[-_.])?w8a16", "w8a16"),
        (r"nvfp4a16", "nvfp4-a16"),
        (r"nvfp4|fp4", "nvfp4"),
        (r"mxfp4", "mxfp4"),
        (r"fp8(?:[-_](?:dynamic|block|kv|static|pertensor|tensorwise))*", "fp8"),
        (r"(?:mlx[-_])?4bit", "int4-g64"),
        (r"bf16|fp16|f16", "bf16"),
        (r"qat", "q4_0"),
    )
)
"""End of a name, perhaps followed by a release -> its format. AutoRound packs 4 bits as GPTQ does. MLX's 4 bits have a scale and an offset
of 16 bits for each group of 64; Ollama stores models trained for 4 bits in llama.cpp's `q4_0`."""
_GGUF = re.compile(
    r"(?:[-.:](?P<before>(?:ud-)?i?q\d\w*))?(?:[-.]i1)?[-_.]gguf(?:[-.:](?P<after>(?:ud-)?i?q\d\w*))?$|[-.:](?P<alone>(?:ud-)?i?q\d_\w+)$"
)
_UNSLOTH = {"q2_k_xl": "q2_k", "q3_k_xl": "q3_k_m", "q4_k_xl": "q4_k_m", "q5_k_xl": "q5_k_m", "q6_k_xl": "q6_k", "q8_k_xl": "q8_0"}
"""Names of Unsloth's files after `UD-`, whose types differ from model to model -> the mix of about as many bits."""
GGUF_USUAL = "q4_k_m"
"""Format of a repository of GGUF files that names none: the one that Ollama and LM Studio fetch."""
_TUNED = frozenset({"instruct", "chat", "it", "hf", "base", "pt", "text", "mlx", "qat"})
"""Words of a name that do not change the architecture."""
_OF_A_TAG = _TUNED | {"latest", "cloud", "thinking"}
"""Words in one of Ollama's tags that do not change the architecture."""
_LATEST = {
    "codegemma": "7b", "codellama": "7b", "deepseek-coder": "1.3b", "deepseek-coder-v2": "16b", "deepseek-r1": "0528-qwen3-8b", "deepseek-v2": "16b",
    "devstral": "small-24b", "falcon": "7b", "falcon3": "7b", "gemma": "7b", "gemma2": "9b", "gemma3": "4b", "gemma3n": "e4b", "gemma4": "e4b",
    "gpt-oss": "20b", "granite3.3": "8b", "granite4": "micro", "hermes3": "8b", "llama2": "7b", "llama3": "8b", "llama3.1": "8b", "llama3.2": "3b",
    "llama3.2-vision": "11b", "llama4": "scout", "magistral": "small-2506", "ministral-3": "8b-instruct", "mistral": "7b-v0.3", "mistral-large": "2", "mistral-small": "24b", "mixtral": "8x7b",
    "nemotron-3-nano": "30b", "olmo2": "7b", "phi": "2", "phi3": "mini", "phi3.5": "mini", "qwen": "4b", "qwen2": "7b", "qwen2.5": "7b",
    "qwen2.5-coder": "7b", "qwen2.5vl": "7b", "qwen3": "8b", "qwen3-coder": "30b", "qwen3-embedding": "8b", "qwen3-vl": "8b", "qwen3.5": "9b",
    "smollm2": "1.7b", "starcoder2": "3b", "yi": "34b",
}  # fmt: skip
"""Family of Ollama's library -> size that a name without a size, or `latest`, means."""
_OTHERWISE = {
    "deepseek-r1:8b": "deepseek-r1:0528-qwen3-8b", "llama4:16x17b": "llama4:scout", "llama4:128x17b": "llama4:maverick", "llava": "llava1.6",
    "magistral:24b": "magistral:small-2506", "mistral:7b": "mistral:7b-v0.3", "qwen": "qwen1.5",
}  # fmt: skip
"""Families and tags whose words are not those of the model -> the model's words."""
_SIZE = re.compile(r"[ae]?\d[\d.x]*[bmt]|\d\d+")
"""Word of a size, or of a date."""
_WORD = re.compile(r"[ae]\d[\d.]*b(?![a-z])|\d[\d.x]*[bmt]?(?![a-z\d.])|[a-z]+|\d[\d.]*")


class Upload(NamedTuple):
    """The model of the catalogue that a name means, and the format in the name ('': none)."""

    model: str
    stored_as: str
    alike: bool = False
    """Whether the format is replaced by one of about as many bits."""
    gguf: bool = False
    """Whether the files are llama.cpp's."""


class Uploads:
    """Models by the last part of their names, whoever uploaded them."""

    def __init__(self, spellings: Mapping[str, Sequence[str]], formats: Iterable[str]) -> None:
        """Models by `spellings` (the names of each model, its title last); `formats`: the known formats of weights."""
        self._formats = frozenset(formats)
        self._spellings = spellings
        self._whole: dict[str, set[str]] = {}
        self._untuned: dict[str, set[str]] = {}
        for model, names in spellings.items():
            for name in names[:-1]:
                self._whole.setdefault(_plain(name), set()).add(model)
                self._untuned.setdefault(_without_tuning(_plain(name)), set()).add(model)

    def find(self, name: str) -> Upload | None:
        """The model and the format that `name` means; None where it means no model, or several."""
        rest, said = self._without_format(_plain(name))
        plain = said.removeprefix("ud-")
        stored = plain if plain == said else _UNSLOTH.get(plain, plain)
        if stored and stored not in self._formats:
            return None
        for known, asked in ((self._whole, rest), (self._untuned, _without_tuning(rest))):
            if len(found := known.get(asked, set())) == 1:
                return Upload(next(iter(found)), stored, alike=stored != said, gguf=_GGUF.search(_plain(name)) is not None)
        tag = name.strip().casefold().removeprefix("library/")
        model = "" if "/" in tag else self._tagged(self._without_format(tag)[0])
        return Upload(model, stored, alike=stored != said, gguf=True) if model else None

    def _tagged(self, tag: str) -> str:
        """The model for one of Ollama's names, a family and the size or kind of the model ("gemma3:27b"); '' for none, or several.

        It is the model whose name begins like the family, up to its number, and that has all words in the name or the title, and the fewest
        others; only sizes and dates count where the family stands for itself.
        """
        family, _, kind = tag.partition(":")
        family = _OTHERWISE.get(family, family)
        kind = "-".join(word for word in kind.split("-") if word not in _OF_A_TAG) or _LATEST.get(tag.partition(":")[0], "")
        first = _words(family)
        first = first[: next((at for at, word in enumerate(first, 1) if word[0].isdigit()), len(first))]
        asked = _words(_OTHERWISE.get(f"{family}:{kind}", f"{family}:{kind}"))
        besides: dict[str, int] = {}
        for model, names in self._spellings.items():
            title = set(_words(names[-1].partition("(")[0]))
            written = (_words(name) for name in names if ":" not in name)
            for spelled in (set(words) for words in written if words[: len(first)] == first):
                further = spelled - set(asked) - _OF_A_TAG
                if set(asked) <= spelled | title and (kind or all(map(_SIZE.fullmatch, further))):
                    besides[model] = min(besides.get(model, len(spelled)), len(further))
        nearest = [model for model, number in besides.items() if number == min(besides.values())]
        return nearest[0] if len(nearest) == 1 else ""

    def _without_format(self, name: str) -> tuple[str, str]:
        """('qwen3-8b', 'awq') of 'qwen3-8b-awq'."""
        if gguf := _GGUF.search(name):
            return name[: gguf.start()], gguf["after"] or gguf["before"] or gguf["alone"] or GGUF_USUAL
        for pattern, stored in _FORMATS:
            if end := pattern.search(name):
                return name[: end.start()], stored
        return name, ""


def unlike(name: str, asked: str) -> tuple[int, int]:
    """Distance of `name` from the requested name `asked`: the number of words that it lacks, and of words that it has in addition."""
    words, wanted = set(_words(name)), set(_words(asked))
    return len(wanted - words), len(words - wanted)


def _plain(name: str) -> str:
    """The last part of `name`, in small letters."""
    return re.sub(r"\s+", "-", name.strip().casefold().rpartition("/")[2])


def _without_tuning(name: str) -> str:
    return "-".join(word for word in name.split("-") if word not in _TUNED)


@lru_cache(maxsize=8192)  # every unknown name is compared with all spellings of the catalogue, several thousand
def _words(name: str) -> tuple[str, ...]:
    """('gemma', '3', '27b') of 'gemma3:27b', and of 'google/Gemma-3-27B'."""
    return tuple(word.removesuffix(".0").rstrip(".") for word in _WORD.findall(_plain(name)))
