"""Comparison of spellings of a GPU: letter case, punctuation, the vendor's name and the number of an SXM socket do not matter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from planner.units import GIB

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpu import Gpu

_LEFT_OUT = frozenset(
    {"nvidia", "amd", "intel", "apple", "geforce", "tesla", "instinct", "radeon", "gpu", "generation", "edition", "oam"}
)
"""Words that do not distinguish any two GPUs."""
_SOCKET = re.compile(r"sxm[2-7]?")
_JOINED_FORM = re.compile(r"(?<=\d)(?=(?:sxm[2-7]?|pcie|nvl)\b)")
"""Place between a model and its form in one word, as in 'H100SXM5' and 'A100PCIe'."""
_MEMORY_KIND = re.compile(r"hbm\d?e?|gddr\d?x?")
_SIZE = re.compile(r"(\d{1,4})(?:gb|gib|g)")
_FORMS = ("sxm", "pcie", "nvl")
_WORD = re.compile(r"[a-z0-9]+")


class Spelled(NamedTuple):
    """A name divided into its parts."""

    model: str
    """'h100', 'rtx4070tisuper'."""
    form: str = ""
    """'sxm', 'pcie', 'nvl'; '' if the name contains none."""
    gigabytes: int = 0
    """Memory in the name; 0 if it contains none."""


@lru_cache(maxsize=4096)
def spelled(name: str) -> Spelled:
    """Parts of `name`: ('h100', 'sxm', 80) for 'NVIDIA H100-SXM5-80GB'."""
    words = _WORD.findall(_JOINED_FORM.sub(" ", re.sub(r"(\d)\s+(gi?b)\b", r"\1\2", name.casefold())))
    model, form, gigabytes = "", "", 0
    for word in words:
        if word in _LEFT_OUT or _MEMORY_KIND.fullmatch(word):
            continue
        kind = "sxm" if _SOCKET.fullmatch(word) else word
        if kind in _FORMS and not form:
            form = kind
        elif (size := _SIZE.fullmatch(word)) and not gigabytes:
            gigabytes = int(size[1])
        else:
            model += word
    return Spelled(model, form, gigabytes)


def form_of(gpu: Gpu) -> str:
    """Form that a name of `gpu` may contain."""
    if "NVL" in gpu.name.split():
        return "nvl"
    return next((form for form in _FORMS if (gpu.form_factor or "").casefold().startswith(form)), "")


def agrees(given: Spelled, gpu: Gpu) -> bool:
    """True if `gpu` is of the `given` model, and has the given form and memory, if any."""
    return (
        given.model == spelled(gpu.name).model
        and given.form in {"", form_of(gpu)}
        and given.gigabytes in {0, round(gpu.memory_bytes / GIB)}
    )


def is_commonest(name: str, gpu: Gpu) -> bool:
    """True if several GPUs share `name` and `gpu` is the most common of them."""
    return bool(gpu.commonest_of) and name != gpu.name and spelled(name) in map(spelled, gpu.commonest_of)
