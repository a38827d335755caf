"""What is opened comes into sight, and boxes leave nothing beside them that cannot be read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.screens.row.why import WhyScreen


@pytest.mark.parametrize(("columns", "sides"), [(100, 0), (120, 0), (123, 0), (124, 12), (160, 48)])
async def test_a_box_takes_the_strips_beside_it_where_they_are_narrow(tmp_path: Path, columns: int, sides: int) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(columns, 40)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, WhyScreen)
        assert columns - app.screen.query_one("#box").outer_size.width == sides


async def test_rows_that_are_opened_below_the_last_line_are_scrolled_into_sight(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        table, plan = app.table, app.plan
        assert plan is not None
        first = plan.rows[0]
        many = [msgspec.structs.replace(first, rank=place) for place in range(101, 105)]
        others = [msgspec.structs.replace(first, gpu=f"GPU {number}", rank=number) for number in range(1, 31)]
        table.show(msgspec.structs.replace(plan, rows=[*others, *many]))
        await pilot.pause()
        visible = table.size.height - 1
        table.action_go(30)
        await pilot.pause()
        assert table.scroll_offset.y == 31 - visible
        table.action_shift(1)
        await pilot.pause()
        assert len(table.rows) == 34
        assert table.scroll_offset.y == 34 - visible


async def test_rows_stay_where_they_are_while_another_pane_is_shown(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("j", "j", "j", "3")
        await pilot.pause()
        for width, height in ((120, 40), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
        await pilot.press("2")
        await pilot.pause()
        assert app.table.scroll_offset.y == 0
        await pilot.press("G")
        await pilot.resize_terminal(80, 18)
        await pilot.pause()
        assert app.table.scroll_offset.y > 0, "the cursor stays in sight"
