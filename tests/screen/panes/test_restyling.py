"""Styles and places of widgets are those that Textual finds, in fewer steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.app import ComposeResult
from textual.css.styles import Styles
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Static
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.drawing.restyling import LeanStylesheet
from widgets.textual_quirks import MendedApp

STEPS: tuple[tuple[tuple[str, ...], tuple[int, int]], ...] = (
    ((), (120, 40)),
    (("down",), (80, 24)),
    (("1", "down", "x"), (160, 45)),
    (("escape", "3", "z"), (70, 50)),
    (("escape", "escape", "slash", "b"), (100, 30)),
    (("escape", "question_mark"), (200, 12)),
    (("escape", "w"), (120, 40)),
    (("escape", "colon", "q"), (30, 24)),
)
"""Keys that lead from one screen to the next, and the size that it gets then."""


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (30, 10)])
async def test_the_first_paint_has_the_styles_that_another_styling_finds(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlannerApp, "on_mount", lambda _: None)  # the panes stay without content
    app = PlannerApp(sample_options(tmp_path, theme="ansi-dark"))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        painted = styles_of(app)
        app.screen.update_node_styles(animate=False)
        assert len(painted) == 15
        assert styles_of(app) == painted


def styles_of(app: PlannerApp) -> dict[DOMNode, Any]:
    """Rules of each widget of the topmost screen, and of its parts with styles of their own."""
    return {
        node: (node._css_styles.get_rules(), {part: styles.get_rules() for part, styles in node._component_styles.items()})
        for node in app.screen.walk_children(with_self=True)
    }


def places_of(app: PlannerApp) -> dict[Widget, Region]:
    return {widget: place.region for widget, place in app.screen._compositor.full_map.items()}


def frame(app: PlannerApp) -> list[list[tuple[str, str]]]:
    """The topmost screen, with the attributes of its text."""
    return [[(text, str(style)) for text, style, *_ in line.simplify()] for line in app.screen._compositor.render_strips()]


async def test_every_widget_has_the_styles_and_the_place_that_textual_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for keys, size in STEPS:
            await pilot.press(*keys)
            await settle(pilot)
            await pilot.resize_terminal(*size)
            await settle(pilot)
            found = styles_of(app), places_of(app), frame(app)
            with monkeypatch.context() as without:
                without.setattr(LeanStylesheet, "apply", Stylesheet.apply)
                without.setattr(LeanStylesheet, "_check_rule", Stylesheet._check_rule)
                without.setattr(LeanStylesheet, "replace_rules", Stylesheet.replace_rules)
                without.setattr(LeanStylesheet, "_process_component_classes", Stylesheet._process_component_classes)
                app.stylesheet.update(app.screen)
            app.screen._compositor._full_map_invalidated = True
            for node in found[0]:
                node.refresh()
            assert (styles_of(app), places_of(app), frame(app)) == found, (keys, size)


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


class Dimmed(MendedApp):
    """Two texts that become dim with a class: one as time passes, the other at once."""

    CSS = "Static { opacity: 100%; } #slowly { transition: opacity 60s; } .dim { opacity: 20%; }"

    def compose(self) -> ComposeResult:
        yield Static("a", id="slowly")
        yield Static("b", id="at-once")


async def test_a_style_moves_where_a_rule_says_so_and_else_is_set_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    app, given = Dimmed(), list[str]()
    async with app.run_test():
        slowly, at_once = (app.query_one(name, Static) for name in ("#slowly", "#at-once"))
        set_rule = Styles.set_rule

        def noted(styles: Styles, name: str, value: object) -> bool:
            given.extend([name] if styles.node is at_once else [])
            return set_rule(styles, name, value)

        monkeypatch.setattr(Styles, "set_rule", noted)
        at_once.add_class("dim")
        assert given == ["opacity"]
        assert at_once.styles.opacity == 0.2
        slowly.add_class("dim")
        assert app.animator.is_being_animated(slowly.styles.base, "opacity")
        assert slowly.styles.opacity > 0.9
