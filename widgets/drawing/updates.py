"""Updates of the screen, in five ways quicker than Textual's own; checked against 8.2.8.

- Textual draws a change at the next of sixty ticks a second. A key waited for 8 ms on average, and then for a processor again, since the
  process slept meanwhile. Here the first change after a key is drawn at once; what follows it comes together, at the tick.
- Textual asks every widget in the box around all that changed for all its lines: two changes in opposite corners draw the whole screen
  anew. Here only widgets in which something changed are asked, and for those lines.
- Textual asks widgets that others cover, too: half of all lines at the first paint are of boxes behind their panes. Here they are left out.
- Textual finds a place for every widget once more after each layout, as soon as one asks for its size, and whenever a hidden one changes.
  Here only a widget without a place that could have one leads to that.
- Textual draws a whole widget, and all within it, when what stands in its border changes. Here its first and last line are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import textual.screen
from textual import events
from textual._compositor import ChopsUpdate, Compositor, ReflowResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

Rendered = tuple[Region, Region, list[Strip]]
"""Region of a widget on the screen, the part of it in sight, and the lines of that part."""


class LeanCompositor(Compositor):
    """A compositor that renders only the parts of widgets that changed."""

    _changed: Iterable[Region] = ()
    """Regions of a partial update, while it is rendered."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Render what changed; None: nothing did."""
        self._changed = tuple(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = ()

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Find a place for every widget."""
        found = super().reflow(parent, size)
        self._full_map_invalidated = False
        return found

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Note what is to be drawn anew."""
        placed = not self._full_map_invalidated
        super().update_widgets(widgets)
        if placed:
            self._full_map_invalidated = any(widget not in self._full_map and _has_room(widget) for widget in widgets)

    def _get_renders(self, crop: Region | None = None) -> Iterator[Rendered]:
        changed = self._changed or (crop or self.size.region,)
        bare = [set(cuts[:-1]) for cuts in self.cuts]
        for widget, (region, clip) in self.visible_widgets.items():  # the front comes first
            seen = region.intersection(clip)
            parts = [one.intersection(seen) for one in changed if one.overlaps(seen)]
            if not parts:
                continue
            lines = Region.from_union(parts)
            part = Region(seen.x, lines.y, seen.width, lines.height)
            if _cover(bare, part):
                yield part, part, widget.render_lines(part.translate(-region.offset))


def _cover(bare: list[set[int]], part: Region) -> bool:
    """Take the pieces within `part` from each line's `bare` ones, those that no widget covers yet; False if there are none."""
    found = False
    for line in bare[part.y : part.bottom]:
        if taken := [start for start in line if part.x <= start < part.right]:
            line.difference_update(taken)
            found = True
    return found


def _has_room(widget: Widget) -> bool:
    """True if the widget, and all around it, is displayed."""
    return all(node.display for node in widget.ancestors_with_self)


def set_border_texts(widget: Widget, above: Content, below: Content) -> None:
    """Set the texts in the border, and draw only its two lines anew."""
    if (widget._border_title, widget._border_subtitle) == (above, below):
        return
    widget._border_title, widget._border_subtitle = above, below
    width, height = widget.outer_size
    corner = -widget.content_offset
    widget.refresh(*(Region(0, row, width, 1).translate(corner) for row in (0, height - 1) if height))


_on_idle = Screen._on_idle


async def _draw_after_key(screen: Screen[Any], event: events.Idle) -> None:
    """Draw at once what a key changed, unless widgets need a new layout, which is better done for all of them together."""
    app: Any = screen.app  # a MendedApp, which imports this
    only_drawn = screen._dirty_widgets and not (screen._layout_required or screen._repaint_required or screen._recompose_required)
    if app.key_unanswered and only_drawn and screen.is_current and not app._batch_count:
        event.prevent_default()
        app.key_unanswered = False
        screen._on_timer_update()
    else:
        await _on_idle(screen, event)


textual.screen.Compositor = LeanCompositor  # type: ignore[attr-defined]  # an import of that module, not exported
Screen._on_idle = _draw_after_key  # type: ignore[assignment, method-assign]  # replaced on purpose
