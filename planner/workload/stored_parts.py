"""Parts of a checkpoint that are stored in another format than most of it."""

from __future__ import annotations

import msgspec

from planner.workload.sublayers import Role

SIXTEEN_BITS = "bf16"
"""Format of parts that quantisation leaves alone."""
HEAD = "head"


class StoredPart(msgspec.Struct, frozen=True, kw_only=True):
    """Matrices of one use and shape, of which a share is stored in `format`; the output head has the part 'head' and no shape."""

    part: str
    role: Role = "other"
    inputs: int = 0
    outputs: int = 0
    format: str
    """A name of `planner.workload.weights.FORMATS`."""
    share: float = 1.0
    """Share of these matrices."""


def told(parts: tuple[StoredPart, ...]) -> str:
    """Formats with the parts that are stored in them: 'attention in bf16, head in nvfp4'; a part of which only a share is, with 'some of'."""
    found: dict[tuple[str, str], float] = {}
    for one in parts:
        key = (one.part, one.format)
        found[key] = max(found.get(key, 0.0), one.share)
    return ", ".join(f"{'some of ' * (share < 1)}{part} in {stored}" for (part, stored), share in found.items())
