"""Lists and cards of the catalogue on stdout: for people as columns, for programs as JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNBOUNDED_WIDTH = 250
"""Columns when stdout is no terminal: nothing is cut."""


def print_json(value: Any) -> None:
    """Write `value` (structs, dicts, lists) as indented JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_columns(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[str] = ()) -> None:
    """Write rows under `heads`; columns named in `numeric` are aligned right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in numeric else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED_WIDTH
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def print_card(title: str, facts: Mapping[str, str]) -> None:
    """Write one thing: its title, then its facts, a line each, those without a value left out."""
    print(title)
    told = {name: text for name, text in facts.items() if text}
    widest = max(map(len, told), default=0)
    for name, text in told.items():
        print(f"  {name:<{widest}}  {text}")
