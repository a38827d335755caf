"""Predictions against what was measured on an H200 and an H100 (docs/evidence/h200.md)."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from repository import ROOT

from planner.engine.answers.answer import Answer
from planner.engine.answers.memory import MemoryBytes
from planner.engine.estimate.benchmark_point import predicted_figure
from planner.engine.estimate.proof import is_proven, load_expected, prove
from planner.hardware.measurements.exchange import read_document
from planner.hardware.measurements.measurement import Measurement
from planner.session.decisions import Session
from planner.workload.tasks import Request

MEASURED = ROOT / "docs" / "evidence" / "h200"
WHOLE_MODELS = ("train", "prefill", "decode")
SEVERAL = ("transformers.jsonl", "transformers-h100.jsonl", "mixtures-h100.jsonl", "others-h100.jsonl")
"""Steps and passes of transformers' models by machine; the last two have energies, too."""
KEPT_BUSY_FLOP_PER_S = 1.5e14
"""Rate of a training step above which it kept this device busy."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("nothing-measured")
    return Session(state=folder / "state", config=folder / "config")


@pytest.fixture(scope="module")
def points(session: Session) -> Sequence[Measurement]:
    path = MEASURED / "measurements.json"
    return read_document(path.read_bytes(), str(path), "imported", session.part_named)[1]


@pytest.fixture(scope="module", params=SEVERAL)
def steps(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (MEASURED / request.param).read_text().splitlines()[1:]]


def memory_of(answer: Answer) -> MemoryBytes:
    assert answer.memory_bytes is not None
    return answer.memory_bytes


@pytest.fixture(scope="module")
def answers(session: Session, steps: list[dict[str, Any]]) -> list[Answer]:
    found = session.estimate([msgspec.convert(step["request"], Request) for step in steps])
    assert all(isinstance(one, Answer) for one in found)
    return [one for one in found if isinstance(one, Answer)]


def test_whole_models_of_the_benchmark_lie_within_their_ranges(session: Session, points: Sequence[Measurement]) -> None:
    """Steps that wait for their host are known to a factor of two: how long a launch takes is the host's."""
    part = session.gpus.find("H200 SXM")
    ceilings = session.ceilings(part, basis="spec")
    inside: dict[str, bool] = {}
    for point in points:
        if point.kind not in WHOLE_MODELS or not point.reliable or not point.value:
            continue
        figure = predicted_figure(point, part, ceilings, session.architecture)
        assert figure is not None
        assert 0.5 < figure.value / point.value < 2.0, point.point
        if point.kind != "train" or point.value > KEPT_BUSY_FLOP_PER_S:
            inside[f"{point.run} {point.point}"] = figure.low <= point.value <= figure.high
    assert len(inside) >= 18
    assert all(inside.values()), [name for name, held in inside.items() if not held]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("H200 SXM", "measurements.json"),
        ("H100 SXM5 80GB", "measurements-h100.json"),
        ("H100 SXM5 80GB", "measurements-h100-again.json"),
    ],
)
def test_the_first_run_proves_the_part(session: Session, name: str, file: str) -> None:
    part, path = session.gpus.find(name), MEASURED / file
    found = read_document(path.read_bytes(), str(path), "imported", session.part_named)[1]
    expected = load_expected(ROOT / "presets" / "expected")[part.name]
    of_the_suite = [point for point in found if point.suite == "prove"]
    lines = list(prove(of_the_suite, part, session.ceilings(part, basis="spec"), expected, session.architecture))
    assert [line.point for line in lines if line.verdict == "outside"] == []
    assert len(lines) == 61
    assert is_proven(lines)


def test_peaks_of_training_are_pytorchs_own(steps: list[dict[str, Any]], answers: list[Answer]) -> None:
    seen = 0
    for step, answer in zip(steps, answers, strict=True):
        if "step_s" in step:
            peak = memory_of(answer).total.value - memory_of(answer).overhead
            close = 0.02 if step["request"]["model"] == "gemma-3-1b" else 0.012
            assert peak == pytest.approx(step["peak_allocated_bytes"], rel=close), step["id"]
            seen += 1
    assert seen == sum("step_s" in step for step in steps)


def test_the_devices_own_peaks_lie_within_ranges_of_nine_times_in_ten(steps: list[dict[str, Any]], answers: list[Answer]) -> None:
    outside = [
        step["id"]
        for step, answer in zip(steps, answers, strict=True)
        if not memory_of(answer).total.low <= step["device_used_bytes"] <= memory_of(answer).total.high
    ]
    assert len(outside) <= len(steps) / 10, outside


def test_tokens_of_mixtures_and_others_lie_within_their_ranges(steps: list[dict[str, Any]], answers: list[Answer]) -> None:
    """Decoding of transformers waits for its host, whose speed is known to a factor of two, or for copies of experts, which are not."""
    for step, answer in zip(steps, answers, strict=True):
        if "decode_step_joules" in step:
            figure = answer.decode_tokens_per_s
            assert figure is not None
            assert figure.low <= step["decode_tokens_per_s"] <= figure.high, step["id"]


def test_power_is_met_within_its_range(steps: list[dict[str, Any]], answers: list[Answer]) -> None:
    errors = []
    for step, answer in zip(steps, answers, strict=True):
        if "step_joules" in step:
            seconds, joules = step["step_s"], step["step_joules"]
        elif "decode_step_joules" in step:
            tokens = step["request"]["output_tokens"] - 1
            seconds = step["prompt_s"] + tokens / step["decode_tokens_per_s"]
            joules = step["prompt_joules"] + tokens * step["decode_step_joules"]
        else:
            continue
        assert answer.power_w is not None
        assert answer.power_w.low <= joules / seconds <= answer.power_w.high, step["id"]
        errors.append(abs(answer.power_w.value / (joules / seconds) - 1))
    assert not errors or statistics.median(errors) < 0.15


def test_steps_and_prompts_lie_within_their_ranges(steps: list[dict[str, Any]], answers: list[Answer]) -> None:
    held = []
    for step, answer in zip(steps, answers, strict=True):
        figure, seconds = (answer.step_s, step["step_s"]) if "step_s" in step else (answer.prefill_s, step["prompt_s"])
        assert figure is not None
        held.append(figure.low <= seconds <= figure.high)
    assert sum(held) >= 0.85 * len(held)
