"""Failing memory: what the driver counts, what is wrong in words, and how it is passed on, on the C stand-in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nvml_stub import COMPILER, H100, ControlFile, environment, run_python
from repository import ROOT

from planner.observe.health import COUNTS, FLAGS, health_warnings, warning_text
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot
from planner.observe.telemetry.exporter import devices_of
from planner.observe.telemetry.exposition import prometheus_text, read_samples

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")

FAILING: dict[str, object] = H100 | {
    "uuid": "GPU-2", "ecc_corrected": 7, "ecc_uncorrected": 2, "ecc_corrected_ever": 4321, "ecc_uncorrected_ever": 3, "remapped": "5 1 1 0",
}  # fmt: skip
VOLTA: dict[str, object] = {
    "name": "Tesla V100-SXM2-32GB", "uuid": "GPU-3", "capability": "7.0", "total": 34359738368, "gpm": 0,
    "ecc_corrected": 0, "ecc_uncorrected": 0, "ecc_corrected_ever": 1, "ecc_uncorrected_ever": 0, "retired": "4 0", "retirement_pending": 1,
}  # fmt: skip
GEFORCE: dict[str, object] = {
    "name": "NVIDIA GeForce RTX 4090",
    "uuid": "GPU-4",
    "capability": "8.9",
    "total": 25757220864,
    "gpm": 0,
}
FIELDS = (*COUNTS, *FLAGS)


def watch(library: Path, control: ControlFile, *options: str, columns: int = 160) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "watch", "--once", *options],
        env=environment(library, control, COLUMNS=str(columns)), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def health_of(gpu: dict[str, Any]) -> dict[str, Any]:
    return {name: gpu[name] for name in FIELDS if name in gpu}


@needs_compiler
def test_every_count_is_what_the_library_said_and_what_is_wrong_has_a_name(library: Path, control: ControlFile) -> None:
    control.devices(H100, FAILING, VOLTA, GEFORCE)
    sound, failing, volta, geforce = json.loads(watch(library, control, "--json"))["devices"]
    rows = {"remapped_rows_correctable": 1, "remapped_rows_uncorrectable": 0, "row_remap_pending": False, "row_remap_failed": False}
    assert health_of(sound) == {
        "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0, "ecc_corrected_aggregate": 12, "ecc_uncorrected_aggregate": 0, **rows,
    }  # fmt: skip
    assert "health_warnings" not in sound
    assert health_of(failing) == {
        "ecc_corrected_volatile": 7, "ecc_uncorrected_volatile": 2, "ecc_corrected_aggregate": 4321, "ecc_uncorrected_aggregate": 3,
        "remapped_rows_correctable": 5, "remapped_rows_uncorrectable": 1, "row_remap_pending": True, "row_remap_failed": False,
    }  # fmt: skip
    assert failing["health_warnings"] == ["uncorrectable memory errors", "row remap pending"]
    assert health_of(volta) == {
        "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0, "ecc_corrected_aggregate": 1, "ecc_uncorrected_aggregate": 0,
        "retired_pages_single_bit": 4, "retired_pages_double_bit": 0, "page_retirement_pending": True,
    }  # fmt: skip
    assert volta["health_warnings"] == ["page retirement pending"]
    assert health_of(geforce) == {}
    assert {geforce["reasons"][name] for name in FIELDS} == {"not supported by this GPU"}


@needs_compiler
def test_what_is_not_permitted_says_so_and_a_failed_remap_is_named(library: Path, control: ControlFile) -> None:
    control.devices(H100 | {"remapped": "8 2 0 1", "fail.nvmlDeviceGetTotalEccErrors": 4})
    (gpu,) = json.loads(watch(library, control, "--json"))["devices"]
    assert gpu["health_warnings"] == ["uncorrectable memory errors", "row remapping failed"]  # two rows were replaced for it
    assert gpu["reasons"]["ecc_uncorrected_aggregate"] == "not permitted for this user or container"


@needs_compiler
def test_the_table_counts_errors_and_says_what_to_do(library: Path, control: ControlFile) -> None:
    control.devices(H100, FAILING)
    told = watch(library, control, columns=200)
    assert "0, 12 corrected" in told
    assert "3, 4,321 corrected" in told
    flat = " ".join(told.split())
    assert "! GPU 1: uncorrectable memory errors (2 since the driver was loaded, 3 ever, rows replaced for it: 1): results" in flat
    assert "! GPU 1: row remap pending: faulty rows of memory are replaced at the next reset of the GPU" in flat
    assert "! GPU 0" not in flat


@needs_compiler
def test_health_is_asked_with_the_slow_tier_and_never_again_where_there_is_none(
    library: Path, control: ControlFile, tmp_path: Path
) -> None:
    control.devices(H100, GEFORCE)
    calls = tmp_path / "calls"
    code = """
import time
from planner.observe.telemetry.poller import Poller
seen = []
poller = Poller(seen.append, interval_s=0.1, slow_interval_s=0.5)
poller.start()
while sum(one.devices[0].slow_age_s == 0 for one in seen) < 4:
    time.sleep(0.02)
assert poller.stop(60.0)
print(len(seen), sum(one.devices[0].slow_age_s == 0 for one in seen))
"""
    done = run_python(code, library, control, NVML_STUB_CALLS=str(calls))
    assert done.returncode == 0, done.stderr
    readings, slow = map(int, done.stdout.split())
    asked = Counter(tuple(line.split()[1:]) for line in calls.read_text().splitlines())
    assert readings > 2 * slow
    assert asked["nvmlDeviceGetUtilizationRates", "0"] == readings
    assert asked["nvmlDeviceGetRemappedRows", "0"] == slow
    assert asked["nvmlDeviceGetTotalEccErrors", "0"] == 4 * slow
    assert asked["nvmlDeviceGetRemappedRows", "1"] == 1
    assert asked["nvmlDeviceGetTotalEccErrors", "1"] == 4


def snapshot_of(device: DeviceSnapshot) -> Snapshot:
    return Snapshot(
        taken_at="2026-01-01T00:00:00.000+00:00", taken_at_s=0.0, collect_s=0.0, interval_s=0.0, nvml_state="ready", nvml_detail="",
        host=HostSnapshot(cpu_name="", cpu_cores=None), devices=(device,),
    )  # fmt: skip


def test_the_text_for_prometheus_is_read_back_as_it_was() -> None:
    values: dict[str, Any] = {name: number for number, name in enumerate(COUNTS)} | dict.fromkeys(FLAGS, True)
    device = DeviceSnapshot(index=0, uuid="GPU-1", name="H", state="ok", health_warnings=health_warnings(values), **values)
    text = prometheus_text(snapshot_of(device))
    assert 'gpu_planner_row_remap_pending{gpu="0",uuid="GPU-1",name="H"} 1.0' in text
    assert 'warning="row remap pending"} 1.0' in text
    assert "# TYPE gpu_planner_ecc_corrected_volatile_total counter" in text
    (read,) = devices_of(read_samples(text, "text"))
    assert {name: getattr(read, name) for name in FIELDS} == values
    assert all(isinstance(getattr(read, name), bool) for name in FLAGS)
    assert all(isinstance(getattr(read, name), int) for name in COUNTS)
    assert read.health_warnings == device.health_warnings
    assert msgspec.json.decode(msgspec.json.encode(read), type=DeviceSnapshot) == read


def test_dcgm_names_what_it_counts_its_own_way() -> None:
    text = "".join(
        f'DCGM_FI_DEV_{name}{{gpu="0",UUID="GPU-1"}} {value}\n'
        for name, value in (
            ("ECC_SBE_VOL_TOTAL", 1), ("ECC_DBE_VOL_TOTAL", 2), ("ECC_SBE_AGG_TOTAL", 3), ("ECC_DBE_AGG_TOTAL", 4),
            ("CORRECTABLE_REMAPPED_ROWS", 5), ("UNCORRECTABLE_REMAPPED_ROWS", 6), ("ROW_REMAP_FAILURE", 0), ("ROW_REMAP_PENDING", 1),
            ("RETIRED_SBE", 7), ("RETIRED_DBE", 8), ("RETIRED_PENDING", 0),
        )
    )  # fmt: skip
    (gpu,) = devices_of(read_samples(text, "text"))
    assert {name: getattr(gpu, name) for name in FIELDS} == {
        "ecc_corrected_volatile": 1, "ecc_uncorrected_volatile": 2, "ecc_corrected_aggregate": 3, "ecc_uncorrected_aggregate": 4,
        "remapped_rows_correctable": 5, "remapped_rows_uncorrectable": 6, "row_remap_failed": False, "row_remap_pending": True,
        "retired_pages_single_bit": 7, "retired_pages_double_bit": 8, "page_retirement_pending": False,
    }  # fmt: skip
    assert gpu.health_warnings == ("uncorrectable memory errors", "row remap pending")


def test_words_of_a_warning_name_only_what_was_counted() -> None:
    assert warning_text("uncorrectable memory errors", {"ecc_uncorrected_aggregate": 1}).startswith(
        "uncorrectable memory errors (1 ever): "
    )
    assert health_warnings({"ecc_uncorrected_volatile": 0, "row_remap_pending": None, "ecc_corrected_aggregate": 99}) == ()
