"""Values that the form offers and shows for its fields, and the explanations beside them on a wide screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input
from tui_sample import sample_options, settle

from planner.engine.job import engines
from widgets.app import PlannerApp
from widgets.panes.key_line import KeyLine
from widgets.panes.workload.choice import Choice
from widgets.panes.workload.field_line import EDITOR, GAP, LABEL, UNIT, FieldLine, cells_behind
from widgets.panes.workload.fields import FIELDS, SERVERS, TRAINERS, fields_for


def test_what_the_form_offers_is_what_the_engine_has() -> None:
    names = {name for name in engines.ENGINES if name != "generic"}
    assert set(TRAINERS) == {name for name in names if engines.ENGINES[name][0].trains}
    assert set(SERVERS) | set(TRAINERS) == names


@pytest.mark.parametrize("task", ["train", "finetune", "generate", "serve", "prefill"])
def test_what_is_typed_in_a_field_is_told_in_a_line(task: str) -> None:
    for field in fields_for({"task": task, "lora": {"rank": 8}}):
        assert len(field.label) <= 10
        assert len(field.words) in {0, len(field.choices)}
        if not field.picked:
            assert 10 < len(field.about) <= 50, field.key


async def test_a_service_is_split_in_the_form_and_the_note_says_what_a_field_is(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.form.unfold("disaggregated")
        choice = app.form.query_one("#field-disaggregated", Choice)
        assert str(choice.content).split()[0] == "no"
        choice.focus()
        await pilot.press("enter", *"yes", "enter")
        await settle(pilot)
        assert app.form.workload["disaggregated"] is True
        assert str(choice.content).split()[0] == "yes"
        await pilot.press("u")
        await settle(pilot)
        assert "disaggregated" not in app.form.workload
        app.form.query_one("#field-batch-window-s", Input).focus()
        await pilot.pause()
        assert "holds requests this long" in str(app.main.query_one(KeyLine).content)
        await pilot.press("escape")
        await pilot.pause()
        assert "holds requests" not in str(app.main.query_one(KeyLine).content)


async def test_an_empty_limit_reads_none_and_what_is_chosen_reads_auto(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.form.query_one("#field-targets-deadline-h", Input).placeholder == "none"
        assert app.form.query_one("#field-requests", Input).placeholder == "no end"
        assert app.form.query_one("#field-concurrency", Input).placeholder.startswith("auto")


NARROWEST = 75
"""Cells of the form on 80 columns."""


def test_what_a_field_takes_is_whole_on_80_columns() -> None:
    behind = cells_behind(NARROWEST)
    assert behind == NARROWEST - LABEL - 1 - EDITOR
    assert {field.key: field.about for field in FIELDS if len(field.about) > behind - 2 * GAP + 2} == {}
    assert {field.key: field.unit for field in FIELDS if len(field.unit) >= UNIT} == {}, "units begin below each other"


@pytest.mark.parametrize(("width", "says", "keyed"), [(80, True, False), (100, True, False), (200, True, True)])
async def test_words_and_keys_stand_behind_the_fields(tmp_path: Path, width: int, says: bool, keyed: bool) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(width, 50)) as pilot:
        await settle(pilot)
        await pilot.press("1", "z")
        await settle(pilot)
        (line,) = (one for one in app.form.query(FieldLine) if one.field.key == "request_rate_per_s")
        text = str(line.render())
        assert ("requests that come, on average" in text) is says
        assert ("request_rate_per_s" in text) is keyed
        assert len(text.rstrip()) <= line.size.width
        editors = {one.editor.region.right + one._unit_cells for one in app.form.query(FieldLine)}
        assert editors == {app.form.query_one("#field-preset").region.right}, "all of them end below each other"
        await pilot.press("z")
        await settle(pilot)
        assert ("requests that come" in str(line.render())) is (width == 80)
        assert isinstance(line.editor, Input)
        assert line.editor.region.right + line._unit_cells == line.region.right or width == 80
