"""The catalogue of engines is read strictly, and a later release says only what differs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.engine.job.engine import Engine
from planner.engine.job.engines import catalogue
from planner.engine.job.engines.catalogue import read_engine
from planner.errors import UserError
from planner.paths import presets_folder
from planner.workload import engines

Tables = Callable[[str], list[Engine]]
FIRST = """
[[engine]]
name = "new"
label = "New"
kernels_per_layer = 10
host_step_s = 0.001
context_gib = 0.5
communicator_gib = 1
slack = 0.02
source = "a page"
"""


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """The tables of a catalogue whose file of serving engines holds a text."""

    def read(text: str) -> list[Engine]:
        shutil.copytree(presets_folder() / "engines", tmp_path / "engines")
        (tmp_path / "engines" / "serving.toml").write_text(text)
        monkeypatch.setattr(engines, "presets_folder", lambda: tmp_path)
        return [read_engine(table, where) for where, table in engines.engine_tables() if table["name"] == "new"]

    return read


def test_a_later_release_has_what_the_one_before_has(tables: Tables) -> None:
    later = '[[engine]]\nname = "new"\nsince = [2]\nslack = 0.1\nsource = "{before}; since 2 more"\n'
    last = '[[engine]]\nname = "new"\nsince = [3]\nsource = "{first}; since 3 less"\n[[engine]]\nname = "new"\nsince = [4]\n'
    first, second, third, fourth = tables(FIRST + later + last)
    assert (first.slack, second.slack, third.slack) == (0.02, 0.1, 0.1)
    assert (second.kernels_per_layer, second.context_bytes, second.since) == (10, 2**29, (2,))
    assert [one.source for one in (second, third, fourth)] == ["a page; since 2 more", *["a page; since 3 less"] * 2]


@pytest.mark.parametrize(
    ("line", "said"), [("kernels_per_leyer = 3", "kernels_per_leyer"), ('slack = "much"', "slack"), ("trains = 3", "trains")]
)
def test_a_wrong_key_or_value_is_named_with_its_file(tables: Tables, line: str, said: str) -> None:
    later = f'[[engine]]\nname = "new"\nsince = [2]\n{line}\n'
    with pytest.raises(UserError, match=f"(?s)serving.toml.*{said}"):
        tables(FIRST + later)


@pytest.mark.parametrize(
    ("line", "wrong", "said"),
    [
        ("context_gib = 0.5\n", "", r"serving.toml: engine\[new\]: context_gib: missing"),
        (
            "context_gib = 0.5\n",
            "context_gigabytes = 1\n",
            r"engine\[new\]: context_gigabytes: unknown key. Did you mean 'context_gib'",
        ),
        ('name = "new"\n', "", r"serving.toml: engine\[0\].name: missing"),
        ('source = "a page"\n', "", r"engine\[new\]: source: missing"),
    ],
)
def test_a_fault_is_told_with_the_engine_and_the_key_as_the_file_has_it(tables: Tables, line: str, wrong: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        tables(FIRST.replace(line, wrong) + '[[engine]]\nname = "new"\nsince = [2]\n')


@pytest.mark.parametrize(
    ("name", "engine", "said"),
    [
        ("vllm", "sglang", "stands_in.toml: vllm: stands for another engine here, and is an engine itself"),
        ("tgi", "vlm", "tgi: engine: 'vlm' is not an engine of .* Did you mean 'vllm'"),
    ],
)
def test_a_program_stands_for_an_engine_and_is_none_itself(
    monkeypatch: pytest.MonkeyPatch, name: str, engine: str, said: str
) -> None:
    table = {"label": "Name", "engine": engine, "words": "runs", "source": "a page"}
    monkeypatch.setattr(catalogue, "stand_in_tables", lambda: [(f"stands_in.toml: {name}", name, table)])
    with pytest.raises(UserError, match=said):
        catalogue._stand_ins()
