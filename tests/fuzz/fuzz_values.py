"""Random values of the types that are read: mostly usable, else at or beyond the ends of their range, or of another type."""

from __future__ import annotations

import copy
import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import msgspec

from planner.engine.job.engines import ENGINES
from planner.schema import alternatives
from planner.session import Session
from planner.workload.weights import FORMATS

JUNK: tuple[Any, ...] = (
    *(0, -1, 1.5, 1e-320, 1e308, -1e-9, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**309, True, None, "", " ", "1", "max"),
    *("NaN", "\x1b[31mx\x9b", "a" * 300, "a" * 6000, "./a\0b", "~nosuch/x", "~", "../../etc/passwd", "/dev/zero", "a/b/c", "{0}%s"),
    *(
        [],
        {},
        [1],
        [[[[]]]],
        {"a": {"b": 1}},
        {"mean": 0.5},
        {"mean": 10, "p50": 1e-320},
        {"mean": 1, "p95": 1e9},
        "\u202e",
        "１２",
    ),
)
USUAL = 6000
"""Most sizes are at most so large."""
fields_of_kind = functools.cache(msgspec.structs.fields)


class Values:
    """Makes values by type, and by name where a name has to be known."""

    def __init__(self, rng: random.Random, session: Session) -> None:
        self.rng = rng
        models, gpus = session.models.names(), [gpu.name for gpu in session.gpus.all]
        self._configs = [session.models.config(name) for name in models]
        self._known: dict[str, Sequence[str]] = {
            "model": models, "gpu": gpus, "gpus_considered": gpus, "weight_dtype": tuple(FORMATS), "base": tuple(FORMATS),
            "engine": (*ENGINES, "vllm@0.9", "vllm@", "@"), "link": ("nvlink", "pcie"), "fabric": ("infiniband", "ethernet"),
        }  # fmt: skip

    def table(self, kind: type[msgspec.Struct], share: float) -> dict[str, Any]:
        """Fields of `kind`: what it requires, and a `share` of the others; rarely one it does not know."""
        fields = fields_of_kind(kind)
        found = {one.name: self.of(one.type, one.name) for one in fields if one.required or self.rng.random() < share}
        if self.rng.random() < 0.03:
            found[self.rng.choice(("unknown", "", "a" * 300, "\x1b[2J"))] = 1
        return found

    def of(self, kind: Any, name: str = "") -> Any:
        """A value of `kind`; one time in twenty of no kind that is accepted."""
        if self.rng.random() < 0.05:
            return self.rng.choice(JUNK)
        if name == "model" and self.rng.random() < 0.15:
            return self._config()
        if name in self._known and self.rng.random() < 0.97:
            return self._listed(kind, lambda: self.rng.choice(self._known[name]))
        part, bounds = self.rng.choice(alternatives(kind))
        origin = get_origin(part)
        if origin is Literal:
            return self.rng.choice(get_args(part))
        if origin in {list, tuple}:
            return [self.of(get_args(part)[0], name) for _ in range(self.rng.choice((0, 1, 1, 2, 20)))]
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return self.table(part, 0.4)
        made: Mapping[Any, Callable[[], Any]] = {
            int: lambda: round(self._number(bounds)), float: lambda: self._number(bounds), bool: lambda: self.rng.random() < 0.5,
            str: lambda: self.rng.choice(("x", "é", "a b", "a" * 200)), dict: self._config,
        }  # fmt: skip
        return made.get(part, lambda: self.rng.choice(JUNK))()

    def _listed(self, kind: Any, choose: Callable[[], str]) -> Any:
        listed = any(get_origin(part) is list for part, _ in alternatives(kind))
        return [choose() for _ in range(self.rng.randint(0, 2))] if listed else choose()

    def _number(self, bounds: msgspec.Meta | None) -> float:
        """Mostly small, evenly by order of magnitude; else an end of the range or just beyond it."""
        ends = [end for end in (bounds.ge, bounds.gt, bounds.le, bounds.lt) if end is not None] if bounds else [1e-6, 1e12]
        low, high = max(min(ends), 1e-3), max(ends)
        if self.rng.random() < 0.15:
            end = self.rng.choice(ends)
            return float(self.rng.choice((end, end * 1.01, end - 1, end * 0.99)))
        return math.exp(self.rng.uniform(math.log(low), math.log(min(high, USUAL) if self.rng.random() < 0.8 else high)))

    def _config(self) -> dict[str, Any]:
        """A config of the catalogue, of which some keys are changed."""
        config = copy.deepcopy(self.rng.choice(self._configs))
        for name in self.rng.sample(sorted(config), min(len(config), self.rng.choice((0, 0, 1, 2, 3)))):
            size = round(self._number(msgspec.Meta(ge=1, le=10**9)))
            config[name] = self.rng.choice((size, self.rng.choice(JUNK), [size, "sliding_attention"] * 20, self.rng.random()))
            if self.rng.random() < 0.2:
                del config[name]
        return config
