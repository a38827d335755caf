"""docs/architecture.md: every room it names exists, and a parameter passes the rooms in the order it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import pytest
from repository import ROOT

from planner.session import Session

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = sorted(set(re.findall(r"`((?:planner|widgets|bench)(?:\.\w+)+)`", PAGE)))
PATHS = sorted(set(re.findall(r"`((?:presets|scripts|tests|docs)/[\w./-]*)`", PAGE)))

STEPS = (
    ("planner.schema", "planner.workload.presets"),
    ("planner.workload.huggingface.config",),
    ("planner.engine.job.resolve", "planner.engine.job.inference"),
    ("planner.engine.search.memory_screen",),
    (
        "planner.engine.evaluate.evaluation",
        "planner.engine.memory.inference",
        "planner.engine.performance.prefill_decode.passes",
        "planner.engine.performance.simulation.traffic",
    ),
    ("planner.engine.explain.answer", "planner.engine.search.rows"),
)
"""Rooms on the way of `input_tokens`, from the lowest floor to the highest. Rooms of one step may call each other back and forth."""


@pytest.mark.parametrize("name", MODULES)
def test_every_room_named_exists(name: str) -> None:
    assert find_spec(name) is not None


def test_the_picture_shows_every_room() -> None:
    """Folders of the planner and of the engine, and the top level."""
    picture = PAGE.split("```")[1]
    rooms = [path for top in ("planner", "planner/engine") for path in (ROOT / top).iterdir() if (path / "__init__.py").exists()]
    tops = [ROOT / name for name in ("widgets", "planner", "bench", "presets")]
    assert len(rooms) > 10
    assert not [room.name for room in [*rooms, *tops] if not re.search(rf"\b{room.name}\b", picture)]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_input_tokens_pass_each_floor_once(tmp_path: Path) -> None:
    """No step of the way begins before the one below it has ended, so that nothing goes back down for a second helping."""
    session = Session.open(state=tmp_path, config=tmp_path)
    session.plan(session.presets.load("llama-3.1-8b-pretrain").workload)  # what catalogues and ceilings are read for
    entered = modules_entered(lambda: session.plan(session.presets.load("llama-3.1-70b-chat-service").workload))
    calls = [[place for place, name in enumerate(entered) if name in step] for step in STEPS]
    missing = {name for step in STEPS for name in step} - set(entered)
    assert not missing
    for below, above, lower, upper in zip(STEPS, STEPS[1:], calls, calls[1:], strict=False):
        assert max(lower) < min(upper), f"{below} is entered again after {above}"


def modules_entered(run: Callable[[], object]) -> list[str]:
    """The module of every function of the planner called while `run` runs, in the order of the calls."""
    entered: list[str] = []
    modules = {str(path): ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "planner").rglob("*.py")}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := modules.get(frame.f_code.co_filename)):
            entered.append(name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered
