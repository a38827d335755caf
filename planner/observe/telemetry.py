"""What this machine does now: one thread reads NVML and the host in two tiers and hands out frozen snapshots."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Callable

from planner.observe import host
from planner.observe.cuda_order import cuda_ordinals
from planner.observe.nvml import NVML_DETAILS, Nvml, NvmlError, NvmlState, describe_failure
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot, Snapshot

__all__ = ["DeviceSnapshot", "HostReader", "HostSnapshot", "MigSnapshot", "Poller", "Snapshot", "read_once"]

FASTEST_INTERVAL_S = 0.1
"""Hardware counters refresh every 100 ms, and each reading takes a lock inside the driver."""
SLOW_INTERVAL_S = 5.0
REOPEN_INTERVAL_S = 30.0
"""How often a missing driver is looked for again."""
STOP_WAIT_S = 0.05
"""How long stopping waits for a reading to end; a call stuck in the driver is left behind."""


class HostReader:
    """Reads the host; the processor's share of busy time needs the reading before."""

    def __init__(self) -> None:
        self._before = host.busy_time()
        self._cpu_name = host.cpu_name()

    def read(self) -> HostSnapshot:
        """Processor use since the previous reading, and memory now."""
        reasons: dict[str, str] = {}
        now, before = host.busy_time(), self._before
        busy = None
        if now is None or before is None:
            reasons["cpu_busy_fraction"] = "this system has no /proc/stat"
        elif now.total_ticks <= before.total_ticks:
            reasons["cpu_busy_fraction"] = "no time passed since the reading before"
        else:
            busy = min(1.0, max(0.0, (now.busy_ticks - before.busy_ticks) / (now.total_ticks - before.total_ticks)))
            self._before = now
        memory = host.memory_info()
        total, available = memory.get("MemTotal") or host.memory_total_bytes(), memory.get("MemAvailable")
        if total is None or available is None:
            reasons["memory_used_bytes"] = "this system has no /proc/meminfo"
        return HostSnapshot(
            cpu_name=self._cpu_name,
            cpu_cores=os.cpu_count() or 1,
            cpu_busy_fraction=busy,
            memory_total_bytes=total,
            memory_used_bytes=total - available if total is not None and available is not None else None,
            reasons=reasons,
        )


def take_snapshot(
    nvml: Nvml | None, host_reader: HostReader, *, slow: bool, interval_s: float, state: NvmlState, detail: str
) -> Snapshot:
    """One tick: every GPU of `nvml` (None: there is no driver, as `state` and `detail` say) and the host."""
    began_s, taken_at = time.monotonic(), dt.datetime.now(tz=dt.UTC)
    devices: tuple[DeviceSnapshot, ...] = ()
    if nvml is not None:
        known = [(device.identity.uuid, device.identity.name) for device in nvml.devices if device.identity is not None]
        ordinals = cuda_ordinals(known, os.environ)
        devices = tuple(
            device.snapshot(slow=slow, cuda_ordinal=ordinals.get(device.identity.uuid) if device.identity else None)
            for device in nvml.devices
        )
    host_snapshot = host_reader.read()
    return Snapshot(
        taken_at=taken_at.isoformat(timespec="milliseconds"),
        taken_at_s=began_s,
        collect_s=time.monotonic() - began_s,
        interval_s=interval_s,
        nvml_state=state,
        nvml_detail=detail,
        host=host_snapshot,
        devices=devices,
    )


def read_once(nvml: Nvml | None = None, *, window_s: float = 0.25) -> Snapshot:
    """One complete snapshot: reads twice, `window_s` apart, since averages need a beginning.

    Opens and closes its own session unless given one. A missing driver is a snapshot without devices.
    """
    if nvml is None:
        try:
            with Nvml.open() as opened:
                return read_once(opened, window_s=window_s)
        except NvmlError as error:
            state, detail = error.open_state, describe_failure(error)
    else:
        state, detail = "ready", NVML_DETAILS["ready"]
    host_reader = HostReader()
    take_snapshot(nvml, host_reader, slow=True, interval_s=0.0, state=state, detail=detail)
    time.sleep(window_s)
    return take_snapshot(nvml, host_reader, slow=True, interval_s=0.0, state=state, detail=detail)


class Poller:
    """One daemon thread that owns the NVML session and calls `on_snapshot` from it after every tick.

    `latest` is the last snapshot (None before the first). The thread closes NVML itself, after its last reading.
    """

    def __init__(
        self,
        on_snapshot: Callable[[Snapshot], None] | None = None,
        *,
        interval_s: float = 1.0,
        slow_interval_s: float = SLOW_INTERVAL_S,
        open_nvml: Callable[[], Nvml] = Nvml.open,
    ) -> None:
        self.latest: Snapshot | None = None
        self.failure: Exception | None = None
        """What ended the thread, if not `stop`."""
        self._on_snapshot = on_snapshot
        self._interval_s = max(FASTEST_INTERVAL_S, interval_s)
        self._slow_interval_s = slow_interval_s
        self._open_nvml = open_nvml
        self._wake = threading.Event()
        self._stopping = False
        self._paused = False
        self._thread: threading.Thread | None = None

    @property
    def interval_s(self) -> float:
        """The fast interval; set it any time, values under 0.1 s become 0.1 s."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, seconds: float) -> None:
        self._interval_s = max(FASTEST_INTERVAL_S, seconds)
        self._wake.set()

    @property
    def paused(self) -> bool:
        """Whether nothing is read for now."""
        return self._paused

    @property
    def ended(self) -> bool:
        """Whether no reading will follow."""
        return self.failure is not None

    def start(self) -> None:
        """Begin polling; the driver is opened in the thread, since that may take seconds."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Read nothing until `resume`; the session stays open."""
        self._paused = True

    def resume(self) -> None:
        """Go on reading at once."""
        self._paused = False
        self._wake.set()

    def stop(self, within_s: float = STOP_WAIT_S) -> bool:
        """End polling. False when that takes longer, or a call is known to hang: the thread is then left to the process's end.

        It closes NVML itself once its call returns, so that nobody ends the session under it.
        """
        stuck = self.stale_for_s() is not None
        self._stopping = True
        self._wake.set()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(0 if stuck else within_s)
        return not self._thread.is_alive()

    def stale_for_s(self) -> float | None:
        """Seconds without a new snapshot when there should have been one; None while fresh, paused or not begun."""
        if self.latest is None or self._paused:
            return None
        return self.latest.stale_for_s(time.monotonic())

    def _run(self) -> None:
        nvml: Nvml | None = None
        try:
            host_reader = HostReader()
            state: NvmlState = "no driver"
            detail = ""
            next_open_s = next_slow_s = time.monotonic()
            while not self._stopping:
                began_s = time.monotonic()
                if not self._paused:
                    if nvml is None and began_s >= next_open_s:
                        nvml, state, detail = self._open()
                        next_open_s, next_slow_s = began_s + REOPEN_INTERVAL_S, began_s
                    slow = began_s >= next_slow_s
                    if slow:
                        next_slow_s = began_s + self._slow_interval_s
                    self._publish(
                        take_snapshot(nvml, host_reader, slow=slow, interval_s=self._interval_s, state=state, detail=detail)
                    )
                self._rest(began_s)
        except Exception as failure:  # noqa: BLE001 - a thread has no caller to tell; its owner shows `failure` as a stopped pane
            self.failure = failure
        finally:
            if nvml is not None:
                nvml.close()

    def _open(self) -> tuple[Nvml | None, NvmlState, str]:
        try:
            return self._open_nvml(), "ready", NVML_DETAILS["ready"]
        except NvmlError as error:
            return None, error.open_state, describe_failure(error)

    def _publish(self, snapshot: Snapshot) -> None:
        if self._stopping:
            return
        self.latest = snapshot
        if self._on_snapshot is not None:
            self._on_snapshot(snapshot)

    def _rest(self, began_s: float) -> None:
        """Wait for the next tick; woken early by `stop`, `resume` and a new interval."""
        left_s = None if self._paused else max(0.0, began_s + self._interval_s - time.monotonic())
        if not self._stopping:
            self._wake.wait(left_s)
        self._wake.clear()
