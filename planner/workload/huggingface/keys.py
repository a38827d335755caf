"""Reads the keys of a Hugging Face `config.json`, noting every one that is missing or cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Problems, nearest_names, shown

MOST_LAYERS, MOST_SIZE = 10_000, 10**9
"""Ends of the ranges of counts of layers and of other sizes, far beyond any model: what is summed layer by layer ends in time."""
LARGEST_FACTOR = 1000
"""End of the range of factors of a width."""


class ConfigKeys:
    """The keys of one config. After a problem reading goes on with a harmless value, so that all problems are found."""

    def __init__(self, config: Mapping[str, Any], problems: Problems, prefix: str = "model.") -> None:
        self._config = config
        self._problems = problems
        self._prefix = prefix

    def also(self, **given: Any) -> ConfigKeys:
        """These keys, and `given` under names that the config does not have."""
        return ConfigKeys({**given, **self._config}, self._problems, self._prefix)

    def size(self, *names: str, default: int | None = None) -> int:
        """A positive whole number under the first of `names` that is given; without `default` one is required."""
        for name in names:
            value = self._config.get(name)
            if isinstance(value, list) and value and len(value) <= MOST_LAYERS and all(one == value[0] for one in value):
                value = value[0]  # one for each layer, all the same
            if value is not None:
                return self._whole(name, value, least=1)
        if default is not None:
            return default
        self._problems.add(
            f"{self._prefix}{names[0]}", "missing; a positive whole number is required.", nearest_names(names[0], self._config)
        )
        return 1

    def size_or_none(self, name: str, *, absent: int | None = None) -> int | None:
        """A positive whole number; None where the config says null, `absent` where it does not have the key."""
        if name not in self._config:
            return absent
        value = self._config[name]
        return None if value is None else self._whole(name, value, least=1)

    def count(self, name: str, *, absent: int = 0) -> int:
        """A whole number from 0 on; 0 where the config says null."""
        if name not in self._config:
            return absent
        value = self._config[name]
        return 0 if value is None else self._whole(name, value, least=0)

    def share(self, name: str, *, default: float) -> float:
        """A number from 0 to below 1, like a dropout rate."""
        value = self._config.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a number from 0 to below 1.")
            return default
        return float(value)

    def factor(self, name: str, *, default: float) -> float:
        """A factor of a width; null and a missing one read `default`."""
        value = self._config.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_FACTOR:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a number above 0, at most {LARGEST_FACTOR}.")
            return default
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A truth value."""
        value = self._config.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.reject(name, f"{shown(value)} is not accepted; it has to be true or false.")
            return default
        return value

    def value(self, name: str) -> object:
        """Value of the config under `name`; None where it has none."""
        return self._config.get(name)

    def items(self, name: str) -> list[Any]:
        """A list; empty when absent."""
        value = self._config.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MOST_LAYERS:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a list of at most {MOST_LAYERS:,} items.")
            return []
        return value

    def reject(self, name: str, message: str) -> None:
        """Note what is wrong with `name`."""
        self._problems.add(f"{self._prefix}{name}", message)

    def _whole(self, name: str, value: object, *, least: int) -> int:
        most = MOST_LAYERS if "layers" in name.split("_") else MOST_SIZE
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.reject(name, f"{shown(value)} is not accepted; it has to be a whole number from {least} to {most:,}.")
            return 1
        return value
