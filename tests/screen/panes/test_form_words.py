"""The words behind the fields of a wide form: the input that a field takes, and its keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.panes.workload.field_line import EDITOR, GAP, LABEL, UNIT, FieldLine, cells_behind
from widgets.panes.workload.fields import FIELDS

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
