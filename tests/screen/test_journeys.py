"""What people come for, from the first key to the answer on the screen, on the real catalogue; the keys are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static
from tui_sample import settle

from planner.paths import presets_folder
from planner.reading import read_toml
from widgets.app import PlannerApp
from widgets.options import AppOptions
from widgets.panes.answer import AnswerLine
from widgets.screens.decisions.costs import CostScreen


class Keys:
    """Presses keys, waits for the answer, and counts."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self._pilot = pilot
        self.count = 0

    async def press(self, *keys: str) -> None:
        self.count += len(keys)
        await self._pilot.press(*keys)
        for _ in range(3):
            await settle(self._pilot)


def started(folder: Path) -> PlannerApp:
    return PlannerApp(AppOptions(state=folder / "state", config=folder / "config", telemetry=False))


def answer(app: PlannerApp) -> str:
    return str(app.main.query_one(AnswerLine).content)


async def test_journeys_and_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins where the one before ended; the next start goes on there."""
    monkeypatch.chdir(tmp_path)
    model = read_toml(next(presets_folder().glob("models/*/qwen3-8b.toml")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(model["config"]))
    app = started(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await own_model(app, pilot)
        await rent_or_buy(app, pilot)
        await what_if(app, pilot)
        await few_gpus(app, pilot)
        left = await edited(app, pilot)
        app.exit()
    app = started(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert (answer(app), app.form.workload["output_tokens"], app.active_pane, app.filter_text) == left
        assert not app.form.can_undo


async def own_model(app: PlannerApp, pilot: Pilot[None]) -> None:
    """A model of one's own, by the path of its folder or by its id on the hub, to a ranked row."""
    first, keys = answer(app), Keys(pilot)
    assert first.startswith("Rent ")
    assert "$/month" in first
    assert "sure" in first
    await keys.press("colon", *"mine", "enter")
    assert keys.count <= 25
    assert app.form.workload["model"] == "./mine"
    assert app.table.rows[0].rank == 1
    assert answer(app) != first, "a model of 8 B costs less than one of 70 B"
    assert "modified" in str(app.main.query_one("#headline", Static).content)
    await keys.press("u")
    assert answer(app) == first
    keys = Keys(pilot)
    await keys.press("colon", *"Qwen/Qwen3-8B", "enter")
    assert keys.count <= 25
    assert app.table.rows[0].rank == 1
    assert app.form.workload["model"] == "Qwen/Qwen3-8B"
    await keys.press("u")


async def rent_or_buy(app: PlannerApp, pilot: Pilot[None]) -> None:
    keys = Keys(pilot)
    await keys.press("O")
    assert keys.count <= 2
    assert isinstance(app.screen, CostScreen)
    assert "own" in str(app.screen.query_one("#text Static", Static).content)
    await pilot.press("escape")


async def what_if(app: PlannerApp, pilot: Pilot[None]) -> None:
    """A change tried by its number, with the difference it makes, and taken back."""
    first, keys = answer(app), Keys(pilot)
    await keys.press("a", "1")
    assert keys.count <= 3
    assert app.form.workload["market"] == "spot"
    assert "WHAT-IF" in answer(app)
    assert "→" in answer(app)
    await keys.press("u")
    assert answer(app) == first


async def few_gpus(app: PlannerApp, pilot: Pilot[None]) -> None:
    """Two GPUs at one provider in one market, of all candidates."""
    assert app.plan is not None
    everything, keys = app.plan.counts.fit, Keys(pilot)
    await keys.press("slash", *"l4 h1 aw sp")
    assert keys.count <= 12
    assert {row.gpu for row in app.table.rows} == {"L4", "H100 SXM5 80GB", "H100 PCIe", "H100 NVL"}
    assert {(row.offer.provider, row.offer.market) for row in app.table.rows if row.offer} == {("aws", "spot")}
    assert f"of {everything:,}" in str(app.main.query_one("#chips", Static).content)
    await keys.press("enter")
    assert app.focused is app.table


async def edited(app: PlannerApp, pilot: Pilot[None]) -> tuple[str, int, str, str]:
    """A field replaced, stepped, put back and typed anew; what is left on the screen."""
    field, keys = app.form.query_one("#field-output-tokens", Input), Keys(pilot)
    field.focus()
    await keys.press(*"300")
    assert app.form.workload["output_tokens"] == 300, "the field is selected whole, so that typing replaces it"
    await keys.press("plus")
    assert field.value == "500"
    await keys.press("ctrl+r")
    assert field.value == "200"
    await keys.press(*"250")
    return answer(app), 250, "workload", "l4 h1 aw sp"
