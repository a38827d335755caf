"""Keys typed before the box that they are meant for is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.omnibox.screen import OmniScreen


@pytest.mark.parametrize("first", ["", "1"])
async def test_what_is_typed_behind_the_colon_at_once_is_in_the_box(tmp_path: Path, first: str) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in (*first, ":", *"deadline"):
            app.post_message(events.Key("colon" if key == ":" else key, key))
        await settle(pilot)
        assert isinstance(app.screen, OmniScreen)
        assert app.screen.query_one(Input).value == "deadline"


async def test_a_filter_typed_at_once_is_no_row_of_commands(tmp_path: Path) -> None:
    """'a' of 'aws' would open what to change, and '4' of 'l4' go to another pane."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in ("/", *"l4 aws"):
            app.post_message(events.Key({"/": "slash", " ": "space"}.get(key, key), key))
        await settle(pilot)
        assert app.screen is app.main
        assert isinstance(app.focused, Input)
        assert app.focused.value == "l4 aws"
