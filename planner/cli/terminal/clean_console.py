"""Rich's console without control characters from the printed texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from planner.cli.terminal.streams import beneath
from planner.text import clean


class CleanConsole(Console):
    """A console on stdout that removes control characters from texts, but not its own styles and cursor movements."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(file=beneath(sys.stdout), width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of `renderable`, their text cleaned."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))
