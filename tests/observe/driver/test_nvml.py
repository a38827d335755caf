"""NVML as real processes see it: pynvml, the C stand-in, and the command line on top, compared value by value."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, build, run_python, start_python

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")

READ_ONCE = """
import msgspec
from planner.observe.telemetry.reading import read_once
print(msgspec.json.encode(read_once()).decode())
"""
READ_TWICE_OPEN = """
import msgspec, sys, time
from planner.observe.driver.driver import Driver
from planner.observe.telemetry.reading import read_once
with Driver.start() as driver:
    for _ in range(2):
        print(msgspec.json.encode(read_once(driver)).decode(), flush=True)
        sys.stdin.readline()
"""
MIG_SLICES = {
    "mig": 1,
    "mig_slots": 7,
    "mig0.name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "mig0.uuid": "MIG-00000000-0000-0000-0000-000000000003",
    "mig0.gi": 2,
    "mig0.ci": 0,
    "mig0.sms": 60,
    "mig0.total": 42278584320,
    "mig0.reserved": 0,
    "mig0.used": 1073741824,
    "mig0.gpm.2": 75,
    "mig0.gpm.10": 12.5,
    "mig3.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "mig3.uuid": "MIG-00000000-0000-0000-0000-000000000001",
    "mig3.gi": 9,
    "mig3.ci": 0,
    "mig3.sms": 16,
    "mig3.total": 10468982784,
    "mig3.used": 0,
    "mig3.gpm.2": 0,
}


def read(library: Path, control: ControlFile, code: str = READ_ONCE, **more: str) -> dict[str, Any]:
    done = run_python(code, library, control, **more)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    snapshot: dict[str, Any] = json.loads(done.stdout)
    return snapshot


@pytest.mark.parametrize(
    ("code", "state"),
    [(9, "driver not loaded"), (18, "version mismatch"), (4, "no permission"), (999, "error")],
)
def test_a_library_that_does_not_start_is_a_state_with_a_sentence(
    library: Path, control: ControlFile, code: int, state: str
) -> None:
    control.set(init=code)
    snapshot = read(library, control)
    assert snapshot["nvml_state"] == state
    assert len(snapshot["nvml_detail"]) > 20
    assert "devices" not in snapshot


@pytest.mark.process
def test_without_a_library_there_is_no_driver_and_the_host_is_still_read(tmp_path: Path, control: ControlFile) -> None:
    snapshot = read(tmp_path, control)
    assert snapshot["nvml_state"] == "no driver"
    assert "was not found" in snapshot["nvml_detail"]
    assert 0 <= snapshot["host"]["cpu_busy_fraction"] <= 1
    assert snapshot["host"]["memory_used_bytes"] < snapshot["host"]["memory_total_bytes"]


def test_a_gpu_without_gpm_falls_back_to_what_it_has(library: Path, control: ControlFile) -> None:
    control.devices(A100)
    (gpu,) = read(library, control)["devices"]
    assert "sm_active_fraction" not in gpu
    assert "need Hopper" in gpu["reasons"]["sm_active_fraction"]
    assert gpu["power_w"] == 58  # of compute capability 8.0, where the older call tells the moment
    assert "power_average_w" not in gpu
    assert gpu["kernel_resident_fraction"] == 0
    assert gpu["memory_used_bytes"] == 0
    assert gpu["reasons"]["temperature_c"] == "not supported by this GPU"
    assert gpu["event_reasons"] == ["idle"]


def test_after_capability_8_0_the_older_power_call_is_an_average(library: Path, control: ControlFile) -> None:
    control.devices(A100 | {"capability": "8.9"})
    (gpu,) = read(library, control)["devices"]
    assert gpu["power_average_w"] == 58
    assert "power_w" not in gpu


def test_nan_is_no_value(library: Path, control: ControlFile) -> None:
    control.devices(H100 | {"gpm.5": "nan", "gpm.10": None})
    (gpu,) = read(library, control)["devices"]
    assert "tensor_active_fraction" not in gpu
    assert "tensor_active_fraction" in gpu["reasons"]
    assert gpu["sm_active_fraction"] == pytest.approx(0.925)


def test_no_permission_and_unified_memory_are_reasons_not_zeros(library: Path, control: ControlFile) -> None:
    forbidden = {"fail.nvmlGpmSampleGet": 4, "fail.nvmlDeviceGetMemoryInfo_v2": 3}
    control.devices(H100 | forbidden)
    (gpu,) = read(library, control)["devices"]
    assert "not permitted" in gpu["reasons"]["sm_active_fraction"]
    assert "memory_total_bytes" not in gpu
    assert gpu["reasons"]["memory_total_bytes"] == "not supported by this GPU"
    assert gpu["kernel_resident_fraction"] == 0.97


@pytest.mark.process
def test_an_older_driver_is_asked_in_the_older_ways(tmp_path: Path, control: ControlFile) -> None:
    older = build(tmp_path / "older", "WITHOUT_EVENT_REASONS", "WITHOUT_MEMORY_V2")
    control.devices(H100)
    (gpu,) = read(older, control)["devices"]
    assert gpu["event_reasons"] == ["power cap", "software thermal"]
    assert gpu["memory_used_bytes"] == 21474836480 + 626327552  # the older call counts the reserve as used
    assert "memory_reserved_bytes" not in gpu
    assert gpu["memory_total_bytes"] == 85520809984


def test_a_gpu_that_may_not_be_opened_has_its_state_and_no_values(library: Path, control: ControlFile) -> None:
    control.devices(H100, A100 | {"fail.nvmlDeviceGetHandleByIndex_v2": 4})
    first, second = read(library, control)["devices"]
    assert first["sm_active_fraction"] == pytest.approx(0.925)
    assert second == {"index": 1, "state": "no permission"}


def test_a_lost_gpu_leaves_the_others_and_comes_back(library: Path, control: ControlFile) -> None:
    control.devices(H100, A100 | {"lost_after": 90})
    code = READ_TWICE_OPEN.replace("range(2)", "range(3)")
    with start_python(code, library, control) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for lost_after in (5, None, None):
            seen.append(json.loads(process.stdout.readline())["devices"])
            control.set(**{"1.lost_after": lost_after})
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait(10) == 0
    assert [[gpu["state"] for gpu in devices] for devices in seen] == [["ok", "ok"], ["ok", "lost"], ["ok", "ok"]]
    assert seen[1][1] == {"index": 1, "uuid": A100["uuid"], "name": A100["name"], "state": "lost"}
    assert seen[1][0]["sm_active_fraction"] == pytest.approx(0.925)


def test_mig_slices_have_their_own_memory_and_counters_and_may_change(library: Path, control: ControlFile) -> None:
    control.devices(H100 | MIG_SLICES)
    with start_python(READ_TWICE_OPEN, library, control) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (sliced,) = json.loads(process.stdout.readline())["devices"]
        control.set(**{"0.mig": 0})
        process.stdin.write("\n\n")
        process.stdin.flush()
        (whole,) = json.loads(process.stdout.readline())["devices"]
        assert process.wait(10) == 0
    large, small = sliced["mig"]
    assert (large["profile"], large["gpu_instance"], large["sm_count"]) == ("3g.40gb", 2, 60)
    assert large["memory_used_bytes"] == 1073741824
    assert large["sm_active_fraction"] == pytest.approx(0.75)
    assert large["dram_bandwidth_fraction"] == pytest.approx(0.125)
    assert (small["profile"], small["sm_active_fraction"]) == ("1g.10gb", 0)
    assert "dram_bandwidth_fraction" in small["reasons"]
    assert "kernel_resident_fraction" not in sliced
    assert sliced["reasons"]["kernel_resident_fraction"] == "not reported while MIG is on"
    assert sliced["reasons"]["sm_active_fraction"] == "not reported while MIG is on"
    assert "mig" not in whole
    assert whole["kernel_resident_fraction"] == 0.97
    assert whole["sm_active_fraction"] == pytest.approx(0.925)


def test_counters_read_faster_than_the_hardware_repeat_instead_of_breaking_the_contract(
    library: Path, control: ControlFile
) -> None:
    control.devices(H100)
    code = """
import time
from planner.observe.driver.helper import DriverSession
with DriverSession.open() as nvml:
    device = nvml.devices[0]
    seen = []
    for _ in range(30):
        snapshot = device.snapshot(slow=False)
        seen.append((snapshot.sm_active_fraction, snapshot.why("sm_active_fraction"), snapshot.counter_window_s))
        time.sleep(0.02)
assert seen[0][0] is None and "first sample" in seen[0][1], seen[0]
assert seen[-1][0] == 0.925, seen[-1]
assert all(window is None or window >= 0.1 for _, _, window in seen)
"""
    done = run_python(code, library, control)
    assert done.returncode == 0, done.stderr


def test_after_a_long_pause_counters_start_anew(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    code = """
import time
from planner.observe.driver import reading
from planner.observe.driver.helper import DriverSession
reading.GPM_LONGEST_WINDOW_S = 0.3
with DriverSession.open() as nvml:
    device = nvml.devices[0]
    device.snapshot(slow=False)
    time.sleep(0.35)
    late = device.snapshot(slow=False)
assert late.sm_active_fraction is None and late.counter_window_s is None, late
assert "first sample" in late.why("sm_active_fraction"), late
"""
    done = run_python(code, library, control)
    assert done.returncode == 0, done.stderr


def test_the_standin_aborts_on_use_after_shutdown(library: Path, control: ControlFile) -> None:
    code = "import pynvml; pynvml.nvmlInit(); pynvml.nvmlShutdown(); pynvml.nvmlDeviceGetCount()"
    done = run_python(code, library, control)
    assert done.returncode == -signal.SIGABRT
    assert "after nvmlShutdown" in done.stderr


def test_the_standin_aborts_on_samples_too_close(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    code = """
import pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
for sample in (first, second):
    pynvml.nvmlGpmSampleGet(device, sample)
request = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=1, sample1=first, sample2=second)
pynvml.nvmlGpmMetricsGet(request)
"""
    done = run_python(code, library, control)
    assert done.returncode == -signal.SIGABRT
    assert "less than 100 ms apart" in done.stderr


def test_throttled_time_becomes_a_share_of_the_interval(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    code = """
import sys, time
from planner.observe.driver.helper import DriverSession
with DriverSession.open() as nvml:
    device = nvml.devices[0]
    before = time.monotonic()
    assert device.snapshot(slow=True).throttled_fraction is None
    began = time.monotonic()
    print("read", flush=True)
    sys.stdin.readline()
    ended = time.monotonic()
    shares = device.snapshot(slow=True).throttled_fraction
    after = time.monotonic()
    print(shares["power cap"] * (ended - began), shares["power cap"] * (after - before), shares["hardware thermal"])
"""
    with start_python(code, library, control) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "read\n"
        time.sleep(0.5)
        control.set(**{"0.throttle_power": 5_200_000_000})
        least_s, most_s, other = map(float, process.communicate("\n", timeout=300)[0].split())
    assert least_s <= 0.2 <= most_s, "of the time from one reading to the next"
    assert most_s < 0.5, "its share is of half a second or more"
    assert other == 0


def test_cuda_numbers_follow_the_environment(library: Path, control: ControlFile) -> None:
    second = H100 | {"uuid": "GPU-99999999-2222-3333-4444-555555555555"}
    control.devices(H100, second)

    def ordinals(**variables: str) -> list[int | None]:
        return [gpu.get("cuda_ordinal") for gpu in read(library, control, **variables)["devices"]]

    assert ordinals() == [0, 1]
    assert ordinals(CUDA_VISIBLE_DEVICES="1") == [None, 0]
    assert ordinals(CUDA_VISIBLE_DEVICES="GPU-9999,GPU-1111") == [1, 0]


def test_the_machine_matches_its_gpus_to_the_catalogue(library: Path, control: ControlFile) -> None:
    unknown = A100 | {"name": "NVIDIA Graphics Device", "uuid": "GPU-0"}
    control.devices(H100, unknown, A100 | MIG_SLICES | {"uuid": "GPU-2", "gpm": 0})
    code = """
from planner.hardware.catalogue.gpus import load_gpus
from planner.observe.machine import read_machine
from planner.paths import presets_folder
machine = read_machine(load_gpus(presets_folder() / "gpus"))
h100, unknown, sliced = machine.gpus
assert h100.gpu is not None and "H100" in h100.gpu.name and h100.facts.gpm_state == "ok" and h100.facts.power_limit_w == 700, h100
assert h100.facts.memory_total_bytes == 85520809984 and h100.facts.compute_capability == "9.0"
assert unknown.gpu is None and unknown.name == "NVIDIA Graphics Device" and unknown.facts.gpm_state == "not supported"
assert sliced.facts.mig_profiles == ("3g.40gb", "1g.10gb"), sliced
assert (machine.driver_version, machine.cuda_version) == ("570.86.15", "12.8")
assert [gpu.kind for gpu in machine.devices] == ["gpu", "gpu", "gpu", "cpu"], "one whole, two slices"
text = machine.describe()
assert "not in the catalogue" in text and "3g.40gb" in text, text
"""
    done = run_python(code, library, control)
    assert done.returncode == 0, done.stderr
