"""Styles and places of widgets are those that Textual finds, in fewer steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.drawing.restyling import LeanStylesheet

KEYS = (
    ("down",),
    ("1", "down", "x"),
    ("escape", "3", "z"),
    ("escape", "escape", "slash", "b"),
    ("escape", "?"),
    ("escape", "colon", "q"),
)
"""Keys that lead from one screen to the next."""


def styles_of(app: PlannerApp) -> dict[DOMNode, Any]:
    """Rules of each widget of the topmost screen, and of its parts with styles of their own."""
    return {
        node: (node._css_styles.get_rules(), {part: styles.get_rules() for part, styles in node._component_styles.items()})
        for node in app.screen.walk_children(with_self=True)
    }


async def test_every_widget_has_the_styles_that_textual_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        for keys in ((), *KEYS):
            await settle(pilot)
            await pilot.press(*keys)
            await settle(pilot)
            found = styles_of(app)
            with monkeypatch.context() as without:
                without.setattr(LeanStylesheet, "apply", Stylesheet.apply)
                app.stylesheet.update(app.screen)
            assert len(found) > 3
            assert found == styles_of(app), keys


async def test_every_widget_is_where_textual_places_it(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        for keys in ((), *KEYS):
            await settle(pilot)
            await pilot.press(*keys)
            await settle(pilot)
            compositor = app.screen._compositor
            placed, _ = compositor._arrange_root(app.screen, app.size, visible_only=False)
            assert {widget: widget.region for widget in placed} == {widget: place.region for widget, place in placed.items()}, keys


async def test_a_hidden_pane_that_changes_has_nothing_placed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        hidden = app.content.machine
        assert hidden not in app.screen._compositor.full_map
        placed: list[bool] = []
        arrange = Compositor._arrange_root

        def noted(*given: Any, **named: Any) -> Any:
            placed.append(True)
            return arrange(*given, **named)

        monkeypatch.setattr(Compositor, "_arrange_root", noted)
        hidden.refresh()
        app.table.refresh()
        await pilot.pause(0.1)
        assert app.table.size.width == 78
        assert not placed


async def test_a_widget_is_styled_once_it_is_on_a_screen_and_while_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled: list[tuple[bool, bool]] = []
    apply = LeanStylesheet.apply

    def noted(sheet: LeanStylesheet, node: DOMNode, **how: Any) -> None:
        styled.append((node.parent is not None or node is app, app.is_running))
        apply(sheet, node, **how)

    app = PlannerApp(sample_options(tmp_path))
    monkeypatch.setattr(LeanStylesheet, "apply", noted)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("1")
        await settle(pilot)
    assert len(styled) > 100
    assert set(styled) == {(True, True)}
