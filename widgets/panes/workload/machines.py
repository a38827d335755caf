"""Owned machines as the form types them: '2 RTX 4090', '2x8 H100 SXM' for two machines of eight."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

TYPED = re.compile(r"(?:(?:(?P<nodes>\d{1,4})\s*[x×*]\s*)?(?P<count>\d{1,3})(?:\s*[x×*]\s*|\s+))?(?P<gpu>\D.*|\d{3,}.*)")
"""GPUs of a machine, with the number of machines before it; a name may begin with a number of three digits or more ('4090', '890M')."""

NUMBERS = {"count", "nodes"}
TYPED_KEYS = {"gpu", *NUMBERS}
"""Keys that can be typed; a machine with others comes from a preset."""

Machine = Mapping[str, Any]
"""An item of `own` as a preset has it."""


def parse_machines(text: str) -> list[dict[str, Any]] | None:
    """'2 RTX 4090, L40S' -> items of `own`; raises ValueError with what is accepted."""
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        typed = TYPED.fullmatch(part)
        if typed is None:
            raise ValueError(f"{part!r} names no GPU; write L40S, 2 RTX 4090, or 2x8 H100 SXM for two machines of eight.")
        found.append(machine(typed["gpu"], int(typed["count"] or 1), int(typed["nodes"] or 1)))
    return found or None


def machine(gpu: str, count: int, nodes: int = 1) -> dict[str, Any]:
    """Item of `own` for `nodes` machines with `count` GPUs each."""
    return {"gpu": gpu, "count": count, **({"nodes": nodes} if nodes > 1 else {})}


def machines_text(machines: Sequence[Machine]) -> str:
    """Items of `own` as `parse_machines` reads them."""
    return ", ".join(map(_text, machines))


def _text(one: Machine) -> str:
    count, nodes = one.get("count", 1), one.get("nodes", 1)
    return f"{nodes}x{count} {part_of(one)}" if nodes > 1 else f"{count} {part_of(one)}" if count > 1 else part_of(one)


def part_of(one: Machine) -> str:
    """GPU of a machine, or the slice of it."""
    return f"{one.get('gpu')} {one['mig']}" if one.get("mig") else str(one.get("gpu"))


def with_details(typed: Sequence[Machine], before: Sequence[Machine]) -> list[dict[str, Any]]:
    """`typed` machines with what the form cannot show of those of the same GPU `before`: link, power limit, price."""
    known = {part_of(one): one for one in before}
    return [
        {key: value for key, value in known.get(part_of(one), one).items() if key not in NUMBERS}
        | {key: value for key, value in one.items() if key in NUMBERS or one.keys() - TYPED_KEYS}
        for one in typed
    ]
