"""A training step that was measured moves what it shows and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from planner.engine.evaluate.measured_steps import described, with_measured_steps
from planner.engine.performance.operators.chip import Chip, chip_of
from planner.hardware.ceilings.ceilings import Ceiling, TrainPoint
from planner.session import Session

LARGE = {"model": "qwen3-study-w1024", "batch": 64, "sequence": 256, "recipe": "amp"}
TINY = {"model": "qwen3-study-w256", "batch": 1, "sequence": 64, "recipe": "amp"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("state")
    return Session.open(state=folder, config=folder / "config")


@pytest.fixture(scope="module")
def usual(session: Session) -> Chip:
    h100 = session.gpus.find("H100 SXM5 80GB")
    chip = chip_of(h100, session.ceilings(h100, basis="spec"), "bf16", "bf16")
    assert chip is not None
    return chip


def measured(session: Session, truth: Chip, *given: dict[str, object]) -> tuple[TrainPoint, ...]:
    """The points of steps on a GPU whose true figures are those of `truth`."""
    rate = Ceiling(1.0, 0.05, "measured", "test")
    steps = [described(truth, TrainPoint("p", "bf16", dict(one), rate, 1.0), session.architecture) for one in given]
    times = [step.predicted_s(truth) for step in steps if step is not None]
    return tuple(TrainPoint("p", "bf16", dict(one), rate, seconds) for one, seconds in zip(given, times, strict=True))


@pytest.mark.parametrize(
    ("launch", "device", "given", "found_launch", "found_device"),
    [
        (2.0, 1.3, (TINY, LARGE), 2.0, 1.3),
        (2.0, 1.3, (TINY,), 2.0, 1.0),
        (1.0, 0.8, (LARGE,), 1.0, 0.8),
        (0.5, 1.0, (TINY, LARGE), 0.5, 1.0),
    ],
)
def test_host_and_device_time_are_told_apart(
    session: Session,
    usual: Chip,
    launch: float,
    device: float,
    given: tuple[dict[str, object], ...],
    found_launch: float,
    found_device: float,
) -> None:
    usual = replace(usual, train_factor=1.0)
    truth = replace(usual, launch_s=usual.launch_s * launch, train_factor=device)
    found = with_measured_steps(usual, measured(session, truth, *given), session.architecture)
    assert found.launch_s / usual.launch_s == pytest.approx(found_launch, rel=0.02)
    assert found.train_factor == pytest.approx(found_device, rel=0.05)


def test_a_step_that_nothing_explains_moves_nothing(session: Session, usual: Chip) -> None:
    (point,) = measured(session, usual, TINY)
    impossible = replace(point, step_s=(point.step_s or math.nan) / 1e4)
    assert with_measured_steps(usual, (impossible,), session.architecture) == usual
