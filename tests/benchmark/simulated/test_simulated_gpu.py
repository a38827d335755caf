"""A GPU with known figures behind a fake `torch.cuda`: the suite finds each of them, and what disturbs a run moves no plan."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

import torch
from simulated_gpu import Truth, simulated
from simulated_machine import simulated_machine

from bench import suite, worker
from bench.kinds import bandwidth, overheads, training
from bench.kinds.transformer import CPU_SHAPE, SMOKE_SHAPE, Qwen3Shape
from bench.machine import cuda
from bench.machine.environment import Device
from bench.points import Bench
from bench.products import grouped, matmul
from bench.protocol import Point, Result, breaks_device
from planner.hardware.catalogue.gpus import Gpu, load_gpus
from planner.hardware.ceilings.calibration import ceilings_of
from planner.hardware.ceilings.ceilings import Ceilings
from planner.hardware.ceilings.records import CeilingRecords, load_ceiling_records
from planner.hardware.measurements.measurement import Measurement
from planner.paths import presets_folder

pytestmark = pytest.mark.torch

PART = "H100 SXM5 80GB"
PRODUCTS = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (512, 8192, 8192),
    (128, 8192, 8192),
    (1024, 3072, 1024),
    (2048, 2048, 2048),
    (256, 256, 256),
)


def point(name: str) -> Point:
    return Point(id=name, kind=name.partition("/")[0], label=name, device="cuda:0", expected_s=1.0, cap_s=1.0)


def products(bench: Bench) -> list[Result]:
    return [
        matmul.measure_gemm(bench, point(f"gemm/{dtype}/{m}x{n}x{k}"), dtype, m, n, k)
        for dtype in ("bf16", "fp32")
        for m, n, k in PRODUCTS
    ]


def streams(bench: Bench) -> list[Result]:
    return [
        bandwidth.measure_gemv(bench, point("gemv/bf16/28672x8192"), "bf16", 28672, 8192),
        bandwidth.measure_copy(bench, point("copy/memory"), 2**31),
        overheads.measure_kernel(bench, point("launch/kernel")),
        overheads.measure_eager(bench, point("launch/eager")),
    ]


def small_step(bench: Bench, shape: Qwen3Shape = CPU_SHAPE) -> list[Result]:
    return [training.measure_step(bench, point("train/x"), shape, "bf16", 1, suite.HOST_BOUND_TOKENS)]


def kept(results: list[Result]) -> list[Measurement]:
    """The results as the planner stores them."""
    own = {"device": PART, "fingerprint": "a-b", "suite": "quick", "run": "r"}
    fields = [name for name in Measurement.__struct_fields__ if hasattr(results[0], name)]
    return [msgspec.convert({name: getattr(one, name) for name in fields} | own, type=Measurement, strict=False) for one in results]


@pytest.fixture(scope="module")
def records() -> CeilingRecords:
    return load_ceiling_records(presets_folder() / "ceilings")


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return load_gpus(presets_folder() / "gpus").find(PART)


def measured(
    truth: Truth, monkeypatch: pytest.MonkeyPatch, gpu: Gpu, records: CeilingRecords, *kinds: Callable[[Bench], list[Result]]
) -> Ceilings:
    with simulated(truth, monkeypatch) as bench:
        results = [result for kind in kinds for result in kind(bench)]
    return ceilings_of(gpu, records, kept(results))


def test_the_truth_comes_out_within_five_per_cent(monkeypatch: pytest.MonkeyPatch, gpu: Gpu, records: CeilingRecords) -> None:
    truth = Truth(grouped=0.7)

    def experts(bench: Bench) -> list[Result]:
        shape = suite.GPU_EXPERTS
        return [
            grouped.measure_grouped(bench, point(f"grouped/{tokens}"), "bf16", shape[0], tokens, *shape[1:])
            for tokens in suite.EXPERT_TOKENS
        ]

    found = measured(truth, monkeypatch, gpu, records, products, streams, experts)
    assert found.compute_flop_per_s["bf16"].value == pytest.approx(truth.flop_per_s["bf16"], rel=0.05)
    assert found.compute_flop_per_s["fp32"].value == pytest.approx(truth.flop_per_s["fp32"], rel=0.05)
    assert found.bandwidth_bytes_per_s.value == pytest.approx(truth.bandwidth_bytes_per_s, rel=0.05)
    assert found.weight_bandwidth("bf16").value == pytest.approx(truth.bandwidth_bytes_per_s, rel=0.05)
    assert found.kernel_latency_s.value == pytest.approx(truth.product_s, rel=0.05)
    assert found.knee == pytest.approx(truth.knee, rel=0.1)
    assert found.grouped_rate is not None
    assert found.grouped_rate.value == pytest.approx(truth.grouped, rel=0.05)


def test_only_a_flush_that_reads_shows_the_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Truth()
    with simulated(truth, monkeypatch) as bench:
        rates = {
            way: bandwidth.measure_gemv(bench, point(f"gemv/{way}"), "bf16", 8192, 8192, way).value or 0.0
            for way in ("read", *bandwidth.OTHER_FLUSHES)
        }
    assert rates["write"] < 0.8 * rates["read"]
    assert rates["read"] == pytest.approx(2 * 8192**2 / (truth.product_s + 2 * 8192**2 / truth.bandwidth_bytes_per_s), rel=0.05)


def test_an_operator_of_training_costs_its_host_what_training_costs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare addition takes a third of an operator under autocast: the step that waits for its host times the latter."""
    truth, layer = Truth(), dataclasses.replace(CPU_SHAPE, depth=1)
    with simulated(truth, monkeypatch) as bench:
        (step,) = small_step(bench, layer)
        bare = overheads.measure_eager(bench, point("launch/eager"))
        slower = dataclasses.replace(truth, autocast_host_s=2 * truth.autocast_host_s)
    with simulated(slower, monkeypatch) as bench:
        (twice,) = small_step(bench, layer)
    assert bare.value == pytest.approx(truth.host_s, rel=0.05)
    assert step.flop is not None
    assert step.value is not None
    assert twice.value is not None
    assert step.value / twice.value > 1.7  # the host decides it
    assert 90 < step.flop / step.value / truth.autocast_host_s < 270  # operators of a step of one layer


@pytest.mark.parametrize(
    ("truth", "status"),
    [
        (Truth(neighbour=0.6), "shared"),
        (Truth(held_down=0.4, bandwidth_bytes_per_s=1.2e12), "throttled"),
    ],
)
def test_a_disturbed_run_says_so_and_moves_no_plan_that_rests_on_more(
    monkeypatch: pytest.MonkeyPatch, gpu: Gpu, records: CeilingRecords, truth: Truth, status: str
) -> None:
    """Two and a half times too slow, by a neighbour or by heat, as the driver tells: the published figures of the part stay."""
    with simulated_machine(truth, monkeypatch) as bench:
        bench.crowded = worker._crowded(bench)
        results = [*products(bench), *streams(bench), *(small_step(bench, SMOKE_SHAPE) if status == "shared" else [])]
    assert {one.status for one in results} == {status}
    assert ceilings_of(gpu, records, kept(results)) == ceilings_of(gpu, records)
    unstable = [msgspec.structs.replace(one, status="unstable") for one in kept(results)]
    assert ceilings_of(gpu, records, unstable) == ceilings_of(gpu, records)


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx", True),
        ("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmulAlgoGetHeuristic", False),
        ("CUDA error: no kernel image is available for execution on the device", False),
        ("expected scalar type Half but found Float", False),
    ],
)
def test_a_refusal_leaves_the_device_whole(message: str, broken: bool) -> None:  # a parameter of the test
    assert breaks_device(message) is broken


@pytest.mark.parametrize(
    ("capability", "built", "refused"),
    [
        ((9, 0), ["sm_80", "sm_90"], False),
        ((8, 9), ["sm_80", "sm_90"], False),
        ((12, 0), ["sm_80", "sm_90"], True),
        ((12, 0), ["sm_80", "compute_90"], False),
        ((7, 0), ["sm_75", "sm_80", "sm_90a"], True),
        ((9, 4), ["gfx942"], False),
    ],
)
def test_a_gpu_without_kernels_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    built: list[str],
    refused: bool,  # a parameter of the test
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)
    with pytest.raises(RuntimeError, match="no kernels for compute capability") if refused else contextlib.nullcontext():
        cuda.refuse_foreign_kernels("cuda:0")


@pytest.mark.parametrize(("capability", "dtype"), [((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")])
def test_parts_without_bf16_are_measured_in_fp16(capability: tuple[int, int], dtype: str) -> None:
    device = Device("cuda:0", "NVIDIA", 16e9, 6 * 2.0**20, 1, capability=capability)
    for name in ("quick", "standard"):
        ids = [job.point.id for job in suite.jobs(name, device)]
        assert not any("bf16" in one for one in ids) or dtype == "bf16"
        assert any(one.startswith(f"train/qwen3-study-w1024/{dtype}") for one in ids)
        assert len(ids) == len(set(ids)) or name == "standard"


def test_a_gpu_that_is_almost_full_gets_a_smaller_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 100 * 2**20

    def zeros(count: int, **_: Any) -> int:
        if 4 * count > free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 4 * count

    monkeypatch.setattr(torch, "zeros", zeros)
    assert cuda._room(cuda.FLUSH_BYTES, "cuda:0") == 64 * 2**20
    free = 2**20
    with pytest.raises(torch.OutOfMemoryError):
        cuda._room(cuda.FLUSH_BYTES, "cuda:0")
