"""Compose synthetic recordings: the shipped demonstration, and the windows with which right-sizing is tested.

Figures are set by hand to typical ones of such jobs on an H100 SXM (names and totals are the driver's): the tables below contain all of
them, with a little deterministic noise. Run it again after a change.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402  # the path comes first

from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot  # noqa: E402  # the path comes first
from planner.units import GIB  # noqa: E402  # the path comes first

BEGIN = dt.datetime(2026, 11, 2, 9, 0, tzinfo=dt.UTC)
TOTAL, RESERVED = 85520809984.0, 626327552.0
"""Memory of an H100 80GB, as its driver reports."""
Job = Mapping[str, Any]
STEADY: Mapping[str, Any] = {
    "state": "ok", "name": "NVIDIA H100 80GB HBM3", "fp64_active_fraction": 0.0, "nvlink_rx_bytes_per_s": 0.0, "nvlink_tx_bytes_per_s": 0.0,
    "counter_window_s": 1.0, "memory_total_bytes": TOTAL, "memory_reserved_bytes": RESERVED, "power_limit_w": 700.0,
    "max_sm_clock_hz": 1980e6, "memory_clock_hz": 2619e6, "pcie_generation": 5, "pcie_width": 16, "pcie_max_generation": 5,
    "pcie_max_width": 16, "persistence_mode": True, "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0,
    "ecc_uncorrected_aggregate": 0, "remapped_rows_correctable": 0, "remapped_rows_uncorrectable": 0, "row_remap_pending": False,
    "row_remap_failed": False, "mig_enabled": False,
}  # fmt: skip
"""Fields of a GPU that are the same in every reading."""

IDLE: Job = {
    "busy": (0.0, 0.0, 0.0, 0.0), "resident": 0.0, "memory_gib": 18.2, "power_w": 72.0, "clock_mhz": 345, "temperature_c": 34,
    "reasons": ("idle",), "power_cap": 0.0, "cpu": 0.01,
}  # fmt: skip
LAUNCH: Job = {
    "busy": (0.28, 0.06, 0.05, 0.09), "resident": 0.88, "memory_gib": 9.4, "power_w": 191.0, "clock_mhz": 1980, "temperature_c": 43,
    "reasons": (), "power_cap": 0.0, "cpu": 0.07,
}  # fmt: skip
DECODE: Job = {
    "busy": (0.90, 0.18, 0.12, 0.78), "resident": 0.99, "memory_gib": 71.6, "power_w": 431.0, "clock_mhz": 1980, "temperature_c": 55,
    "reasons": (), "power_cap": 0.0, "cpu": 0.04,
}  # fmt: skip
TRAINING: Job = {
    "busy": (0.93, 0.28, 0.62, 0.41), "resident": 0.99, "memory_gib": 63.9, "power_w": 684.0, "clock_mhz": 1785, "temperature_c": 63,
    "reasons": ("power cap",), "power_cap": 0.11, "cpu": 0.12,
}  # fmt: skip
FULL: Job = {
    "busy": (0.72, 0.24, 0.38, 0.45), "resident": 0.97, "memory_gib": 77.4, "power_w": 552.0, "clock_mhz": 1980, "temperature_c": 59,
    "reasons": (), "power_cap": 0.0, "cpu": 0.09,
}  # fmt: skip
SAVING: Job = {**TRAINING, "busy": (0.03, 0.01, 0.0, 0.02), "resident": 0.06, "power_w": 133.0, "reasons": (), "power_cap": 0.0}
"""A training job while it writes a checkpoint."""

WINDOWS: Mapping[str, Job] = {
    "idle": IDLE, "launch-bound": LAUNCH, "bandwidth-bound-decode": DECODE, "compute-bound-training": TRAINING,
    "nearly-out-of-memory": FULL,
}  # fmt: skip
WINDOW_S, DEMO_S = 24, 60


def device(index: int, second: int, job: Job, unrest: Random, energy_j: float, capped_s: float) -> DeviceSnapshot:
    """One GPU at one second of `job`."""
    sm, occupancy, tensor, dram = (
        round(min(1.0, max(0.0, share * (1 + 0.04 * unrest.uniform(-1, 1)))), 4) for share in job["busy"]
    )
    power = round(job["power_w"] * (1 + 0.015 * unrest.uniform(-1, 1)), 1)
    used = job["memory_gib"] * GIB
    return DeviceSnapshot(
        **STEADY,
        index=index,
        uuid=f"GPU-c0ffee00-0000-4000-8000-00000000000{index}",
        cuda_ordinal=index,
        graphics_active_fraction=round(min(1.0, job["resident"] * 1.005), 3),
        sm_active_fraction=sm,
        sm_occupancy_fraction=occupancy,
        tensor_active_fraction=tensor,
        dram_bandwidth_fraction=dram,
        integer_active_fraction=round(sm * 0.05, 4),
        fp32_active_fraction=round(sm * 0.09, 4),
        fp16_active_fraction=round(sm * 0.02, 4),
        pcie_tx_bytes_per_s=round(4e6 * job["resident"]),
        pcie_rx_bytes_per_s=round(22e6 * job["resident"]),
        kernel_resident_fraction=job["resident"],
        memory_active_fraction=round(min(1.0, dram * 1.1), 2),
        memory_used_bytes=used,
        memory_free_bytes=TOTAL - RESERVED - used,
        power_w=power,
        power_average_w=job["power_w"],
        energy_j=round(energy_j, 1),
        sm_clock_hz=job["clock_mhz"] * 1e6,
        temperature_c=float(job["temperature_c"]),
        memory_temperature_c=float(job["temperature_c"] + 12),
        event_reasons=job["reasons"],
        throttled_s={"hardware thermal": 0.0, "power brake": 0.0, "power cap": round(capped_s, 2), "software thermal": 0.0},
        throttled_fraction={"hardware thermal": 0.0, "power brake": 0.0, "power cap": job["power_cap"], "software thermal": 0.0},
        ecc_corrected_aggregate=4 * index,
        slow_age_s=float(second % 5),
    )


def compose(seconds: int, jobs: Callable[[int], tuple[Job, ...]], comment: str, seed: int) -> str:
    """`seconds` readings, one a second, of the jobs that run at each of them."""
    unrest = Random(seed)  # noqa: S311  # unrest, no secret
    lines = [f"# {comment}"]
    energy, capped = [1.0e8, 1.4e8], [3600.0, 0.0]
    for second in range(seconds):
        running = jobs(second)
        for index, job in enumerate(running):
            energy[index] += job["power_w"]
            capped[index] += job["power_cap"]
        host = HostSnapshot(
            cpu_name="INTEL(R) XEON(R) PLATINUM 8480C",
            cpu_cores=104,
            cpu_busy_fraction=round(max(job["cpu"] for job in running) * (1 + 0.1 * unrest.uniform(-1, 1)), 4),
            memory_total_bytes=1024 * GIB,
            memory_used_bytes=96 * GIB,
        )
        snapshot = Snapshot(
            taken_at=(BEGIN + dt.timedelta(seconds=second)).isoformat(timespec="milliseconds"),
            taken_at_s=1000.0 + second,
            collect_s=0.004,
            interval_s=1.0,
            nvml_state="ready",
            nvml_detail="NVML answers",
            host=host,
            devices=tuple(device(index, second, job, unrest, energy[index], capped[index]) for index, job in enumerate(running)),
        )
        lines.append(msgspec.json.encode(snapshot).decode())
    return "".join(f"{line}\n" for line in lines)


def demonstration(second: int) -> tuple[Job, Job]:
    """GPU 0 trains and writes a checkpoint now and then; GPU 1 answers requests, with a pause."""
    return (SAVING if 36 <= second < 41 else TRAINING, {**IDLE, "memory_gib": 71.6, "power_w": 119.0} if second < 6 else DECODE)


def main() -> int:
    """Write every recording."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    demo = ROOT / "presets" / "recordings" / "demo.jsonl"
    words = "Composed by hand (scripts/compose_recordings.py), not measured: two H100 SXM, one training, one generating."
    demo.parent.mkdir(exist_ok=True)
    demo.write_text(compose(DEMO_S, demonstration, words, seed=1), encoding="utf-8")
    folder = ROOT / "tests" / "data" / "windows"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, job) in enumerate(WINDOWS.items(), start=2):
        words = f"Composed by hand (scripts/compose_recordings.py), not measured: an H100 SXM, {name.replace('-', ' ')}."
        (folder / f"{name}.jsonl").write_text(compose(WINDOW_S, lambda _, job=job: (job,), words, seed), encoding="utf-8")  # type: ignore[misc]  # mypy does not infer a lambda with a default
    return 0


if __name__ == "__main__":
    sys.exit(main())
