"""One reading of this machine: its GPUs through NVML and its host, as a frozen snapshot."""

from __future__ import annotations

import datetime as dt
import os
import time

from planner.observe import host
from planner.observe.driver.driver import Driver, DriverError
from planner.observe.driver.messages import ListedProcesses
from planner.observe.driver.nvml import NVML_DETAILS, NvmlState
from planner.observe.snapshot import HostSnapshot, Snapshot


class HostReader:
    """Reader of the host; the processor's share of busy time needs the previous reading."""

    def __init__(self) -> None:
        self._before = host.busy_time()
        self._cpu_name = host.cpu_name()

    def read(self) -> HostSnapshot:
        """Processor use since the previous reading, and present memory."""
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
    driver: Driver | None,
    host_reader: HostReader,
    *,
    slow: bool,
    interval_s: float,
    processes: ListedProcesses = "as before",
    state: NvmlState = "ready",
    detail: str = NVML_DETAILS["ready"],
) -> Snapshot:
    """One reading of every GPU of `driver` (None: no driver, as in `state` and `detail`) and the host; raises `DriverError`."""
    began_s, taken_at = time.monotonic(), dt.datetime.now(tz=dt.UTC)
    devices = () if driver is None else driver.read(slow=slow, processes=processes).devices
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


def read_once(driver: Driver | None = None, *, window_s: float = 0.25, processes: bool = False) -> Snapshot:
    """One complete snapshot of two readings `window_s` apart, because averages need a beginning; `processes`: also who uses each GPU.

    Starts a driver unless one is given. Without an answering driver the snapshot has no devices.
    """
    host_reader = HostReader()
    try:
        if driver is None:
            with Driver.start() as started:
                return read_once(started, window_s=window_s, processes=processes)
        take_snapshot(driver, host_reader, slow=True, interval_s=0.0)
        time.sleep(window_s)
        listed: ListedProcesses = "list" if processes else "as before"
        return take_snapshot(driver, host_reader, slow=True, interval_s=0.0, processes=listed)
    except DriverError as error:
        time.sleep(window_s)
        return take_snapshot(None, host_reader, slow=True, interval_s=0.0, state=error.state, detail=error.detail)
