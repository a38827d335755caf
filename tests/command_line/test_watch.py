"""`watch` as a process on top of the C stand-in: every printed value is what the library said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, environment
from repository import ROOT

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")


def watch(library: Path, control: ControlFile, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", "watch", *options],
        env=environment(library, control, COLUMNS="160"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_value_of_watch_json_is_what_the_library_said(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    done = watch(library, control, "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    snapshot = json.loads(done.stdout)
    assert snapshot["nvml_state"] == "ready"
    (gpu,) = snapshot["devices"]
    window_s = gpu.pop("counter_window_s")
    assert 0.11 <= window_s < 60
    assert gpu.pop("slow_age_s") == 0
    assert gpu == {
        "index": 0,
        "uuid": H100["uuid"],
        "name": H100["name"],
        "cuda_ordinal": 0,
        "state": "ok",
        "graphics_active_fraction": pytest.approx(0.995),
        "sm_active_fraction": pytest.approx(0.925),
        "sm_occupancy_fraction": pytest.approx(0.24),
        "tensor_active_fraction": pytest.approx(0.6125),
        "dram_bandwidth_fraction": pytest.approx(0.33),
        "integer_active_fraction": pytest.approx(0.035),
        "fp64_active_fraction": 0,
        "fp32_active_fraction": pytest.approx(0.075),
        "fp16_active_fraction": pytest.approx(0.0125),
        "pcie_tx_bytes_per_s": 120 * 2**20,
        "pcie_rx_bytes_per_s": 640.5 * 2**20,
        "nvlink_rx_bytes_per_s": 10 * 2**20,
        "nvlink_tx_bytes_per_s": 20 * 2**20,
        "kernel_resident_fraction": 0.97,
        "memory_active_fraction": 0.41,
        "memory_total_bytes": 85520809984,
        "memory_reserved_bytes": 626327552,
        "memory_used_bytes": 21474836480,
        "memory_free_bytes": 85520809984 - 626327552 - 21474836480,
        "power_w": pytest.approx(633.25),
        "power_average_w": pytest.approx(611.5),
        "power_limit_w": 700,
        "energy_j": pytest.approx(123456789.012),
        "sm_clock_hz": 1755e6,
        "max_sm_clock_hz": 1980e6,
        "memory_clock_hz": 2619e6,
        "temperature_c": 61,
        "memory_temperature_c": 84,
        "event_reasons": ["power cap", "software thermal"],
        "throttled_s": {"hardware thermal": 0, "power brake": 0, "power cap": 5, "software thermal": pytest.approx(0.25)},
        "throttled_fraction": {"hardware thermal": 0, "power brake": 0, "power cap": 0, "software thermal": 0},
        "pcie_generation": 4,
        "pcie_width": 8,
        "pcie_max_generation": 5,
        "pcie_max_width": 16,
        "persistence_mode": True,
        "ecc_corrected_volatile": 0,
        "ecc_uncorrected_volatile": 0,
        "ecc_corrected_aggregate": 12,
        "ecc_uncorrected_aggregate": 0,
        "remapped_rows_correctable": 1,
        "remapped_rows_uncorrectable": 0,
        "row_remap_pending": False,
        "row_remap_failed": False,
        "mig_enabled": False,
        "reasons": dict.fromkeys(
            ("retired_pages_single_bit", "retired_pages_double_bit", "page_retirement_pending"), "not supported by this GPU"
        ),
    }


def test_the_table_names_each_gpu_and_why_a_value_is_missing(library: Path, control: ControlFile) -> None:
    control.devices(H100, A100)
    done = watch(library, control, "--once")
    assert done.returncode == 0, done.stderr
    h100, a100 = (next(line for line in done.stdout.splitlines() if line.startswith(f"{index} ")) for index in (0, 1))
    assert "61 %" in h100
    assert "633 of 700 W" in h100
    assert "20.0 of 79.6 GiB" in h100
    assert "—" in a100
    assert "SM active, occupancy, tensor, DRAM bw (GPU 1): SM, tensor and bandwidth counters need Hopper or newer" in done.stdout


def test_watch_records_what_it_prints(library: Path, control: ControlFile, tmp_path: Path) -> None:
    control.devices(H100)
    recording = tmp_path / "run.jsonl"
    done = watch(library, control, "--once", "--json", "--record", str(recording))
    assert recording.read_text() == done.stdout
    assert watch(library, control, "--once", "--json", "--record", str(tmp_path / "absent" / "run.jsonl")).returncode == 74


def test_watch_ends_with_130_when_interrupted_and_closes_nvml_in_order(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    with subprocess.Popen(
        [sys.executable, "-m", "planner", "watch", "--json", "--interval", "0.1"],
        env=environment(library, control),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        snapshots = [json.loads(process.stdout.readline()) for _ in range(4)]
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "contract" not in errors
    assert snapshots[-1]["devices"][0]["sm_active_fraction"] == pytest.approx(0.925)
