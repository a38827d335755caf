"""One reading of this machine: its GPUs through NVML and its host, as a frozen snapshot."""

from __future__ import annotations

import datetime as dt
import os
import time

from planner.observe import host
from planner.observe.driver.cuda_order import cuda_ordinals
from planner.observe.driver.nvml import NVML_DETAILS, NvmlError, NvmlState, describe_failure
from planner.observe.driver.processes import ProcessTable
from planner.observe.driver.session import DriverSession
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot


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
    nvml: DriverSession | None, host_reader: HostReader, *, slow: bool, interval_s: float, state: NvmlState, detail: str
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


def read_processes(nvml: DriverSession, table: ProcessTable | None) -> None:
    """List who uses each GPU, for the snapshots from now on; without `table` they list nobody."""
    for device in nvml.devices:
        device.read_processes(table)


def read_once(nvml: DriverSession | None = None, *, window_s: float = 0.25, processes: bool = False) -> Snapshot:
    """One complete snapshot: reads twice, `window_s` apart, since averages need a beginning; with `processes` who uses each GPU.

    Opens and closes its own session unless given one. A missing driver is a snapshot without devices.
    """
    if nvml is None:
        try:
            with DriverSession.open() as opened:
                return read_once(opened, window_s=window_s, processes=processes)
        except NvmlError as error:
            state, detail = error.open_state, describe_failure(error)
    else:
        state, detail = "ready", NVML_DETAILS["ready"]
    host_reader = HostReader()
    take_snapshot(nvml, host_reader, slow=True, interval_s=0.0, state=state, detail=detail)
    time.sleep(window_s)
    if processes and nvml is not None:
        read_processes(nvml, ProcessTable())
    return take_snapshot(nvml, host_reader, slow=True, interval_s=0.0, state=state, detail=detail)
