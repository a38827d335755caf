"""What lies over the panes: a box in the middle, the panes dim behind it."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

Result = TypeVar("Result")


class Overlay(ModalScreen[Result]):
    """A modal screen; its look is read when the first one opens, not at the start."""

    AUTO_FOCUS = "*"

    DEFAULT_CSS = """
    Overlay {
        align: center middle;
        background: $background 60%;
        .box {
            max-width: 96%; height: auto; max-height: 92%;
            border: round $border; border-title-color: $accent; border-subtitle-color: $quiet;
            background: $surface; padding: 0 2; scrollbar-size-vertical: 1;
        }
        #picker { width: 92; max-height: 80%; padding: 0 1; }
        #picker-filter { border: none; height: 1; background: $panel; margin: 0 0 1 0; }
        #picker-list { height: auto; max-height: 24; border: none; background: $surface; padding: 0; scrollbar-size-vertical: 1; }
        .dialog { width: 66; padding: 1 2; }
        .dialog-text { margin: 0 0 1 0; }
        .dialog-hint { color: $quiet; }
        .dialog Static { link-style: none; link-color: $foreground; link-background: transparent; }
        #why, #help { width: 112; }
        #items { width: 176; }
        #advice { width: 132; scrollbar-gutter: stable; }
        #items-stack { height: 1; margin: 0 0 1 0; }
        #items-text { height: auto; max-height: 100%; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    }
    """
