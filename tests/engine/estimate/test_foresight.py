"""What was predicted of a point before it was measured: kept once, from what was known before its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from repository import RunPlanner

from planner.hardware.measurements.measurement import Measurement
from planner.session import Session
from planner.workload.matrices import product_shapes

STUDY = {"model": "qwen3-study-w1024", "width": 1024, "depth": 5, "vocabulary": 151936, "batch": 4, "sequence": 256}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(state=tmp_path / "state", config=tmp_path / "config")


def point(kind: str, **changes: Any) -> Measurement:
    base = Measurement(
        point=f"{kind}/x",
        kind=kind,  # type: ignore[arg-type]  # a test of each
        device="H100 SXM5 80GB",
        fingerprint="aaaa-1111",
        dtype="bf16",
        parameters={**STUDY, "recipe": "amp", "optimizer": "adamw", "lora_rank": 16, "weight_dtype": "bf16"},
        value=100e12,
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
        suite="standard",
        run="r1",
        flop=1.37e12,
    )
    return msgspec.structs.replace(base, **changes)


def test_steps_are_predicted_in_the_unit_they_are_measured_in(session: Session) -> None:
    eager, compiled, lora = (session.log_prediction(point(kind)) for kind in ("train", "train-compiled", "train-lora"))
    assert eager is not None
    assert compiled is not None
    assert lora is not None
    assert 5e12 < eager.low < eager.predicted < eager.high < 989e12
    assert compiled.predicted > eager.predicted
    assert {one.point for one in session.store.predictions()} == {"train/x", "train-compiled/x", "train-lora/x"}


def test_prompts_and_tokens_are_predicted(session: Session) -> None:
    given = {"model": "qwen3-8b", "weight_dtype": "bf16", "graph": True}
    prompt = session.log_prediction(point("prefill", parameters={**given, "batch": 1, "input_tokens": 2048}, flop=2 * 8.2e9 * 2048))
    assert prompt is not None
    assert 200e12 < prompt.predicted < 989e12
    one = session.log_prediction(point("decode", parameters={**given, "batch": 1, "context": 512}, value=150.0, flop=16e9))
    many = session.log_prediction(
        point("decode", point="decode/y", parameters={**given, "batch": 8, "context": 512}, value=1000.0, flop=16e9)
    )
    assert one is not None
    assert many is not None
    assert 50 < one.predicted < 220
    assert 5 * one.predicted < many.predicted < 8.01 * one.predicted


def test_a_run_does_not_predict_itself(session: Session) -> None:
    gemm = point(
        "gemm",
        parameters={"m": 8192, "n": 8192, "k": 8192},
        flop=2 * 8192**3,
        bytes=6.0 * 8192**2,
        value=500e12,
    )
    before = session.log_prediction(gemm)
    assert before is not None
    assert before.basis != "measured"
    session.store.add(gemm)
    session.refresh()
    again = session.log_prediction(msgspec.structs.replace(gemm, point="gemm/y"))
    assert again is not None
    assert again.predicted == pytest.approx(before.predicted)
    later = session.log_prediction(msgspec.structs.replace(gemm, run="r2"))
    assert later is not None
    assert later.basis == "measured"
    assert abs(later.error) < 0.03 < abs(before.error)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "shared"},
        {"device": "A CPU of elsewhere"},
        {"parameters": {}},
        {"parameters": {**STUDY, "model": "nobody's", "recipe": "amp"}},
        {"quarantine": "too fast"},
    ],
)
def test_nothing_is_said_where_nothing_can_be(session: Session, changes: dict[str, Any]) -> None:
    assert session.log_prediction(point("train", **changes)) is None
    assert session.log_prediction(point("launch")) is None
    assert session.store.predictions() == ()


def test_validate_tells_the_running_error(run_planner: RunPlanner, session: Session, tmp_path: Path) -> None:
    found = session.log_prediction(point("train"))
    assert found is not None
    done = run_planner("--state", str(tmp_path / "state"), "validate", "--json")
    assert done.returncode == 0, done.stderr
    (score,) = [one for one in json.loads(done.stdout)["own"] if one["kind"] == "predicted before it was measured"]
    assert score["answered"] == 1
    assert score["signed_error"] == pytest.approx(found.error)


def test_the_products_of_a_model_are_its_own(session: Session) -> None:
    shapes = product_shapes(session.architecture("qwen3-0.6b"))
    assert (2048, 3072, 1024) in shapes
    assert (16, 151936, 1024) in shapes
    assert len(set(shapes)) == len(shapes) <= 14
    moe = product_shapes(session.architecture("qwen3-30b-a3b"))
    assert (2048, 768, 2048) in moe
