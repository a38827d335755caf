"""Snapshots as a poller takes them, and where recorded windows are."""

from __future__ import annotations

from repository import ROOT

from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot

WINDOWS = ROOT / "tests" / "data" / "windows"


def snapshot_of(second: float, *devices: DeviceSnapshot) -> Snapshot:
    return Snapshot(
        taken_at="2026-01-01T00:00:00+00:00",
        taken_at_s=second,
        collect_s=0.0,
        interval_s=1.0,
        nvml_state="ready",
        nvml_detail="NVML answers",
        host=HostSnapshot(cpu_name="CPU", cpu_cores=4, cpu_busy_fraction=0.5),
        devices=devices,
    )
