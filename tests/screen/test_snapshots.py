"""What the terminal program looks like, on a fixed plan: a few pictures; screens/test_frames.py has every screen."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.background import row_details

Compare = Callable[..., bool]
REPORT_FOLDER = {name: value for name, value in os.environ.items() if name.startswith("TEXTUAL_SNAPSHOT")}
"""Where the plugin gathers its report; tests otherwise see nothing of the variables Textual reads."""


@pytest.fixture(autouse=True)
def _report_folder(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REPORT_FOLDER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(row_details, "QUIET_S", 1000.0)  # what is found out later is not in the pictures


async def with_why(pilot: Pilot[None]) -> None:
    await settle(pilot)
    await pilot.press("enter")
    await pilot.pause()


async def with_items(pilot: Pilot[None]) -> None:
    await settle(pilot)
    await pilot.press("M")
    await settle(pilot)


async def with_time(pilot: Pilot[None]) -> None:
    await settle(pilot)
    await pilot.press("T")
    await settle(pilot)


async def with_a_fault(pilot: Pilot[None]) -> None:
    await settle(pilot)
    pilot.app.query_one("#field-request-rate-per-s", Input).focus()
    await pilot.press("end", "x")
    await settle(pilot)


def test_small(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(80, 24), run_before=settle)


def test_usual(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(120, 40), run_before=settle)


def test_large(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(200, 50), run_before=settle)


def test_training_on_paper_white(snap_compare: Compare, tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, preset="study-600m", theme="planner-light"))
    assert snap_compare(app, terminal_size=(120, 40), run_before=settle)


def test_why(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(120, 40), run_before=with_why)


def test_a_fault_at_its_field_in_ascii(snap_compare: Compare, tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, ascii_only=True))
    assert snap_compare(app, terminal_size=(120, 40), run_before=with_a_fault)


def test_memory_item_by_item(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(120, 40), run_before=with_items)


def test_time_and_roofline(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(PlannerApp(sample_options(tmp_path)), terminal_size=(120, 40), run_before=with_time)


def keys(*pressed: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Press these once the plan is there."""

    async def press(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await pilot.press(*pressed)
        await settle(pilot)

    return press


PICTURES: dict[str, tuple[tuple[int, int], dict[str, Any], tuple[str, ...]]] = {
    "main-in-16-colours": ((120, 40), {"theme": "ansi-dark"}, ()),
    "main-in-ascii": ((100, 30), {"ascii_only": True}, ()),
    "main-in-high-contrast": ((160, 45), {"theme": "high-contrast"}, ()),
    "why-over-16-colours": ((80, 24), {"theme": "ansi-dark"}, ("enter",)),
}
"""Picture -> size, options, and the keys that lead to it."""


@pytest.mark.parametrize("name", PICTURES)
def test_picture(snap_compare: Compare, tmp_path: Path, name: str) -> None:
    size, options, pressed = PICTURES[name]
    assert snap_compare(PlannerApp(sample_options(tmp_path, **options)), terminal_size=size, run_before=keys(*pressed))
