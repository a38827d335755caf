"""Points of experts and of their exchange: the truth comes out, and what predicts no better is not used."""

from __future__ import annotations

import math

import pytest
from measurement_sample import measurement

from planner.hardware.catalogue.gpus import Gpu, load_gpus
from planner.hardware.ceilings.calibration import ceilings_of, grouped_rate_of
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE, Ceilings
from planner.hardware.ceilings.measured_collectives import collectives_of
from planner.hardware.ceilings.records import load_ceiling_records
from planner.hardware.measurements.measurement import Measurement
from planner.paths import presets_folder
from planner.session import Session
from planner.workload.tasks import Request

PART = "H100 SXM5 80GB"
EXPERTS, N, K = 64, 1536, 2048
TOKENS = (1, 4, 16, 64, 256)
SIZES = (2**15, 2**20, 2**24, 2**28)
MIXTURE = "qwen3-30b-a3b"


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return load_gpus(presets_folder() / "gpus").find(PART)


@pytest.fixture(scope="module")
def prior(gpu: Gpu) -> Ceilings:
    return ceilings_of(gpu, load_ceiling_records(presets_folder() / "ceilings"))


def experts(prior: Ceilings, rates: tuple[float, ...], **changes: object) -> list[Measurement]:
    """Grouped products that are `rates` as fast as the formula of single ones."""
    found = []
    for tokens, rate in zip(TOKENS, rates, strict=True):
        flop = 2.0 * EXPERTS * tokens * N * K
        moved = 2.0 * EXPERTS * (tokens * K + K * N + tokens * N)
        work_s = (
            (flop / prior.compute_flop_per_s["bf16"].value) ** prior.knee
            + (moved / prior.bandwidth_bytes_per_s.value) ** prior.knee
        ) ** (1 / prior.knee)
        seconds = (prior.kernel_latency_s.value + work_s) / rate
        given: dict[str, object] = {"kind": "grouped", "device": PART, "dtype": "bf16", "value": flop / seconds, "flop": flop}
        given |= {"bytes": moved, "low": None, "high": None}
        found.append(measurement(point=f"grouped/bf16/{tokens}", **(given | changes)))
    return found


def test_the_rate_of_grouped_products_comes_out(prior: Ceilings) -> None:
    found = grouped_rate_of(experts(prior, (0.58, 0.6, 0.62, 0.6, 0.59)), prior)
    assert found is not None
    assert found.value == pytest.approx(0.6, rel=0.05)
    assert found.basis == "measured"


@pytest.mark.parametrize(
    ("rates", "changes"),
    [
        ((0.6, 1.0, 0.6, 1.0, 0.6), {}),  # those between are predicted better by 1
        ((0.6,) * 5, {"status": "shared"}),
        ((0.6,) * 5, {"dtype": "fp4"}),
    ],
)
def test_what_predicts_no_better_is_not_used(prior: Ceilings, rates: tuple[float, ...], changes: dict[str, object]) -> None:
    assert grouped_rate_of(experts(prior, rates, **changes), prior) is None
    assert grouped_rate_of(experts(prior, (0.6,) * 5)[:3], prior) is None


def test_experts_of_torch_take_the_measured_rate_and_those_of_other_engines_do_not(
    prior: Ceilings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def seconds(engine: str, points: list[Measurement]) -> float:
        session = Session.open(state=tmp_path_factory.mktemp("state"))
        for one in points:
            session.store.add(one)
        fields = {"task": "generate", "engine": engine, "model": MIXTURE, "gpu": PART, "gpus": 8, "tp": 8, "dtype": "bf16"}
        more = {"batch": 8, "input_tokens": 1024, "output_tokens": 8}
        (answer,) = session.estimate([Request(**fields, **more)])  # type: ignore[arg-type]  # fields of a request
        assert not isinstance(answer, Exception), answer
        assert answer.prefill_s is not None
        return answer.prefill_s.value

    slow = experts(prior, (0.5,) * 5)
    assert seconds("torch", slow) > 1.04 * seconds("torch", [])
    assert seconds("vllm", slow) == pytest.approx(seconds("vllm", []))


def series(op: str, latency_s: float, rate: float, ranks: int = 8, bent: float = 1.0) -> Measurement:
    q, factor = COLLECTIVE_KNEE, (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks
    times = [(latency_s**q + (factor * size / rate) ** q) ** (1 / q) for size in SIZES]
    times[1:-1] = [bent * one for one in times[1:-1]]
    parameters = {"op": op, "ranks": ranks, "nodes": 1, "series": [list(one) for one in zip(SIZES, times, strict=True)]}
    return measurement(
        point=f"collective/{op}/{ranks}", kind="collective", device=PART, value=rate, parameters=parameters, dtype=None
    )


def test_an_exchange_has_its_own_latency_and_rate(gpu: Gpu) -> None:
    found = {one.op: one for one in collectives_of([series("all_reduce", 20e-6, 300e9), series("alltoall", 30e-6, 240e9)], gpu)}
    assert found["alltoall"].latency_s.value == pytest.approx(30e-6, rel=0.05)
    assert found["alltoall"].efficiency.value / found["all_reduce"].efficiency.value == pytest.approx(0.8, rel=0.05)


def test_an_exchange_that_an_all_reduce_predicts_better_keeps_its_figures(gpu: Gpu) -> None:
    bent = series("alltoall", 30e-6, 240e9, bent=0.4)
    assert [one.op for one in collectives_of([series("all_reduce", 10e-6, 450e9), bent], gpu)] == ["all_reduce"]
    assert math.isclose(collectives_of([bent], gpu)[0].latency_s.value, 30e-6, rel_tol=0.05)  # alone there is nothing better
