"""Machines of one's own: typed into the form, found in the box, taken from a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tui_sample import sample_options, settle

from planner.engine.answers.plan import OwnedAnswer
from widgets.app import PlannerApp
from widgets.omnibox.finding import Suggestion, find, setting
from widgets.panes.workload.machines import machines_text, parse_machines
from widgets.panes.workload.values import put

SERVICE = {"model": "llama-3.1-70b", "task": "serve"}


@pytest.mark.parametrize(
    ("text", "machines", "shown"),
    [
        ("RTX 4090", [{"gpu": "RTX 4090", "count": 1}], "RTX 4090"),
        ("2 x RTX 4090, L40S", [{"gpu": "RTX 4090", "count": 2}, {"gpu": "L40S", "count": 1}], "2 RTX 4090, L40S"),
        ("2x8 H100", [{"gpu": "H100", "count": 8, "nodes": 2}], "2x8 H100"),
        ("2 × 4090", [{"gpu": "4090", "count": 2}], "2 4090"),
        ("1080 Ti", [{"gpu": "1080 Ti", "count": 1}], "1080 Ti"),
        ("A100 80GB SXM 3g.40gb", [{"gpu": "A100 80GB SXM 3g.40gb", "count": 1}], "A100 80GB SXM 3g.40gb"),
        ("", None, ""),
    ],
)
def test_machines_are_typed_as_people_count_them(text: str, machines: list[dict[str, Any]] | None, shown: str) -> None:
    found = parse_machines(text)
    assert found == machines
    assert machines_text(found or []) == shown
    assert parse_machines(shown) == found


def test_a_number_alone_is_no_machine() -> None:
    with pytest.raises(ValueError, match="names no GPU; write L40S, 2 RTX 4090"):
        parse_machines("RTX 4090, 2")


def test_what_the_form_cannot_show_of_a_machine_stays_when_its_number_changes() -> None:
    slices = {"gpu": "A100 80GB SXM", "mig": "3g.40gb", "count": 8}
    preset = {**SERVICE, "own": [{"gpu": "L40S", "count": 8, "nodes": 2, "link": "pcie"}, slices]}
    shown = machines_text(preset["own"])  # type: ignore[arg-type]  # its values are of several types
    assert shown == "2x8 L40S, 8 A100 80GB SXM 3g.40gb"
    assert put(preset, "own", parse_machines(shown)) == preset
    (fewer,) = put(preset, "own", parse_machines("4 L40S"))["own"]
    assert fewer == {"gpu": "L40S", "count": 4, "link": "pcie"}
    assert put(put(preset, "own", parse_machines("4 L40S")), "own", preset["own"]) == preset
    assert "own" not in put(preset, "own", None)


@pytest.mark.parametrize(("typed", "first"), [("i own a 4090", "own=RTX 4090"), ("own 2 4090", "own=2 RTX 4090")])
def test_the_box_takes_what_people_say_that_they_own(typed: str, first: str) -> None:
    cards = [Suggestion("gpu", name) for name in ("RTX 4090", "RTX 4090 D", "L40S")]
    assert find(typed, cards)[0].value == first
    assert setting(first, SERVICE) == {"own": parse_machines(first.removeprefix("own="))}
    assert "own=8 L40S" in [one.value for one in find("8 x l40s", cards)]


async def test_a_row_is_owned_by_its_key_and_no_longer_by_the_same_key(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("I")
        assert "own" not in app.form.workload, "this machine costs no rent as it is"
        app.table.action_move(1)
        row = app.table.highlighted
        assert row is not None
        assert row.answer.layout is not None
        await pilot.press("I")
        await settle(pilot)
        (mine,) = app.form.workload["own"]
        assert mine == {"gpu": row.gpu, "count": row.answer.layout.gpus_per_node}
        assert app.plan is not None
        cost = OwnedAnswer(bought=False, gpus=4, price_usd=None, power_w=700.0, running_usd_per_h=0.5, words="")
        rows = [msgspec.structs.replace(one, owned=cost) if one.gpu == row.gpu else one for one in app.plan.rows]
        app.table.show(msgspec.structs.replace(app.plan, rows=rows))
        await pilot.press("I")
        await settle(pilot)
        assert "own" not in app.form.workload
        await pilot.press("u")
        await settle(pilot)
        assert app.form.workload["own"] == [mine]
