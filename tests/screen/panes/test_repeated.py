"""What Textual would do for each line and each message again comes to the same where it is done once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from textual.strip import Strip
from tui_sample import sample_options, settle

from widgets.app import PlannerApp
from widgets.drawing import repeated


async def test_a_message_is_handled_where_textual_would_have_it_handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "FOUND", {})
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("j", "slash", "h", "escape", "question_mark", "escape")
    kinds = [key for key, places in repeated.FOUND.items() if places is not None]
    assert len(kinds) > 200
    for pump_kind, name, message_kind in kinds:
        pump, message = made(pump_kind), made(message_kind)
        message._no_default_action = False
        ours, theirs = ([(cls, found.__func__) for cls, found in ask(pump, name, message)] for ask in both())
        assert ours == theirs, (pump_kind, name)


def made(kind: Any) -> Any:
    """One of its kind, without what its `__init__` gives it."""
    return kind.__new__(kind)


def both() -> tuple[Any, Any]:
    return repeated._dispatch, repeated._handlers_of


async def test_a_handler_that_allows_no_more_is_the_last(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        key = next(key for key, places in repeated.FOUND.items() if places and len(places) > 1)
        message = made(key[2])
        message._no_default_action = False
        asked: Any = repeated._dispatch(made(key[0]), key[1], message)
        next(asked)
        message._no_default_action = True
        assert list(asked) == []


def test_a_line_keeps_what_it_is_asked_again() -> None:
    strip = Strip([Segment("a line")])
    assert strip.crop(0, 3) is strip.crop(0, 3)
    assert [part.text for part in strip.divide([2, 6])] == ["a ", "line"]
    assert strip.divide([2, 6]) is strip.divide([2, 6])
    assert strip.cell_length == 6
    with pytest.raises(AttributeError):
        strip._no_cache  # type: ignore[attr-defined]  # noqa: B018
