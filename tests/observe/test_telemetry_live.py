"""Telemetry as people meet it, on the C stand-in: lost GPUs, calls that hang, slices that change, many GPUs, and bytes over ssh."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, environment, run_python
from repository import ROOT
from terminal_screen import Screen

pytestmark = [pytest.mark.process, pytest.mark.pty]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Screen]:
    screen = Screen(tmp_path, "--demo")
    yield screen
    screen.close()


def test_a_busy_pane_stays_within_30_kilobytes_a_second_and_a_paused_one_sends_nothing(demo: Screen) -> None:
    seen = demo.read(until=b"DRAM traffic")
    for _ in range(100):  # it is drawn a moment later on a busy machine, and what is read may end within it
        seen += b"" if b"DEMO" in seen else demo.read(within_s=0.2)
    assert b"DEMO" in seen
    demo.read(within_s=4.0)
    sent = demo.read(within_s=5.0)
    assert 0 < len(sent) / 5.0 <= 30_000
    demo.type(b"p")
    assert b"paused" in demo.read(until=b"paused")
    demo.read(within_s=1.5)
    # a busy machine may still be drawing the hints of the plan
    assert any(demo.read(within_s=3.0) == b"" for _ in range(5))
    demo.type(b"p")
    assert any(demo.read(within_s=1.0) != b"" for _ in range(60))


def left_after_s(screen: Screen) -> float:
    """From q to the end of the process."""
    screen.type(b"q")
    began_s = time.monotonic()
    while screen.process.poll() is None and time.monotonic() - began_s < 60.0:
        screen.read(within_s=0.01)
    assert screen.process.poll() == 0
    return time.monotonic() - began_s


def leave_beside_a_stuck_call(library: Path, home: Path) -> float:
    """Seconds that leaving takes beside a call that hangs for five minutes; the screen answers meanwhile."""
    control = ControlFile(home / "control")
    control.devices(H100)
    found = environment(library, control)
    screen = Screen(home, LD_LIBRARY_PATH=found["LD_LIBRARY_PATH"], NVML_STUB=found["NVML_STUB"])
    try:
        assert b"DRAM traffic" in screen.read(until=b"DRAM traffic")
        screen.read(within_s=2.5)
        control.set(**{"slow.nvmlDeviceGetUtilizationRates": 300})
        assert b"stale for" in screen.read(until=b"stale for")
        screen.type(b"?")
        assert b"Work the highlighted" in screen.read(until=b"Work the highlighted")
        screen.type(b"\x1b")
        screen.read(within_s=1.0)
        return left_after_s(screen)
    finally:
        screen.close()


@needs_compiler
def test_while_a_call_hangs_the_screen_lives_and_q_leaves_at_once(library: Path, tmp_path: Path) -> None:
    """A fifth of a second on an idle machine; the call would take minutes."""
    assert leave_beside_a_stuck_call(library, tmp_path) < 20


def test_a_letter_that_comes_in_two_halves_is_one(tmp_path: Path) -> None:
    screen = Screen(tmp_path, "--demo")
    try:
        assert b"DRAM traffic" in screen.read(until=b"DRAM traffic")
        screen.read(within_s=3.0)
        screen.type(b"/")
        assert b"a market" in screen.read(until=b"a market")
        screen.type(b"z\xc3")
        screen.read(within_s=0.5)
        screen.type(b"\xa9")
        assert "z\u00e9" in screen.read(until="z\u00e9".encode()).decode(errors="replace")
    finally:
        screen.close()


class Watch:
    """`watch --json` at ten readings a second."""

    def __init__(self, library: Path, control: ControlFile) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "planner", "watch", "--json", "--interval", "0.1"],
            env=environment(library, control), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def until(self, told: Any, within_s: float = 60.0) -> dict[str, Any]:
        """The first snapshot for which `told` holds."""
        assert self.process.stdout is not None
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            snapshot: dict[str, Any] = json.loads(self.process.stdout.readline())
            if told(snapshot):
                return snapshot
        raise AssertionError("it did not come to that")

    def end(self) -> str:
        self.process.terminate()
        return self.process.communicate(timeout=300)[1]


@needs_compiler
def test_a_gpu_lost_in_mid_run_is_said_and_the_other_goes_on(library: Path, control: ControlFile) -> None:
    control.devices(H100, A100 | {"uuid": "GPU-2"})
    watch = Watch(library, control)
    try:
        watch.until(
            lambda one: [gpu["state"] for gpu in one["devices"]] == ["ok", "ok"] and "sm_active_fraction" in one["devices"][0]
        )
        control.set(**{"0.lost_after": 1})
        lost = watch.until(lambda one: one["devices"][0]["state"] == "lost")
        assert lost["devices"][0] == {"index": 0, "uuid": H100["uuid"], "name": H100["name"], "state": "lost"}
        assert lost["devices"][1]["state"] == "ok"
        control.set(**{"0.lost_after": None})
        again = watch.until(lambda one: one["devices"][0]["state"] == "ok" and "sm_active_fraction" in one["devices"][0])
        assert again["devices"][0]["sm_active_fraction"] == pytest.approx(0.925)
    finally:
        errors = watch.end()
    assert "contract" not in errors
    assert "Traceback" not in errors


@needs_compiler
def test_slices_rearranged_under_a_running_watch(library: Path, control: ControlFile) -> None:
    def part(slot: int, profile: str, instance: int, gibibytes: int) -> dict[str, object]:
        return {
            f"mig{slot}.name": f"NVIDIA H100 80GB HBM3 MIG {profile}", f"mig{slot}.uuid": f"MIG-{profile}-{instance}", f"mig{slot}.gi": instance,
            f"mig{slot}.ci": 0, f"mig{slot}.total": gibibytes << 30, f"mig{slot}.used": 1 << 30, f"mig{slot}.gpm.2": 10 * instance,
        }  # fmt: skip

    control.devices(H100 | {"mig": 1, "mig_slots": 7} | part(0, "3g.40gb", 1, 39) | part(1, "3g.40gb", 2, 39))
    watch = Watch(library, control)

    def slices(snapshot: dict[str, Any]) -> dict[str, float | None]:
        parts = snapshot["devices"][0].get("mig", ())
        return {one["uuid"]: round(one["sm_active_fraction"], 6) if "sm_active_fraction" in one else None for one in parts}

    try:
        first = watch.until(lambda one: slices(one) == {"MIG-3g.40gb-1": 0.1, "MIG-3g.40gb-2": 0.2})
        assert "kernel_resident_fraction" not in first["devices"][0]
        gone = {f"0.{key}": None for key in part(1, "3g.40gb", 2, 39)}
        small = part(2, "1g.10gb", 7, 9) | part(3, "1g.10gb", 8, 9)
        control.set(**gone | {f"0.{key}": value for key, value in small.items()})
        after = watch.until(lambda one: slices(one) == {"MIG-3g.40gb-1": 0.1, "MIG-1g.10gb-7": 0.7, "MIG-1g.10gb-8": 0.8})
        assert [one["memory_total_bytes"] / 2**30 for one in after["devices"][0]["mig"]] == [39, 9, 9]
        control.set(**{"0.mig": 0})
        whole = watch.until(lambda one: "mig" not in one["devices"][0] and "sm_active_fraction" in one["devices"][0])
        assert whole["devices"][0]["sm_active_fraction"] == pytest.approx(0.925)
        control.set(**{"0.mig": 1})
        watch.until(lambda one: len(slices(one)) == 3 and None not in slices(one).values())
    finally:
        errors = watch.end()
    assert "contract" not in errors
    assert "Traceback" not in errors


@needs_compiler
def test_eight_gpus_at_ten_readings_a_second_take_little_of_a_core(library: Path, control: ControlFile) -> None:
    control.devices(*(H100 | {"uuid": f"GPU-{index}"} for index in range(8)))
    code = """
import time
from planner.observe.telemetry.poller import Poller
seen = []
poller = Poller(seen.append, interval_s=0.1)
poller.start()
def read(count):
    while len(seen) < count:
        time.sleep(0.05)
read(15)
began, count, wall = time.process_time(), len(seen), time.monotonic()
read(count + 40)
print((time.process_time() - began) / (len(seen) - count), (len(seen) - count) / (time.monotonic() - wall))
assert len(seen[-1].devices) == 8 and seen[-1].devices[7].sm_active_fraction == 0.925
assert poller.stop(60.0)
"""
    done = run_python(code, library, control, NVML_STUB_FIXED="1")
    assert done.returncode == 0, done.stderr
    processor_s, rate = map(float, done.stdout.split())
    assert rate <= 11  # ten, where the machine has time for them
    assert processor_s < 0.006  # 1.1 ms on a quiet core, 1.1 % of one at ten readings a second


@needs_compiler
def test_the_text_for_prometheus_is_what_the_library_said(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    done = subprocess.run(
        [sys.executable, "-m", "planner", "watch", "--prometheus"],
        env=environment(library, control), cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    said = {
        match[1]: float(match[2]) for match in re.finditer(r'^gpu_planner_(\w+)\{gpu="0"[^}]*\} (\S+)$', done.stdout, re.MULTILINE)
    }
    assert said["sm_active_ratio"] == pytest.approx(0.925)
    assert said["dram_bandwidth_ratio"] == pytest.approx(0.33)
    assert said["power_watts"] == pytest.approx(633.25)
    assert said["energy_joules_total"] == pytest.approx(123456789.012)
    assert said["memory_used_bytes"] == 21474836480
    assert said["sm_clock_hertz"] == 1755e6
    assert said["up"] == 1
    assert re.search(r'gpu_planner_clock_held_back\{[^}]*reason="power cap"\} 1.0', done.stdout)
    assert re.search(r'gpu_planner_throttled_seconds_total\{[^}]*reason="power cap"\} 5.0', done.stdout)


@needs_compiler
def test_nvitop_reads_the_same_where_it_reads_at_all(library: Path, control: ControlFile) -> None:
    """Another reader of the same library, on three GPUs that differ in every figure."""
    second = {
        "name": "NVIDIA L40S", "uuid": "GPU-22222222-0000-0000-0000-000000000002", "capability": "8.9", "total": 48305799168, "reserved": 512000000,
        "used": 7516192768, "util_gpu": 12, "util_memory": 3, "power_usage": 98765, "power_average": 98765, "power_limit": 350000,
        "management_limit": 350000, "sm_clock": 2520, "memory_clock": 9001, "max_sm_clock": 2521, "temperature": 39, "persistence": 0,
        "ecc_uncorrected": 3, "mig": 0, "gpm": 0,
    }  # fmt: skip
    control.devices(
        H100 | {"power_average": H100["power_usage"]}, second, A100 | {"temperature": 28, "sm_clock": 210, "memory_clock": 1593}
    )
    code = """
import json, nvitop
from planner.observe.telemetry.reading import read_once

def known(value):
    return None if value is nvitop.NA else value

def scaled(value, factor):
    return None if value is nvitop.NA else value * factor

theirs = nvitop.Device.all()
for ours, other in zip(read_once().devices, theirs, strict=True):
    print(json.dumps({
        "uuid": (ours.uuid, other.uuid()),
        "name": (ours.name, other.name()),
        "memory total": (ours.memory_total_bytes, other.memory_total()),
        "memory used": (ours.memory_used_bytes, other.memory_used()),
        "memory free": (ours.memory_free_bytes, other.memory_free()),
        "memory reserved": (ours.memory_reserved_bytes, other.memory_info().reserved),
        "kernel resident": (ours.kernel_resident_fraction, scaled(other.gpu_utilization(), 0.01)),
        "memory active": (ours.memory_active_fraction, scaled(other.memory_utilization(), 0.01)),
        "temperature": (ours.temperature_c, known(other.temperature())),
        "power": (ours.drawn_power_w if ours.power_average_w is None else ours.power_average_w, scaled(other.power_usage(), 1e-3)),
        "power limit": (ours.power_limit_w, scaled(other.power_limit(), 1e-3)),
        "SM clock": (ours.sm_clock_hz, scaled(other.sm_clock(), 1e6)),
        "memory clock": (ours.memory_clock_hz, scaled(other.memory_clock(), 1e6)),
        "highest SM clock": (ours.max_sm_clock_hz, scaled(other.max_sm_clock(), 1e6)),
        "errors not corrected": (ours.ecc_uncorrected_volatile, known(other.total_volatile_uncorrected_ecc_errors())),
    }))
"""
    done = run_python(code, library, control)
    assert done.returncode == 0, done.stderr
    gpus = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(gpus) == 3
    for gpu in gpus:
        assert len(gpu) == 15
        for name, (own, other) in gpu.items():
            assert own == (pytest.approx(other) if isinstance(other, float) else other), (gpu["name"], name)
    known = [sum(own is not None for own, _ in gpu.values()) for gpu in gpus]
    assert known[:2] == [15, 15]  # both absent is no agreement
    assert (
        gpus[2]["highest SM clock"] == gpus[2]["errors not corrected"] == [None, None]
    )  # and what this A100 does not say, neither makes up
    assert known[2] == 13
    differing = [name for name in gpus[0] if len({repr(gpu[name][0]) for gpu in gpus}) == 3]
    assert len(differing) == 15, sorted(gpus[0].keys() - set(differing))  # no figure of one GPU is another's
