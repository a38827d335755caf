"""Groups of the form: folded, opened, and what they say of their fields; lists of names in a field."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input
from tui_sample import first_note, sample_options, settle

from planner.workload.tasks import Workload
from widgets.app import PlannerApp
from widgets.panes.answer import AnswerLine
from widgets.panes.key_line import KeyLine
from widgets.panes.workload import values
from widgets.panes.workload.field_line import FieldInput, GroupLine
from widgets.panes.workload.fields import FIELDS, GROUPS, fields_for

SUPPLY = ("providers", "kinds", "countries", "regions", "certifications", "exclude", "fabric", "max_nodes")
SERVING = ("requests", "warmup_requests", "max_num_seqs", "max_num_batched_tokens", "cuda_graphs", "power_limit_w", "daily_users")


def answer(app: PlannerApp) -> str:
    return str(app.main.query_one(AnswerLine).content)


async def test_a_group_opens_by_its_heading_and_says_what_is_set_while_it_is_folded(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        heading = app.form.query_one("#group-offers", GroupLine)
        assert str(heading.content) == "▸ offers"
        assert not app.form.query("#field-providers")
        heading.focus()
        await pilot.pause()
        assert "open, fold" in str(app.main.query_one(KeyLine).content)
        await pilot.press("enter")
        await settle(pilot)
        heading = app.form.query_one("#group-offers", GroupLine)
        assert app.focused is heading
        assert str(heading.content) == "▾ offers"
        app.form.query_one("#field-providers", Input).focus()
        await pilot.press(*"runpod, aws")
        await settle(pilot)
        assert app.form.workload["providers"] == ["runpod", "aws"]
        app.form.query_one("#group-offers", GroupLine).focus()
        await pilot.press("left")
        await settle(pilot)
        assert str(app.form.query_one("#group-offers", GroupLine).content) == "▸ offers  1 set •"
        await pilot.press("u")
        await settle(pilot)
        assert "providers" not in app.form.workload
        assert str(app.form.query_one("#group-offers", GroupLine).content) == "▸ offers"


async def test_a_digit_on_a_heading_goes_to_its_pane_or_is_told_to_be_no_value(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.show_pane("workload")
        app.form.query_one("#group-load", GroupLine).focus()
        await pilot.pause()
        await pilot.press("6")
        assert "load is a heading" in await first_note(pilot)
        assert app.active_pane == "workload"
        await pilot.press("3")
        assert app.active_pane == "memory"
        assert len(app._notifications) == 1


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_up_and_down_stay_in_the_form(tmp_path: Path, size: tuple[int, int]) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        app.show_pane("workload")
        app.form.query_one("#field-preset").focus()
        await pilot.pause()
        for key, there in (
            ("up", "group-advanced"),
            ("down", "field-preset"),
            ("shift+tab", "group-advanced"),
            ("tab", "field-preset"),
        ):
            await pilot.press(key)
            assert (app.active_pane, app.focused and app.focused.id) == ("workload", there), key


async def test_what_cannot_be_read_in_a_group_is_given_up_when_it_is_folded(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.form.unfold("max_nodes")
        app.form.query_one("#field-max-nodes", Input).focus()
        await pilot.press(*"some")
        await settle(pilot)
        assert "not planned" in answer(app)
        app.form.query_one("#group-offers", GroupLine).focus()
        await pilot.press("space")
        await settle(pilot)
        assert not app.form.faults
        assert "not planned" not in answer(app)


async def test_a_field_that_is_reset_is_planned_with(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).focus()
        await pilot.press("x")
        await settle(pilot)
        assert "not planned" in answer(app)
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert "not planned" not in answer(app)
        assert not app.form.history.can_undo


async def test_prices_of_ones_own_are_typed_gpu_by_gpu(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.form.unfold("price_usd_per_gpu_h")
        app.form.query_one("#field-price-usd-per-gpu-h", Input).focus()
        await pilot.press(*"L40S 0.05, 3090 0.2")
        await settle(pilot)
        assert app.form.workload["price_usd_per_gpu_h"] == {"L40S": 0.05, "3090": 0.2}
        assert app.plan is not None
        assert app.plan.task["price_usd_per_gpu_h"] == {"L40S": 0.05, "3090": 0.2}


def test_every_field_is_a_key_of_a_workload_and_stands_in_one_group() -> None:
    keys = [field.key.partition(".")[0] for field in FIELDS]
    assert set(keys) <= set(Workload.__struct_fields__)
    assert {field.group for field in FIELDS} == set(GROUPS)
    shown = {field.key for field in fields_for({"task": "serve", "requests": 10})}
    assert {*SUPPLY, *SERVING} <= shown


def test_names_are_typed_with_commas() -> None:
    assert values.parse("names", "runpod, aws,") == ["runpod", "aws"]
    assert values.parse("names", " , ") is None
    assert values.show("names", ["runpod", "aws"]) == "runpod, aws"


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("1.8", 1.8, "1.8"),
        ("L40S 0.9, H100 SXM5 80GB 2.1", {"L40S": 0.9, "H100 SXM5 80GB": 2.1}, "L40S 0.9, H100 SXM5 80GB 2.1"),
        ("L40S=0.9,3090 = 0.2,", {"L40S": 0.9, "3090": 0.2}, "L40S 0.9, 3090 0.2"),
    ],
)
def test_prices_are_one_number_or_one_for_each_gpu(text: str, value: object, shown: str) -> None:
    assert values.parse("prices", text) == value
    assert values.show("prices", value) == shown
    assert values.parse("prices", shown) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [("L40S", "'L40S' is not a number"), ("L40S x", "'x' is not a number"), ("=2, L40S 1", "not a GPU with a price")],
)
def test_what_is_no_price_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.parse("prices", text)


async def test_keys_that_the_form_has_not_heard_of_are_not_written_over(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test() as pilot:
        await settle(pilot)
        field = app.form.query_one("#field-output-tokens", FieldInput)
        field.focus()
        await pilot.pause()
        before = field.value
        with field.prevent(Input.Changed):  # the form hears of it later
            field.value = "7"
        app.form.filled_in({})
        assert field.value == "7"
        field.hear("7")
        app.form.filled_in({})
        assert field.value == before
