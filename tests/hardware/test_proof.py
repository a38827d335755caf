"""Verdicts on the points of a proving run."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

import msgspec
import pytest
from measurement_sample import measurement

from planner.engine.estimate.proof import is_proven, load_expected, prove
from planner.errors import UserError
from planner.hardware.catalogue.gpu import Gpu
from planner.hardware.measurements.measurement import Measurement
from planner.paths import presets_folder
from planner.present.benchmark.measurement import proof_section
from planner.session import Session

PART = "H200 SXM"
NAME = "gemm/bf16/8192x8192x8192"
AT_WORK = {"sm_active": 0.99, "tensor_active": 0.8}


def product(value: float | None, **changes: object) -> Measurement:
    given: dict[str, object] = {
        "kind": "gemm",
        "device": PART,
        "dtype": "bf16",
        "value": value,
        "flop": 2.0 * 8192**3,
        "bytes": 4e8,
    }
    return measurement(point=NAME, **{**given, **changes})


def processor_by_data_sheet() -> Gpu:
    return Gpu(
        name="Test CPU",
        vendor="Test",
        architecture="x86-64",
        kind="cpu",
        memory_bytes=8e9,
        memory_bandwidth_bytes_per_s=50e9,
        compute_flop_per_s={"fp32": 400e9, "bf16": 800e9},
        source="test",
        retrieved=dt.date(2026, 1, 1),
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("state")
    return Session.open(state=folder, config=folder / "config")


@pytest.mark.parametrize(
    ("point", "verdicts"),
    [
        (product(750e12), ["within"]),
        (product(650e12), ["outside"]),
        (product(650e12, status="shared"), ["disturbed"]),
        (product(None, status="unsupported"), ["not measured"]),
        (product(750e12, telemetry=AT_WORK), ["within", "within", "within"]),
        (product(750e12, telemetry={**AT_WORK, "tensor_active": 0.02}), ["within", "within", "outside"]),
        (measurement(point="fault/x", kind="fault", device=PART, value=0.1), ["within"]),
        (measurement(point="fault/x", kind="fault", device=PART, value=None, status="error"), ["outside"]),
        (measurement(point="memory/context", kind="memory", device=PART, value=5e8), ["no range"]),
    ],
)
def test_a_point_is_held_against_what_is_expected_of_the_part(session: Session, point: Measurement, verdicts: list[str]) -> None:
    gpu = session.gpus.find(PART)
    expected = load_expected(presets_folder() / "expected")[PART]
    lines = list(prove([point], gpu, session.ceilings(gpu, basis="spec"), expected, session.architecture))
    assert [one.verdict for one in lines] == verdicts
    assert proof_section(PART, lines).title == f"What {PART} shows"


def test_a_part_that_is_not_listed_is_held_against_its_prediction(session: Session) -> None:
    gpu = session.gpus.find("A100 80GB SXM")
    ceilings = session.ceilings(gpu, basis="spec")
    reached = ceilings.compute_flop_per_s["bf16"]
    for rate, verdict in ((reached.value, "within"), (reached.value / 3, "outside")):
        point = msgspec.structs.replace(product(rate), device=gpu.name)
        (line,) = prove([point], gpu, ceilings, None, session.architecture)
        assert line.verdict == verdict


def test_a_processor_is_predicted_no_more_closely_than_its_ceilings_are_known(session: Session) -> None:
    processor = processor_by_data_sheet()
    ceilings = session.ceilings(processor, basis="spec")
    parameters = {"model": "qwen3-study-w256", "batch": 1, "context": 512, "weight_dtype": "bf16", "graph": False}
    point = measurement(point="decode/x", kind="decode", device=processor.name, dtype="bf16", value=1.0, parameters=parameters)
    (line,) = prove([point], processor, ceilings, None, session.architecture)
    assert line.low is not None
    assert line.high is not None
    known = min(ceilings.bandwidth_bytes_per_s.spread, ceilings.compute_flop_per_s["bf16"].spread)
    assert line.high / line.low >= math.exp(2 * known)


def test_a_run_that_was_disturbed_proves_nothing(session: Session) -> None:
    gpu = session.gpus.find(PART)
    expected = load_expected(presets_folder() / "expected")[PART]
    within, shared, slow = product(750e12), product(750e12, status="shared"), product(650e12)
    for points, proven in (([within, shared], True), ([within, shared, shared], False), ([within, within, slow], False)):
        lines = list(prove(points, gpu, session.ceilings(gpu, basis="spec"), expected, session.architecture))
        assert is_proven(lines) == proven
        words = " ".join(str(part) for part in proof_section(PART, lines).parts)
        assert ("proves nothing" in words) == (len(points) == 3 and not any(one.verdict == "outside" for one in lines))


def test_listed_parts_are_those_of_the_catalogue_and_faults_are_named(session: Session, tmp_path: Path) -> None:
    for name, part in load_expected(presets_folder() / "expected").items():
        session.gpus.find(name)
        assert all(0 < figure.low < figure.high for figure in part.figure)
    (tmp_path / "x.toml").write_text(
        'gpu = "T4"\nsource = "s"\nretrieved = 2026-01-01\n[[figure]]\npoint = "p"\nlow = "1"\nhigh = 2\n'
    )
    with pytest.raises(UserError, match="low"):
        load_expected(tmp_path)
