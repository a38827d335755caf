"""Other names under which a known model is uploaded: the model that a name means, and the format of its weights at the end of the name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from planner.paths import read_shipped


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file; what each table is for stands there."""

    formats: tuple[tuple[str, str], ...]
    unsloth: dict[str, str]
    latest: dict[str, str]
    otherwise: dict[str, str]


_NAMES = read_shipped(_Names, "catalogues", "uploads.toml")
_FORMATS = [(re.compile(rf"(?:^|[-_.:])(?:{pattern})(?:[-_](?:v\d+|preview))?$"), stored) for pattern, stored in _NAMES.formats]
_GGUF = re.compile(
    r"(?:[-.:](?P<before>(?:ud-)?i?q\d\w*))?(?:[-.]i1)?[-_.]gguf(?:[-.:](?P<after>(?:ud-)?i?q\d\w*))?$|[-.:](?P<alone>(?:ud-)?i?q\d_\w+)$"
)
GGUF_USUAL = "q4_k_m"
"""Format of a repository of GGUF files that names none: the one that Ollama and LM Studio fetch."""
_TUNED = frozenset({"instruct", "chat", "it", "hf", "base", "pt", "text", "mlx", "qat"})
"""Words of a name that do not change the architecture."""
_OF_A_TAG = _TUNED | {"latest", "cloud", "thinking"}
"""Words in one of Ollama's tags that do not change the architecture."""
_SIZE = re.compile(r"[ae]?\d[\d.x]*[bmt]|\d\d+")
"""Word of a size, or of a date."""
_WORD = re.compile(r"[ae]\d[\d.]*b(?![a-z])|\d[\d.x]*[bmt]?(?![a-z\d.])|[a-z]+|\d[\d.]*")


class Upload(NamedTuple):
    """The model of the catalogue that a name means, and the format in the name ('': none)."""

    model: str
    stored_as: str
    alike: bool = False
    """True if the format is replaced by one of about as many bits."""
    gguf: bool = False
    """True if the files are llama.cpp's."""


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
        """The model and the format that `name` means; None if it means no model, or several."""
        rest, said = self._without_format(_plain(name))
        plain = said.removeprefix("ud-")
        stored = plain if plain == said else _NAMES.unsloth.get(plain, plain)
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
        family = _NAMES.otherwise.get(family, family)
        kind = "-".join(word for word in kind.split("-") if word not in _OF_A_TAG) or _NAMES.latest.get(tag.partition(":")[0], "")
        first = _words(family)
        first = first[: next((at for at, word in enumerate(first, 1) if word[0].isdigit()), len(first))]
        asked = _words(_NAMES.otherwise.get(f"{family}:{kind}", f"{family}:{kind}"))
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
    """Last part of `name`, in small letters."""
    return re.sub(r"\s+", "-", name.strip().casefold().rpartition("/")[2])


def _without_tuning(name: str) -> str:
    return "-".join(word for word in name.split("-") if word not in _TUNED)


@lru_cache(maxsize=8192)  # every unknown name is compared with all spellings of the catalogue, several thousand
def _words(name: str) -> tuple[str, ...]:
    """('gemma', '3', '27b') of 'gemma3:27b', and of 'google/Gemma-3-27B'."""
    return tuple(word.removesuffix(".0").rstrip(".") for word in _WORD.findall(_plain(name)))
