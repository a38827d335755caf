"""Twelve things people come for, from the first key to the answer on the screen, on the real catalogue; the keys are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static
from tui_sample import settle

from planner.paths import presets_folder
from planner.reading import read_toml
from widgets.app import PlannerApp
from widgets.background import row_details
from widgets.options import AppOptions
from widgets.panes.answer import AnswerLine
from widgets.screens.decisions.costs import CostScreen
from widgets.screens.decisions.fit import FitScreen
from widgets.screens.help import HelpScreen
from widgets.screens.row.compare import CompareScreen
from widgets.screens.row.why import WhyScreen


class Journey:
    """Presses keys, waits for what they lead to, and counts: more keys than `most` are too many."""

    def __init__(self, pilot: Pilot[None], most: int) -> None:
        self._pilot = pilot
        self._left = most

    async def press(self, *keys: str, until: Callable[[], bool] = lambda: True) -> None:
        """Press `keys`, and wait for `until`: what else goes on behind it is not waited for."""
        self._left -= len(keys)
        assert self._left >= 0, f"{-self._left} keys too many"
        await self._pilot.press(*keys)
        await seen(self._pilot, until)


async def seen(pilot: Pilot[None], what: Callable[[], bool]) -> None:
    """Wait until `what` is so, and is drawn."""
    for _ in range(2000):
        if what():
            break
        await pilot.pause(0.01)
    assert what()
    await pilot.pause()


@pytest.fixture(autouse=True)
def _nothing_is_found_out_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_details, "QUIET_S", 1000.0)


def started(folder: Path) -> PlannerApp:
    return PlannerApp(AppOptions(state=folder / "state", config=folder / "config", telemetry=False))


def planned(app: PlannerApp) -> bool:
    """True if the form as it stands is planned, with the answer on the screen."""
    return app.planned[0] == app.form.workload


def opened(app: PlannerApp, screen: type[Screen[Any]], text: str = "") -> Callable[[], bool]:
    """True if such a screen lies over the panes, with this text in its lines."""
    return lambda: (
        isinstance(app.screen, screen)
        and text in "".join(str(line.content) for line in app.screen.query("#text Static").results(Static))
    )


def answer(app: PlannerApp) -> str:
    return text_of(app, AnswerLine)


def text_of(app: PlannerApp, what: type[Static] | str) -> str:
    """The text of a line or a box on the topmost screen."""
    found = app.screen.query_one(what, Static) if isinstance(what, str) else app.screen.query_one(what)
    return str(found.content)


@pytest.mark.usefixtures("fewer_models")
async def test_twelve_journeys_and_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins where the one before ended; the next start goes on there."""
    monkeypatch.chdir(tmp_path)
    model = read_toml(next(presets_folder().glob("models/*/qwen3-8b.toml")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(model["config"]))
    app = started(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await own_model(app, pilot)
        await undone_and_done_again(app, pilot)
        await why_beside_the_table(app, pilot)
        await rent_or_buy(app, pilot)
        await compared(app, pilot)
        await other_providers(app, pilot)
        await what_makes_it_fit(app, pilot)
        await what_gpus_can_serve(app, pilot)
        await help_searched(app, pilot)
        await exported(app, pilot)
        await sensible_steps(app, pilot)
        left = await few_gpus(app, pilot)
        app.exit()
    app = started(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert (answer(app), app.form.workload["output_tokens"], app.active_pane, app.filter_text) == left
        assert not app.form.history.can_undo
        await all_candidates_again(app, pilot)


async def own_model(app: PlannerApp, pilot: Pilot[None]) -> None:
    """A model of one's own, by its id on the hub or by the path of its folder, to a ranked row."""
    first, journey = answer(app), Journey(pilot, 15)
    assert first.startswith("Rent ")
    assert "$/month" in first
    assert "sure" in first
    await journey.press("colon", *"Qwen/Qwen3-8B", "enter", until=lambda: planned(app) and answer(app) != first)
    assert app.screen is app.main
    assert app.form.workload["model"] == "Qwen/Qwen3-8B"
    assert app.table.rows[0].rank == 1
    journey = Journey(pilot, 6)
    await journey.press("colon", *"mine", "enter", until=lambda: app.planned[0]["model"] == "./mine")
    assert app.table.rows[0].rank == 1
    assert "modified" in text_of(app, "#headline")


async def undone_and_done_again(app: PlannerApp, pilot: Pilot[None]) -> None:
    """A change taken back and made again by a key each, which say what they did."""
    first, journey = answer(app), Journey(pilot, 4)
    await journey.press("u", "u", until=lambda: app.planned[0]["model"] == "llama-3.1-70b" and planned(app))
    assert answer(app) != first
    assert "model" in list(app._notifications)[-1].message
    await journey.press("U", "U", until=lambda: answer(app) == first)


async def why_beside_the_table(app: PlannerApp, pilot: Pilot[None]) -> None:
    """The reasons of a row, beside it as the cursor goes, and on the whole screen."""
    journey = Journey(pilot, 2)
    await journey.press("j")
    assert app.table.highlighted is app.table.rows[1]
    assert app.table.rows[1].gpu.split()[0] in str(app.main.query_one("#why").border_title)
    await journey.press("enter", until=opened(app, WhyScreen, "Memory"))
    await pilot.press("escape")


async def rent_or_buy(app: PlannerApp, pilot: Pilot[None]) -> None:
    await Journey(pilot, 1).press("O", until=opened(app, CostScreen, "own"))
    await pilot.press("escape")


async def compared(app: PlannerApp, pilot: Pilot[None]) -> None:
    """Two rows side by side."""
    await Journey(pilot, 4).press("g", "space", "space", "c", until=opened(app, CompareScreen))
    assert isinstance(app.screen, CompareScreen)
    assert {row.rank for row in app.screen._rows} == {row.rank for row in app.table.marked}
    await pilot.press("escape", "g", "space", "space", "g")


async def other_providers(app: PlannerApp, pilot: Pilot[None]) -> None:
    """The first GPU at its other providers and in its other numbers."""
    first, before = app.table.rows[0], len(app.table.rows)
    await Journey(pilot, 1).press("right")
    same = app.table.rows[: len(app.table.rows) - before + 1]
    assert len(same) > 1
    assert {row.gpu for row in same} == {first.gpu}
    await pilot.press("left")


async def what_makes_it_fit(app: PlannerApp, pilot: Pilot[None]) -> None:
    """A change that would make the last row a solution tried by its number, with the difference it makes; taken back."""
    first = answer(app)
    await Journey(pilot, 3).press("G", "a", "1", until=lambda: "WHAT-IF" in answer(app))
    assert app.trial is not None
    await Journey(pilot, 1).press("u", until=lambda: answer(app) == first)


async def what_gpus_can_serve(app: PlannerApp, pilot: Pilot[None]) -> None:
    await Journey(pilot, 8).press("colon", *"8 l40s", "enter", until=opened(app, FitScreen))
    assert isinstance(app.screen, FitScreen)
    assert "8 × L40S" in app.screen.subject
    listing, before = app.screen.scrolled, dict(app.form.workload)
    await seen(pilot, lambda: listing.highlighted is not None)
    await Journey(pilot, 2).press("down", "enter", until=lambda: app.form.workload["model"] != before["model"])
    await Journey(pilot, 1).press("u", until=lambda: planned(app) and app.form.workload == before)


async def help_searched(app: PlannerApp, pilot: Pilot[None]) -> None:
    await Journey(pilot, 6).press("question_mark", "slash", *"spot", until=opened(app, HelpScreen, "Plan"))
    assert text_of(app, "#text Static").lstrip().startswith("Plan")
    await pilot.press("escape", "escape")


async def exported(app: PlannerApp, pilot: Pilot[None]) -> None:
    """The decision with its reasons in a file for others."""
    await Journey(pilot, 5).press("e", "down", "down", "down", "enter", until=lambda: any(Path.cwd().glob("*.report.md")))
    (report,) = Path.cwd().glob("*.report.md")
    assert answer(app).split(" · ")[0].split(",")[0] in report.read_text()


async def sensible_steps(app: PlannerApp, pilot: Pilot[None]) -> None:
    """More output tokens by a key each, and what the preset has again."""
    field = app.form.query_one("#field-output-tokens", Input)
    field.focus()
    journey = Journey(pilot, 6)
    await journey.press("plus", "plus", until=lambda: field.value == "500")
    await journey.press("ctrl+r", until=lambda: field.value == "200")
    await journey.press(*"250", until=lambda: planned(app))
    assert app.planned[0]["output_tokens"] == 250, "the field is selected whole, so that typing replaces it"


async def few_gpus(app: PlannerApp, pilot: Pilot[None]) -> tuple[str, int, str, str]:
    """Two GPUs at one provider in one market, of all candidates; what is left on the screen."""
    assert app.plan is not None
    everything = app.plan.counts.fit
    await pilot.press("escape")
    await Journey(pilot, 12).press(
        "slash", *"l4 h1 aw sp", until=lambda: f"of {everything:,}" in text_of(app, "#chips") and few(app)
    )
    assert {row.gpu for row in app.table.rows} == {"L4", "H100 SXM5 80GB", "H100 PCIe", "H100 NVL"}
    await pilot.press("enter")
    assert app.focused is app.table
    return answer(app), 250, "ranking", "l4 h1 aw sp"


def few(app: PlannerApp) -> bool:
    """True if every offer shown is of the one provider and market that were asked for."""
    return {(row.offer.provider, row.offer.market) for row in app.table.rows if row.offer} == {("aws", "spot")}


async def all_candidates_again(app: PlannerApp, pilot: Pilot[None]) -> None:
    assert app.plan is not None
    fewer = app.plan.counts.fit
    await Journey(pilot, 1).press("escape", until=lambda: app.plan is not None and app.plan.counts.fit > fewer)
    assert not app.filter_text


async def test_a_model_is_taken_in_the_format_it_is_published_in(tmp_path: Path) -> None:
    app = started(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await seen(pilot, lambda: app.plan is not None)
        assert app.form.workload["weight_dtype"] == "fp8"
        await pilot.press("colon", *"qwen3-8b", "enter")
        await seen(pilot, lambda: planned(app) and app.form.workload["model"] == "qwen3-8b")
        assert app.form.workload["weight_dtype"] == "fp8", "published in 16 bit"
        await pilot.press("colon", *"openai/gpt-oss-120b", "enter")
        await seen(pilot, lambda: planned(app) and app.form.workload["model"] == "openai/gpt-oss-120b")
        assert "weight_dtype" not in app.form.workload
        assert app.plan is not None
        assert app.plan.task["weight_dtype"] == "mxfp4"
        await pilot.press("u")
        await seen(pilot, lambda: (app.form.workload["model"], app.form.workload.get("weight_dtype")) == ("qwen3-8b", "fp8"))
