"""Choosing what to measure: the suites with their times on screen, and the products of the model in the form."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from measuring_sample import MeasuredSession, needs_torch, opened, until
from repository import RunPlanner
from textual.content import Content
from textual.widgets import OptionList
from tui_sample import sample_options

from bench.protocol import PROMISED_S
from planner.observe.benchmark.worker import product_options
from planner.session import Session
from planner.workload.architecture import Architecture
from widgets.app import PlannerApp
from widgets.background.benchmark import suites
from widgets.screens.picker import PickerScreen


class ModelSession(MeasuredSession):
    """The sample with the architectures of the catalogue."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._whole = Session.open(state=folder / "state", config=folder / "config")

    def architecture(self, model: str, where: str = "") -> Architecture:
        return self._whole.architecture(model, where)


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, open_session=lambda: cast("Any", ModelSession(folder)), suite="quick", **changes))


async def test_the_chooser_names_the_suites_and_what_they_take(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("B")
        await pilot.pause()
        assert isinstance(app.screen, PickerScreen)
        listing = app.screen.query_one(OptionList)
        prompts = [listing.get_option_at_index(place).prompt for place in range(listing.option_count)]
        lines = [prompt.plain for prompt in prompts if isinstance(prompt, Content)]
        assert [line.split()[0] for line in lines] == list(PROMISED_S) == ["quick", "standard", "study"]
        assert ["90 s" in lines[0], "10 min" in lines[1], "15 min" in lines[2]] == [True] * 3
        assert "llama-3.1-70b" in lines[0]
        assert "llama-3.1-70b" not in lines[2]
        await pilot.press("escape")
        await pilot.pause()
        assert app.benchmark is not None
        assert app.benchmark.run.state == "idle"


def test_the_chooser_says_no_model_where_the_form_has_none() -> None:
    assert next(item.detail for item in suites(None)) == "ceilings, a training step"
    assert next(item.detail for item in suites({"model_type": "qwen3"})) == "ceilings, a training step, your model"


@needs_torch
@pytest.mark.measuring
async def test_the_suite_chosen_is_measured_with_the_products_of_the_form(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("B")
        await pilot.pause()
        await pilot.press(*"standard", "enter")
        await until(app, "running")
        measuring = app.benchmark
        assert measuring is not None
        for _ in range(600):
            if measuring.run.points:
                break
            await asyncio.sleep(0.1)
        ids = {point.id for point in measuring.run.points}
        # of Llama 3.1 70B: 64 query and 8 key heads of 128, 8192 wide, 28672 in the feed-forward layer
        assert {"gemm/bf16/2048x28672x8192", "gemm/bf16/16x1024x8192", "memory/context", "attention/bf16/1x16:8x1024x128"} <= ids
        assert measuring.run.subject.startswith("standard")
        await pilot.press("B")
        await pilot.pause()
        assert not isinstance(app.screen, PickerScreen)
        await pilot.press("x")
        await until(app, "stopped")


def test_on_a_cpu_quick_leaves_out_products_that_take_longest_to_make(torch: ModuleType) -> None:
    from bench.machine.environment import find_device
    from bench.suite import QUICK_CAP_S, SuiteOptions, jobs

    options = SuiteOptions(shapes=((2048, 28672, 8192), (16, 1024, 8192)))
    found = {job.point.id: job.point for job in jobs("quick", find_device("cpu"), options)}
    assert "gemm/bf16/2048x28672x8192" not in found
    assert found["gemm/bf16/16x1024x8192"].cap_s == QUICK_CAP_S
    assert "gemm/bf16/2048x28672x8192" in {job.point.id for job in jobs("standard", find_device("cpu"), options)}


@needs_torch
@pytest.mark.measuring
def test_a_preset_adds_the_products_of_its_model(planner_process: RunPlanner, torch: ModuleType) -> None:
    from bench.machine.environment import find_device
    from bench.suite import jobs

    done = planner_process(
        "bench", "--suite", "quick", "--device", "cpu", "--preset", "qwen3-study-small", "--json", "--cap", "1", timeout_s=300
    )
    said = done.stderr.partition("points of suite")[0].rsplit(":", 1)[1]
    assert int(said) > len({job.point.id for job in jobs("quick", find_device("cpu"))})
    assert all(json.loads(line)["telemetry"]["poll_hz"] == 0 for line in done.stdout.splitlines())


def test_a_model_is_named_once(run_planner: RunPlanner) -> None:
    both = run_planner("bench", "--preset", "x", "--model", "qwen3-8b")
    assert both.returncode == 2
    assert "both name a model" in both.stderr
    study = run_planner("bench", "--suite", "study", "--preset", "x")
    assert study.returncode == 2
    assert "--preset applies only to the suites quick and standard" in study.stderr


def test_the_worker_is_told_every_product_once() -> None:
    from planner.paths import presets_folder
    from planner.workload.huggingface.config import read_architecture
    from planner.workload.models import ModelShelf

    told = product_options(read_architecture(ModelShelf(presets_folder() / "models").config("llama-3.1-8b")))
    assert told[0] == "--shapes"
    assert "2048x14336x4096" in told
    assert len(set(told)) == len(told)
