"""Wrong input, one record per problem: place, given value, accepted values, nearest spelling.

Expected outcomes ("does not fit", "no offer", "no driver") are not errors: they are values with reasons.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

LONGEST_NAME = 200
"""Characters of a name that are compared."""

LONG_NUMBER = 10**15
"""Whole numbers from here on are shown as 1e+15: more digits say nothing, and may be those of a rounded number."""
MOST_FLOAT = 10**308
"""About the largest whole number that any float is as large as."""


class Problem(NamedTuple):
    """One fault of the user's input."""

    where: str
    """A file path, a preset name, `--set`, or a line number of standard input."""
    key: str
    """Dotted name of the field; empty if the whole document is at fault."""
    message: str
    """The given and the accepted values, in one sentence."""
    nearest: tuple[str, ...] = ()
    """Accepted spellings closest to the given one."""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.key) if part)
        hint = f" Did you mean {' or '.join(repr(name) for name in self.nearest)}?" if self.nearest else ""
        return f"{place}: {self.message}{hint}" if place else f"{self.message}{hint}"


class UserError(Exception):
    """Input that cannot be used; carries every problem found. Front ends exit with 2 or show them at the field."""

    def __init__(self, problems: Iterable[Problem] | Problem) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Problems:
    """Collects problems so that all of them are reported at once; `where` is their file."""

    def __init__(self, where: str = "") -> None:
        self.where, self.found = where, list[Problem]()

    def add(self, key: str, message: str, nearest: Iterable[str] = ()) -> None:
        """Note one problem and go on."""
        self.found.append(Problem(self.where, key, message, tuple(nearest)))

    def raise_if_any(self) -> None:
        """Raise `UserError` with all problems noted so far, if there are any."""
        if self.found:
            raise UserError(self.found)


def shown(value: object) -> str:
    """`value` as shown in a message, shortened where it is long."""
    try:
        text = f"{value:g}" if isinstance(value, int) and LONG_NUMBER <= abs(value) < MOST_FLOAT else repr(value)
    except ValueError:
        text = f"a number of more than {sys.get_int_max_str_digits():,} digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


def nearest_names(given: str, accepted: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The accepted names closest in spelling to `given`, best first; case is ignored."""
    by_folded: dict[str, str] = {}
    for name in accepted:
        by_folded.setdefault(name.casefold(), name)
    import difflib

    folded = given[:LONGEST_NAME].casefold()  # comparing takes the product of both lengths
    close = difflib.get_close_matches(folded, by_folded, n=most, cutoff=0.5)
    containing = [name for name in by_folded if folded and folded in name and name not in close]
    return tuple(by_folded[name] for name in [*close, *containing][:most])
