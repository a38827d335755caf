"""The sample planner with a store on disk: what tests of the benchmark pane start and wait for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from tui_sample import SampleSession, sample_options, settle

from planner.hardware.catalogue.gpus import GpuCatalogue
from planner.hardware.measurements.store import Store
from widgets.app import PlannerApp
from widgets.background.benchmark_run import RunState

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
