"""The study on screen: what it shows at every size, and what its keys do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from study_sample import sample_study
from tui_sample import SampleSession, sample_options, settle

from planner.engine.answers.study import StudyAnswer
from planner.engine.study.sizes import Study
from planner.present.drawing.chart import LogAxis
from widgets.app import PlannerApp
from widgets.drawing.plot import Plot
from widgets.screens.study import StudyScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from planner.session import Session

Compare = Callable[..., bool]
REPORT_FOLDER = {name: value for name, value in os.environ.items() if name.startswith("TEXTUAL_SNAPSHOT")}
"""Where the snapshot plugin gathers its report."""


@pytest.fixture(autouse=True)
def _report_folder(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REPORT_FOLDER.items():
        monkeypatch.setenv(name, value)


class StudySession(SampleSession):
    """Answers the sample study and remembers what was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.studied: list[tuple[Study, str]] = []

    def study(self, study: Study, *, prices: str) -> StudyAnswer:
        self.studied.append((study, prices))
        return sample_study(study.axis, prices, study.depth_law, study.vocabulary)


def study_app(folder: Path, session: StudySession | None = None, **changes: Any) -> PlannerApp:
    opened = session or StudySession(folder)
    return PlannerApp(sample_options(folder, open_session=lambda: cast("Session", opened), **changes))


async def opened(pilot: Pilot[None]) -> None:
    await settle(pilot)
    await pilot.press("f")
    await settle(pilot)


async def with_the_other_chart_of_batch(pilot: Pilot[None]) -> None:
    await opened(pilot)
    await pilot.press("a", "c")
    await settle(pilot)


def test_study_usual(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(study_app(tmp_path), terminal_size=(120, 40), run_before=opened)


def test_study_large_on_paper_white(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(study_app(tmp_path, theme="planner-light"), terminal_size=(200, 50), run_before=opened)


async def test_keys_turn_axis_prices_law_and_vocabulary(tmp_path: Path) -> None:
    session = StudySession(tmp_path)
    app = study_app(tmp_path, session)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert isinstance(app.screen, StudyScreen)
        for key in "aplv":
            await pilot.press(key)
            await settle(pilot)
        asked, prices = session.studied[-1]
        assert (asked.axis, asked.depth_law, asked.vocabulary, prices) == ("batch", "log2", 32768, "runpod-secure-2025")
        assert session.studied[0] == (Study(), "runpod-secure")
        title = str(app.screen.query_one("#study").border_title)
        assert "batch" in title
        assert "32,768" in title
        await pilot.press("escape")
        assert not isinstance(app.screen, StudyScreen)


async def test_e_writes_the_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = study_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("e")
        await pilot.pause()
    (written,) = [name for name in os.listdir(tmp_path) if name.startswith("study-width-")]  # noqa: PTH208  # the loop is over
    assert written.endswith(".svg")


async def test_ranges_change_what_is_drawn(tmp_path: Path) -> None:
    app = study_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        drawn = []
        for _ in range(6):
            drawn.append(str(app.screen.query_one("#study-charts").render()))
            await pilot.press("r")
            await settle(pilot)
        assert drawn[0] == drawn[5], "around after leader, three GPUs and none"
        assert len(set(drawn)) >= 4


def test_axis_and_ticks_are_logarithmic() -> None:
    axis = LogAxis(1.0, 10_000.0)
    assert axis.place(100.0) == pytest.approx(0.5)
    assert axis.ticks(20) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]
    assert axis.ticks(6) == [1, 10, 100, 1000, 10000]
    assert LogAxis.around([5.0]).low == pytest.approx(2.5)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_line_runs_from_corner_to_corner(ascii_only: bool) -> None:
    plot = Plot(30, 12, LogAxis(1.0, 100.0), LogAxis(1.0, 100.0), ascii_only=ascii_only)
    plot.line([(1.0, 1.0), (99.9, 99.9)], "$accent")
    rows = [line.plain for line in plot.lines()]
    assert len(rows) == 12
    assert len({len(row) for row in rows[:10]}) == 1
    assert rows[0].rstrip()[-1] not in "│|┤+"
    ink = [row[len(row) - plot.columns :] for row in rows[:10]]
    firsts = [next((place for place, sign in enumerate(row) if sign.strip()), -1) for row in ink]
    assert firsts == sorted(firsts, reverse=True), "further down, further left"
    assert all(ord(sign) < 128 for row in rows for sign in row) is ascii_only


def test_what_lies_outside_is_left_out() -> None:
    plot = Plot(30, 12, LogAxis(1.0, 10.0), LogAxis(1.0, 10.0))
    blank = [line.plain for line in plot.lines()]
    plot.mark(100.0, 5.0, "x", "$accent")
    plot.vertical(0.5, "half", "$accent")
    plot.line([(20.0, 20.0), (30.0, 30.0)], "$accent")
    assert [line.plain for line in plot.lines()] == blank
