"""The saved corpus, which is whatever once went wrong, and random input of one seed: the same on every machine. `make fuzz MINUTES=…` tries new seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz_commands import Commands
from fuzz_documents import Documents
from fuzz_lines import Lines
from fuzz_readers import Readers

from planner.cli.estimate import lines as lines_room
from planner.observe.benchmark import description

CORPUS = Path(__file__).parent / "corpus.json"
FUZZERS: dict[str, type[Any]] = {"lines": Lines, "documents": Documents, "readers": Readers, "commands": Commands}
"""Kind of input -> what makes and judges it."""
ROUNDS = {"lines": 9, "documents": 8, "readers": 2, "commands": 40}
"""Rounds of each kind: half a second to a second of one processor."""
LEFT_OUT = {"commands": {"left_out": frozenset({"--exact"})}}
"""It builds a model with PyTorch in a process of its own, for up to twenty seconds; tests/workload/test_described.py tries it."""
pytestmark = [
    pytest.mark.process,  # `report` and `doctor` ask other programs about this machine
    pytest.mark.skipif(sys.platform != "linux", reason="the hostile files are Linux's"),
]


@pytest.mark.parametrize("times", [1, pytest.param(64, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", FUZZERS)
def test_random_input_and_the_corpus_end_as_documented(
    kind: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_room, "LONGEST_S", 1.0)
    if kind in {"lines", "documents"} and times == 1:  # as without transformers; `make fuzz` and the sweep build such models
        monkeypatch.setattr(description, "described_types", frozenset)
    fuzz = FUZZERS[kind](20260822, tmp_path, **LEFT_OUT.get(kind, {}))
    for given in json.loads(CORPUS.read_text(encoding="utf-8"))[kind]:
        if kind == "readers":  # [kind, text or [text, times], …]
            fuzz.judge(given[0], "".join(one if isinstance(one, str) else one[0] * one[1] for one in given[1:]).encode())
        else:
            fuzz.judge([one.encode("utf-8", "surrogatepass") for one in given] if kind == "lines" else given)
    for _ in range(times * ROUNDS[kind]):
        fuzz.round()
    assert not fuzz.found, "\n".join(fuzz.found)
