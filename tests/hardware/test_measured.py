"""What the points of one device tell of its ceilings, each rule by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.hardware.catalogue.gpus import load_gpus
from planner.hardware.ceilings.calibration import ceilings_of
from planner.hardware.ceilings.ceilings import Ceilings, spread_of
from planner.hardware.ceilings.measured import figures_of
from planner.hardware.ceilings.products import Product, rate_of_products
from planner.hardware.ceilings.records import load_ceiling_records
from planner.hardware.measurements.measurement import Measurement, MeasurementKind
from planner.paths import presets_folder


@pytest.fixture(scope="module")
def prior() -> Ceilings:
    gpu = load_gpus(presets_folder() / "gpus").find("L4")
    return ceilings_of(gpu, load_ceiling_records(presets_folder() / "ceilings"))


def point(kind: MeasurementKind, value: float, name: str = "", **more: Any) -> Measurement:
    given: dict[str, Any] = {"status": "ok", "run": "r1", "low": value, "high": value} | more
    return Measurement(
        point=name or f"{kind}/x",
        kind=kind,
        device="L4",
        fingerprint="machine-software",
        value=value,
        taken_at="2026-01-01T00:00:00Z",
        suite="quick",
        **given,
    )


def test_a_point_is_as_sure_as_its_interval_its_board_and_its_quiet() -> None:
    wide: dict[str, Any] = {"low": 1e12 / 1.2, "high": 1.2e12}
    interval = math.log(1.2) * 1.645 / 1.960  # of the 95 % interval, the part that is 90 %
    assert spread_of(point("gemm", 1e12)) == pytest.approx(0.05)
    assert spread_of(point("gemm", 1e12, **wide)) == pytest.approx(math.hypot(interval, 0.05))
    assert spread_of(point("gemm", 1e12, origin="imported", **wide)) == pytest.approx(math.hypot(interval, 0.05, 0.10))
    assert spread_of(point("gemm", 1e12, status="shared")) == pytest.approx(math.hypot(0.05, 0.7))


def test_a_rate_is_the_mean_of_logarithms_weighted_by_arithmetic() -> None:
    small, large = Product(1e12, 0.0, 1e12 / 10e12, 0.05), Product(9e12, 0.0, 9e12 / 20e12, 0.05)
    found = rate_of_products([small, large], 0.0, 300e9, 2.0)
    assert found is not None
    assert found.value == pytest.approx(math.exp(0.1 * math.log(10e12) + 0.9 * math.log(20e12)))


def test_a_product_that_memory_decides_says_nothing_of_arithmetic() -> None:
    arithmetic = Product(10e12, 1e9, 1.0 + 1e9 / 300e9, 0.05)
    reading = Product(1e12, 300e9, 1.0 + 0.4, 0.05)  # 0.4 s of arithmetic beside 1 s of memory, one after the other
    both = rate_of_products([arithmetic, reading], 0.0, 300e9, 1.0)
    assert both is not None
    assert both.value == pytest.approx(10e12)
    alone = rate_of_products([reading], 0.0, 300e9, 1.0)
    assert alone is not None
    assert alone.value == pytest.approx(1e12 / 1.4)
    assert alone.spread == pytest.approx(math.hypot(0.05, 0.3))


def test_reading_alone_beats_a_copy_by_half_at_most(prior: Ceilings) -> None:
    copy = point("copy", 200e9, parameters={"cache": "cold"})
    gemv = point("gemv", 900e9, dtype="bf16", bytes=1e12, parameters={"cache": "cold"})
    found = figures_of([copy, gemv], prior, on_cpu=False)
    assert found.weight_bandwidth_bytes_per_s["bf16"].value == pytest.approx(300e9)
    assert found.bandwidth_bytes_per_s is not None
    assert found.bandwidth_bytes_per_s.spread == pytest.approx(math.hypot(0.05, 0.25 * math.log(1.5)))


def test_a_disturbed_copy_sets_no_limit_to_an_undisturbed_product(prior: Ceilings) -> None:
    copy = point("copy", 6e9, parameters={"cache": "cold"}, status="shared")
    gemv = point("gemv", 31.4e9, dtype="bf16", bytes=1e12, parameters={"cache": "cold"})
    found = figures_of([copy, gemv], prior, on_cpu=True)
    assert found.bandwidth_bytes_per_s is not None
    assert found.bandwidth_bytes_per_s.value == pytest.approx(31.4e9, rel=0.01)
    assert found.bandwidth_bytes_per_s.spread < 0.2


def test_memory_that_is_no_tensor_is_bytes_and_a_share(prior: Ceilings) -> None:
    context = point("memory", 500e6, "memory/context")
    slack = point("memory", 50e6, "memory/slack", parameters={"allocated_bytes": 1e9})
    found = figures_of([context, slack], prior, on_cpu=False)
    assert found.context_bytes is not None
    assert found.allocator_slack is not None
    assert found.context_bytes.value == 500e6
    assert found.allocator_slack.value == pytest.approx(0.05)
    kept_nothing = figures_of([point("memory", 1.0, "memory/slack", parameters={"allocated_bytes": 1e9})], prior, on_cpu=False)
    assert kept_nothing.allocator_slack is not None
    assert kept_nothing.allocator_slack.value == 1e-3
    assert figures_of([point("memory", 50e6, "memory/slack")], prior, on_cpu=False).allocator_slack is None


@pytest.mark.parametrize("status", ["shared", "throttled", "unstable"])
def test_disturbed_steps_and_bytes_are_not_used(prior: Ceilings, status: str) -> None:
    """A step of 243 ms beside a neighbour took 440, and every plan for the part with it."""
    points = [
        point("memory", 500e6, "memory/context", status=status),
        point("memory", 50e6, "memory/slack", parameters={"allocated_bytes": 1e9}, status=status),
        point("train", 50e12, "train/x", dtype="bf16", flop=1e13, status=status),
    ]
    found = figures_of(points, prior, on_cpu=False)
    assert (found.context_bytes, found.allocator_slack, found.train_points) == (None, None, ())
