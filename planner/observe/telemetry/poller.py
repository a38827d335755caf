"""Telemetry of this machine: one thread reads NVML and the host, with separate fast and slow counters, and passes on frozen snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable

from planner.observe.driver.driver import Driver, DriverError
from planner.observe.driver.messages import ListedProcesses
from planner.observe.driver.nvml import NVML_DETAILS, NvmlState
from planner.observe.snapshot import Snapshot
from planner.observe.telemetry.reading import HostReader, take_snapshot
from planner.observe.telemetry.source import Telemetry

FASTEST_INTERVAL_S = 0.1
"""Shortest interval: hardware counters refresh every 100 ms, and each reading takes a lock inside the driver."""
SLOW_INTERVAL_S = 5.0
PROCESSES_INTERVAL_S = 2.0
"""Interval of listing processes while they are shown: graphics processes take the driver milliseconds."""
REOPEN_INTERVAL_S = 30.0
"""Interval of retrying a driver that is missing or did not answer."""
SILENCE_S = 10.0
"""Silence of a driver after which its process is ended; meanwhile the last reading shows its age."""
TOLERANCE_S = 0.05
"""A tick early by up to this many seconds counts as on time."""
LATE_S = 0.5
STOP_WAIT_S = 0.05
"""Seconds that stopping waits for a reading to end; then the driver's process is killed."""


class Poller(Telemetry):
    """This machine: the thread owns the driver and closes it itself, after its last reading."""

    def __init__(
        self,
        on_snapshot: Callable[[Snapshot], None] | None = None,
        *,
        interval_s: float = 1.0,
        slow_interval_s: float = SLOW_INTERVAL_S,
        start_driver: Callable[[float], Driver] = Driver.start,
    ) -> None:
        super().__init__(on_snapshot)
        self._interval_s = max(FASTEST_INTERVAL_S, interval_s)
        self._slow_interval_s = slow_interval_s
        self._start_driver = start_driver
        self._driver: Driver | None = None
        self._at_once = False
        """True if the next reading is due now, whatever the interval."""
        self._due_s = float("inf")
        """Time at which the next reading ought to begin."""
        self._listed_at_s: float | None = None
        self._thinned = self._lists_processes = False

    @property
    def interval_s(self) -> float:
        """The fast interval; it may be set at any time, and values under 0.1 s become 0.1 s."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, seconds: float) -> None:
        self._interval_s = max(FASTEST_INTERVAL_S, seconds)
        self._hurry()

    @property
    def present_interval_s(self) -> float:
        """The present interval from one reading to the next."""
        return max(self._interval_s, self._slow_interval_s) if self._thinned else self._interval_s

    @property
    def thinned(self) -> bool:
        """True if only slow readings are taken, without processes, while something is timed here; clearing it reads at once."""
        return self._thinned

    @thinned.setter
    def thinned(self, thin: bool) -> None:
        if thin != self._thinned:
            self._thinned = thin
            self._hurry(read=not thin)

    @property
    def lists_processes(self) -> bool:
        """True if snapshots list who uses each GPU, read every two seconds; set it while the list is shown."""
        return self._lists_processes

    @lists_processes.setter
    def lists_processes(self, wanted: bool) -> None:
        if wanted != self._lists_processes:
            self._lists_processes = wanted
            self._hurry(read=not self._thinned)

    @property
    def ended(self) -> bool:
        """True if no reading will follow."""
        return self.failure is not None

    def resume(self) -> None:
        """Continue reading at once."""
        super().resume()
        self._hurry()

    def stop(self, within_s: float = STOP_WAIT_S) -> bool:
        """End polling; where a call is known to hang, or does not end in time, the driver's process is killed."""
        ended = super().stop(0 if self.stale_for_s() is not None else within_s)
        driver = self._driver
        if not ended and driver is not None:
            driver.kill()
            ended = super().stop(STOP_WAIT_S)
        return ended

    def stale_for_s(self) -> float | None:
        """Age of the last snapshot when the next one is late by an interval and a half second; else, and while paused, None."""
        latest, now_s = self.latest, time.monotonic()
        if latest is None or self.paused or now_s <= self._due_s + self.present_interval_s + LATE_S:
            return None
        return latest.age_s(now_s)

    def _hurry(self, *, read: bool = True) -> None:
        """Wake the thread after a change; with `read` it reads at once."""
        if read:
            self._at_once, self._due_s = True, time.monotonic()
        self._wake.set()

    def _run(self) -> None:
        try:
            host_reader = HostReader()
            state: NvmlState = "no driver"
            detail = ""
            next_open_s = next_slow_s = time.monotonic()
            while not self._stopping:
                began_s = time.monotonic()
                if not self.paused:
                    slow = self._thinned or began_s >= next_slow_s
                    try:
                        if self._driver is None and began_s >= next_open_s:
                            self._driver, slow, self._listed_at_s = self._start_driver(SILENCE_S), True, None
                            state, detail = "ready", NVML_DETAILS["ready"]
                        listed = self._processes_due(began_s)
                        found = take_snapshot(
                            self._driver,
                            host_reader,
                            slow=slow,
                            interval_s=self.present_interval_s,
                            processes=listed,
                            state=state,
                            detail=detail,
                        )
                    except DriverError as error:
                        self._close()
                        state, detail, next_open_s = error.state, error.detail, time.monotonic() + REOPEN_INTERVAL_S
                        continue
                    if slow:
                        next_slow_s = began_s + self._slow_interval_s
                    if not self._stopping:
                        self._publish(found)
                self._rest(began_s)
        except Exception as failure:  # noqa: BLE001  # a thread has no caller; its owner shows `failure` as a stopped pane
            self.failure = failure
        finally:
            self._close()

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _processes_due(self, now_s: float) -> ListedProcesses:
        """Whether the next reading lists the processes: while they are shown, and not too often."""
        if not self._lists_processes:
            listed, self._listed_at_s = self._listed_at_s is not None, None
            return "none" if listed else "as before"
        due = self._listed_at_s is None or now_s - self._listed_at_s >= PROCESSES_INTERVAL_S - TOLERANCE_S
        if not due or self._thinned:
            return "as before"
        self._listed_at_s = now_s
        return "list"

    def _rest(self, began_s: float) -> None:
        """Wait for the next tick, or until `stop` or `_hurry` is called."""
        while not (self._stopping or self._at_once):
            self._due_s = began_s + self.present_interval_s
            left_s = None if self.paused else self._due_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            self._wake.wait(left_s)
            self._wake.clear()
        self._at_once = False
