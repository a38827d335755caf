"""The interface for programs: what its page shows, data frames, notebooks, and words for wrong input."""

from __future__ import annotations

import doctest
import sys
from types import ModuleType
from typing import Any

import pytest
from repository import ROOT

import planner
from planner import Planner, Request, UserError, Workload


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    return Planner(config=tmp_path_factory.mktemp("config"), state=tmp_path_factory.mktemp("state"), basis="spec")


def test_the_page_shows_what_the_interface_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(ROOT / "docs/guide/python.md"), module_relative=False)
    assert failed == 0
    assert tried > 15


def test_public_names_are_those_that_type_checkers_see() -> None:
    stub = (ROOT / "planner/__init__.pyi").read_text()
    assert sorted(planner.__all__) == sorted(line.rsplit(" ", 1)[1] for line in stub.splitlines() if line.startswith("from"))
    assert set(planner.__all__) <= set(dir(planner))
    with pytest.raises(AttributeError, match="no attribute 'Plannr'"):
        _ = planner.Plannr  # type: ignore[attr-defined]  # it has none


@pytest.mark.sweep
def test_a_plan_is_what_the_command_line_prints(asked: Planner, run_planner: Any) -> None:
    import msgspec

    printed = run_planner("plan", "llama-3.1-8b-lora", "--set", "max_gpus=1", "--gpu", "L4", "--basis", "spec", "--json")
    found = asked.plan("llama-3.1-8b-lora", {"max_gpus": 1}, gpus=["L4"], hints=True)
    assert msgspec.json.decode(printed.stdout)["rows"] == found.to_dict()["rows"]


def test_a_workload_may_be_a_dict_a_struct_or_a_file(asked: Planner) -> None:
    preset = asked.session.presets.load("llama-3.1-8b-lora")
    keys: dict[str, Any] = {"model": "llama-3.1-8b", "task": "generate", "batch": 1, "input_tokens": 100, "output_tokens": 10}
    assert asked.workload(preset.path) == asked.workload("llama-3.1-8b-lora") == preset.workload
    assert asked.workload(keys) == asked.workload(Workload(**keys))
    assert asked.workload(keys, {"targets.p95_request_s": 2.5}).targets.p95_request_s == 2.5


def test_wrong_keys_and_requests_are_named(asked: Planner) -> None:
    with pytest.raises(UserError) as wrong:
        asked.plan({"model": "llama-3.1-8b", "task": "serv"})
    assert "'serve'" in str(wrong.value)
    good = Request(model="llama-3.1-8b", gpu="L4", task="generate")
    with pytest.raises(UserError) as unknown:
        asked.estimate(good, {"model": "llama-3.1-8b", "gpu": "H10", "task": "generate"})
    assert [problem.where for problem in unknown.value.problems] == ["request 2"]
    assert "H100 SXM5 80GB" in str(unknown.value)


class Frame:
    """What both libraries' constructors are given."""

    def __init__(self, lines: list[list[Any]], **options: Any) -> None:
        self.lines, self.options = lines, options


@pytest.mark.parametrize(("library", "method", "names"), [("pandas", "to_pandas", "columns"), ("polars", "to_polars", "schema")])
def test_data_frames_have_a_column_for_every_name(
    asked: Planner, monkeypatch: pytest.MonkeyPatch, library: str, method: str, names: str
) -> None:
    stand_in = ModuleType(library)
    stand_in.DataFrame = Frame  # type: ignore[attr-defined]  # a module takes any attribute
    monkeypatch.setitem(sys.modules, library, stand_in)
    plan = asked.plan("llama-3.1-8b-lora", {"max_gpus": 1}, gpus=["L4", "L40S"])
    memory = asked.memory("llama-3.1-8b-lora", "L4")
    for result in (plan, memory):
        frame = getattr(result, method)()
        assert [dict(zip(frame.options[names], line, strict=True)) for line in frame.lines] == result.records()
        assert len(frame.lines) == len(list(result))


def test_a_library_that_is_not_there_is_named(asked: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="polars"):
        asked.memory("llama-3.1-8b-lora", "L4").to_polars()


@pytest.mark.sweep
def test_a_notebook_gets_a_table_and_nothing_that_runs(asked: Planner) -> None:
    plan = asked.plan("llama-3.1-8b-lora", {"title": "<script>alert(1)</script>", "max_gpus": 1}, gpus=["L4"])
    shown = plan._repr_html_()
    assert "<table>" in shown
    assert '<td class="short">L4</td>' in shown
    assert "<script>" not in shown
    assert "| L4 |" in repr(plan)
    assert "L4" in asked.memory("llama-3.1-8b-lora", "L4")._repr_html_()


def test_an_estimate_is_one_record_a_request(asked: Planner) -> None:
    request = {"model": "llama-3.1-8b", "gpu": "L4", "task": "generate", "batch": 1, "input_tokens": 64, "output_tokens": 8}
    found = asked.estimate(request, {**request, "gpu": "T4", "dtype": "bf16"})
    first, second = found.records()
    assert found[0].tokens_per_s is not None
    assert first["tokens_per_s.value"] == found[0].tokens_per_s.value
    assert second["fits"] is False
    assert second["tokens_per_s.value"] is None
    assert found[1].reason
    assert found[1].reason in repr(found)


def test_offers_of_one_gpu(asked: Planner) -> None:
    assert {offer.gpu for offer in asked.offers("L4")} == {"L4"}
    assert len(asked.offers()) > len(asked.offers("L4"))
