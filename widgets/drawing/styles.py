"""Styles for what is drawn line by line, taken from the theme's variables.

A widget that draws itself would otherwise carry a component class for every colour, and each costs time at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual.color import Color

if TYPE_CHECKING:
    from textual.app import App

INK: Mapping[str, tuple[str, str]] = {
    "header": ("quiet", "bold"),
    "sorted": ("accent", "bold"),
    "figure": ("foreground", ""),
    "label": ("foreground", ""),
    "quiet": ("quiet", ""),
    "free": ("quiet", ""),
    "name": ("foreground", "bold"),
    "here": ("accent", "bold"),
    "limit": ("secondary", ""),
    "fits": ("success", ""),
    "tight": ("warning", ""),
    "may-not-fit": ("warning", ""),
    "misses-target": ("warning", ""),
    "does-not-fit": ("error", ""),
    "not-supported": ("quiet", ""),
    "measured": ("success", ""),
    "transferred": ("success", ""),
    "public": ("primary", ""),
    "spec": ("quiet", ""),
    "reason": ("quiet", "italic"),
    "stale": ("quiet", "dim"),
    "headroom": ("warning", ""),
    "over": ("error", "bold"),
    "weights": ("stack-weights", ""),
    "gradients": ("stack-gradients", ""),
    "optimizer": ("stack-optimizer", ""),
    "activations": ("stack-activations", ""),
    "logits": ("stack-logits", ""),
    "kv_cache": ("stack-kv-cache", ""),
    "buffers": ("stack-buffers", ""),
    "overhead": ("stack-overhead", ""),
}
"""Name -> theme variable of its colour, and its text style."""
CURSOR, CURSOR_AWAY = 0.32, 0.16
"""Share of the primary colour in the bar under the cursor, with and without the focus."""


class ThemeStyles:
    """Styles of one theme."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._styles: dict[str, Style] = {}

    def of(self, app: App[Any]) -> ThemeStyles:
        """Styles of the theme the app has now."""
        return self if app.theme_variables is self._variables else ThemeStyles(app.theme_variables)

    def __call__(self, name: str) -> Style:
        """Text style of this name, without a background."""
        style = self._styles.get(name)
        if style is None:
            variable, text_style = INK[name]
            colour = Color.parse(self._variables[variable])
            style = Style.parse(text_style) + Style(color=colour.rich_color)
            self._styles[name] = style
        return style

    def cursor(self, *, focused: bool) -> Style:
        """Bar under the cursor."""
        primary, ground = Color.parse(self._variables["primary"]), Color.parse(self._variables["background"])
        if primary.ansi is not None or ground.ansi is not None:
            return Style(reverse=focused, bold=True, underline=not focused)
        bar = self._variables.get("cursor-bar")
        lit = Color.parse(bar) if bar is not None else ground.blend(primary, CURSOR)
        return Style(bgcolor=(lit if focused else ground.blend(lit, CURSOR_AWAY / CURSOR)).rich_color, bold=focused)

    def band(self) -> Style:
        """Background of a heading."""
        surface = Color.parse(self._variables["surface"])
        return Style() if surface.ansi is not None or not surface.a else Style(bgcolor=surface.rich_color)
