"""Model families: for each `model_type` of Hugging Face, the reader of its config and facts about its code.

A family is one function under `@family`, in `llama.py` or `gpt.py` or a file of its own that `config.py` imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from planner.workload.block import Block
from planner.workload.huggingface.keys import ConfigKeys

_LLAMA = Block()
ReadSizes = Callable[[ConfigKeys], dict[str, Any]]
"""The sizes of an `Architecture` by field name, read from a config's keys; problems are noted in the keys."""


class Family(msgspec.Struct, frozen=True):
    """Knowledge about one `model_type`."""

    read_sizes: ReadSizes
    block: Block
    eager_attention: bool
    """transformers has no fused attention for it, so that scores are stored."""


FAMILIES: dict[str, Family] = {}
"""`model_type` -> family."""


def family(model_type: str, block: Block = _LLAMA, *, eager_attention: bool = False) -> Callable[[ReadSizes], ReadSizes]:
    """Make the decorated function the reader of configs with this `model_type`."""

    def add(read_sizes: ReadSizes) -> ReadSizes:
        FAMILIES[model_type] = Family(read_sizes, block, eager_attention)
        return read_sizes

    return add
