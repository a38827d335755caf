"""The command palette: it opens, finds, does, and what it lists may hold brackets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import OptionList
from tui_sample import sample_options, settle

from widgets import plain_output
from widgets.app import PlannerApp
from widgets.plain_output import plain
from widgets.screens.row.memory import ItemsScreen


async def listed(pilot: Pilot[None], first: str) -> list[str]:
    """What the open palette lists, once that begins with `first`."""
    shown: list[str] = []
    for _ in range(300):
        await pilot.pause(0.02)
        options = pilot.app.screen.query_one(OptionList)
        shown = [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]
        if shown and shown[0].startswith(first):
            return shown
    raise AssertionError(shown)


async def test_the_palette_opens_and_names_the_key_of_every_action(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p")
        shown = await listed(pilot, "Benchmark")
        assert isinstance(app.screen, CommandPalette)
        filter_entry = next(text for text in shown if text.startswith("Filter"))
        assert "/ · Narrow the search" in filter_entry
        assert app.is_running


async def test_the_palette_does_what_was_chosen(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p", *"memory")
        shown = await listed(pilot, "Memory")
        assert [text.split("\n")[0] for text in shown] == ["Memory", "Go to memory"]
        await pilot.press("enter")
        for _ in range(200):
            await pilot.pause(0.02)
            if isinstance(app.screen, ItemsScreen):
                break
        assert isinstance(app.screen, ItemsScreen)


async def test_brackets_in_what_is_said_are_no_markup(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        app.notify("models[/]: [targets] is no table", title="[/b]")
        await pilot.pause()
        assert app.is_running
        toast = next(iter(app.screen.query("Toast")))
        assert "models[/]: [targets] is no table" in str(toast.render())


async def test_a_theme_of_the_palette_is_kept_for_the_next_start(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        command = next(command for command in app.get_system_commands(app.screen) if command.title == "Theme: high-contrast")
        command.callback()
        await pilot.pause()
        assert app.theme == "high-contrast"
    state = app.options.state
    assert state is not None
    assert json.loads((state / "choices.json").read_text(encoding="utf-8"))["theme"] == "high-contrast"


async def test_in_ascii_every_sign_of_every_screen_has_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `?` stands for what has none, and a sign of two cells stays as wide."""
    drawn: set[str] = set()

    def recorded(text: str) -> str:
        drawn.update(text)
        return plain(text)

    monkeypatch.setattr(plain_output, "plain", recorded)
    app = PlannerApp(sample_options(tmp_path, ascii_only=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in ("question_mark", "enter", "M", "T", "c", "o", "e", "t", "w", "i", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause(0.05)
            app.export_screenshot()
            await pilot.press("escape")
            await pilot.pause()
    assert "…" in drawn, "the palette was drawn"
    assert {char: plain(char) for char in drawn if not char.isascii() and "?" in plain(char)} == {}
    assert all(cell_len(plain(char)) == cell_len(char) for char in drawn)


async def test_the_box_offers_to_take_only_what_can_be_taken(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        for typed, keys in (("request_rate_per_s=20000", "esc back"), ("output_tokens=300", "enter takes it · esc back")):
            await pilot.press("colon", *typed)
            await settle(pilot)
            assert str(app.screen.query_one(".box").border_subtitle) == keys, typed
            await pilot.press("escape")
