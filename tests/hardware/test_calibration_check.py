"""A calibration is used where it predicts whole steps better, and told and left out where it predicts them worse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measurement_sample import measurement

from planner.engine.estimate.benchmark_point import predicted_figure
from planner.hardware.measurements.measurement import Measurement
from planner.present.benchmark.measurement import change_sections, check_text
from planner.session import Session
from planner.session.before_after import WORKLOADS, change_of

PART = "H100 SXM5 80GB"
STEP = {"model": "qwen3-study-w1024", "batch": 64, "sequence": 256, "tokens": 64 * 256, "recipe": "amp"}
FLOP = 2.0 * 8192**3


def product(flop_per_s: float) -> Measurement:
    return measurement(
        point="gemm/bf16/8192x8192x8192", kind="gemm", device=PART, dtype="bf16", value=flop_per_s, flop=FLOP, bytes=6.0 * 8192**2
    )


def step(flop_per_s: float, **parameters: Any) -> Measurement:
    return measurement(
        point="train/x", kind="train", device=PART, dtype="bf16", value=flop_per_s, flop=1e13, parameters=STEP | parameters
    )


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(state=tmp_path, config=tmp_path / "config")


def predicted(session: Session, basis: Any, *points: Measurement) -> float:
    """FLOP/s of the step by published figures, or by these points."""
    gpu = session.gpus.find(PART)
    ceilings = session.ceilings_cache.ceilings_by(gpu, points) if basis == "measured" else session.ceilings(gpu, basis="spec")
    figure = predicted_figure(step(1.0), gpu, ceilings, session.architecture)
    assert figure is not None
    return figure.value


@pytest.mark.parametrize(("slower", "whose", "accepted"), [(2.0, "spec", False), (2.0, "measured", True), (1.01, "spec", True)])
def test_whole_steps_judge_the_ceilings(
    session: Session, slower: float, whose: str, accepted: bool
) -> None:  # a parameter of the test
    """`whose` prediction comes true."""
    gpu = session.gpus.find(PART)
    usual = session.ceilings(gpu, basis="spec").compute_flop_per_s["bf16"].value
    seen = product(usual / slower)
    session.store.add(seen)
    session.store.add(step(predicted(session, whose, seen)))
    check = session.ceilings_cache.check(gpu)
    assert (len(check.points), check.accepted) == (1, accepted)
    reached = session.ceilings(gpu).compute_flop_per_s["bf16"]
    assert (reached.basis == "measured") is accepted
    assert session.ceilings(gpu).train_points  # the step itself is believed either way
    assert check_text(check).startswith("Plans use" if accepted else "Plans do not use")


def test_a_step_that_waits_for_its_host_judges_nothing(session: Session) -> None:
    session.store.add(step(1e12, tokens=64))
    assert session.ceilings_cache.check(session.gpus.find(PART)).points == []


def test_plans_before_and_after_are_told(session: Session) -> None:
    gpu = session.gpus.find(PART)
    session.store.add(product(session.ceilings(gpu, basis="spec").compute_flop_per_s["bf16"].value / 2))
    change = change_of(session, gpu)
    plans = {plan.workload: plan for plan in change.plans}
    assert list(plans) == list(WORKLOADS)
    slowed = plans["llama-3.1-8b-lora"]
    assert slowed.before is not None
    assert slowed.after is not None
    assert slowed.after < 0.8 * slowed.before
    titles = [section.title for section in change_sections(change)]
    assert titles == [f"What measuring {PART} changed", "Whether it predicts better"]
