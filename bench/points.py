"""State shared by all measured points, and conversion of samples to a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bench.kinds.ranks import Group
from bench.machine import nvml
from bench.machine.environment import Device
from bench.protocol import Point, Result, plain_result
from bench.timing import CpuTimer, KeepsBusy, Timer, Timing, measure


class UnsupportedError(Exception):
    """The device, or torch on it, cannot do the work of a point; the message is the reason."""


class TooSlowError(Exception):
    """A call would take longer than the time limit of the whole point; the message states the time."""


@dataclass(slots=True)
class Bench:
    """The measured device and the state of the run."""

    device: Device
    timer: Timer
    stopping: Callable[[], bool]
    progress: Callable[[float, str], None]
    """Called with the fraction of the point done and a note; replaced for every point."""
    best_flop_per_s: dict[str, float] = field(default_factory=dict)
    """Best GEMM rate so far per dtype, and of training steps per 'train/dtype', against later points with calls that take minutes."""
    meter: nvml.Meter | None = None
    """The GPU's own telemetry, where available."""
    crowded: str = ""
    """Reason why every figure counts as shared (other programs kept the device busy before the run began); empty: none."""
    resident_bytes: float | None = None
    """Memory of this process with torch loaded, before any work."""
    used_before_bytes: float | None = None
    """Memory of the GPU in use before this process used any."""
    group: Group | None = None
    """Ranks that torchrun started, once they have joined."""

    def time(self, call: Callable[[], Any], cap_s: float, *, whole: bool = True, timer: Timer | None = None) -> Timing:
        """Sample `call`; `whole`: it keeps every thread busy from end to end."""
        threads = (self.device.threads if whole else 0) if self.device.is_cpu else None
        first: list[nvml.Reading] = []

        def begin() -> None:
            if self.meter is not None:
                first.append(self.meter.read())
                self.meter.mark(0)

        clock = timer or self.timer
        timed = measure(
            clock,
            call,
            cap_s=cap_s,
            stopping=self.stopping,
            progress=lambda share: self.progress(share, ""),
            threads=threads,
            share=self.device.quantile,
            settled=begin,
        )
        if first and isinstance(clock, KeepsBusy):
            clock.keep_busy(call, timed.call_s)
        return self._with_telemetry(timed, first)

    def _with_telemetry(self, timed: Timing, first: list[nvml.Reading]) -> Timing:
        """`timed` with the device's telemetry around the samples, and the resulting status."""
        telemetry: dict[str, Any] = {}
        held = ""
        if self.meter is not None and first:
            last = self.meter.read()
            telemetry, held = nvml.between(first[0], last)
            if last.at_s - first[0].at_s >= nvml.GPM_LEAST_S:
                self.meter.mark(1)
                telemetry |= self.meter.counters()
            telemetry["window_s"], telemetry["readings"] = round(last.at_s - first[0].at_s, 4), 2
        if self.crowded:
            return replace(timed, telemetry=telemetry, status="shared", detail=self.crowded)
        return replace(timed, telemetry=telemetry, status="throttled", detail=held) if held else replace(timed, telemetry=telemetry)

    def refuse_if_slow(self, flop: float, dtype: str, cap_s: float, efficiency: float = 1.0) -> None:
        """Raise `TooSlowError` when one call of `flop` at the best rate so far would not end within `cap_s`."""
        rate = self.best_flop_per_s.get(dtype)
        if rate and flop / (rate * efficiency) > cap_s:
            raise TooSlowError(f"too slow here: {flop / (rate * efficiency):.0f} s a call at {rate / 1e9:.1f} GFLOP/s")


def timer_for(device: Device) -> Timer:
    """Timer for the device."""
    if device.is_cpu:
        return CpuTimer()
    from bench.machine.cuda import CudaTimer

    return CudaTimer(device.torch_name)


def rate_result(
    point: Point, timed: Timing, amount: float, unit: str, dtype: str | None, parameters: dict[str, Any], **facts: Any
) -> Result:
    """A result of `amount` (FLOP or bytes of one call) ÷ the time of a call."""
    low, high = amount / timed.high_s, amount / timed.low_s
    plain = plain_result(point, amount / timed.call_s, unit, parameters, timed.status, timed.detail)
    return replace(plain, dtype=dtype, low=low, high=high, **samples_of(timed), **facts)


def samples_of(timed: Timing, share: float = 1.0) -> dict[str, Any]:
    """Samples of a result, each times `share`, with six digits, which is finer than the resolution of the clock."""
    samples_s = tuple(float(f"{sample * share:.6g}") for sample in timed.samples_s)
    return {"samples_s": samples_s, "spread": round(timed.spread, 6), "telemetry": timed.telemetry}
