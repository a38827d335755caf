"""The poller: fresh snapshots, pausing, a driver that hangs, and what a missing value says."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from nvml_stub import COMPILER, H100, ControlFile, build, run_python

from planner.observe.driver.driver import Driver, DriverError
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot, Snapshot
from planner.observe.telemetry.poller import Poller
from planner.observe.telemetry.reading import read_once
from planner.present.machine.telemetry import COLUMNS, missing_notes
from planner.units import numbers_text

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")


def no_driver(_: float) -> Driver:
    raise DriverError("no driver")


def snapshot_of(*devices: DeviceSnapshot) -> Snapshot:
    return Snapshot(
        taken_at="2026-01-01T00:00:00.000+00:00",
        taken_at_s=100.0,
        collect_s=0.001,
        interval_s=1.0,
        nvml_state="ready",
        nvml_detail="NVML answers",
        host=HostSnapshot(cpu_name="CPU", cpu_cores=4),
        devices=devices,
    )


def wait_for(count: int, seen: list[Snapshot], within_s: float = 60.0) -> None:
    until_s = time.monotonic() + within_s
    while len(seen) < count and time.monotonic() < until_s:
        time.sleep(0.01)
    assert len(seen) >= count


def unchanged(seen: list[Snapshot], seconds: float) -> bool:
    """True if nothing more is read in that time."""
    count = len(seen)
    time.sleep(seconds)
    return len(seen) == count


def test_without_a_driver_the_host_is_polled_at_the_interval() -> None:
    seen: list[Snapshot] = []
    poller = Poller(seen.append, interval_s=0.1, start_driver=no_driver)
    began_s = time.monotonic()
    poller.start()
    wait_for(5, seen)
    assert poller.stop(60.0)
    assert all(snapshot.nvml_state == "no driver" and not snapshot.devices for snapshot in seen)
    assert time.monotonic() - began_s >= 0.1 * (len(seen) - 1)
    assert poller.latest is seen[-1]
    count = len(seen)
    time.sleep(0.25)
    assert len(seen) == count


def test_busy_processors_show() -> None:
    seen: list[Snapshot] = []
    poller = Poller(seen.append, interval_s=0.2, start_driver=no_driver)
    poller.start()
    ends_s = time.monotonic() + 60
    while not seen and time.monotonic() < ends_s:
        time.sleep(0.01)
    begun = len(seen)
    while len(seen) < begun + 2 and time.monotonic() < ends_s:
        pass
    poller.stop()
    assert len(seen) >= begun + 2
    busy = seen[begun + 1].host.cpu_busy_fraction  # between two readings while this processor was busy
    assert busy is not None
    assert busy >= 0.5 / (os.cpu_count() or 1)


def test_the_interval_is_never_faster_than_the_counters() -> None:
    poller = Poller(interval_s=0.001)
    assert poller.interval_s == 0.1
    poller.interval_s = 0.01
    assert poller.interval_s == 0.1
    poller.interval_s = 4
    assert poller.interval_s == 4


def test_paused_nothing_is_read_and_resuming_reads_at_once() -> None:
    seen: list[Snapshot] = []
    poller = Poller(seen.append, interval_s=0.1, start_driver=no_driver)
    poller.start()
    wait_for(2, seen)
    poller.pause()
    assert any(unchanged(seen, 0.4) for _ in range(20)), "a reading under way may end after the pause began"
    count = len(seen)
    assert poller.stale_for_s() is None
    poller.interval_s = 600
    poller.resume()
    wait_for(count + 1, seen)
    assert poller.stop(60.0)


def test_a_driver_that_does_not_even_open_does_not_hold_up_the_end() -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck(silence_s: float) -> Driver:
        entered.set()
        release.wait(300)
        return no_driver(silence_s)

    poller = Poller(start_driver=stuck)
    poller.start()
    assert entered.wait(60)
    began_s = time.monotonic()
    stopped = poller.stop()
    assert time.monotonic() - began_s <= 20
    assert not stopped
    release.set()


def test_a_failing_callback_is_kept_for_the_owner() -> None:
    def fail(_: Snapshot) -> None:
        raise ValueError("widget gone")

    poller = Poller(fail, interval_s=0.1, start_driver=no_driver)
    poller.start()
    until_s = time.monotonic() + 60
    while poller.failure is None and time.monotonic() < until_s:
        time.sleep(0.01)
    assert isinstance(poller.failure, ValueError)


@pytest.mark.process
@needs_compiler
def test_a_call_stuck_in_the_driver_goes_stale_and_never_holds_up_the_end(tmp_path: Path) -> None:
    library = build(tmp_path / "library")
    control = ControlFile(tmp_path / "control")
    control.devices(H100)
    code = f"""
import time
from pathlib import Path
from planner.observe.telemetry.poller import Poller
def wait(until):
    ends = time.monotonic() + 60
    while not until() and time.monotonic() < ends:
        time.sleep(0.02)
poller = Poller(interval_s=0.1)
poller.start()
wait(lambda: poller.latest and poller.latest.devices and poller.latest.devices[0].sm_active_fraction)
assert poller.latest.devices[0].sm_active_fraction == 0.925
wait(lambda: poller.stale_for_s() is None)
assert poller.stale_for_s() is None
with Path({str(control.path)!r}).open("a") as control:
    control.write("slow.nvmlDeviceGetUtilizationRates = 300\\n")
wait(lambda: (poller.stale_for_s() or 0.0) > 0.7)
assert poller.stale_for_s() > 0.7, poller.stale_for_s()
began = time.monotonic()
assert poller.stop()
assert time.monotonic() - began <= 20
print(time.time())
"""
    done = run_python(code, library, control)  # the call lasts five minutes
    ended = time.time()
    assert done.returncode == 0, done.stderr
    assert ended - float(done.stdout) < 20


@pytest.mark.process
@needs_compiler
def test_stopping_frees_everything_before_the_driver_is_closed(tmp_path: Path) -> None:
    library = build(tmp_path / "library")
    control = ControlFile(tmp_path / "control")
    control.devices(H100, H100 | {"uuid": "GPU-2"})
    code = """
import time
from planner.observe.telemetry.poller import Poller
for _ in range(3):
    poller = Poller(interval_s=0.1)
    poller.start()
    ends = time.monotonic() + 60
    while poller.latest is None and time.monotonic() < ends:
        time.sleep(0.05)
    assert poller.stop(60.0)
    assert len(poller.latest.devices) == 2
"""
    done = run_python(code, library, control)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_reading_covers_a_window() -> None:
    began_s = time.monotonic()
    snapshot = read_once(window_s=0.2)
    assert time.monotonic() - began_s >= 0.2
    assert snapshot.host.cpu_busy_fraction is not None
    assert snapshot.interval_s == 0


def test_staleness_counts_from_the_last_reading() -> None:
    snapshot = snapshot_of()
    assert snapshot.stale_for_s(101.5) is None
    assert snapshot.stale_for_s(104.0) == 4.0
    assert snapshot.age_s(99.0) == 0.0


def test_a_missing_value_tells_its_reason_and_a_lost_gpu_one_for_all() -> None:
    partly = DeviceSnapshot(index=0, state="ok", reasons={"power_w": "not in this driver version"})
    assert partly.why("power_w") == "not in this driver version"
    lost = DeviceSnapshot(index=1, state="lost")
    assert "lost" in lost.why("power_w")
    notes = missing_notes(snapshot_of(lost))
    assert len(notes) == 1
    assert all(column.title in notes[0] for column in COLUMNS)


def test_power_prefers_the_moment_over_the_average() -> None:
    assert DeviceSnapshot(index=0, state="ok", power_w=5.0, power_average_w=7.0).drawn_power_w == 5
    assert DeviceSnapshot(index=0, state="ok", power_w=0.0, power_average_w=7.0).drawn_power_w == 0
    assert DeviceSnapshot(index=0, state="ok", power_average_w=7.0).drawn_power_w == 7


def test_a_recorded_line_reads_back_equal() -> None:
    part = MigSnapshot(uuid="MIG-1", profile="1g.10gb", sm_active_fraction=0.0)
    snapshot = snapshot_of(DeviceSnapshot(index=0, state="ok", power_w=1.0, event_reasons=(), mig=(part,)))
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot


def test_gpus_of_a_note_are_listed_as_ranges() -> None:
    assert numbers_text([]) == ""
    assert numbers_text([4, 1]) == "1, 4"
    assert numbers_text([*range(256), 300, 301]) == "0-255, 300, 301"
    (note,) = missing_notes(snapshot_of(*(DeviceSnapshot(index=index, state="lost") for index in range(256))))
    assert "(GPU 0-255)" in note
