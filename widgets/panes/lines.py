"""A text that is drawn often: it needs a new layout only when its number of lines or its width changes."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class FoldedLines(Static):
    """Lines folded to the width of the widget, which is as high as their number."""

    _laid_out = (0, 0)
    """Number of lines and width for which a layout was asked last: at another width the lines before may have been folded."""

    def show(self, lines: Sequence[Content], least: int = 0) -> None:
        """Draw these lines, and blank ones below them up to `least`: as long as all fit a pane of that height nothing else is laid out."""
        whole = [*lines, *[Content("")] * (least - len(lines))]
        wanted = len(whole), self.size.width
        self.update(Content("\n").join(whole), layout=wanted != self._laid_out)
        self._laid_out = wanted
