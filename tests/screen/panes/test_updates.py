"""Updates of a part of the screen: nothing is missed, nothing beside it is asked, and what a key moves comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.drawing.updates import LeanCompositor
from widgets.panes.frame import Frame
from widgets.panes.workload.form import Form

render_update, render_full_update = LeanCompositor.render_update, LeanCompositor.render_full_update
Drawn = list[list[tuple[int, int, str]]]
"""Updates, each as the row, the first cell and the text of what is drawn."""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Every update so far."""
    updates: Drawn = []

    def kept(compositor: LeanCompositor, *given: Any, **named: Any) -> Any:
        update = render_update(compositor, *given, **named)
        if isinstance(update, ChopsUpdate):
            updates.append(list(pieces(update)))
        elif isinstance(update, LayoutUpdate):
            updates.append([(row, 0, text_of(strips)) for row, strips in enumerate(update.strips)])
        return update

    monkeypatch.setattr(LeanCompositor, "render_update", kept)
    monkeypatch.setattr(LeanCompositor, "render_full_update", render_full_update)
    return updates


def text_of(strips: Any) -> str:
    return "".join(segment.text for strip in strips for segment in strip)


def pieces(update: ChopsUpdate) -> Any:
    for row, first, end in update.spans:
        for last, (cell, strip) in zip(update.chop_ends[row], update.chops[row].items(), strict=False):
            if cell < end and last > first:
                assert isinstance(strip, Strip), "a part of what changed was left out"
                yield row, cell, text_of([strip])[: min(end, last) - cell]


def as_seen(updates: Drawn, width: int, height: int) -> list[str]:
    """The screen that a terminal shows after all updates."""
    rows = [" " * width for _ in range(height)]
    for row, cell, text in (piece for update in updates for piece in update):
        rows[row] = rows[row][:cell] + text + rows[row][cell + len(text) :]
    return rows


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.thorough), (160, 45)])
async def test_the_screen_after_parts_of_it_were_drawn_is_the_one_that_textual_draws(
    tmp_path: Path, drawn: Drawn, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for key in (
            "down",
            "down",
            "space",
            "l",
            "s",
            "z",
            "z",
            "1",
            "down",
            "3",
            "escape",
            "slash",
            "escape",
            "c",
            "escape",
            "G",
            "?",
        ):
            await pilot.press(key)
            await settle(pilot)
            with monkeypatch.context() as patch:
                patch.setattr(LeanCompositor, "_get_renders", Compositor._get_renders)
                whole = [text_of([strip]) for strip in app.screen._compositor.render_strips()]
            assert as_seen(drawn, *size) == whole, key


async def test_boxes_behind_their_panes_are_not_drawn_and_frames_are_as_textual_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = PlannerApp(sample_options(tmp_path))
    asked: set[str | None] = set()
    render_lines = Widget.render_lines

    def noted(widget: Widget, crop: Region) -> list[Strip]:
        asked.add(widget.id)
        return render_lines(widget, crop)

    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        monkeypatch.setattr(Widget, "render_lines", noted)
        app.screen._compositor.render_strips()
        assert {"workload", "ranking", "memory", "why", "table", "headline", "key-line"} <= asked
        assert not {"_default", "body", "main", "top", "side"} & asked
        for classes in ("", "-lit"):
            for frame in app.screen.query(Frame):
                frame.set_class(bool(classes), "-lit")
                whole = Region(0, 0, *frame.outer_size)
                assert frame.render_lines(whole) == StylesCache().render_widget(frame, whole), frame.id


async def test_a_key_draws_its_row_first_and_asks_no_pane_that_stays(
    tmp_path: Path, drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        drawn.clear()
        asked: set[Widget] = set()
        render_lines = Widget.render_lines

        def noted(widget: Widget, crop: Region) -> list[Strip]:
            asked.add(widget)
            return render_lines(widget, crop)

        monkeypatch.setattr(Widget, "render_lines", noted)
        await pilot.press("down")
        await settle(pilot)
        table: Region = app.table.region
        assert {row for row, _, _ in drawn[0]} == {table.y + 1, table.y + 2}, "the rows that the cursor left and came to"
        assert len(drawn) > 1, "the reason and the memory of the row follow"
        form = app.main.query_one(Form)
        assert app.table in asked
        assert not [widget for widget in asked if widget in form.walk_children()]
