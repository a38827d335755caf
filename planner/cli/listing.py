"""Lists and cards of the catalogue on stdout: for people as columns, for programs as JSON."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from planner.cli.text_table import TextTable

UNBOUNDED_WIDTH = 10_000
"""Columns when stdout is no terminal and COLUMNS is not set: nothing is left out."""
LEAST_FOLDED_WIDTH = 16


def console() -> Console:
    """A console on stdout that is as wide as its terminal or COLUMNS say, otherwise as wide as its content."""
    from rich.console import Console

    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(file=sys.stdout, width=shutil.get_terminal_size().columns if bounded else UNBOUNDED_WIDTH, highlight=False)


def print_json(value: Any) -> None:
    """Write `value` (structs, dicts, lists) as indented JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()) -> None:
    """Write rows under `heads`; columns in `numeric` are aligned right. Where space is short the others fold, then columns go from the right."""
    from planner.cli.text_table import TextColumn, fitted

    columns = [
        TextColumn(
            head,
            [row[place] for row in rows],
            right=head in numeric,
            keep=len(heads) - place,
            least_width=None if place == 0 or head in numeric else LEAST_FOLDED_WIDTH,
        )
        for place, head in enumerate(heads)
    ]
    out = console()
    table = fitted(columns, out.width)
    print_table(out, table, [""] * len(rows))
    tell_left_out(table.left_out)


def print_table(out: Console, table: TextTable, styles: Sequence[str]) -> None:
    """Write `table`, each row in its style."""
    from rich.text import Text

    out.print(Text(table.head(), style="bold"), soft_wrap=True)
    for lines, style in zip(table.rows(), styles, strict=True):
        for line in lines:
            out.print(Text(line, style=style), soft_wrap=True)


def tell_left_out(titles: Sequence[str]) -> None:
    """Say on stderr which columns a wider terminal would show."""
    if titles:
        sys.stdout.flush()
        print(f"a wider terminal also shows: {', '.join(titles)}", file=sys.stderr)


def print_card(title: str, facts: Mapping[str, str]) -> None:
    """Write one thing: its title, then its facts, a line each, those without a value left out."""
    print(title)
    told = {name: text for name, text in facts.items() if text}
    widest = max(map(len, told), default=0)
    for name, text in told.items():
        print(f"  {name:<{widest}}  {text}")
