"""Running the benchmark: the worker's events become lines of the pane, its results enter the plan."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from textual.message import Message

from planner.errors import UserError
from planner.present.cells import spread_text
from planner.present.names import VERDICT_WORDS, device_name
from planner.present.plan import rate_text, throughput
from planner.units import UNKNOWN, percent_text, quantity_text
from widgets.background.benchmark_run import OVER, PointLine, Run
from widgets.background.planning import SessionThread
from widgets.panes.machine.history import Marks
from widgets.screens.picker import Item
from widgets.state.state_files import state_folder

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement
    from planner.hardware.measurements.store import Store
    from planner.observe.benchmark.events import Event
    from planner.observe.benchmark.process import BenchRun
    from planner.session import Session

RELIABLE = ("ok", "noisy")
STATUS_WORDS = {"ok": "", "shared": "machine shared with others"}
"""Status of a result in words, where the word for it does not say enough."""
REPLAN_S = 3.0
"""Least time between plans while a benchmark runs: on a CPU planning takes the cores that are being measured."""


@dataclass
class RunChanged(Message):
    """The benchmark's state moved on."""

    run: Run
    measured: bool = False
    """True if a new measurement was stored, so that the plan has to be made again."""


class Reference(msgspec.Struct, frozen=True):
    """Peaks of the device and its last values, beside which a result is shown."""

    compute_flop_per_s: Mapping[str, float] = msgspec.field(default_factory=dict)
    bandwidth_bytes_per_s: float | None = None
    before: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Id of a point -> its last value."""

    def share(self, measurement: Measurement) -> float | None:
        """Share of the peak that the vendor (or the instruction set) promises."""
        peak = (
            self.bandwidth_bytes_per_s
            if measurement.kind in {"copy", "triad", "read", "gemv", "attention-decode", "attention-paged"}
            else None
        )
        if measurement.unit == "FLOP/s":
            peak = self.compute_flop_per_s.get(measurement.dtype or "")
        return measurement.value / peak if measurement.value is not None and peak else None


class BenchmarkRunner:
    """Runner of benchmarks, at most one at a time."""

    def __init__(
        self,
        thread: SessionThread,
        post: Callable[[Message], object],
        *,
        python: str | None,
        state: Path | None,
        suite: str,
        polls: Callable[[], int],
    ) -> None:
        """`suite`: the default; `polls`: returns how many times the app has read this machine so far."""
        self._thread = thread
        self._post = post
        self._python = python
        self._suite = suite
        self._state = state
        self._polls = polls
        self._process: BenchRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._reference = Reference()
        self._rows_before: dict[str, PlanRow] = {}
        self._unplanned = False
        """True if a result came that no plan was asked for yet."""
        self._planned_at_s = 0.0
        self.run = Run()
        self.marks = Marks()
        """Begin and end of its points, over all runs."""

    @property
    def timing(self) -> bool:
        """True if points are being timed: from the first one's beginning to the end of the run."""
        return self.running and any(point.state != "waiting" for point in self.run.points)

    @property
    def running(self) -> bool:
        """True if a worker measures now."""
        return self.run.state == "running"

    async def measure(self, plan: Plan | None, *, suite: str | None = None, model: str | Mapping[str, Any] | None = None) -> None:
        """Run a suite to its end; `plan`: for comparison with the plan afterwards; `model`: its products are measured in addition."""
        from planner.observe.benchmark.events import BenchRequest
        from planner.observe.benchmark.process import BenchRun

        suite = suite or self._suite
        self.run = Run(state="running", subject=suite)
        self._rows_before = _rows_here(plan)
        self._tell()
        self._task = asyncio.current_task()
        self._unplanned = False
        gc.freeze()  # a full collection of what is there already holds the screen up for 40 to 110 ms
        try:
            store, canonical = await self._thread.ask(_tools)
            python = Path(self._python) if self._python else None
            options = await self._thread.ask(partial(_options, suite=suite, model=model))
            folder = state_folder(self._state)
            self._process = BenchRun(
                BenchRequest(state=folder, suite=suite, python=python, options=options, polls=self._polls), store, canonical
            )
            async for event in self._process.events():
                await self._take(event, store)
        finally:
            gc.unfreeze()
            self._process = self._task = None
            if self.running:
                self.run.state, self.run.message = "failed", "Stopped early; the results so far are kept."
                self._drop_waiting()
                self._tell()

    async def stop(self) -> None:
        """Stop it within a second; what was measured is kept."""
        if self._process is not None:
            await self._process.stop()

    def kill(self) -> None:
        """End the worker at once, without waiting."""
        if self._task is not None:
            self._task.cancel()

    def kill_worker(self) -> None:
        """End the worker at once, from any thread; what it measured so far is in its journal."""
        if self._process is not None:
            self._process.kill_now()

    def compare(self, plan: Plan) -> None:
        """Note what the results so far changed in the answer for this machine."""
        if self.run.state == "idle":
            return
        effects = []
        for gpu, row in _rows_here(plan).items():
            was, now = self._rows_before.get(gpu), throughput(row.answer)
            before = throughput(was.answer) if was is not None else None
            if was is None or now is None or before is None or (was.basis == row.basis and before.value == now.value):
                continue
            place = f"rank {row.rank} stays" if was.rank == row.rank else f"rank {was.rank or UNKNOWN} to {row.rank or UNKNOWN}"
            effects.append(
                f"{device_name(gpu)}: {rate_text(before.value)} {spread_text(before)} → {rate_text(now.value)} {spread_text(now)} tok/s · {place if row.rank or was.rank else VERDICT_WORDS[row.verdict]}"
            )
        if effects != self.run.effects:
            self.run.effects = effects
            self._tell()

    def _tell(self, *, measured: bool = False) -> None:
        self._post(RunChanged(self.run, measured))

    async def _take(self, event: Event, store: Store) -> None:
        """Write one event into the run."""
        from planner.observe.benchmark import events as happened

        run = self.run
        match event:
            case happened.Preparing(interpreter):
                run.message = f"Loading torch {interpreter.torch_version} …"
            case happened.Started():
                run.message, run.subject = "", f"{event.suite}, {device_name(event.device)}"
                run.points = [PointLine(point.id, point.label) for point in event.points]
                device = event.device
                self._reference = await self._thread.ask(lambda session: _reference_for(session, store, device))
            case happened.PointStarted(point):
                self._line(point.id).state = "running"
                self.marks.begin(point.id, point.label, point.device, time.monotonic())
            case happened.PointProgress():
                line = self._line(event.point.id)
                line.state, line.fraction, run.eta_s = "running", event.fraction, event.eta_s
            case happened.RoundDone(point, number, of):
                self.marks.end(time.monotonic())
                line = self._line(point.id)
                line.state, line.fraction, line.measured, line.detail = "between", 0.0, number / of, f"round {number} of {of} done"
            case happened.PointDone(point, measurement):
                self.marks.end(time.monotonic())
                self._result(self._line(point.id), measurement)
                await self._thread.ask(lambda session: session.log_prediction(measurement))
                await self._thread.refresh()
            case happened.PointSkipped(point, reason):
                self.marks.end(time.monotonic())
                line = self._line(point.id)
                line.state, line.detail = "skipped", reason
            case happened.WorkerRestarted():
                run.message = f"{event.reason[:1].upper()}{event.reason[1:]}. Started again ({event.number} of {event.most})."
            case happened.Finished():
                run.state = "finished" if event.state == "finished" else "stopped"
                run.message = f"{event.message}."
                self._drop_waiting()
            case happened.Failed():
                run.state, run.message = "failed", f"{event.message} {event.next_step}"
                self._drop_waiting()
        self._tell(measured=self._replans(isinstance(event, happened.PointDone)))

    def _replans(self, measured: bool) -> bool:
        """True if the plan has to be made again now: some seconds after the last time, and at the end."""
        self._unplanned = self._unplanned or measured
        now_s = time.monotonic()
        if not self._unplanned or (self.running and now_s - self._planned_at_s < REPLAN_S):
            return False
        self._unplanned, self._planned_at_s = False, now_s
        return True

    def _line(self, name: str) -> PointLine:
        line = self.run.point(name)
        if line is None:
            line = PointLine(name, name)
            self.run.points.append(line)
        return line

    def _drop_waiting(self) -> None:
        self.marks.end(time.monotonic())
        self.run.eta_s = None
        self.run.points = [point for point in self.run.points if point.state in OVER]

    def _result(self, line: PointLine, measurement: Measurement) -> None:
        if measurement.value is None:
            line.state, line.detail = "failed", ": ".join(filter(None, (measurement.status, measurement.detail)))
            return
        line.state, line.fraction = "done", 1.0
        line.value = quantity_text(measurement.value, measurement.unit)
        share = self._reference.share(measurement)
        line.share = f"{percent_text(share):>5} of spec" if share is not None else ""
        before = self._reference.before.get(line.id)
        line.was = f"was {quantity_text(before, measurement.unit)}" if before is not None else ""
        line.detail = STATUS_WORDS.get(measurement.status, measurement.status)


def _options(session: Session, suite: str, model: str | Mapping[str, Any] | None) -> tuple[str, ...]:
    """Further points for the worker: the products of `model`, where the suite has them and it can be read."""
    from planner.observe.benchmark.worker import WITH_PRODUCTS, product_options

    if suite not in WITH_PRODUCTS or not model:
        return ()
    try:
        return product_options(session.architecture(model if isinstance(model, str) else dict(model)))
    except UserError:
        return ()


def _tools(session: Session) -> tuple[Store, Callable[[str], str | None]]:
    """Store, and the catalogue's name for what a driver calls a GPU."""
    gpus = session.gpus

    def canonical(driver_name: str) -> str | None:
        part = gpus.find_nvml(driver_name)
        return part.name if part else None

    return session.store, canonical


def _reference_for(session: Session, store: Store, device: str) -> Reference:
    before = {entry.point: entry.value for entry in store.latest(device) if entry.value is not None and entry.status in RELIABLE}
    part: Gpu | None = next((part for part in session.machine.devices if part.name == device), None)
    if part is None:
        return Reference(before=before)
    return Reference(part.compute_flop_per_s, part.memory_bandwidth_bytes_per_s, before)


def _rows_here(plan: Plan | None) -> dict[str, PlanRow]:
    """Best row of every device of this machine."""
    rows: dict[str, PlanRow] = {}
    for row in plan.rows if plan else ():
        if row.here:
            rows.setdefault(row.gpu, row)
    return rows


def suites(model: str | Mapping[str, Any] | None) -> list[Item]:
    """Suites that can be measured, with the longest time on a GPU; `model` is that of the form."""
    of_model = f", {model if isinstance(model, str) else 'your model'}" if model else ""
    said = {
        "quick": f"ceilings, a training step{of_model}",
        "standard": f"all in rounds, links, memory{of_model}",
        "study": "training steps over model sizes",
    }
    return [Item(suite, f"{suite:<9} {_longest(suite):>9}", detail) for suite, detail in said.items()]


def _longest(suite: str) -> str:
    from planner.observe.benchmark.worker import LONGEST_S

    seconds = LONGEST_S[suite]
    return f"≤ {seconds:.0f} s" if seconds < 120 else f"≤ {seconds / 60:.0f} min"


def stored_text(session: Session) -> str:
    """Measurements of earlier starts, in one sentence; empty if there are none."""
    runs = [run for run in session.store.runs() if run.measurements]
    if not runs:
        return ""
    newest, points = runs[0], sum(run.measurements for run in runs)
    results = f"{points:,} result{'s' * (points != 1)} of {len(runs)} run{'s' * (len(runs) != 1)}"
    return f"In use: {results}; the newest of {device_name(newest.device)}, {newest.started_at[:10]}."
