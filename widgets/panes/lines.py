"""A text that is drawn often: it asks for a new layout only when it has another number of lines, or another width."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class FoldedLines(Static):
    """Lines folded to the width there is, as high as they are many."""

    _laid_out = (0, 0)
    """Number of lines and width for which a layout was asked last: at another width the lines before may have been folded."""

    def show(self, lines: Sequence[Content], least: int = 0) -> None:
        """Draw these lines, and blank ones below them up to `least`: as long as all fit a pane of that height nothing else is laid out."""
        whole = [*lines, *[Content("")] * (least - len(lines))]
        wanted = len(whole), self.size.width
        self.update(Content("\n").join(whole), layout=wanted != self._laid_out)
        self._laid_out = wanted
