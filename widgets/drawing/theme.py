"""Curated colours. Every theme also colours the memory components; their patterns differ as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.theme import BUILTIN_THEMES, Theme

from planner.errors import Problem, UserError, nearest_names

if TYPE_CHECKING:
    from textual.app import App

# Okabe & Ito's set, told apart with the common colour-vision deficiencies: https://jfly.uni-koeln.de/color/
STACK_DARK = {
    "stack-weights": "#56b4e9",
    "stack-gradients": "#cc79a7",
    "stack-optimizer": "#e69f00",
    "stack-activations": "#2fbf8f",
    "stack-logits": "#f0e442",
    "stack-kv-cache": "#e69f00",
    "stack-buffers": "#9aa7b5",
    "stack-overhead": "#74808f",
}
STACK_LIGHT = {
    "stack-weights": "#0072b2",
    "stack-gradients": "#a3487d",
    "stack-optimizer": "#b86e00",
    "stack-activations": "#00785a",
    "stack-logits": "#7d7400",
    "stack-kv-cache": "#b86e00",
    "stack-buffers": "#68737f",
    "stack-overhead": "#89939d",
}
STACK_ANSI = {
    "stack-weights": "ansi_blue",
    "stack-gradients": "ansi_cyan",
    "stack-optimizer": "ansi_yellow",
    "stack-activations": "ansi_green",
    "stack-logits": "ansi_bright_yellow",
    "stack-kv-cache": "ansi_yellow",
    "stack-buffers": "ansi_magenta",
    "stack-overhead": "ansi_white",
}
ANSI_DARK = {"quiet": "ansi_white"}
ANSI_LIGHT = {
    "quiet": "ansi_bright_black",
    "stack-logits": "ansi_red",  # yellow cannot be read on white
    "stack-overhead": "ansi_bright_black",
}
"""Colours that differ where the terminal's ground is dark or light."""

DEFAULT = "planner-dark"
NO_COLOUR = "ansi-dark"
"""Theme with NO_COLOR set: an ANSI theme alone emits no colour at all."""


def _bars(thumb: str, track: str) -> dict[str, str]:
    """Scroll bars that say where one is, and no more."""
    return {
        "scrollbar": thumb,
        "scrollbar-hover": thumb,
        **dict.fromkeys(("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active"), track),
    }


_OWN = (
    Theme(
        name="planner-dark",
        primary="#5aa9e6",
        secondary="#7f9cb8",
        accent="#f2a65a",
        success="#5fd38d",
        warning="#f2c14e",
        error="#f0717a",
        foreground="#d7dee8",
        background="#0f141b",
        surface="#151c25",
        panel="#1e2833",
        dark=True,
        variables={
            **STACK_DARK,
            "border": "#5aa9e6",
            "border-blurred": "#2b3947",
            "quiet": "#8796a8",
            **_bars("#33424f", "#0f141b"),
        },
    ),
    Theme(
        name="planner-light",
        primary="#1f6fb2",
        secondary="#4b6478",
        accent="#b35c00",
        success="#1d7f4b",
        warning="#8f6400",
        error="#b3261e",
        foreground="#1d2630",
        background="#fbfaf7",
        surface="#f3f1ec",
        panel="#e6e2d9",
        dark=False,
        variables={
            **STACK_LIGHT,
            "border": "#1f6fb2",
            "border-blurred": "#cfc9bd",
            "quiet": "#5f6b76",
            **_bars("#c3bdb0", "#fbfaf7"),
        },
    ),
    Theme(
        name="high-contrast",
        primary="#5cc8ff",
        secondary="#ffffff",
        accent="#ffd500",
        success="#4dff88",
        warning="#ffa64d",
        error="#ff6b6b",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1c1c1c",
        dark=True,
        variables={
            **STACK_DARK,
            "border": "#ffd500",
            "border-blurred": "#8c8c8c",
            "quiet": "#d0d0d0",
            "cursor-bar": "#005a9e",
            "scrollbar": "#b0b0b0",
        },
    ),
)

_ANSI = tuple(
    replace(
        BUILTIN_THEMES[name],
        accent=accent,
        variables={
            **BUILTIN_THEMES[name].variables,
            **STACK_ANSI,
            "border": "ansi_cyan",
            "border-blurred": "ansi_bright_black",
            **_bars("ansi_bright_black", "ansi_default"),
            **own,
        },
    )
    for name, accent, own in (("ansi-dark", "ansi_bright_magenta", ANSI_DARK), ("ansi-light", "ansi_magenta", ANSI_LIGHT))
)
"""Textual's, with frames and bars in colours that are not the terminal's ground, quiet text that can be read on it, and an accent that is
not the colour of the answer."""

_BORROWED: Mapping[str, Mapping[str, Any]] = {
    "nord": {"accent": "#b793b0", "error": "#d08d94"},
    "gruvbox": {"error": "#fb5b48"},
    "catppuccin-mocha": {},
    "tokyo-night": {},
    "rose-pine": {"secondary": "#3c8fb0"},
    "solarized-light": {
        "primary": "#1f72ac",
        "secondary": "#207a74",
        "accent": "#5f64bf",
        "success": "#677700",
        "warning": "#c24815",
        "error": "#d52825",
    },
    "catppuccin-latte": {"secondary": "#b64931", "accent": "#b74402", "success": "#317a21", "warning": "#976114"},
}
"""Textual's themes, with those of their colours lighter or darker in which text had a contrast below 4.5 on their ground, the least of WCAG 2
(https://www.w3.org/TR/WCAG22/#contrast-minimum, 2024-12-12)."""

NAMES: tuple[str, ...] = (*(theme.name for theme in _OWN), *_BORROWED, *(theme.name for theme in _ANSI))
"""Themes of the picker, our own first."""


def defaults(name: str) -> dict[str, str]:
    """Values of our own colour names for a theme that does not set them."""
    theme = BUILTIN_THEMES.get(name)
    dark = theme is None or theme.dark
    return {**(STACK_DARK if dark else STACK_LIGHT), "quiet": "#93a1b0" if dark else "#5f6b76"}


def require(name: str | None) -> None:
    """Raise `UserError` naming the nearest themes where there is not one of that name."""
    if name is not None and name not in NAMES:
        message = f"{name!r} is not a theme; choose from {', '.join(NAMES)}."
        raise UserError(Problem("--theme", "", message, nearest_names(name, NAMES)))


def register(app: App[None]) -> None:
    """Make our own themes known to the app, and Textual's in our colours."""
    legible = (replace(BUILTIN_THEMES[name], **colours) for name, colours in _BORROWED.items() if colours)
    for theme in (*_OWN, *_ANSI, *legible):
        app.register_theme(theme)


def first(*wanted: str | None, colour: bool) -> str:
    """The first wanted theme there is; without colour always the one that emits none."""
    if not colour:
        return NO_COLOUR
    return next((name for name in wanted if name in NAMES), DEFAULT)
