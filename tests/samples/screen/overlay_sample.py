"""Overlays with one scrolling text, opened by keys in the app of the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.screens.overlay import ScrolledOverlay

SIZES = [(80, 24), (120, 40), (200, 50)]


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    """The app with the sample plan; `changes` to its options."""
    return PlannerApp(sample_options(folder, **changes))


async def opened(pilot: Pilot[None], screen: type[ScrolledOverlay], *keys: str) -> str:
    """The text of the `screen` that `keys` open, without the spaces that align it."""
    await settle(pilot)
    await pilot.press(*keys)
    await settle(pilot)
    assert isinstance(pilot.app.screen, screen)
    return " ".join(str(pilot.app.screen.query_one(Static).content).split())
