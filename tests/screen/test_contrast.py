"""Text of every theme that has colours of its own, on the ground of that theme."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color
from tui_sample import sample_options

from widgets.app import PlannerApp
from widgets.drawing.styles import INK
from widgets.drawing.theme import NAMES, defaults, register

LEAST = 4.5
"""Contrast of text by WCAG 2, level AA."""


def luminance(colour: Color) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: Color, other: Color) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast(Color.parse("#000000"), Color.parse("#ffffff")) == pytest.approx(21.0)
    assert contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("ansi")])
def test_text_can_be_read_on_the_ground_of_its_theme(tmp_path: Path, name: str) -> None:
    app = PlannerApp(sample_options(tmp_path))
    register(app)
    theme = app.available_themes[name]
    variables = {**defaults(name), **theme.to_color_system().generate(), **theme.variables}
    ground = Color.parse(variables["background"])
    inks = {variable for variable, _ in INK.values() if not variable.startswith("stack-")}
    assert {ink: found for ink in inks if (found := contrast(Color.parse(variables[ink]), ground)) < LEAST} == {}
