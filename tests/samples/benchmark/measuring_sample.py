"""The sample planner with a store on disk: what tests of the benchmark pane start and wait for."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from repository import ROOT
from textual.pilot import Pilot
from tui_sample import SampleSession, sample_options, settle

from planner.hardware.catalogue.gpus import GpuCatalogue
from planner.hardware.measurements.store import Store
from widgets.app import PlannerApp
from widgets.background.benchmark_run import RunState

STAND_IN = """#!{python}
import json, sys, time
if "-c" in sys.argv:
    print(json.dumps({{"bench-probe": 1, "python": [3, 11, 0], "torch": "0", "executable": ""}}))
    raise SystemExit
sys.path.insert(0, {root!r})
from bench import protocol
from bench.channel import Channel
channel = Channel(int(sys.argv[sys.argv.index("--fd") + 1]), None)
points = [protocol.Point(id=f"copy/{{name}}", kind="copy", label=name, device="cpu", expected_s=1.0, cap_s=9.0) for name in ("memory", "cache")]
channel.send(protocol.Hello(schema=protocol.SCHEMA, method=protocol.METHOD, pid=1, device="cpu", device_name="A processor",
    machine={{"device": "A processor", "cores": 1}}, software={{"torch": "0"}}, environment={{}}))
channel.send(protocol.Plan(suite="smoke", points=tuple(points)))
for point in points:
    channel.send(protocol.Start(point=point.id))
    time.sleep(0.5)
    channel.send(protocol.Result(point=point.id, kind="copy", dtype=None, parameters={{}}, value=1e10, low=9e9, high=1.1e10, unit="B/s",
        status="ok", detail="", samples_s=(1.0, 1.0, 1.0), spread=0.1, bytes=1e10, taken_at=protocol.utc_now()))
channel.send(protocol.Bye(reason="finished"))
"""
"""An interpreter whose worker says what it would have measured of two points, a second in all."""
needs_torch = pytest.mark.usefixtures("torch_here")


class MeasuredSession(SampleSession):
    """The sample with a store on disk and no GPU of the catalogue."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = Store.open(folder / "state")
        self.gpus = GpuCatalogue(())
        self.machine = SimpleNamespace(gpus=(), devices=(), nvml_state="no driver")


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, open_session=lambda: cast("Any", MeasuredSession(folder)), suite="smoke", **changes))


def stand_in(folder: Path) -> str:
    """The path of an interpreter that measures in a second what PyTorch takes seconds to load for."""
    python = folder / "python"
    python.write_text(STAND_IN.format(python=sys.executable, root=str(ROOT)))
    python.chmod(0o755)
    return str(python)


async def opened(pilot: Pilot[None]) -> PlannerApp:
    app = pilot.app
    assert isinstance(app, PlannerApp)
    await settle(pilot)
    return app


async def until(app: PlannerApp, *states: RunState, within_s: float = 300) -> float:
    """Seconds until the run is in one of these states."""
    began = time.monotonic()
    while app.benchmark is None or app.benchmark.run.state not in states:
        assert time.monotonic() - began < within_s, app.benchmark and app.benchmark.run
        await asyncio.sleep(0.02)
    return time.monotonic() - began
