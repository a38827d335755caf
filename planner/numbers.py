"""Types of input fields: finite numbers within a range, texts and lists of limited length, as the schema and messages show.

The limits lie far beyond real hardware, and close enough that products of several of them stay finite.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=10**9)]
"""Sequences, requests or tokens at once."""
Gpus = Annotated[int, Meta(ge=1, le=10**6)]
"""GPUs, or a parallel degree."""
Amount = Annotated[float, Meta(ge=1, le=1e18)]
"""Tokens or requests of a whole job."""
Positive = Annotated[float, Meta(gt=0, le=1e24)]
"""A figure of a data sheet: bytes, FLOP/s, watts, dollars."""
Moderate = Annotated[float, Meta(ge=1e-6, le=1e9)]
"""Seconds, hours, epochs, requests a second, dollars an hour."""
Dollars = Annotated[float, Meta(ge=1e-6, le=1e15)]
Rate = Annotated[float, Meta(ge=1, le=1e15)]
"""Bytes a second over a wire."""
Share = Annotated[float, Meta(ge=0, le=1)]
"""A share from none to all."""


Reading = Annotated[float, Meta(ge=0, le=1e24)]
"""A figure that was read of a part at work: a share, bytes, watts, hertz, seconds."""


def as_number(found: object) -> float | None:
    """The number in a text or JSON, infinity and NaN included; None for anything else, and for one beyond any float."""
    try:
        return float(found) if isinstance(found, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None


Name = Annotated[str, Meta(max_length=200)]
Title = Annotated[str, Meta(max_length=500)]
Location = Annotated[str, Meta(max_length=4096)]
"""A name or a path."""
Prose = Annotated[str, Meta(max_length=20_000)]
