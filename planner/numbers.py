"""Types of input fields: finite numbers within a range, texts and lists of limited length, as the schema and messages show.

The limits lie far beyond real hardware, and close enough that products of several of them stay finite.
"""

from __future__ import annotations

import math
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


SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
"""Letters behind a number as people write it, in either case; B and G are both a billion."""


def written_number(text: str) -> float | None:
    """The number that '1,000', '4k', '1.5B', '15T' or '3e9' writes; None for any other text, infinity and NaN included."""
    plain = text.strip().replace(",", "").replace("_", "").replace(" ", "")
    scale = SUFFIXES.get(plain[-1:].casefold(), 1.0)
    number = as_number(plain[:-1] if scale != 1.0 else plain)
    return float(f"{number * scale:.15g}") if number is not None and math.isfinite(number * scale) else None


TIMES = {"min": 60.0, "ms": 1e-3, "s": 1.0, "h": 3600.0, "d": 86400.0}
"""Units of time behind a number, and their seconds; none is a letter that also ends one before it."""


def in_unit(text: str, unit: str) -> str:
    """A number without the `unit` that people write with it: '10 h' in h is '10', '500ms' in s '0.5', '$20' in $ '20'.

    Any other text as it is.
    """
    plain = text.strip()
    if unit == "$" and written_number(plain.removeprefix("$")) is not None:
        return plain.removeprefix("$")
    factors = {other: seconds / TIMES[unit] for other, seconds in TIMES.items()} if unit in TIMES else {unit: 1.0}
    for word, factor in factors.items():
        number = plain[: -len(word)].strip() if word and plain.casefold().endswith(word.casefold()) else ""
        parts = [written_number(part) for part in number.split("/")]
        if None not in parts:
            return number if factor == 1.0 else "/".join(f"{(part or 0.0) * factor:.15g}" for part in parts)
    return text


Name = Annotated[str, Meta(max_length=200)]
Title = Annotated[str, Meta(max_length=500)]
Location = Annotated[str, Meta(max_length=4096)]
"""A name or a path."""
Prose = Annotated[str, Meta(max_length=20_000)]
