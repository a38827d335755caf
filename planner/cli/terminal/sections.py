"""Output of sections, tables, facts and JSON on stdout."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from planner.cli.terminal.streams import say, write_json
from planner.present.cells import Code, Facts, Paragraph, Part, Points, Section, Table, text_table
from planner.present.drawing.chart import Chart
from planner.present.lines.folding import fact_lines, folded
from planner.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from planner.present.lines.text_table import TextTable

Item = TypeVar("Item")
UNBOUNDED_WIDTH = 10_000
"""Width if stdout is not a terminal and COLUMNS is not set, so that nothing is left out."""
CHART_STYLES = ("cyan", "magenta", "green", "yellow", "blue", "red")
MOST_CHART_WIDTH = 110
"""Maximum width of a chart in cells."""
LINES_AROUND = 6
"""Lines of the terminal that are kept for the title and legend of a chart."""
STYLES = {"": "", "strong": "bold", "faint": "dim"}


def console() -> Console:
    """A console on stdout that is as wide as its terminal or COLUMNS, otherwise as wide as its content."""
    from planner.cli.terminal.clean_console import CleanConsole

    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return CleanConsole(shutil.get_terminal_size().columns if bounded else UNBOUNDED_WIDTH)


def print_json(value: Any) -> None:
    """Write `value` (structs, dicts, lists) as indented JSON."""
    write_json(value, indent=2)


def print_sections(sections: Iterable[Section], out: Console) -> None:
    """Write `sections` with a line between them."""
    for number, section in enumerate(sections):
        if number:
            out.print()
        print_section(section, out)


def print_section(section: Section, out: Console) -> None:
    """Write the title of `section`, then its parts, fitted to `out`."""
    from rich.text import Text

    if section.title:
        out.print(Text(one_line(section.title), style="bold"))
    for part in section.parts:
        _print_part(part, out)


def _print_part(part: Part, out: Console) -> None:
    from rich.text import Text

    match part:
        case Table():
            print_table(part, out)
        case Facts(facts):
            for line in fact_lines(facts, out.width):
                out.print(Text(line), soft_wrap=True)
        case Paragraph(text, style):
            out.print(Text("\n".join(folded(text, out.width)), style=STYLES[style]))
        case Points(items):
            for item in items:
                out.print(Text("\n    ".join(folded(f"  {item}", out.width))))
        case Code(text):
            out.print(Text(f"    {one_line(text)}", style="dim"), soft_wrap=True)
        case Chart():
            _print_chart(part, out)


def _print_chart(chart: Chart, out: Console) -> None:
    """Draw `chart` if stdout is a terminal; other readers get only the sentences next to it."""
    from rich.text import Text

    if out.width >= UNBOUNDED_WIDTH:
        return
    from planner.present.drawing.terminal import Look, chart_runs, rows_for

    width = min(out.width, MOST_CHART_WIDTH)
    height = rows_for(width, shutil.get_terminal_size().lines - LINES_AROUND)
    look = Look(CHART_STYLES, quiet="dim", strong="bold", ascii_only=not _takes_braille(out.encoding))
    out.print(Text(""))
    out.print(Text(one_line(chart.title), style="bold"))
    for runs in chart_runs(chart, width, height, look):
        out.print(Text.assemble(*runs), soft_wrap=True)
    if chart.note:
        out.print(Text("\n".join(folded(chart.note, out.width)), style="dim"))


def _takes_braille(encoding: str) -> bool:
    try:
        "⣿".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def print_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Iterable[str] = ()) -> None:
    """Write rows of texts under `heads`; columns in `numeric` are aligned right."""
    print_table(text_table(heads, rows, numeric), console())


def print_items(items: Sequence[Item], columns: Mapping[str, Callable[[Item], str]], numeric: Iterable[str] = ()) -> None:
    """Write one row for each of `items`; `columns`: heading -> function that returns the text of an item."""
    print_columns(list(columns), [[text(item) for text in columns.values()] for item in items], numeric)


def print_table(table: Table[Any], out: Console) -> None:
    """Write `table` fitted to `out`, and name the columns that only a wider terminal would show."""
    from planner.present.lines.text_table import fitted

    fit = fitted(table, out.width)
    print_fitted(fit, [STYLES[table.style(item)] for item in table.items], out)
    print_left_out([column.title for column in fit.left_out])


def print_fitted(table: TextTable, styles: Sequence[str], out: Console) -> None:
    """Write the lines of `table`, each row in its style."""
    from rich.text import Text

    lines = [Text(table.head(), style="bold")]
    lines += [Text(line, style=style) for row, style in zip(table.rows(), styles, strict=True) for line in row]
    out.print(Text("\n").join(lines), soft_wrap=True)


def print_left_out(titles: Sequence[str]) -> None:
    """Name the columns that a wider terminal would show, on stderr."""
    if titles:
        sys.stdout.flush()
        say(f"a wider terminal also shows: {', '.join(titles)}")


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Write a title, then each fact with a value on a line."""
    print(one_line(title))
    known = {one_line(name): one_line(text) for name, text in facts.items() if text}
    widest = max(map(len, known), default=0)
    for name, text in known.items():
        print(f"  {name:<{widest}}  {text}")
