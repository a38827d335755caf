"""A text that is drawn often: it asks for a new layout only when it has another number of lines."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class Lines(Static):
    """Lines folded to the width there is, as high as they are many."""

    _count = 0

    def show(self, lines: Sequence[Content], least: int = 0) -> None:
        """Draw these lines, and blank ones below them up to `least`: as long as all fit a pane of that height nothing else is laid out."""
        whole = [*lines, *[Content("")] * (least - len(lines))]
        self.update(Content("\n").join(whole), layout=len(whole) != self._count)
        self._count = len(whole)
