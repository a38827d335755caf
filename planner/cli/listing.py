"""Lists and cards of the catalogue on stdout: for people as columns, for programs as JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

UNBOUNDED_WIDTH = 10_000
"""Columns when stdout is no terminal: nothing is cut."""


def console() -> Console:
    """A console on stdout that is as wide as its terminal, or as wide as its content."""
    from rich.console import Console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def print_json(value: Any) -> None:
    """Write `value` (structs, dicts, lists) as indented JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_columns(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[str] = ()) -> None:
    """Write rows under `heads`; columns named in `numeric` are aligned right, the last one folds when space is short."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in numeric else "left", no_wrap=head != heads[-1])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def print_card(title: str, facts: Mapping[str, str]) -> None:
    """Write one thing: its title, then its facts, a line each, those without a value left out."""
    print(title)
    told = {name: text for name, text in facts.items() if text}
    widest = max(map(len, told), default=0)
    for name, text in told.items():
        print(f"  {name:<{widest}}  {text}")
