"""Canvas of charts as lines of a widget."""

from __future__ import annotations

from textual.content import Content

from planner.present.drawing.plot import Plot as Canvas


class Plot(Canvas):
    """A canvas whose styles are those of Textual's markup ('$accent')."""

    def lines(self) -> list[Content]:
        """Rows from top to bottom."""
        return [Content.assemble(*runs) for runs in self.runs()]
