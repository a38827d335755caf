"""A device that was never built, with ceilings we chose, speaks the worker's protocol: the planner has to find them again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.protocol import Bye, Hello, Message, Plan, Result, encode
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE
from planner.observe.benchmark.journal import journal_path
from planner.session import Session

pytest.importorskip("torch")

from bench import suite  # it imports torch
from bench.kinds.collective import GPU_SIZES, bus_factor  # see above
from bench.machine.environment import Device  # see above
from bench.products.matmul import operand_bytes, output_bytes  # see above

pytestmark = pytest.mark.torch

RATES = {"bf16": 655e12, "fp16": 640e12, "fp8": 1210e12, "tf32": 370e12, "fp32": 48e12, "int8": 1300e12}
BANDWIDTH, KERNEL_S, KNEE = 2.93e12, 3.4e-6, 2.4
EMPTY_KERNEL_S, BARE_LAUNCH_S = 1.1e-6, 3.5e-6
"""Smaller than what a product and an operator under autocast take: no plan may rest on them."""
ALL_REDUCE_S, ALL_REDUCE_SHARE, RANKS = 22e-6, 0.78, 8
NOISE = 0.004


def all_reduce_s(wire: float) -> float:
    q = COLLECTIVE_KNEE
    total: float = (ALL_REDUCE_S**q + (wire / (ALL_REDUCE_SHARE * 450e9)) ** q) ** (1 / q)
    return total


def spoken_by_a_made_up_gpu(seed: int = 1) -> list[Message]:
    """What the worker would say of the standard suite on it, with some noise."""
    draw = random.Random(seed)  # noqa: S311  # noise that is the same every time
    device = Device("cuda:0", "NVIDIA H100 80GB HBM3", 80e9, 50 * 2.0**20, 1, capability=(9, 0))
    points = {job.point.id: job.point for job in suite.jobs("standard", device, suite.SuiteOptions(ranks=RANKS))}
    said: list[Message] = [
        Hello(
            schema=1,
            method=1,
            pid=1,
            device="cuda:0",
            device_name=device.name,
            machine={"device": device.name},
            software={},
            environment={},
        ),
        Plan(suite="standard", points=tuple(points.values())),
    ]

    def tell(name: str, dtype: str | None, seconds: float, amount: float, unit: str, **facts: object) -> None:
        samples = tuple(seconds * draw.gauss(1, NOISE) for _ in range(20))
        middle = sorted(samples)[10]
        value = middle if unit in {"s", "B"} else amount / middle
        parameters = facts.pop("parameters", {})
        assert isinstance(parameters, dict)
        said.append(
            Result(
                point=name,
                kind=points[name].kind,
                dtype=dtype,
                parameters=parameters,
                value=value,
                low=value * 0.99,
                high=value * 1.01,
                unit=unit,
                status="ok",
                samples_s=samples,
                taken_at="2026-01-01T00:00:00Z",
                **facts,  # type: ignore[arg-type]  # flop and bytes
            )
        )

    for name, point in points.items():
        words = name.split("/")
        dtype, slow = words[1].removesuffix("-fast"), words[1] == "fp8"
        if point.kind == "gemm" and dtype in RATES:
            m, n, k = map(int, words[2].split("x"))
            flop = 2.0 * m * n * k
            moved = float(operand_bytes(dtype) * (m * k + k * n) + output_bytes(dtype) * m * n)
            work = ((flop / RATES[dtype]) ** KNEE + (moved / BANDWIDTH) ** KNEE) ** (1 / KNEE)
            parameters: dict[str, object] = {"accumulation": "fast"} if dtype != words[1] else {}
            tell(name, dtype, KERNEL_S + work * (1.2 if slow else 1), flop, "FLOP/s", flop=flop, bytes=moved, parameters=parameters)
        elif point.kind == "gemv":
            rows, columns = map(int, words[2].split("x"))
            moved = 2.0 * rows * columns
            tell(name, "bf16", KERNEL_S + moved / BANDWIDTH, moved, "B/s", bytes=moved, parameters={"cache": "cold"})
        elif point.kind == "copy":
            tell(name, None, 2e9 / (0.96 * BANDWIDTH), 2e9, "B/s", bytes=2e9, parameters={"cache": "cold"})
        elif point.kind == "launch":
            tell(name, None, EMPTY_KERNEL_S if name == "launch/kernel" else BARE_LAUNCH_S, 1.0, "s")
        elif name == f"collective/all_reduce/{RANKS}":
            wires = [(size, bus_factor("all_reduce", RANKS) * size) for size in GPU_SIZES]
            series = [[size, all_reduce_s(wire)] for size, wire in wires]
            parameters = {"op": "all_reduce", "ranks": RANKS, "series": series}
            tell(name, None, all_reduce_s(wires[-1][1]), wires[-1][1], "B/s", bytes=wires[-1][1], parameters=parameters)
        elif name == "memory/context":
            tell(name, None, 5.5e8, 5.5e8, "B", parameters={"of": "test"})
    return [*said, Bye(reason="finished")]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    path = journal_path(tmp_path, "20260101T000000Z-abcdef")
    path.write_bytes(b"".join(encode(message) for message in spoken_by_a_made_up_gpu()))
    session = Session.open(state=tmp_path, config=tmp_path / "config")
    assert {one.device for one in session.store.all()} == {"H100 SXM5 80GB"}
    assert len(session.store) > 15
    return session


def test_what_was_put_in_comes_out_within_three_per_cent(session: Session) -> None:
    found = session.ceilings(session.gpus.find("H100 SXM5 80GB"))
    for dtype, rate in RATES.items():
        assert found.compute_flop_per_s[dtype].value == pytest.approx(rate, rel=0.03), dtype
        assert found.compute_flop_per_s[dtype].basis == "measured"
    assert found.bandwidth_bytes_per_s.value == pytest.approx(BANDWIDTH, rel=0.03)
    assert found.kernel_latency_s.value == pytest.approx(KERNEL_S, rel=0.03)
    assert found.launch_s.basis == "spec"
    assert found.context_bytes is not None
    assert found.context_bytes.value == pytest.approx(5.5e8, rel=0.03)
    collective = found.collective("all_reduce", RANKS, "nvlink")
    assert collective is not None
    assert collective.latency_s.value == pytest.approx(ALL_REDUCE_S, rel=0.03)
    assert collective.efficiency.value == pytest.approx(ALL_REDUCE_SHARE, rel=0.03)
    assert collective.latency_s.basis == "measured"


def test_the_fit_says_how_well_it_fits_and_what_it_changed(session: Session) -> None:
    from planner.hardware.ceilings.report import report

    part = session.gpus.find("H100 SXM5 80GB")
    found = report(part, session.ceilings(part), session.ceilings(part, basis="spec"), session.measurements())
    assert found.residual_median is not None
    assert found.residual_median < 0.03
    lines = {line.name: line for line in found.lines}
    bf16 = lines["compute bf16"]
    assert bf16.before is not None
    assert bf16.before != bf16.value
    assert bf16.low < RATES["bf16"] < bf16.high


def test_the_plan_moves_and_can_be_taken_back(session: Session) -> None:
    workload = session.workload(
        {
            "model": "Qwen/Qwen3-8B",
            "task": "generate",
            "engine": "vllm",
            "batch": 1,
            "input_tokens": 512,
            "output_tokens": 128,
            "gpus_considered": ["H100 SXM5 80GB"],
            "max_gpus": 1,
        }
    )
    measured = next(row for row in session.plan(workload).rows if row.rank)
    spec = next(row for row in session.plan(workload, basis="spec").rows if row.rank)
    assert (measured.basis, spec.basis) == ("measured", "public")
    assert measured.spec_answer is not None
    assert measured.answer.decode_tokens_per_s is not None
    assert spec.answer.decode_tokens_per_s is not None
    assert measured.answer.decode_tokens_per_s.value != spec.answer.decode_tokens_per_s.value
