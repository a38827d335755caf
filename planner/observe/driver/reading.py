"""Values read from a GPU, with a reason for every value that is absent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Reading:
    """Values of snapshot fields, and the reason of each field that has none."""

    values: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def absent(cls, names: Iterable[str], reason: str) -> Reading:
        """No value of any of these fields, all for one reason."""
        return cls({}, dict.fromkeys(names, reason))

    def set(self, name: str, value: Any, reason: str = "no value") -> None:
        """Note one field: its value, or the reason when it is None."""
        if value is None:
            self.reasons[name] = reason
        else:
            self.values[name] = value

    def take(self, part: Reading) -> None:
        """Add the values and reasons of `part`."""
        self.values.update(part.values)
        self.reasons.update(part.reasons)
