"""A machine with a simulated GPU: its driver's telemetry, its memory, and what other processes do to both.

    run_on(bench.worker._measure, Truth(…))

is that worker on such a machine, whole suites included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from simulated_gpu import SimulatedGpu, Truth, simulated

from bench.machine.nvml import SW_THERMAL, Meter, Reading
from bench.points import Bench

CONTEXT_BYTES, BEFORE_BYTES = 0.5e9, 0.3e9
"""Memory of the process's context, and of what ran before."""
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
SIMULATED_S = 60.0
UUID = "8d6cf0a2-0000-4000-8000-000000000001"


class SimulatedMeter(Meter):
    """What NVML would tell of the GPU."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._marks = [(0.0, dict(gpu.busy))] * 2
        self._samples = []

    def read(self) -> Reading:
        """The clock is that of the simulation, and held down all the time where it is at all."""
        truth = self._gpu.truth
        held_s = self._gpu.host_s if truth.held_down < 1 else 0.0
        figures = {"sm_clock_hz": 1.98e9 * truth.held_down, "power_w": 650.0, "temperature_c": 60.0}
        return Reading(self._gpu.host_s, figures, {SW_THERMAL: int(held_s * 1e9)})

    def busy_percent(self) -> int | None:
        """Percent of the time that others' kernels run."""
        return round(100 * self._gpu.truth.neighbour)

    def mark(self, place: int) -> None:
        """Note what the device has done so far."""
        self._marks[place] = (self._gpu.device_s, dict(self._gpu.busy))

    def counters(self) -> dict[str, float]:
        """Shares of the time between the marks."""
        (begin_s, before), (end_s, after) = self._marks
        return {name: min(1.0, (after[name] - before[name]) / (end_s - begin_s)) for name in after} if end_s > begin_s else {}

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def simulated_machine(truth: Truth, monkeypatch: pytest.MonkeyPatch, memory_bytes: float = 141e9) -> Iterator[Bench]:
    """`simulated`, with telemetry, memory, and a way for the faults of the suite `prove` to be made."""
    held = {"bytes": 0.0}
    with simulated(truth, monkeypatch) as bench:
        gpu = bench.timer.gpu  # type: ignore[attr-defined]  # set by `simulated`
        bench.device = dataclasses.replace(bench.device, name="NVIDIA H200", memory_bytes=memory_bytes)
        bench.meter = SimulatedMeter(gpu)

        def beside(code: str, look: Callable[[], str]) -> str:
            """Another process, which holds memory or multiplies, while `look` looks."""
            if "while True" in code:
                gpu.truth = dataclasses.replace(truth, neighbour=0.9)
            else:
                held["bytes"] = 2.0**30
            try:
                return look()
            finally:
                gpu.truth, held["bytes"] = truth, 0.0

        def used_bytes() -> float:
            return CONTEXT_BYTES + BEFORE_BYTES + held["bytes"]

        replaced: dict[str, Any] = {
            "mem_get_info": lambda _: (memory_bytes - used_bytes(), memory_bytes),
            "memory_reserved": lambda _: 0,
            "memory_allocated": lambda _: 0,
            "max_memory_reserved": lambda _: 0,
            "empty_cache": lambda: None,
            "reset_peak_memory_stats": lambda _: None,
            "device_count": lambda: 1,
            "get_device_capability": lambda _: bench.device.capability,
            "get_arch_list": lambda: ["sm_90"],
        }
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr("bench.kinds.faults._beside", beside)
        monkeypatch.setattr("bench.kinds.faults._works", lambda _: "")  # shapes have no sum
        monkeypatch.setattr("bench.kinds.faults.time.sleep", lambda _: None)
        broken = SimpleNamespace(returncode=1, stderr=ILLEGAL)
        monkeypatch.setattr("bench.kinds.faults.subprocess", SimpleNamespace(run=lambda *_, **__: broken, PIPE=-1, DEVNULL=-3))
        monkeypatch.setattr("bench.machine.nvml.memory_in_use", lambda: {UUID: BEFORE_BYTES})
        monkeypatch.setattr("bench.machine.nvml.GPM_LEAST_S", 1e-3)
        monkeypatch.setattr("bench.machine.nvml.Meter.open", lambda _: bench.meter)
        monkeypatch.setattr("bench.machine.environment.uuid_of", lambda _: UUID)
        monkeypatch.setattr("bench.machine.environment.find_device", lambda _: bench.device)
        monkeypatch.setattr("bench.points.timer_for", lambda _: bench.timer)
        for name in ("STEP_CAP_S", "PASS_CAP_S"):  # shapes take the host far longer than work takes a GPU
            monkeypatch.setattr(f"bench.jobs.{name}", SIMULATED_S)
        monkeypatch.setattr("bench.suite.SOAK_S", dict.fromkeys(("quick", "standard", "prove", "smoke"), 0.01))
        yield bench


def run_on(measure: Callable[..., Any], truth: Truth, never: Sequence[str] = ()) -> Callable[..., Any]:
    """`measure`, a worker's, on a machine with that GPU; `never`: points that it leaves out."""

    def measured(run: Any, options: Any) -> Any:
        options.never = [*options.never, *never]
        with pytest.MonkeyPatch.context() as monkeypatch, simulated_machine(truth, monkeypatch):
            return measure(run, options)

    return measured
