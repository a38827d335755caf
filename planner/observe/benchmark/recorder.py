"""Recorder that stores the messages of one benchmark run as runs and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench.protocol import Hello, Message, Plan, Result, fingerprint
from planner.hardware.measurements.measurement import UNITS, Measurement, Run, RunState, faults_of
from planner.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.hardware.measurements.store import Store


class Recorder:
    """Recorder of the results of the workers of one run."""

    def __init__(self, store: Store, run: str, canonical: Callable[[str], str | None] | None) -> None:
        """Record into `store`; `canonical` converts the name reported by a GPU driver to that of the catalogue."""
        self.store = store
        self.run = run
        self.device = ""
        """Canonical name, once a worker has reported its device."""
        self.fingerprint = ""
        self._points: set[str] = set()
        self._canonical = canonical
        self._hello: Hello | None = None
        self._suite = ""

    @property
    def kept(self) -> int:
        """Number of points on disk so far."""
        return len(self._points) - self.store.waiting(self.run)

    @property
    def kept_text(self) -> str:
        """Text such as '3 results kept', with the number of results only in memory and the reason."""
        kept, waiting = self.kept, self.store.waiting(self.run)
        text = f"{counted(kept, 'result')} kept"
        return f"{text}, {waiting} {self.store.result}" if waiting else text

    def record(self, message: Message) -> Measurement | None:
        """Store `message`; returns the measurement if it was one. An impossible one is left out."""
        try:
            measurement = self.read(message)
        except msgspec.ValidationError:
            return None
        if isinstance(message, Plan) and (run := self.run_in("running")):
            self.store.add_run(run)
        if measurement is not None:
            self.store.add(measurement)
            self._points.add(measurement.point)
        return measurement

    def read(self, message: Message) -> Measurement | None:
        """Measurement in `message`, if any. Raises `msgspec.ValidationError` for an impossible one."""
        if isinstance(message, Hello):
            self._hello = message
            self.device = self._device_name(message)
            self.fingerprint = fingerprint(message.machine, message.software)
        elif isinstance(message, Plan):
            self._suite = message.suite
        elif isinstance(message, Result) and self._hello is not None and message.kind in UNITS:  # a newer worker has others
            return self._measurement_of(message, self._hello)
        return None

    def close(self, state: RunState) -> None:
        """Record the end of the run."""
        if self._suite:
            self.store.end_run(self.run, state)

    def run_in(self, state: RunState) -> Run | None:
        """The run according to the messages so far; None before the first."""
        if self._hello is None or not self._suite:
            return None
        started = f"{self.run[0:4]}-{self.run[4:6]}-{self.run[6:8]}T{self.run[9:11]}:{self.run[11:13]}:{self.run[13:15]}Z"
        return Run(
            id=self.run,
            suite=self._suite,
            device=self.device,
            fingerprint=self.fingerprint,
            started_at=started,
            state=state,
            environment={**self._hello.environment, "device_name": self._hello.device_name},
        )

    def _device_name(self, hello: Hello) -> str:
        """Name of a GPU in the catalogue; for the CPU the name that the planner itself reads."""
        if hello.device == "cpu":
            from planner.observe.host import cpu_name

            return cpu_name()
        return (self._canonical(hello.device_name) if self._canonical else None) or hello.device_name

    def _measurement_of(self, result: Result, hello: Hello) -> Measurement:
        """Measurement from `result`; raises `msgspec.ValidationError`."""
        shared = {name: getattr(result, name) for name in Measurement.__struct_fields__ if hasattr(result, name)}
        own = {
            "device": self.device,
            "fingerprint": self.fingerprint,
            "suite": self._suite,
            "run": self.run,
            "samples": len(result.samples_s),
            "rounds": result.round,
            "method": hello.method,
        }
        measurement = msgspec.convert(shared | own, type=Measurement, strict=False)
        for name, text in faults_of(measurement):
            raise msgspec.ValidationError(f"{name}: {text}")
        return measurement
