"""Verdicts on the points of a proving run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from measurement_sample import measurement

from planner.engine.estimate.proof import load_expected, prove
from planner.errors import UserError
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


def test_listed_parts_are_those_of_the_catalogue_and_faults_are_named(session: Session, tmp_path: Path) -> None:
    for name, part in load_expected(presets_folder() / "expected").items():
        session.gpus.find(name)
        assert all(0 < figure.low < figure.high for figure in part.figure)
    (tmp_path / "x.toml").write_text(
        'gpu = "T4"\nsource = "s"\nretrieved = 2026-01-01\n[[figure]]\npoint = "p"\nlow = "1"\nhigh = 2\n'
    )
    with pytest.raises(UserError, match="low"):
        load_expected(tmp_path)
