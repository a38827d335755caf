"""A marker in every text of plans, presets and telemetry: no screen obeys it, and none loses its place for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

from hostile_sample import MARKER, VOCABULARY, marked
from telemetry_sample import snapshot_of
from textual.pilot import Pilot
from tui_sample import PRESET, SampleSession, sample_options, settle

from planner.errors import Problem, UserError
from planner.observe.snapshot import DeviceSnapshot, ProcessSnapshot, Snapshot
from planner.session import Session
from widgets.actions.registry import ACTIONS
from widgets.app import PlannerApp
from widgets.background.telemetry import SnapshotRead
from widgets.state.state_files import LAST_COPY

SIZE = (120, 40)
LEFT_OUT = frozenset(
    {"quit", "benchmark", "stop", "suite", "rightsize", "study", "fit", "undo", "back", "save", "export"}
    | {"basis", "refresh", "sort", "reverse", "wide", "filter", "pause"}
)
"""They leave, measure, ask what the small session has no answer for, write files, or show what is there in another order."""
UNTOUCHED = VOCABULARY - {"reason", "bottleneck"}


class HostileSample(SampleSession):
    """Every answer by a stranger."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"plan", "memory_detail", "time_detail", "levers"}:
            return found
        return lambda *given, **named: marked(found(*given, **named), UNTOUCHED)


def snapshot() -> Snapshot:
    process = ProcessSnapshot(pid=7, kind="compute", memory_bytes=1e9, name="python", command="python train.py", user="me")
    gpu = DeviceSnapshot(index=0, uuid="GPU-1", name="NVIDIA L40S", state="ok", processes=(process,), memory_used_bytes=1e9)
    return marked(snapshot_of(1.0, gpu), frozenset({"state", "nvml_state", "taken_at"}))


def shown(app: PlannerApp) -> str:
    """Every character on the screen."""
    svg = app.export_screenshot()
    return "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314  # our own drawing


def copied(folder: Path) -> str:
    """What was sent to the clipboard."""
    kept = folder / "state" / LAST_COPY
    return kept.read_text() if kept.exists() else ""


async def test_no_screen_obeys_a_stranger(tmp_path: Path) -> None:
    def opened() -> Session:
        session = HostileSample(tmp_path)
        path = tmp_path / "shipped" / f"{PRESET}.toml"
        path.write_text(path.read_text().replace('"Chat service, 70B"', json.dumps(f"Chat{MARKER}")))
        return cast("Session", session)

    app = PlannerApp(sample_options(tmp_path, open_session=opened))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        app.post_message(SnapshotRead(snapshot()))
        told = str(UserError(Problem(MARKER, MARKER, MARKER, (MARKER,))))
        app.notify(told, title=MARKER, severity="error", timeout=0.01)
        await pilot.pause()
        seen = {"": shown(app)}
        for action in ACTIONS:
            if action.id not in LEFT_OUT and action.scope == "app" and action.run is not None:
                await opens(pilot, action.id)
                seen[action.id] = shown(app) + copied(tmp_path)
                while len(app.screen_stack) > 1:
                    await pilot.press("escape")
                    await pilot.pause()
    assert [where for where in ("", "why", "compare", "preset", "copy") if "[red]" not in seen[where]] == []
    for where, text in seen.items():
        for sign in "\x1b\x07\x9b\u202e":
            assert sign not in text, where


async def opens(pilot: Pilot[None], action: str) -> None:
    assert isinstance(pilot.app, PlannerApp)
    pilot.app.action_act(action)
    for _ in range(3):
        await pilot.pause()
        await pilot.app.workers.wait_for_complete()
