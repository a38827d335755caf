"""Reading of the keys of a Hugging Face `config.json`, with a note on every unusable or missing one; and the model families that read them.

A family is one function under `@family`, in `llama.py`, `gpt.py` or a file of its own that `config.py` imports.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from planner.errors import Problems, nearest_names, shown
from planner.workload.block import Block

MOST_LAYERS, MOST_SIZE = 10_000, 10**9
"""Upper ends of counts of layers and of other sizes, far beyond any model, so that sums over layers end in reasonable time."""
LARGEST_FACTOR = 1000
"""Upper end of factors of a width."""

STORED_AS, TAKEN_AS = "stored_as", "taken_as"
"""Keys that no published config has: the format of weights, and the description of how a model's name was interpreted."""
WORDS_OF_SIZES = frozenset(
    {"size", "dim", "rank", "heads", "experts", "layers", "width", "groups", "ffn", "inner", "channels", "expand"}
)
WITHOUT_EFFECT = frozenset(
    {
        "block_dim", "chunk_size_feed_forward", "classifier_proj_size", "cross_attention_hidden_size", "decoder_vocab_size", "dim_model_base",
        "encoder_no_repeat_ngram_size", "expand", "global_attn_every_n_layers", "keep_window_size", "kv_channels", "layer_group_size",
        "mamba_expand", "max_window_layers", "median_filter_width", "no_repeat_ngram_size", "num_hidden_layers",
        "num_kv_heads", "num_query_groups", "prompt_mid_dim", "qk_head_dim", "qk_rope_head_dim", "rotary_dim",
        "sliding_window_size", "swa_head_dim", "swa_num_attention_heads", "swa_num_key_value_heads", "swa_v_head_dim",
        "task_type_vocab_size", "time_step_rank", "vocab_size_per_layer_input", "window_size",
    }
)  # fmt: skip
"""Keys of sizes that other keys state too, or that nothing here depends on."""
_LLAMA = Block()


class ConfigKeys:
    """Keys of one config. After a problem, reading continues with a harmless value, so that all problems are found."""

    def __init__(self, config: Mapping[str, Any], problems: Problems, prefix: str = "model.") -> None:
        self._config = config
        self._problems = problems
        self._prefix = prefix
        self._read: set[str] = set()

    def also(self, **given: Any) -> ConfigKeys:
        """These keys, and `given` under names that the config does not have."""
        both: Mapping[str, Any] = ChainMap(self._config, given)  # type: ignore[arg-type]  # it is only read
        further = ConfigKeys(both, self._problems, self._prefix)
        further._read = self._read
        return further

    def part(self, name: str) -> ConfigKeys:
        """Keys of the mapping under `name`."""
        given = self._given(name)
        return ConfigKeys(given if isinstance(given, Mapping) else {}, self._problems, f"{self._prefix}{name}.")

    def sizes_not_read(self, *, repeated: bool = False) -> tuple[str, ...]:
        """Keys named like sizes that were not read, with a number above 1; without `repeated`, only numbers that no key read has."""
        known = set() if repeated else {value for name in self._read if isinstance(value := self._config.get(name), int)}
        named = (
            name
            for name in self._config
            if name not in self._read | WITHOUT_EFFECT and not WORDS_OF_SIZES.isdisjoint(name.split("_"))
        )
        sizes = ((name, self._config.get(name)) for name in named)
        return tuple(
            name
            for name, value in sizes
            if isinstance(value, int) and value > 1 and not isinstance(value, bool) and value not in known
        )

    def size(self, *names: str, default: int | None = None) -> int:
        """A positive whole number under the first of `names` that is given; without `default` one is required."""
        for name in names:
            value = self._given(name)
            if isinstance(value, list) and value and len(value) <= MOST_LAYERS and all(one == value[0] for one in value):
                value = value[0]  # one for each layer, all equal
            if value is not None:
                return self._whole(name, value, least=1)
        if default is not None:
            return default
        near = nearest_names(names[0], [name for name in self._config if name not in self._read])
        self._problems.add(f"{self._prefix}{names[0]}", "missing; a positive whole number is required.", near)
        return 1

    def size_or_none(self, name: str, *, absent: int | None = None) -> int | None:
        """A positive whole number; None if the config has null, `absent` where it does not have the key."""
        if self._given(name) is None and name not in self._config:
            return absent
        value = self._given(name)
        return None if value is None else self._whole(name, value, least=1)

    def count(self, name: str, *, absent: int = 0) -> int:
        """A whole number from 0 on; 0 if the config has null."""
        if self._given(name) is None and name not in self._config:
            return absent
        value = self._given(name)
        return 0 if value is None else self._whole(name, value, least=0)

    def share(self, name: str, *, default: float, least: float = 0) -> float:
        """A number from `least` to below 1, like a dropout rate."""
        return self._number(name, default, lambda value: least <= value < 1, f"from {least:g} to below 1")

    def factor(self, name: str, *, default: float) -> float:
        """A factor of a width; `default` for null and for a missing key."""
        return self._number(name, default, lambda value: 0 < value <= LARGEST_FACTOR, f"above 0, at most {LARGEST_FACTOR}")

    def _number(self, name: str, default: float, accepts: Callable[[float], bool], words: str) -> float:
        value = self._given(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not accepts(value):
            self.reject(name, f"{shown(value)} is not accepted; it has to be a number {words}.")
            return default
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A truth value."""
        value = self._given(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.reject(name, f"{shown(value)} is not accepted; it has to be true or false.")
            return default
        return value

    def value(self, name: str) -> object:
        """Value of the config under `name`; None if it has none."""
        return self._given(name)

    def items(self, name: str) -> list[Any]:
        """A list; empty when absent."""
        value = self._given(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MOST_LAYERS:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a list of at most {MOST_LAYERS:,} items.")
            return []
        return value

    def _given(self, name: str) -> Any:
        self._read.add(name)
        return self._config.get(name)

    def reject(self, name: str, message: str) -> None:
        """Record a problem of `name`."""
        self._problems.add(f"{self._prefix}{name}", message)

    def _whole(self, name: str, value: object, *, least: int) -> int:
        most = MOST_LAYERS if "layers" in name.split("_") else MOST_SIZE
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a whole number from {least} to {most:,}.")
            return 1
        return value


ReadSizes = Callable[[ConfigKeys], dict[str, Any]]
"""Function that reads the sizes of an `Architecture` by field name from a config's keys; problems are noted in the keys."""


class Family(msgspec.Struct, frozen=True):
    """Knowledge about one `model_type`."""

    read_sizes: ReadSizes
    block: Block
    eager_attention: bool
    """True if transformers has no fused attention for it, so that scores are stored."""


FAMILIES: dict[str, Family] = {}
"""`model_type` -> family."""


def family(model_type: str, block: Block = _LLAMA, *, eager_attention: bool = False) -> Callable[[ReadSizes], ReadSizes]:
    """Make the decorated function the reader of configs with this `model_type`."""

    def add(read_sizes: ReadSizes) -> ReadSizes:
        if model_type in FAMILIES:
            raise ValueError(f"{model_type} is read by two families")
        FAMILIES[model_type] = Family(read_sizes, block, eager_attention)
        return read_sizes

    return add
