"""The terminal program on recorded telemetry: its badge, a source that falls silent, and right-sizing on screen."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from telemetry_sample import WINDOWS
from textual.pilot import Pilot
from textual.widgets import Static
from tui_sample import sample_options

from planner.session import Session
from widgets import launch
from widgets.app import PlannerApp
from widgets.options import AppOptions
from widgets.panes.machine.pane import MachineView
from widgets.screens.rightsize import RightSizeScreen


def options(folder: Path, **changes: object) -> AppOptions:
    return AppOptions(state=folder / "state", config=folder / "config", **changes)  # type: ignore[arg-type]  # the tests name the fields


def text_of(app: PlannerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).render())


async def until(pilot: Pilot[None], holds: Callable[[], bool], within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end_s, "it did not come to that"
        await pilot.pause(0.05)


async def seen(pilot: Pilot[None], selector: str, words: str, within_s: float = 60.0) -> str:
    app = pilot.app
    assert isinstance(app, PlannerApp)
    end_s = time.monotonic() + within_s
    text = ""
    while time.monotonic() < end_s:
        await pilot.pause(0.05)
        found = app.screen.query(selector)
        text = str(found.first(Static).render()) if found else ""
        if words in text:
            return text
    raise AssertionError(f"{words!r} is not in {text!r}")


async def test_a_replay_is_never_taken_for_this_machine(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, replay=WINDOWS / "bandwidth-bound-decode.jsonl"))
    async with app.run_test(size=(80, 24)) as pilot:
        text = await seen(pilot, "#machine-text", "DRAM traffic")
        assert " REPLAY bandwidth-bound-decode.jsonl " in text
        title = str(app.main.query_one("#machine").border_title)
        assert title.startswith("[4] Telemetry · REPLAY bandwidth-bound-decode.jsonl")
        assert "This machine" not in title
        assert "REPLAY" in str(app.main.query_one(MachineView).summary(80))


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.thorough), (200, 50)])
async def test_the_demonstration_is_judged_on_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    app = PlannerApp(options(tmp_path, demo=True))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: bool(app.telemetry.window) and app.plan is not None)
        await pilot.pause(1.2)
        await pilot.press("R")
        text = await seen(pilot, "#text Static", "Prices as of")
        assert "GPU 0 · H100 SXM5 80GB" in text
        assert "bound by arithmetic" in text
        assert "$/month" in text
        assert "DEMO" in str(app.screen.query_one("#box").border_title)
        room = app.screen.query_one("#text Static").content_size.width
        assert max(map(len, text.splitlines())) <= room
        await pilot.press("w")
        for _ in range(100):
            await pilot.pause(0.05)
            if "assume the workload runs there" in str(app.screen.query_one("#box").border_title):
                break
        assert "w without the workload" in str(app.screen.query_one("#box").border_subtitle)
        await pilot.press("escape")
        assert not isinstance(app.screen, RightSizeScreen)
        await pilot.press("V")
        text = await seen(pilot, "#text Static", "a now")
        assert "GPU 1 · H100 SXM5 80GB · products as bf16" in text


async def test_before_a_reading_there_is_nothing_to_judge(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.plan is not None)
        await pilot.press("R")
        assert not isinstance(app.screen, RightSizeScreen)


async def test_a_source_that_ends_or_breaks_says_so(tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    lines = (WINDOWS / "idle.jsonl").read_text().splitlines()
    short.write_text("\n".join(lines[:2]) + "\n")
    app = PlannerApp(sample_options(tmp_path, telemetry=True, replay=short))
    async with app.run_test(size=(80, 24)) as pilot:
        await seen(pilot, "#machine-text", "REPLAY short.jsonl")
        for _ in range(60):
            await pilot.pause(0.05)
            if "ended" in str(app.main.query_one("#machine").border_title):
                break
        assert "ended" in str(app.main.query_one("#machine").border_title)
    broken = PlannerApp(sample_options(tmp_path, telemetry=True, replay=tmp_path / "absent.jsonl"))
    async with broken.run_test(size=(80, 24)) as pilot:
        for _ in range(100):
            await pilot.pause(0.05)
            if "stopped" in str(broken.main.query_one("#machine").border_title):
                break
        assert "cannot be read" in str(broken.main.query_one("#machine").border_title)


async def test_without_a_gpu_the_screen_says_where_to_see_one(tmp_path: Path) -> None:
    if Session.open(state=tmp_path, config=tmp_path).machine.gpus:
        pytest.skip("this machine has a GPU")
    app = PlannerApp(options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.telemetry.window) and app.plan is not None)
        await pilot.press("R")
        assert "--demo" in await seen(pilot, "#text Static", "No GPU here")
        await asyncio.sleep(0)


def test_the_command_line_passes_recordings_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[AppOptions] = []

    def note(given: AppOptions) -> int:
        opened.append(given)
        return 0

    monkeypatch.setattr(launch, "open_app", note)
    assert launch.open_from_command_line(replay=tmp_path / "run.jsonl") == 0
    assert launch.open_from_command_line(demo=True) == 0
    assert [(one.replay, one.demo) for one in opened] == [(tmp_path / "run.jsonl", False), (None, True)]


async def test_of_two_gpus_each_has_its_number_and_no_line_is_folded(tmp_path: Path) -> None:
    lines = (WINDOWS / "idle.jsonl").read_text().splitlines()[1:3]
    older = tmp_path / "older.jsonl"
    kept = []
    for line in lines:
        reading = json.loads(line)
        for name in ("sm_active_fraction", "tensor_active_fraction", "dram_bandwidth_fraction", "sm_occupancy_fraction"):
            del reading["devices"][0][name]
        reading["devices"].append({**reading["devices"][0], "index": 1, "uuid": "GPU-1"})
        kept.append(json.dumps(reading))
    older.write_text("\n".join(kept) + "\n")
    for replay, label in ((older, "1 kernel resident 0 %"), (None, "1 SM active")):
        app = PlannerApp(sample_options(tmp_path, telemetry=True, replay=replay, demo=replay is None))
        async with app.run_test(size=(120, 40)) as pilot:
            text = await seen(pilot, "#machine-text", label)
            width = app.main.query_one("#machine-text").content_size.width
            assert [line for line in text.splitlines() if len(line.rstrip()) > width] == []
