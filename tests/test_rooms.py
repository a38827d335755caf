"""Rooms: those that docs/architecture.md names exist, as do paths on every page, and a parameter passes them in the order it says."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import pytest
import tomli
from each_case import each_case
from repository import ROOT

from planner.session import Session

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = sorted(set(re.findall(r"`((?:planner|widgets|bench)(?:\.\w+)+)`", PAGE)))
NAMES_END = 46
"""Column of the picture where names end and explanations begin."""
PAPERS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"),
]
TO_BE_MADE = {"presets/measurements/"}
"""Where contributed measurements will lie."""
PATHS = sorted(
    {
        path
        for paper in PAPERS
        for path in re.findall(r"`((?:planner|widgets|bench|presets|scripts|tests|docs)/[\w./-]*)`", paper.read_text())
    }
    - TO_BE_MADE
)

STEPS = (
    ("planner.schema", "planner.workload.presets"),
    ("planner.workload.huggingface.config",),
    ("planner.engine.job.resolve", "planner.engine.job.inference"),
    (
        "planner.engine.search.memory_screen",
        "planner.engine.evaluate.evaluation",
        "planner.engine.memory.inference",
        "planner.engine.performance.prefill_decode.passes",
        "planner.engine.performance.simulation.traffic",
    ),
    ("planner.engine.explain.answer", "planner.engine.search.rows.row"),
    ("planner.engine.search.ranking",),
)
"""Rooms on the way of `input_tokens`, from the lowest floor to the highest. Rooms of one step may call each other back and forth."""


@each_case("name", MODULES)
def test_every_room_named_exists(name: str) -> None:
    assert find_spec(name) is not None


@pytest.mark.parametrize("container", ["planner", "planner.engine"])
def test_the_picture_has_the_floors_of_the_contracts(container: str) -> None:
    contracts = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == [container])
    floors = [sorted(layer.split(" | ")) for layer in layers]
    pattern = r"planner\.(\w+)" if container == "planner" else r"(?<!planner\.)\b(\w+)"
    drawn = re.findall(pattern, "\n".join(line[:NAMES_END] for line in PAGE.split("```")[1].splitlines()))
    rooms = [name for name in drawn if any(name in floor for floor in floors) and name != container]
    assert rooms
    taken = iter(rooms)
    assert [sorted(next(taken, "") for _ in floor) for floor in floors] == floors


@each_case("path", PATHS)
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


def test_a_folder_fits_on_a_screen_and_a_module_in_a_sitting() -> None:
    modules = [path for room in ("planner", "widgets", "bench", "scripts") for path in (ROOT / room).rglob("*.py")]
    files = Counter(path.parent for path in modules if path.name != "__init__.py")
    assert not {folder: number for folder, number in files.items() if number > 14}
    assert not {path: lines for path in modules if (lines := len(path.read_text().splitlines())) > 400}
