"""What stands on the screen agrees with itself and is whole: limits, ranges, columns, blocks of figures."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from textual.widgets import Input, Static
from tui_sample import CHAT, sample_options, sample_plan, settle

from planner.engine.answers.figure import Figure
from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.engine.answers.plan import OwnedAnswer, Plan, PlanRow
from planner.observe.snapshot import DeviceSnapshot
from planner.present.memory import memory_heading
from planner.units import GIB
from planner.workload.presets import read_workload
from widgets.app import PlannerApp
from widgets.drawing.memory_bar import MemoryBar, labels, split_cells
from widgets.drawing.symbols import UNICODE
from widgets.panes.key_line import KeyLine
from widgets.panes.machine.gpu import Drawing, block
from widgets.panes.machine.history import History, Marks
from widgets.panes.machine.levels import history_values
from widgets.panes.machine.many import HEAD, SPARK, short_head, short_lines
from widgets.panes.ranking.columns import columns_for
from widgets.panes.ranking.pane import latencies
from widgets.panes.tabs import Tabs
from widgets.panes.workload.choice import Choice
from widgets.screens.picker import Item
from widgets.screens.row.why import PageStyle, explain


def planned(**task: Any) -> Plan:
    plan = sample_plan(read_workload(tomllib.loads(CHAT), "chat"), "measured")
    return msgspec.structs.replace(plan, task={**plan.task, **task})


def stack(used_gib: float, capacity: float = 80 * GIB) -> MemoryBytes:
    """Weights alone, on a GPU of which nine tenths may be used."""
    parts = {**dict.fromkeys(MEMORY_COMPONENTS, 0.0), "weights": used_gib * GIB}
    total = Figure(used_gib * GIB, used_gib * GIB, used_gib * GIB, "spec")
    return MemoryBytes(**parts, total=total, capacity=capacity, usable_share=0.9)


@pytest.mark.parametrize(("used", "told"), [(40, "32.0 GiB left"), (76, "4.0 GiB short"), (100, "28.0 GiB short")])
def test_what_is_left_or_missing_is_of_what_may_be_used_wherever_it_is_told(used: float, told: str) -> None:
    plan = planned()
    answer = msgspec.structs.replace(plan.rows[0].answer, memory_bytes=stack(used))
    row = msgspec.structs.replace(plan.rows[0], answer=answer)
    bar = MemoryBar()
    bar.show(stack(used))
    assert told in "".join(text for *_, text in bar.legend(100))
    assert memory_heading(row).endswith(f"{used}.0 of 80.0 GiB · {told}")
    assert re.search(rf"usable +72.0 GiB   90 % of it; {told}\n", told_of(row, plan))


def told_of(row: PlanRow, plan: Plan) -> str:
    return "\n".join(line.plain for line in explain(row, plan, PageStyle(UNICODE)))


@pytest.mark.parametrize("columns", [20, 30, 60, 100, 190])
def test_the_labels_inside_a_stack_have_one_form_and_a_pattern_on_either_side(columns: int) -> None:
    parts = {**dict.fromkeys(MEMORY_COMPONENTS, 0.0), "weights": 30 * GIB, "optimizer": 15 * GIB, "kv_cache": 5 * GIB}
    memory = MemoryBytes(**parts, total=Figure(50 * GIB, 50 * GIB, 50 * GIB, "spec"), capacity=80 * GIB, usable_share=0.9)
    drawn, end = split_cells(memory, columns)
    texts = dict(labels(memory, drawn))
    assert end == columns
    assert all(len(texts[name]) <= cells - 2 for name, _, cells in drawn if name in texts)
    assert texts.pop("free", "22.0 GiB left") == "22.0 GiB left"
    assert bool(texts) == (columns > 20)
    assert len({" GiB " in text for text in texts.values()}) <= 1, "all have a size, or none"
    assert not texts or " GiB " in texts["weights"] or columns < 60
    assert all(re.match(r" (weights|optimizer|optim|KV cache) ", text) for text in texts.values())


def legend_of(width: int) -> str:
    """The legend of a fine-tuning with seven components."""
    sizes = {
        "weights": 1.9,
        "gradients": 3.7,
        "optimizer": 11.2,
        "activations": 24.6,
        "logits": 6.8,
        "buffers": 3.7,
        "overhead": 3.6,
    }
    parts = {"kv_cache": 0.0} | {name: size * GIB for name, size in sizes.items()}
    memory = MemoryBytes(**parts, total=Figure(55.5 * GIB, 50 * GIB, 60 * GIB, "spec"), capacity=79.2 * GIB, usable_share=0.9)
    bar = MemoryBar()
    bar.show(memory)
    return "".join(f"{glyph} {text}  " for _, glyph, text in bar.legend(width))


def test_components_keep_their_names_as_long_as_there_is_room() -> None:
    assert "optimizer 11.2 GiB" in legend_of(190)
    assert "optimizer 11.2  " in legend_of(150)
    assert "optimizer 11.2  " in legend_of(116)
    assert "optim 11.2" in legend_of(100)
    assert "opt 11.2" in legend_of(78)
    assert all("90 % usable" in legend_of(width) for width in (190, 150))
    assert "GiB left  " in legend_of(140), "the limit goes before it"
    assert "GiB left" not in legend_of(116), "which the title says: it goes before names are cut"
    assert all(len(legend_of(width)) <= width + 2 for width in range(76, 190))
    assert "ovh 3.6" in legend_of(76), "what is left stands in the title too; before, it was cut"
    assert len(legend_of(76)) <= 76 + 2


@pytest.mark.parametrize("width", [20, 39, 52, 53, 54, 77, 120])
@pytest.mark.parametrize("counters", [True, False])
def test_figures_of_a_gpu_never_touch_and_never_need_more_than_there_is(width: int, counters: bool) -> None:
    share = 1.0 if counters else None
    device = DeviceSnapshot(
        index=0,
        state="ok",
        name="NVIDIA B300 SXM6",
        sm_active_fraction=share,
        tensor_active_fraction=share,
        dram_bandwidth_fraction=share,
        sm_occupancy_fraction=share,
        kernel_resident_fraction=1.0,
        memory_active_fraction=1.0,
        memory_used_bytes=int(278.6 * GIB),
        memory_total_bytes=int(278.9 * GIB),
        power_w=1391.0,
        power_limit_w=1400.0,
        sm_clock_hz=1.98e9,
        temperature_c=71,
    )
    history = History()
    history.note(1.0, 1.0, history_values(device))
    lines = [str(line) for line in block(device, history, Drawing(UNICODE, width, 1.0, Marks(), recorded=False), several=True)]
    words = " ".join(lines).split()
    for word in ("278.6/278.9", "1391/1400", "1,980", "71", "memory", "power", "temperature"):
        assert word in words, (word, lines)
    if width >= 30:
        assert all(cell_len(line.rstrip()) <= width for line in lines), lines


@pytest.mark.parametrize("width", [20, 30, 39, 40, 45, 54, 59, 77])
@pytest.mark.parametrize("known", [True, False])
def test_a_line_of_many_gpus_is_one_line(width: int, known: bool) -> None:
    device = DeviceSnapshot(
        index=15,
        state="ok",
        sm_active_fraction=1.0,
        memory_used_bytes=int(278.6 * GIB) if known else None,
        memory_total_bytes=int(278.9 * GIB) if known else None,
        power_w=1391.0 if known else None,
        power_limit_w=1400.0,
        temperature_c=71 if known else None,
        health_warnings=("row remap pending",),
    )
    history = History()
    history.note(1.0, 1.0, history_values(device))
    drawing = Drawing(UNICODE, width, 1.0, Marks(), recorded=False)
    line = str(short_lines(device, history, drawing)[-1])
    assert cell_len(line) <= max(width, 26), line
    assert line.rstrip().endswith("!")
    assert "— °C" not in line
    assert cell_len(str(short_head(device, drawing))) <= width
    assert width < 30 or not line[HEAD : HEAD + SPARK - 1].strip(), "the history's: one reading is at its end"
    if 54 <= width < 59 and known:
        assert "100 %  1391/1400 W" in line, "its share rather than a history of a few seconds"
    if width >= 59 and known:
        assert "278.6/278.9 GiB" in line
        assert "1391/1400 W" in line


@pytest.mark.parametrize("width", [40, 69, 106])
def test_why_is_folded_to_its_width_and_loses_nothing(width: int) -> None:
    plan = planned()
    offer = plan.rows[0].offer
    assert offer is not None
    row = msgspec.structs.replace(plan.rows[0], offer=msgspec.structs.replace(offer, note="marketplace minimum " * 4))
    energy = Figure(1.25, 0.817, 1.91, "spec")
    row = msgspec.structs.replace(row, answer=msgspec.structs.replace(row.answer, energy_j_per_token=energy))
    lines = [line.plain for line in explain(row, plan, PageStyle(UNICODE, width))]
    text = " ".join(" ".join(lines).split())
    assert "1.25 J" in text
    assert "817 mJ to 1.91 J" in text
    assert text.count("marketplace minimum") == 4
    assert "1 GPUs" not in text
    if width >= 69:
        assert all(cell_len(line) <= width for line in lines), [line for line in lines if cell_len(line) > width]
    assert "● measured here" in text


def test_percentiles_that_were_asked_for_stand_first() -> None:
    plan = planned(targets={"p99_request_s": 6.0, "p95_request_s": 5.0})
    row = plan.rows[0]
    assert row.answer.request_s is not None
    told = msgspec.structs.replace(row.answer.request_s, p99=Figure(4.8, 4.0, 5.6, "measured"))
    row = msgspec.structs.replace(row, answer=msgspec.structs.replace(row.answer, request_s=told))
    assert latencies(row, plan) == "p99: request 4.80 s of 6.00 s   p95: request 3.90 s of 5.00 s · TTFT 480 ms"
    assert latencies(row, planned(targets={})) == "p95: request 3.90 s · TTFT 480 ms"


@pytest.mark.parametrize("note", ["", "14/22"])
async def test_the_tabs_are_whole_on_the_smallest_screen(tmp_path: Path, note: str) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(60, 18)) as pilot:
        await settle(pilot)
        tabs = app.main.query_one(Tabs)
        tabs.show("ranking", note)
        await pilot.pause()
        text = str(tabs.content)
        assert text.rstrip().endswith(f"5 Benchmark {note}".rstrip())
        assert cell_len(text) <= tabs.content_size.width


@pytest.mark.parametrize("task", ["train", "finetune", "generate", "serve", "prefill"])
def test_every_order_has_words(task: str) -> None:
    columns = columns_for(planned(task=task))
    assert {"rank", "gpu", "gpus"} < {one.id for one in columns}
    assert [one.id for one in columns if one.column.sort is not None and not one.column.sorts_by] == []


async def test_a_refusal_is_said_once_while_it_is_on_screen(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("x", "x", "x", "u")
        await pilot.pause()
        assert len([note.message for note in app._notifications]) == 2


async def test_panes_and_filter_are_there_before_the_first_plan(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        app.plan = None
        await pilot.press("1")
        await pilot.pause()
        assert app.active_pane == "workload"
        await pilot.press("escape", "slash", *"mi300")
        await pilot.pause()
        assert app.main.query_one("#filter", Input).value == "mi300"
        assert not list(app._notifications)


def test_what_is_not_supported_has_no_empty_parts() -> None:
    plan = planned()
    row = next(row for row in plan.rows if row.verdict == "not-supported")
    lines = [line.plain for line in explain(row, plan, PageStyle(UNICODE, 106))]
    assert "Speed" not in " ".join(lines)
    assert "Money" not in lines


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40)])
async def test_help_is_folded_beside_its_keys_and_scrolls_by_them(tmp_path: Path, size: tuple[int, int]) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        box = app.screen.query_one("#text")
        lines = str(app.screen.query_one(Static).content).splitlines()
        assert max(cell_len(line.rstrip()) for line in lines) <= box.scrollable_content_region.width
        assert any(line.startswith("  ×÷2.4   the same as a factor") for line in lines)
        assert any(line.startswith("  ~       fits, but misses a target") for line in lines)
        await pilot.press("j", "j")
        await pilot.pause()
        assert box.scroll_y == 2


async def test_words_of_the_screen_are_found_in_the_help(tmp_path: Path) -> None:
    """A search for 'sure' listed the keys that measure."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for word, means in (
            ("sure", "sure: the probability that"),
            ("more", "more: how many other counts"),
            ("limit", "limit: what most"),
        ):
            await pilot.press("question_mark", "slash", *word)
            await settle(pilot)
            first, second = [line.strip() for line in str(app.screen.query_one(Static).content).splitlines()][:2]
            assert first == "Words"
            assert second.startswith(means)
            await pilot.press("escape", "escape")
            await settle(pilot)


def test_why_says_what_a_row_is_sure_of() -> None:
    plan = planned()
    first = msgspec.structs.replace(plan.rows[0], probability_meets=0.52, probability_fits=0.99)
    assert "52 % sure to fit (99 %) and to meet every target, by the ranges of its figures" in told_of(first, plan)
    unknown = next(row for row in plan.rows if row.rank is None)
    assert " sure to fit" not in told_of(unknown, plan)


async def test_a_choice_left_to_the_planner_shows_what_that_took(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await app.form.unfold("dtype")
        choice = app.form.query_one("#field-dtype", Choice)
        choice.offer([Item("", "auto"), Item("bf16"), Item("fp8")], "", "bf16")
        await pilot.pause()
        assert str(choice.content).split()[:2] == ["auto:", "bf16"]
        choice.offer([Item("", "auto"), Item("bf16"), Item("fp8")], "", "transformers-of-old")
        await pilot.pause()
        assert str(choice.content).startswith("trans")
        choice.offer([Item("", "auto"), Item("bf16"), Item("fp8")], "fp8", "bf16")
        await pilot.pause()
        assert str(choice.content).split()[0] == "fp8"


async def test_a_choice_goes_to_its_ends(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        choice = app.form.query_one("#field-objective", Choice)
        choice.focus()
        before = choice.value
        await pilot.press("end")
        last = choice.value
        assert last != before
        await pilot.press("right")
        assert choice.value == before, "behind the last value comes the first"
        await pilot.press("end", "home")
        assert choice.value == before


def test_why_says_what_ones_own_gpus_cost() -> None:
    plan = planned()
    cost = OwnedAnswer(gpus=4, power_w=300.0, running_usd_per_h=1.2, depreciation_usd_per_h=8.4, words="300 W each")
    row = msgspec.structs.replace(plan.rows[0], offer=None, owned=cost, usd_per_h=Figure.exact(9.6))
    text = " ".join(" ".join(line.plain for line in explain(row, plan, PageStyle(UNICODE, 106))).split())
    assert "no rental offer" not in text
    assert "an hour 9.60 $ your own: power and place 1.20 $/h, loss in value 8.40 $/h" in text
    assert "300 W each" in text
    without = msgspec.structs.replace(row, owned=msgspec.structs.replace(cost, depreciation_usd_per_h=None))
    assert "loss in value" not in "".join(line.plain for line in explain(without, plan, PageStyle(UNICODE, 106)))


async def test_the_keys_are_those_of_the_row_under_the_cursor(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        keys = app.main.query_one(KeyLine)
        assert "M memory" in str(keys.content)
        await pilot.press("G")
        await pilot.pause()
        assert app.table.highlighted is not None
        assert app.table.highlighted.verdict == "not-supported"
        assert "M memory" not in str(keys.content)
        assert "T time" not in str(keys.content)
        await pilot.press("g")
        await pilot.pause()
        assert "M memory" in str(keys.content)
