"""The memory of a row item by item: opened from anywhere, read by keys, at every size."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from overlay_sample import SIZES, app_in, opened
from textual.containers import VerticalScroll
from textual.widgets import Static
from tui_sample import FORMULAS, first_note, settle

from planner.engine.answers.plan import Lever
from planner.units import bytes_text
from widgets.app import PlannerApp
from widgets.drawing.memory_bar import MemoryBar
from widgets.drawing.symbols import UNICODE
from widgets.panes.key_line import KeyLine
from widgets.panes.ranking.pane import RankingView
from widgets.screens.help import HelpScreen
from widgets.screens.row.memory import ItemsScreen, lever_lines
from widgets.screens.row.why import WhyScreen


@pytest.mark.parametrize("size", SIZES)
async def test_every_item_with_its_formula_and_source(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=size) as pilot:
        text = await opened(pilot, ItemsScreen, "M")
        row = app.table.highlighted
        assert row is not None
        assert row.answer.memory_bytes is not None
        for component, (name, formula, source) in FORMULAS.items():
            for words in (name, formula, source):
                assert all(word in text for word in words.split()), words
            assert bytes_text(getattr(row.answer.memory_bytes, component)) in text
        for words in (
            "on the data sheet",
            "for the engine",
            "90 % of that",
            "10 % of that kept free",
            "needed 109.0 GiB",
            "left 4.2 GiB of what is usable",
        ):
            assert words in text
        assert "412 sequences fit over all replicas" in text, "not on the GPU whose memory this is"
        bar = app.screen.query_one(MemoryBar)
        assert bar.memory == row.answer.memory_bytes
        no_line_is_wider_than_the_screen(app)
        await pilot.press("escape")
        await opened(pilot, ItemsScreen, "G", "k", "M")
        no_line_is_wider_than_the_screen(app)


def no_line_is_wider_than_the_screen(app: PlannerApp) -> None:
    box = app.screen.query_one("#text", VerticalScroll)
    lines = str(app.screen.query_one(Static).content).splitlines()
    assert max(map(len, lines)) <= box.scrollable_content_region.width
    assert app.screen.query_one(Static).size.height == len(lines), "nothing is folded a second time"


async def test_keys_scroll_and_escape_closes(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, ItemsScreen, "M")
        box = app.screen.query_one("#text", VerticalScroll)
        assert box.max_scroll_y > 0
        await pilot.press("j", "j", "down")
        await pilot.pause()
        assert box.scroll_y == 3
        await pilot.press("k")
        await pilot.pause()
        assert box.scroll_y == 2
        await pilot.press("G")
        await pilot.pause()
        assert box.scroll_y == box.max_scroll_y
        await pilot.press("ctrl+u")
        await pilot.pause()
        assert 0 < box.scroll_y < box.max_scroll_y
        await pilot.press("g")
        await pilot.pause()
        assert box.scroll_y == 0
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize("keys", [("3", "enter"), ("enter", "M")])
async def test_it_opens_from_the_memory_pane_and_from_why(tmp_path: Path, keys: tuple[str, ...]) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        assert isinstance(app.screen, ItemsScreen)
        assert len(app.screen_stack) == 2


async def test_it_opens_by_a_click_on_the_bar(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.click("#stack")
        await settle(pilot)
        assert isinstance(app.screen, ItemsScreen)


async def test_a_row_without_memory_says_why(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("G", "M")
        assert "not supported" in await first_note(pilot)
        assert len(app.screen_stack) == 1


async def test_a_row_that_does_not_fit_is_told_what_would_change_it(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await opened(pilot, ItemsScreen, "G", "k", "M")
        assert "short " in text
        assert "int4 weights: then 8 × RTX 4090 fits (saves 3.2 GiB, 25 % faster, less precise)" in text
        assert "(saves 2.0 GiB, 31 % slower)" in text
        await pilot.press("escape", "enter")
        await settle(pilot)
        assert isinstance(app.screen, WhyScreen)
        why = str(app.screen.query_one(Static).content)
        assert why.index("What would change it") < why.index("Memory")
        assert "31 % slower" in why


@pytest.mark.parametrize("size", SIZES)
async def test_where_nothing_fits_the_levers_stand_below_the_table_or_beside_it(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert app.plan is not None
        levers = [Lever(change={}, text=f"change {n}: then it fits", gpu="L4", saves_bytes=2**30, slowdown=0.31) for n in range(7)]
        lost = [row for row in app.plan.rows if row.rank is None and not row.here]
        plan = msgspec.structs.replace(app.plan, rows=lost, levers=levers)
        app.content.show_row(lost[0], plan)
        await pilot.pause()
        if size[0] < 120:
            reason = app.main.query_one("#reason", Static)
            assert "→ change 0: then it fits (saves 1.0 GiB, 31 % slower)" in str(reason.content)
            assert reason.size.height >= 6
            assert app.table.size.height >= 4
            app.main.query_one(RankingView).explain(app.plan.rows[0], app.plan)
            await pilot.pause()
            assert reason.size.height <= 3
        else:
            beside = " ".join(str(app.main.query_one("#why-text", Static).content).split())
            assert "what would help 1 change 0: then it fits (saves 1.0 GiB, 31 % slower) 2 change 1" in beside
        assert ("M memory" in str(app.main.query_one(KeyLine).content)) == (size[0] >= 120)
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "Itemise the memory" in str(app.screen.query_one("#text Static", Static).content)


async def test_a_resize_fits_the_columns_again(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, ItemsScreen, "M")
        narrow = len(str(app.screen.query_one(Static).content).splitlines())
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        await pilot.pause()
        assert len(str(app.screen.query_one(Static).content).splitlines()) < narrow


async def test_products_stay_products_in_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMULAS, "kv_cache", (*FORMULAS["kv_cache"][:2], "two tensors a layer, kv_heads · head_dim a token"))
    app = app_in(tmp_path, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await opened(pilot, ItemsScreen, "M")
        assert "68,450,000,000 * 0.5312" in text
        assert "kv_heads * head_dim" in " ".join(text.split())


def test_a_lever_without_costs_is_a_plain_line() -> None:
    (line,) = lever_lines([Lever(change={}, text="fewer")], UNICODE, 60)
    assert line.plain.strip() == "→ fewer"
