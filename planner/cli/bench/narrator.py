"""Output of `gpu-planner bench` while it measures: results on stdout, progress on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from planner.cli.terminal.streams import print_line, say, say_passing, write_json
from planner.present.benchmark.measurement import value_text
from planner.units import UNKNOWN, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.hardware.measurements.measurement import Measurement, Prediction
    from planner.observe.benchmark.events import Event, PointProgress


class Narrator:
    """Prints measurements to stdout and everything else to stderr."""

    def __init__(self, *, as_json: bool, measured: Callable[[Measurement], Prediction | None]) -> None:
        """`measured` is called with every result and returns its prediction."""
        self._as_json = as_json
        self._measured = measured
        self._redraws = sys.stderr.isatty()
        """True if a progress line can be overwritten."""
        self.measurements: list[Measurement] = []
        """Number of measurements so far."""

    @property
    def device(self) -> str:
        """Name of the measured part as plans know it; empty before the first measurement."""
        return self.measurements[-1].device if self.measurements else ""

    def report(self, event: Event) -> None:
        """Print one event."""
        from planner.observe.benchmark import events as happened

        match event:
            case happened.Preparing(interpreter):
                self._say(f"loading torch: {interpreter}")
            case happened.Started():
                self._say(f"measuring {event.device}: {len(event.points)} points of suite {event.suite}")
            case happened.PointProgress():
                self._progress(event)
            case happened.PointDone(point, measurement):
                self._result(point.label, measurement)
            case happened.PointSkipped(point, reason):
                self._say(f"skipped {point.label}: {reason}")
            case happened.WorkerRestarted():
                self._say(f"worker started again ({event.number} of {event.most}): {event.reason}")
            case happened.Finished():
                self._say(f"{event.message}, {duration_text(event.elapsed_s)}")
            case happened.Failed():
                self._say(f"error: {event.message} {event.next_step}")
                for line in event.stderr:
                    self._say(f"  {line}")
            case happened.PointStarted(point):
                self._passing(point.label)

    def _result(self, label: str, measurement: Measurement) -> None:
        self._passing("")
        self.measurements.append(measurement)
        predicted = self._measured(measurement)
        if self._as_json:
            write_json(measurement)
        else:
            value = value_text(measurement) if measurement.value is not None else UNKNOWN
            oddity = "" if measurement.status == "ok" else f"  {measurement.status} {measurement.detail}".rstrip()
            said = f"  predicted {predicted.error:+.0%}" if predicted is not None else ""
            print_line(f"{label:<32}{value:>16}{said}{oddity}")
        sys.stdout.flush()

    def _progress(self, event: PointProgress) -> None:
        note = f" {event.note}" if event.note else ""
        self._passing(f"{event.point.label} {event.fraction:4.0%}, {duration_text(event.eta_s)} left{note}")

    def _passing(self, text: str) -> None:
        """Write a line that the next one replaces; nothing if stderr is not a terminal."""
        if self._redraws:
            say_passing(text)

    def _say(self, text: str) -> None:
        self._passing("")
        say(text)
