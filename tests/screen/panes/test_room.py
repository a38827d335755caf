"""Sizes and contents of the panes for terminals of different sizes."""

from __future__ import annotations

from pathlib import Path

from rich.color import Color
from textual.widgets import OptionList, Static
from tui_sample import sample_options, settle

from planner.present.choice.trial import alternatives
from widgets.app import PlannerApp
from widgets.drawing.scroll_bar import NarrowBar, thumb
from widgets.drawing.symbols import UNICODE
from widgets.panes.frame import Frame
from widgets.panes.key_line import KeyLine
from widgets.panes.lines import FoldedLines
from widgets.screens.row.levers import LeverScreen, Proposal


async def test_the_reason_is_folded_anew_for_another_width(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(66, 24)) as pilot:
        await settle(pilot)
        reason = app.main.query_one("#reason", Static)
        assert str(reason.content).endswith("us")
        assert "$/h (" not in str(reason.content), "there is no room for the date"
        await pilot.resize_terminal(99, 30)
        await settle(pilot)
        assert str(reason.content).endswith("on-demand · us")
        assert "$/h (" in str(reason.content)


async def test_without_gpus_the_ranking_has_the_rows_of_the_panes_below_until_they_need_them(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        while app.content.machine.snapshot is None:
            await pilot.pause(0.05)
        await pilot.pause()
        snapshot = app.content.machine.snapshot
        assert snapshot is not None
        assert app.main.has_class("-quiet") is not bool(snapshot.devices)
        assert app.benchmark is not None
        app.benchmark.run.state = "running"
        app._make_room()
        assert not app.main.has_class("-quiet")


async def test_where_the_panes_below_are_a_key_away_a_line_tells_of_this_machine_and_its_pane_has_the_whole_height(
    tmp_path: Path,
) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        while not (line := str(app.content.machine_line.content)):
            await pilot.pause(0.05)
        assert "RAM" in line or "SM" in line
        height = app.main.query_one("#ranking").size.height
        await pilot.press("4")
        await pilot.pause()
        assert app.main.query_one("#machine").size.height == height


async def test_the_pane_of_this_machine_has_no_scroll_bar_left_by_a_wider_screen(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        machine = app.content.machine
        while machine.snapshot is None:
            await pilot.pause(0.05)
        for size in ((120, 40), (200, 50), (120, 40)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            machine.show(machine.snapshot)
            await settle(pilot)
            assert machine.virtual_size.height == len(str(machine.query_one(FoldedLines).content).split("\n"))


async def test_zoom_shows_every_figure_of_this_machine_on_the_smallest_screen(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, demo=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        while app.content.machine.snapshot is None:
            await pilot.pause(0.05)
        await pilot.press("4")
        await pilot.pause()
        text = app.content.machine.query_one("#machine-text", Static)
        assert "a cell" not in str(text.content), "there is no room for histories of both GPUs"
        await pilot.press("z")
        app.content.machine._draw()
        await pilot.pause()
        assert "a cell" in str(text.content)
        assert "held back by" in str(text.content)
        await pilot.press("z")
        await pilot.pause()
        assert not app.zoomed


async def test_what_the_filter_asks_for_is_told_for_the_width_there_is(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"b200 runpod on-demand", "enter")
        await settle(pilot)
        chips = app.main.query_one("#chips", Static)
        assert str(chips.content).endswith("esc shows all")
        for width in (120, 80, 200):
            await pilot.resize_terminal(width, 40)
            await settle(pilot)
            assert len(str(chips.content)) <= chips.content_size.width


async def test_without_a_row_no_pane_tells_of_the_one_before(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        memory, why = app.main.query_one("#memory", Frame), app.main.query_one("#why", Frame)
        assert "H200" in str(memory.border_title)
        assert "parameters" in str(app.main.query_one("#facts", Static).content)
        await pilot.press("slash", *"$/h<0.01", "enter")
        await settle(pilot)
        assert (str(memory.border_title), str(why.border_title)) == ("[3] Memory", "Why")
        assert (str(memory.border_subtitle), str(why.border_subtitle)) == ("", "")
        assert not str(app.main.query_one("#facts", Static).content).strip()


async def test_what_stands_below_a_pane_ends_with_a_whole_part(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, demo=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        frame = app.main.query_one("#machine", Frame)
        whole = "[ ] time · P processes · V roofline · R right-size"
        for width, told in ((120, whole), (100, whole.rpartition(" · ")[0]), (120, whole)):
            await pilot.resize_terminal(width, 40)
            await pilot.press("4")
            for _ in range(100):
                if str(frame.border_subtitle) == told:
                    break
                await pilot.pause(0.02)
            assert str(frame.border_subtitle) == told, frame.size


async def test_a_zoomed_pane_has_the_whole_screen_and_escape_gives_it_back(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(160, 45)) as pilot:
        await settle(pilot)
        for width, height in ((160, 45), (120, 40), (100, 30), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.press("3", "z")
            await pilot.pause()
            assert app.main.query_one("#memory").size.height == height - 6, "headline, answer, tabs, keys and the border"
            assert not app.content.strip.display, "it would say the same again"
            assert not app.content.machine_line.display
            await pilot.press("escape")
            assert (app.active_pane, app.zoomed) == ("memory", False)
            await pilot.press("escape")
            assert app.active_pane == "ranking"


async def test_signs_are_told_where_a_column_has_them(tmp_path: Path) -> None:
    for preset, width, told in (("chat-70b-sla", 80, True), ("study-600m", 80, False), ("study-600m", 200, True)):
        app = PlannerApp(sample_options(tmp_path / preset / str(width), preset=preset))
        async with app.run_test(size=(width, 45)) as pilot:
            await settle(pilot)
            shown = {column.id for column, _ in app.table._sideways.fitted.columns}
            assert bool(shown & {"latency", "rate"}) is told
            assert bool(app.main.query_one("#ranking").border_subtitle) is told


async def test_the_line_of_this_machine_fits_a_narrower_screen_at_once(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, demo=True))
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot)
        while not str(app.content.machine_line.content):
            await pilot.pause(0.05)
        app.telemetry.stop()
        for width in (80, 72, 66):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            assert len(str(app.content.machine_line.content)) <= width


async def test_a_line_of_keys_leaves_no_room_for_one_that_fits(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("1")
        await pilot.pause()
        assert "esc back" in text_of_keys(app)


def text_of_keys(app: PlannerApp) -> str:
    return str(app.main.query_one("#key-line", Static).content)


async def test_what_a_row_without_memory_says_ends_with_a_word(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        strip = app.content.strip
        strip.show(
            None,
            "compute capability 7.0, fp8 weights need 8.0 (Marlin kernels; 8.9 to compute in fp8), and no less than that",
        )
        assert strip.render_line(0).text.rstrip() == "compute capability 7.0, fp8 weights need 8.0, and no less than that"


async def test_changes_are_listed_by_what_they_save_once_all_are_planned(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert app.plan is not None
        tried = [one.words for one in alternatives(app.plan.task)]
        await pilot.press("a")
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, LeverScreen)
        assert all(one.effect for one in screen.changes)
        words = [one.words for one in screen.changes]
        load, output = (next(one for one in tried if one.startswith(f"twice the {what}")) for what in ("load", "output"))
        assert tried.index(load) < tried.index(output)
        assert words.index(output) < words.index(load), "of other work, what costs half stands before what costs the same"
        listing = screen.query_one(OptionList)
        listing.highlighted = 2
        screen.keep([3, 2])
        assert listing.highlighted == 1, "the cursor stays on its change"
        await pilot.press("1")
        await settle(pilot)
        assert app.trial is not None
        assert app.trial.change == words[3]


async def test_the_difference_that_a_change_makes_is_seen_whole_at_80_columns(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        row = app.table.highlighted
        assert row is not None
        changes = [
            Proposal("spot prices", {}, "5.23 → 3.86 $ for the job (-26 %)"),
            Proposal("reserved for a year", {}, "5.23 → 88,300 $ for the job (16,896×)"),
        ]
        await app.push_screen(LeverScreen(row, changes, UNICODE))
        await pilot.pause()
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "(-26 %)" in shown
        assert "(16,896×)" in shown
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "(16,896×)" in "\n".join(strip.text for strip in app.screen._compositor.render_strips()), "after a wider screen too"
        app.pop_screen()
        words = "int4 weights + up to 10 GPUs: then 10 × GH200 fits"
        await app.push_screen(LeverScreen(row, [Proposal(words, {}, "41 % faster")], UNICODE))
        await pilot.pause()
        assert f"{words}  41 % faster" in "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        app.pop_screen()
        words = "int4 weights + 10 at once instead of 20: then 8 × RTX A4000 fits, but misses: p95 6.63 s, wanted 5.00 s"
        await app.push_screen(LeverScreen(row, [Proposal(words, {}, "saves 5.8 GiB, 10 % faster")], UNICODE))
        await pilot.pause()
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "but misses" in shown
        assert "wanted 5.00 s" in shown


async def test_the_keys_in_the_border_of_this_machine_are_those_there_is_room_for(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, telemetry=True, demo=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        while app.content.machine.snapshot is None:
            await pilot.pause(0.05)
        app.telemetry.stop()
        for width, height, last in ((100, 30, "V roofline"), (120, 40, "R right-size"), (100, 30, "V roofline")):
            await pilot.resize_terminal(width, height)
            await pilot.press("4")
            await pilot.pause()
            assert str(app.main.query_one("#machine").border_subtitle).endswith(last)


async def test_texts_do_not_touch_the_scroll_bar_beside_them(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(100, 28)) as pilot:
        await settle(pilot)
        bar = app.form.vertical_scrollbar.region
        beside = [strip.text[bar.x - 1 : bar.x + 1] for strip in app.screen._compositor.render_strips()[bar.y : bar.bottom]]
        assert any(pair[0] != " " for pair in beside), "units end there"
        assert {pair[1] for pair in beside} <= set("▐▝▗"), "half a cell stays free on their side"


def test_the_rail_of_a_scroll_bar_is_not_drawn_in_the_terminals_own_ground() -> None:
    def drawn(ground: str) -> str:
        return "".join(cell.text for cell in NarrowBar.render_bar(4, 8, 4, 0, back_color=Color.parse(ground)).segments)

    assert (drawn("#101010"), drawn("default")) == ("▐▐▐▐", "▐▐  ")


def test_the_thumb_of_a_scroll_bar_is_where_one_is() -> None:
    assert thumb(10, 40, 10, 0) == (0, 5)
    assert thumb(10, 40, 10, 15) == (8, 13)
    assert thumb(10, 40, 10, 30) == (15, 20)
    assert thumb(10, 10_000, 10, 9_990) == (18, 20), "never less than a cell"
    assert thumb(10, 10, 10, 0) == (0, 0), "there is nowhere to go"


async def test_the_key_line_names_only_what_works_while_a_box_is_open(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        keys = app.main.query_one(KeyLine)
        before = str(keys.content)
        assert "what if" in before
        await pilot.press("question_mark")
        await settle(pilot)
        assert str(keys.content).split() == ["esc", "back"]
        await pilot.press("escape")
        await settle(pilot)
        assert str(keys.content) == before
