"""Constants of units, and quantities as text.

Inside the program every quantity is SI or bytes; this module is where GiB, TFLOP/s and cents appear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

MIB, GIB = 2**20, 2**30
"""Binary multiples of a byte: what memory is made of and what allocators print."""

MEGA, GIGA = 1e6, 1e9

HOURS_PER_MONTH = 730.0
"""24 h × 365 days ÷ 12: the convention of cloud price sheets."""
SECONDS_PER_HOUR = 3600.0

UNKNOWN = "—"
"""Sign of an unknown quantity; it is never 0."""

_SCALES = (
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)


def is_known(value: float | None) -> bool:
    """True if `value` is a finite number."""
    return value is not None and math.isfinite(value)


def digits(value: float | None, significant: int = 3) -> str:
    """`value` to `significant` figures, with thousands separators and no exponent: 1234.5 -> '1,230'."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if abs(rounded) >= 10 ** (significant - places):
        places -= 1
    return f"{rounded:,.{max(0, places)}f}"


def bytes_text(value: float | None, unit: bool = True) -> str:
    """Bytes as GiB with one decimal ('79.2 GiB'), as MiB below a tenth of a GiB; without a unit always in GiB."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    small = 0 < abs(value) < GIB / 10
    if not unit:
        return f"{value / GIB:,.{2 if small else 1}f}"
    return f"{value / MIB:,.0f} MiB" if small else f"{value / GIB:,.1f} GiB"


def used_text(used: float | None, total: float | None) -> str:
    """Bytes that are used, of all: '71.3 of 139.8 GiB'."""
    return UNKNOWN if used is None or total is None else f"{bytes_text(used, unit=False)} of {bytes_text(total)}"


def bits_text(bytes_per_s: float) -> str:
    """A rate of a network as it is sold: 50e9 -> '400 Gb/s'."""
    return f"{digits(8 * bytes_per_s / GIGA)} Gb/s"


def si_text(value: float | None, unit: str = "", significant: int = 3) -> str:
    """A quantity with an SI prefix: 9.894e14 and 'FLOP/s' read '989 TFLOP/s'."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return f"0 {unit}".rstrip()
    for scale, prefix in _SCALES:
        if abs(value) >= scale * (1 - 0.5 * 10**-significant):
            return f"{digits(value / scale, significant)} {prefix}{unit}".rstrip()
    return f"{value:.2g} {unit}".rstrip()


def quantity_text(value: float | None, unit: str) -> str:
    """A value in `unit`: bytes as GiB, others with an SI prefix, a bare number without one."""
    if unit == "B":
        return bytes_text(value)
    return si_text(value, unit) if unit else digits(value)


def number_text(value: float | None, unit: str = "", scale: float = 1.0) -> str:
    """A whole number of `unit`, each of which is `scale`."""
    return UNKNOWN if value is None else f"{value / scale:,.0f} {unit}".rstrip()


def counted(number: int, thing: str) -> str:
    """'1 result', '2,000 results'."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def age_text(days: int) -> str:
    """'1 day old'; of a date that the clock has not reached, so much."""
    return f"{counted(days, 'day')} old" if days >= 0 else "after today: is this machine's clock right?"


def count_text(value: float | None) -> str:
    """A count of things: 8190735360 -> '8.19 B', 999.8e9 -> '1.00 T', 1234 -> '1,234'."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for scale, least, suffix in ((1e12, 0.9995e12, "T"), (1e9, 0.9995e9, "B"), (1e6, 1e6, "M")):
        if abs(value) >= least:
            return f"{digits(value / scale)} {suffix}"
    return f"{value:,.0f}"


def usd_text(value: float | None) -> str:
    """Dollars: 0.0472 -> '0.0472', 11880.2 -> '11,900' (the column or label has the $)."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 1 <= abs(value) < 100:
        return f"{value:,.2f}"
    return digits(value)


def short_usd_text(value: float) -> str:
    """Dollars in few characters, as on an axis: 310_000 -> '310 k$', 1.5e9 -> '1.5 B$', 0.42 -> '0.420 $'."""
    return si_text(value, "$", 2).replace("G$", "B$") if value >= 1000 else f"{digits(value, 2)} $"


def duration_text(seconds: float | None) -> str:
    """A duration in the unit a person would choose: '4.2 ms', '38 s', '3.1 h', '12 d'."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 60:
        return si_text(seconds, "s")
    for limit, size, unit in ((3600.0, 60.0, "min"), (2 * 86400.0, 3600.0, "h"), (2 * 365 * 86400.0, 86400.0, "d")):
        if seconds < limit:
            return f"{digits(seconds / size, 2 if seconds / size < 10 else 3)} {unit}"
    return f"{digits(seconds / (365 * 86400.0))} years"


def percent_text(fraction: float | None) -> str:
    """A fraction as a whole percentage: 0.874 -> '87 %'."""
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    return f"{fraction * 100:.0f} %"


def numbers_text(numbers: Iterable[int]) -> str:
    """Whole numbers in order, three or more in a row as a range: '0-7, 9, 11'."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


TENFOLD = 9.0
"""Relative change from which a factor reads better than a percentage."""
HALF_A_PERCENT, LEAST_CHANGE = 0.005, 0.0005
"""Relative change that reads as none without a decimal, and one that does with it."""


def change_text(fraction: float) -> str:
    """A relative change as a percentage, from tenfold on as a factor: 0.186 -> '+19 %', 0.003 -> '+0.3 %', 11 -> '12×'."""
    if fraction >= TENFOLD:
        return f"{1 + fraction:,.0f}×"
    return f"{fraction * 100:+.{1 if LEAST_CHANGE <= abs(fraction) <= HALF_A_PERCENT else 0}f} %"
