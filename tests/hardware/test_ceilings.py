"""Ceilings: records as shipped, precedence of what was measured, and the arithmetic checked by hand."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue, load_gpus
from planner.hardware.ceilings.calibration import ceilings_of
from planner.hardware.ceilings.ceilings import Ceiling, Ceilings
from planner.hardware.ceilings.records import CeilingRecords, load_ceiling_records
from planner.hardware.measurements.measurement import Measurement, MeasurementKind, Status
from planner.paths import presets_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def records() -> CeilingRecords:
    return load_ceiling_records(presets_folder() / "ceilings")


@pytest.fixture(scope="module")
def gpus() -> GpuCatalogue:
    return load_gpus(presets_folder() / "gpus")


@pytest.fixture
def cpu() -> Gpu:
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


def point(kind: MeasurementKind, value: float, *, device: str, name: str = "", status: Status = "ok", **more: Any) -> Measurement:
    given: dict[str, Any] = {"low": value * 0.99, "high": value * 1.01, "parameters": {"cache": "cold"}} | more
    return Measurement(
        point=name or f"{kind}/x",
        kind=kind,
        device=device,
        fingerprint="machine-software",
        value=value,
        status=status,
        taken_at="2026-01-01T00:00:00Z",
        suite="quick",
        run="r1",
        **given,
    )


def gemm(device: str, dtype: str, size: int, seconds: float, status: Status = "ok") -> Measurement:
    flop = 2.0 * size**3
    return point(
        "gemm",
        flop / seconds,
        device=device,
        name=f"gemm/{dtype}/{size}",
        status=status,
        dtype=dtype,
        flop=flop,
        bytes=6.0 * size**2,
    )


def formula(rates: tuple[float, float, float, float], flop: float, moved: float) -> float:
    compute, bandwidth, latency, knee = rates
    return float(latency + ((flop / compute) ** knee + (moved / bandwidth) ** knee) ** (1 / knee))


def every_ceiling(found: Ceilings) -> list[Ceiling]:
    ceilings = []
    for name in found.__struct_fields__:
        value = getattr(found, name)
        ceilings += [value] if isinstance(value, Ceiling) else list(value.values()) if isinstance(value, dict) else []
    for one in found.collectives:
        ceilings += [one.latency_s, one.efficiency]
    return ceilings


def test_every_part_has_ceilings_within_the_vendors_figures(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    for gpu in gpus.all:
        found = ceilings_of(gpu, records)
        assert set(found.compute_flop_per_s) == set(gpu.compute_flop_per_s), gpu.name
        assert all(found.compute_flop_per_s[dtype].value <= peak for dtype, peak in gpu.compute_flop_per_s.items()), gpu.name
        assert 0.5 < found.bandwidth_bytes_per_s.value / gpu.memory_bandwidth_bytes_per_s < 1
        assert all(one.value > 0 and 0 < one.spread < 4 and one.low < one.value < one.high for one in every_ceiling(found))
        assert all(one.source and one.basis in {"spec", "public", "transferred"} for one in every_ceiling(found)), gpu.name


def test_figures_are_the_vendors_times_the_share(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    l4 = ceilings_of(gpus.find("L4"), records)
    assert l4.compute_flop_per_s["bf16"].value == pytest.approx(121e12 * 0.48)
    assert l4.compute_flop_per_s["bf16"].basis == "spec"
    assert l4.bandwidth_bytes_per_s.value == pytest.approx(300e9 * 0.83)


def test_a_part_measured_elsewhere_is_public_and_its_siblings_dtypes_follow(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    h100 = ceilings_of(gpus.find("H100 SXM5 80GB"), records).compute_flop_per_s
    assert (h100["bf16"].basis, h100["fp8"].basis) == ("public", "public")
    assert h100["fp16"].basis == "transferred"
    assert h100["fp16"].value == pytest.approx(h100["bf16"].value)
    assert h100["fp16"].spread > h100["bf16"].spread
    assert 0.70 * 989.4e12 < h100["bf16"].value < 0.81 * 989.4e12  # MAMF: 794.5 at its best shape
    assert h100["fp32"].basis == "spec"  # vector units: matrix units say nothing of them


def test_a_missing_dtype_stays_missing(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    a100, v100 = gpus.find("A100 80GB SXM"), gpus.find("V100 SXM2 32GB")
    assert "fp8" not in ceilings_of(a100, records).compute_flop_per_s
    found = ceilings_of(v100, records, [gemm(v100.name, "fp16", 8192, 2 * 8192**3 / 95e12)]).compute_flop_per_s
    assert not {"bf16", "tf32", "fp8", "fp4"} & set(found)


def test_a_gpu_nobody_measured_is_less_certain(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    known, unknown = ceilings_of(gpus.find("A100 80GB SXM"), records), ceilings_of(gpus.find("A10"), records)
    assert unknown.compute_flop_per_s["bf16"].spread > 2 * known.compute_flop_per_s["bf16"].spread
    assert unknown.bandwidth_bytes_per_s.spread > known.bandwidth_bytes_per_s.spread


@pytest.mark.parametrize(("desk", "rack"), [("RTX A6000", "A40"), ("RTX 6000 Ada", "L40")])
def test_ecc_of_gddr_takes_one_byte_of_sixteen(desk: str, rack: str, records: CeilingRecords, gpus: GpuCatalogue) -> None:
    """The same processor and memory, with ECC turned off on cards for desks and on in data centres."""
    shares = [records.of(gpus.find(name)) for name in (desk, rack)]
    without, having = (next(one.bandwidth_efficiency for one in found if one.bandwidth_efficiency) for found in shares)
    assert without.value / having.value == pytest.approx(16 / 15, rel=0.02)


def test_more_peak_of_one_kind_is_more_rate(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    rates = [
        ceilings_of(gpus.find(name), records).compute_flop_per_s["bf16"].value for name in ("RTX A4000", "RTX A5000", "RTX A6000")
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2]


def test_measured_rates_come_back_from_times_the_formula_makes(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu = gpus.find("L4")
    truth = (50e12, 250e9, 3e-6, 2.0)
    flat = [gemm(gpu.name, "bf16", size, formula(truth, 2.0 * size**3, 6.0 * size**2)) for size in (256, 1024, 2048, 4096, 8192)]
    kernel = point("launch", 1e-6, device=gpu.name, name="launch/kernel", parameters={})
    weights = 2.0 * 28672 * 8192
    gemv = point("gemv", weights / (3e-6 + weights / 250e9), device=gpu.name, dtype="bf16", bytes=weights)
    copy = point("copy", 240e9, device=gpu.name, name="copy/memory")
    found = ceilings_of(gpu, records, [*flat, kernel, gemv, copy])
    assert found.compute_flop_per_s["bf16"].value == pytest.approx(50e12, rel=0.01)
    assert found.compute_flop_per_s["bf16"].basis == "measured"
    assert found.compute_flop_per_s["bf16"].spread < 0.1
    assert found.bandwidth_bytes_per_s.value == pytest.approx(250e9, rel=1e-3)
    assert found.weight_bandwidth("bf16").basis == "measured"
    assert found.kernel_latency_s.value == pytest.approx(3e-6, rel=0.05)  # of products, not of the emptiest kernel


def test_unmeasured_figures_move_with_measured_ones(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu = gpus.find("L4")
    before = ceilings_of(gpu, records)
    halved = before.compute_flop_per_s["bf16"].value / 2
    copy = point("copy", before.bandwidth_bytes_per_s.value / 2, device=gpu.name, name="copy/memory")
    after = ceilings_of(gpu, records, [gemm(gpu.name, "bf16", 16384, 2 * 16384**3 / halved), copy])
    ratio = after.compute_flop_per_s["bf16"].value / before.compute_flop_per_s["bf16"].value
    assert ratio == pytest.approx(0.5, rel=0.02)
    for dtype in ("fp16", "fp8", "int8", "tf32"):
        moved = after.compute_flop_per_s[dtype]
        assert moved.value == pytest.approx(before.compute_flop_per_s[dtype].value * ratio)
        assert moved.basis == "transferred"
        assert moved.spread > after.compute_flop_per_s["bf16"].spread
    assert after.attention_flop_per_s["bf16"].value == pytest.approx(before.attention_flop_per_s["bf16"].value * ratio)
    assert after.decode_bandwidth_bytes_per_s.value == pytest.approx(before.decode_bandwidth_bytes_per_s.value / 2)
    assert after.compute_flop_per_s["fp32"] == before.compute_flop_per_s["fp32"]


def test_measured_beats_public(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu = gpus.find("H200 SXM")
    found = ceilings_of(gpu, records, [gemm(gpu.name, "bf16", 8192, 2 * 8192**3 / 600e12)])
    assert found.compute_flop_per_s["bf16"].basis == "measured"
    assert found.compute_flop_per_s["bf16"].value == pytest.approx(605e12, rel=0.02)  # the floor of a kernel is not arithmetic
    assert found.compute_flop_per_s["fp8"].basis == "transferred"


def test_points_of_other_devices_change_nothing_here(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu = gpus.find("L4")
    elsewhere = [gemm("A100 80GB SXM", "bf16", 8192, 0.1)]
    assert ceilings_of(gpu, records, elsewhere) == ceilings_of(gpu, records)


def test_a_measured_part_teaches_its_kind_half_of_what_it_was_off(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu, measured = gpus.find("A10"), gpus.find("A40")
    expected = ceilings_of(measured, records).compute_flop_per_s["bf16"].value
    points = [gemm(measured.name, "bf16", 16384, 2 * 16384**3 / (0.64 * expected))]
    before = ceilings_of(gpu, records).compute_flop_per_s["bf16"]
    after = ceilings_of(gpu, records, points, related=gpus.all).compute_flop_per_s["bf16"]
    assert after.value / before.value == pytest.approx(0.8, rel=0.01)
    assert after.spread < before.spread
    assert after.basis == "transferred"
    assert "A40" in after.source
    public = gpus.find("A100 80GB SXM")
    assert ceilings_of(public, records, points, related=gpus.all) == ceilings_of(public, records)


def test_a_disturbed_point_counts_only_where_less_is_known(records: CeilingRecords, gpus: GpuCatalogue, cpu: Gpu) -> None:
    shared = gemm(cpu.name, "bf16", 2048, 2 * 2048**3 / 100e9, status="shared")
    found = ceilings_of(cpu, records, [shared]).compute_flop_per_s["bf16"]
    assert found.basis == "measured"
    assert found.spread >= 0.7
    solid = gemm(cpu.name, "bf16", 1024, 2 * 1024**3 / 300e9)
    both = ceilings_of(cpu, records, [shared, solid]).compute_flop_per_s["bf16"]
    assert both.value == pytest.approx(300e9, rel=0.05)
    a100 = gpus.find("A100 80GB SXM")
    kept = ceilings_of(a100, records, [gemm(a100.name, "bf16", 8192, 2 * 8192**3 / 50e12, status="shared")])
    assert kept.compute_flop_per_s["bf16"].basis == "public"


def test_points_without_a_value_are_no_points(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    gpu = gpus.find("L4")
    failed = msgspec.structs.replace(gemm(gpu.name, "bf16", 8192, 1.0), value=None, low=None, high=None, status="oom")
    assert ceilings_of(gpu, records, [failed]) == ceilings_of(gpu, records)


def test_a_cpu_is_hardly_known_before_it_is_measured(records: CeilingRecords, cpu: Gpu) -> None:
    found = ceilings_of(cpu, records)
    assert found.compute_flop_per_s["bf16"].value == pytest.approx(0.3 * 800e9)
    assert found.compute_flop_per_s["bf16"].spread >= math.log(4)
    assert found.bandwidth_bytes_per_s.spread >= math.log(3) - 1e-3
    assert set(found.attention_flop_per_s) == {"bf16", "fp32"}
    assert found.collective("all_reduce", 2, "nvlink") is None


def test_a_cpu_dtype_it_was_not_said_to_have_is_there_once_measured(records: CeilingRecords, cpu: Gpu) -> None:
    found = ceilings_of(cpu, records, [gemm(cpu.name, "int8", 1024, 2 * 1024**3 / 900e9)])
    assert found.compute_flop_per_s["int8"].basis == "measured"
    assert "int8" not in ceilings_of(cpu, records).compute_flop_per_s


def test_a_warm_vector_product_says_nothing_of_memory(records: CeilingRecords, cpu: Gpu) -> None:
    warm = point("gemv", 300e9, device=cpu.name, dtype="bf16", bytes=1e8, parameters={"cache": "warm"})
    copy = point("copy", 30e9, device=cpu.name, name="copy/memory")
    assert ceilings_of(cpu, records, [warm, copy]).bandwidth_bytes_per_s.value == pytest.approx(30e9)


def test_training_points_are_handed_on(records: CeilingRecords, cpu: Gpu) -> None:
    step = point("train", 50e9, device=cpu.name, dtype="bf16", flop=100e9, parameters={"parameters": 11_500_000})
    (found,) = ceilings_of(cpu, records, [step]).train_points
    assert (found.dtype, found.step_s, found.parameters["parameters"]) == ("bf16", 2.0, 11_500_000)
    assert found.flop_per_s.basis == "measured"


def test_collectives_between_and_beyond_the_counts_measured(records: CeilingRecords, gpus: GpuCatalogue) -> None:
    found = ceilings_of(gpus.find("H100 SXM5 80GB"), records)
    two, four, six, eight, sixteen = (found.collective("all_reduce", count, "nvlink") for count in (2, 4, 6, 8, 16))
    assert two is not None
    assert four is not None
    assert six is not None
    assert eight is not None
    assert sixteen is not None
    assert eight.latency_s.basis == "public"
    assert two.latency_s.value < four.latency_s.value < six.latency_s.value < eight.latency_s.value < sixteen.latency_s.value
    assert sixteen.latency_s.spread > eight.latency_s.spread
    assert six.efficiency.value == four.efficiency.value
    assert found.collective("all_reduce", 1, "nvlink") is None
    pcie = found.collective("all_reduce", 8, "pcie")
    assert pcie is not None
    assert pcie.latency_s.basis == "spec"


def test_all_faults_of_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        '[[ceilings]]\nname = "x"\nsource = "s"\nmethod = "m"\nretrieved = 2026-01-01\nkneee = 2.0\n'
        "compute_efficiency.bf16 = { value = -1.0, spread = 0.1 }\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError) as caught:
        load_ceiling_records(tmp_path)
    keys = [problem.key for problem in caught.value.problems]
    assert any("kneee" in key for key in keys)
    assert any("bf16" in key for key in keys)


def test_priors_have_to_cover_every_kind_of_device(tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(
        '[[ceilings]]\nname = "x"\nsource = "s"\nmethod = "m"\nretrieved = 2026-01-01\nknee = 2.0\n'
        "compute_efficiency.bf61 = { value = 0.5, spread = 0.1 }\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError, match="bf16"):
        load_ceiling_records(tmp_path)
    (tmp_path / "few.toml").write_text(
        '[[ceilings]]\nname = "x"\nsource = "s"\nmethod = "m"\nretrieved = 2026-01-01\nknee = 2.0\n', encoding="utf-8"
    )
    with pytest.raises(UserError, match="bandwidth_efficiency"):
        load_ceiling_records(tmp_path)


@pytest.mark.parametrize(("gpu", "seconds"), [("RTX 4090", 41e-6), ("RTX 3090", 41e-6), ("L40S", 19e-6)])
def test_cards_without_peer_access_meet_in_the_hosts_memory(
    records: CeilingRecords, gpus: GpuCatalogue, gpu: str, seconds: float
) -> None:
    """nccl-tests on eight GeForce cards take twice the latency of cards that reach each other."""
    found = ceilings_of(gpus.find(gpu), records).collective("all_reduce", 8, "pcie")
    assert found is not None
    assert found.latency_s.value == pytest.approx(seconds, rel=0.02)
