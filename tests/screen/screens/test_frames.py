"""Every screen at five sizes and in every look, character by character, with a hash of its colours.

`pytest tests/screen/screens/test_frames.py --snapshot-update` writes the frames anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest
from repository import ROOT
from rich.style import Style
from study_sample import sample_study
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from tui_sample import SampleSession, sample_options, settle

from planner.engine.answers.fit import Fit
from planner.engine.answers.study import StudyAnswer
from planner.engine.money import Costs
from planner.engine.procurement.guide import Guide
from planner.engine.study.sizes import Study
from planner.session import Session
from widgets.app import PlannerApp
from widgets.background import row_details
from widgets.state.state_files import LAST_FAULT

SIZES = ((80, 24), (100, 30), (120, 40), (160, 45), (200, 50))
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"theme": "planner-light"},
    "16 colours": {"theme": "ansi-dark"},
    "plain signs": {"ascii_only": True},
}
SCREENS: dict[str, tuple[str, ...]] = {
    "main": (),
    "why": ("enter",),
    "memory by item": ("M",),
    "time": ("T",),
    "latency against load": ("Q",),
    "what would change it": ("a",),
    "rent or buy": ("O",),
    "what it can run": ("F",),
    "guide": ("D",),
    "guide, answered": ("D", "enter"),
    "portfolio": ("L",),
    "study": ("f",),
    "compare": ("c",),
    "export": ("e",),
    "what to measure": ("B",),
    "themes": ("t",),
    "presets": ("o",),
    "box": ("colon", *"llama"),
    "models": ("n",),
    "save": ("w",),
    "keep": ("K",),
    "help": ("question_mark",),
    "tour": ("i", "enter", "enter"),
    "form": ("1",),
    "memory": ("3", "z"),
    "machine": ("4", "z"),
    "benchmark": ("5", "z"),
    "filter": ("slash", *"h100 spot x:1"),
    "why of one that does not fit": ("G", "k", "enter"),
    "memory of one that does not fit": ("M",),
    "sorted the other way, a row opened": ("g", "S", "right"),
    "every column": ("W",),
    "form with a fault": ("1", *("down",) * 6, "end", "x"),
}
"""Screen -> the keys that lead to it, one after the other in one start."""
BOXES = ("what would change it", "export", "what to measure", "themes", "presets", "box", "models", "save", "keep", "tour")
"""Boxes of a width of their own, which wider screens do not change."""
OVERLAYS = ("why", "memory by item", "time", "latency against load", "rent or buy", "what it can run", "guide", "guide, answered",
    "portfolio", "study", "compare", "help", "why of one that does not fit", "memory of one that does not fit")  # fmt: skip
"""Boxes as wide as their text wants; between the sizes that differ most nothing else is tried."""
COLOURED = ("main", "why", "memory by item", "time", "study", "form", "memory", "machine")
"""Screens with colours of their own; the others have those of any text."""
FITTED_ONCE = ("filter",)
"""What a line says there depends on the width at which it was typed."""
GROUPS = 3
"""Starts that share the screens, so that several processes can try them."""


Record = TypeVar("Record")


class FrameSession(SampleSession):
    """Answers that were recorded once, so that prices and measurements of tomorrow change no frame."""

    def costs(self, *_asked: object, **_terms: object) -> Costs:  # type: ignore[override]  # the sample knows none
        return recorded("costs", Costs)

    def fit(self, *_asked: object, **_terms: object) -> Fit:
        return recorded("fit", Fit)

    def guide(self, *_asked: object, **_terms: object) -> Any:
        return type("Guided", (), {"guide": recorded("guide", Guide)})

    def study(self, study: Study, *, prices: str) -> StudyAnswer:
        return sample_study(study.axis, prices, study.depth_law, study.vocabulary)


def recorded(name: str, kind: type[Record]) -> Record:
    return msgspec.json.decode((ROOT / f"tests/samples/screen/answers/{name}.json").read_bytes(), type=kind)


@pytest.fixture(autouse=True)
def _nothing_is_found_out_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_details, "QUIET_S", 1000.0)


@pytest.fixture(autouse=True)
def _drawn_by_the_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`frame` draws all of the screen; what it draws of itself is thrown away without a terminal."""
    monkeypatch.setattr(Compositor, "render_update", lambda *_given, **_named: None)


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, open_session=lambda: cast("Session", FrameSession(folder)), **changes))


async def out(app: PlannerApp, pilot: Pilot[None]) -> None:
    """Back to the ranking among the panes; a frame of a fault that was survived is not one of its screen."""
    assert app.options.state is not None
    assert not (app.options.state / LAST_FAULT).exists(), (app.options.state / LAST_FAULT).read_text()
    for _ in range(6):
        if app.screen is app.main and app.active_pane == "ranking" and not app.zoomed and not app.filter_text:
            return
        await pilot.press("escape")
        await settle(pilot)
    raise AssertionError(f"still on {app.screen}, {app.active_pane}")


def strips(app: PlannerApp) -> list[Strip]:
    """The topmost screen; of one that lies over the panes its box."""
    lines = app.screen._compositor.render_strips()
    box: Widget | None = next(iter(app.screen.query(".box")), None) if app.screen is not app.main else None
    if box is None:
        return lines
    left, top, width, height = box.region
    return [line.crop(left, left + width) for line in lines[top : top + height]]


def colours(lines: Sequence[Strip]) -> str:
    """Eight letters for which style begins where, line by line."""
    found = hashlib.blake2b(digest_size=4)
    for line in lines:
        for text, style, *_ in line.simplify():
            found.update(f"{len(text)} {look(style)}".encode())
    return found.hexdigest()


@cache
def look(style: Style | None) -> str:
    """Visible attributes of a style."""
    return str((style.color, style.bgcolor, style.bold, style.dim, style.italic, style.underline, style.reverse) if style else ())


def frame(app: PlannerApp) -> str:
    drawn = strips(app)
    return "\n".join([*(line.text.rstrip() for line in drawn), colours(drawn)])


async def still(app: PlannerApp, pilot: Pilot[None]) -> str:
    """The screen once it is the same twice: what a change of size brings is painted a little later."""
    before, now = "", frame(app)
    while now != before:
        await pilot.pause(0.02)
        before, now = now, frame(app)
    return now


async def looks_as(wanted: Any, app: PlannerApp, pilot: Pilot[None]) -> bool:
    """True if the screen looks as it did, now or once it is still."""
    if not wanted.session.update_snapshots and frame(app) == wanted:
        return True
    return bool(await still(app, pilot) == wanted)


async def resized_again(pilot: Pilot[None], width: int, height: int) -> None:
    """Another change of size: on a loaded machine colours now and then stay those of the size before; it is not known why."""
    for size in (SIZES[1] if (width, height) == SIZES[0] else SIZES[0], (width, height)):
        await pilot.resize_terminal(*size)
        await pilot.pause()


async def resized(app: PlannerApp, pilot: Pilot[None], width: int, height: int) -> None:
    """The terminal at this size."""
    if app.size != (width, height):
        await pilot.resize_terminal(width, height)
        await pilot.pause()


def names_of(group: int) -> Sequence[str]:
    """The screens that one start opens."""
    return list(SCREENS)[group * len(SCREENS) // GROUPS : (group + 1) * len(SCREENS) // GROUPS]


def sizes_of(name: str) -> Sequence[tuple[int, int]]:
    return SIZES[:3:2] if name in BOXES else SIZES[::2] if name in OVERLAYS else SIZES


@pytest.mark.parametrize("group", range(GROUPS))
async def test_every_screen_looks_as_it_did_at_five_sizes(tmp_path: Path, snapshot: Any, group: int) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=SIZES[0]) as pilot:
        await settle(pilot)
        for name in names_of(group):
            if name in FITTED_ONCE:
                await resized(app, pilot, *SIZES[0])
            await pilot.press(*SCREENS[name])
            await settle(pilot)
            for width, height in sorted(sizes_of(name), reverse=app.size != SIZES[0]):  # on from the size before
                await resized(app, pilot, width, height)
                if not await looks_as(snapshot(name=f"{name}, {width}×{height}"), app, pilot):
                    await resized_again(pilot, width, height)
                    await looks_as(snapshot(name=f"{name}, {width}×{height}"), app, pilot)
                    assert frame(app) == snapshot(name=f"{name}, {width}×{height}")
            await out(app, pilot)


@pytest.mark.parametrize("look", LOOKS)
async def test_every_look_is_as_it_was(tmp_path: Path, snapshot: Any, look: str) -> None:
    app = app_in(tmp_path, **LOOKS[look])
    async with app.run_test(size=SIZES[0]) as pilot:
        await settle(pilot)
        for name in SCREENS if look == "plain signs" else COLOURED:
            await pilot.press(*SCREENS[name])
            await settle(pilot)
            assert "\n".join(line.text for line in strips(app)).isascii() or look != "plain signs", name
            if not await looks_as(snapshot(name=f"{name}, {look}"), app, pilot):
                await resized_again(pilot, *SIZES[0])
                await looks_as(snapshot(name=f"{name}, {look}"), app, pilot)
                assert frame(app) == snapshot(name=f"{name}, {look}")
            await out(app, pilot)


@pytest.mark.thorough
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("look", LOOKS)
async def test_every_look_is_as_it_was_at_five_sizes(tmp_path: Path, snapshot: Any, look: str, group: int) -> None:
    """A hash for each screen and size: the characters in the dark look are in the frames above."""
    app = app_in(tmp_path, **LOOKS[look])
    async with app.run_test(size=SIZES[0]) as pilot:
        await settle(pilot)
        for name in names_of(group):
            await pilot.press(*SCREENS[name])
            await settle(pilot)
            for width, height in sizes_of(name):
                await resized(app, pilot, width, height)
                wanted = snapshot(name=f"{name}, {look}, {width}×{height}")
                if short(await still(app, pilot)) != wanted:
                    await resized_again(pilot, width, height)
                    assert short(await still(app, pilot)) == wanted
                assert frame(app).isascii() or look != "plain signs", f"{name}, {width}×{height}"
            await pilot.resize_terminal(*SIZES[0])
            await out(app, pilot)


def short(frame: str) -> str:
    return hashlib.blake2b(frame.encode(), digest_size=4).hexdigest()
