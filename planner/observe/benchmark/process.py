"""One benchmark run as a stream of events for both front ends.

Every result is in the store before its event is sent, and the last event states how many of them are on disk.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from typing import TYPE_CHECKING

from bench import protocol
from planner.observe.benchmark import progress
from planner.observe.benchmark.events import (
    BenchRequest,
    EndState,
    Event,
    Failed,
    FailureState,
    Finished,
    PointDone,
    PointProgress,
    PointSkipped,
    PointStarted,
    Preparing,
    RoundDone,
    Started,
    WorkerRestarted,
)
from planner.observe.benchmark.interpreter import Interpreter, NoInterpreter, probe_interpreter_async
from planner.observe.benchmark.journal import RunLock, close_journal, journal_path, recover_locked
from planner.observe.benchmark.recorder import Recorder
from planner.observe.benchmark.worker import POLITE_S, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from planner.hardware.measurements.measurement import Measurement, RunState
    from planner.hardware.measurements.store import Store

LINGER_S = 5.0
"""Seconds that a worker may take to end after it has closed its pipe."""
AGAIN = "Start the benchmark again (b in the terminal program)."
STATES: dict[str, FailureState] = {"NoTorch": "no-torch", "NoDevice": "no-device", "NoSuite": "no-suite", "NoPeers": "no-peers"}
NEXT_STEPS: dict[str, str] = {
    "no-torch": "Name an interpreter whose torch loads with --python PATH.",
    "no-device": "Choose another with --device, or an interpreter whose torch can use it with --python PATH.",
    "no-suite": "Choose one of them with --suite.",
    "no-peers": "Say how many with --ranks, or start it on several nodes with torchrun.",
}


class BusyError(Exception):
    """Another benchmark has the lock; the message names its process if it is known."""


class BenchRun:
    """One benchmark run. `events` can be iterated once; `stop` may be called at any time, even before."""

    def __init__(self, request: BenchRequest, store: Store, canonical: Callable[[str], str | None] | None = None) -> None:
        """Prepare a run of `request`; `canonical` converts the name reported by a GPU driver to that of the catalogue."""
        self.request = request
        self.run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        """Id in the store."""
        self._canonical = canonical
        self._recorder = Recorder(store, self.run, canonical)
        self._lock = RunLock(request.state)
        self._stopping = asyncio.Event()
        self._worker: Worker | None = None
        self._progress = progress.RunProgress(restarts=request.restarts)
        self._poll_rate = progress.PollRate(request.polls or (lambda: 0))
        self._bye = ""
        self._error: protocol.Error | None = None
        self._hung = ""
        self._restarting = False
        self._begun = time.monotonic()

    async def events(self) -> AsyncIterator[Event]:
        """All events of the run. Cancelling the task, or closing the iterator, kills the worker."""
        interpreter = await self._interpreter()
        if isinstance(interpreter, NoInterpreter):
            yield self._failed(interpreter.state, interpreter.message, interpreter.next_step)
        elif interpreter is None:
            yield self._finished("cancelled", "Cancelled before it began")
        else:
            yield Preparing(interpreter)
            try:
                journal = await asyncio.to_thread(self._prepare)
                async for event in self._measure(interpreter, journal):
                    yield event
            except BusyError as busy:
                yield self._failed(
                    "busy", f"Another benchmark is running{busy}; two would disturb each other.", "Let it end, or stop it."
                )
            finally:
                self._lock.drop()

    async def stop(self) -> None:
        """End the run; returns when the worker is gone, within a second. The last event is then `Finished` 'cancelled'."""
        self._stopping.set()
        if self._worker is not None:
            await self._worker.stop()

    def kill_now(self) -> None:
        """Kill the worker and all it started, from any thread, without waiting."""
        if self._worker is not None:
            self._worker.kill_group()

    async def _interpreter(self) -> Interpreter | NoInterpreter | None:
        """Interpreter; None if the run is stopped before the probe has answered."""
        probe = asyncio.ensure_future(probe_interpreter_async(self.request.python))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({probe, stop}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._stopping.is_set() else await probe
        finally:
            probe.cancel()
            stop.cancel()
            await asyncio.gather(probe, stop, return_exceptions=True)

    def _prepare(self) -> Path | None:
        """Take the lock and recover results of killed runs; None without a writable state folder. Raises `BusyError`."""
        try:
            journal = journal_path(self.request.state, self.run)
            if not self._lock.take():
                holder = self._lock.holder()
                raise BusyError(f" (process {holder})" if holder else "")
            recover_locked(self.request.state, self._recorder.store, self._canonical)
        except OSError:
            return None
        return journal

    async def _measure(self, interpreter: Interpreter, journal: Path | None) -> AsyncIterator[Event]:
        """Events of the worker, of another for each that breaks, and the final result."""
        last: Finished | Failed | None = None
        broken: progress.Breakdown | None = None
        while last is None:
            kills_before = progress.memory_kills()
            try:
                worker = await Worker.start(interpreter.path, self._arguments(journal), self.request.device, self._lock.descriptor)
            except OSError as refused:
                why = f"{interpreter.path} cannot be started: {refused.strerror}."
                yield self._failed("no-interpreter", why, "Name another with --python PATH.")
                return
            self._worker = worker
            self._lock.note(worker.pid)
            try:
                if self._stopping.is_set():
                    await worker.stop()
                async for event in self._events_from(worker):
                    yield event
            finally:
                await worker.close()
            broken = self._broken(worker)
            if broken is not None:
                for_memory = worker.status == -signal.SIGKILL and progress.memory_kills() > kills_before
                for event in self._lost(progress.KILLED_FOR_MEMORY if for_memory else broken.reason, for_memory=for_memory):
                    yield event
            last = self._last_event(broken)
        for result in self._progress.lasting.values():
            measurement = await asyncio.to_thread(self._recorder.record, result)
            if measurement is not None and result.point in self._progress.points:
                yield PointDone(self._progress.points[result.point], measurement)
        await asyncio.to_thread(self._close, journal, last.state if isinstance(last, Finished) else "failed")
        yield self._last_event(broken) or last  # the number of stored results is known now

    def _close(self, journal: Path | None, state: RunState) -> None:
        """Record the end of the run in the store and in the journal's name."""
        self._recorder.close(state)
        if journal is not None:
            close_journal(journal, self._recorder.store.result)

    async def _events_from(self, worker: Worker) -> AsyncIterator[Event]:
        """Events of one worker, until it has closed its pipe or hangs."""
        watch = progress.HangWatch(self.request.silence_s)
        lines = protocol.MessageReader()
        self._bye, self._error, self._hung = "", None, ""
        while True:
            try:
                chunk = await worker.read(watch.look_again_s())
            except TimeoutError:
                self._hung = watch.complaint(suspended=worker.suspended)
                if self._hung:
                    return
                continue
            if not chunk:
                await worker.wait(POLITE_S if self._stopping.is_set() else LINGER_S)
                return
            for message in map(self._poll_rate.added_to, lines.feed(chunk)):
                writes = isinstance(message, (protocol.Plan, protocol.Result))  # a slow disk is handled elsewhere
                measurement = await asyncio.to_thread(self._recorder.record, message) if writes else self._recorder.record(message)
                for event in self._events_of(message, measurement):
                    yield event
                watch.note(message, self._progress.points)

    def _broken(self, worker: Worker) -> progress.Breakdown | None:
        """Breakdown of a worker; None if it ended properly."""
        if self._stopping.is_set() or self._bye in {"stopped", "finished", "wall-cap"}:
            return None
        if self._hung:
            return progress.Breakdown("hung", f"the worker hung ({self._hung}) and was killed")
        if self._error is not None:
            return progress.Breakdown(STATES.get(self._error.name, "crashed"), self._error.message)
        return progress.how_ended(worker.status)

    def _lost(self, reason: str, *, for_memory: bool) -> Iterator[Event]:
        """Store the reason for the point at which a worker broke, then start another worker if allowed."""
        point = self._progress.open_point
        broke_on = point or self._progress.points.get((self._error.point if self._error is not None else None) or "")
        if point is not None:
            result = progress.lost_result(point, reason, for_memory=for_memory)
            self._progress.follow(result)
            measurement = self._recorder.record(result)
            if measurement is not None:
                yield PointDone(point, measurement)
        retryable = self._error is None or self._error.retryable
        self._restarting = retryable and self._progress.may_restart
        if self._restarting:
            self._progress.restart()
            where = f" during {broke_on.label}" if broke_on is not None else ""
            yield WorkerRestarted(reason=f"{reason}{where}", number=self._progress.restarts, most=progress.MOST_RESTARTS)

    def _arguments(self, journal: Path | None) -> list[str]:
        request = self.request
        arguments = ["--suite", request.suite, "--device", request.device]
        arguments += ["--journal", str(journal)] if journal is not None else []
        arguments += [*(["--skip-if", request.skip_if] if request.skip_if else []), *request.options]
        arguments += self._progress.arguments(time.monotonic() - self._begun)
        return arguments + (["--skip", *request.skip] if request.skip else [])

    def _events_of(self, message: protocol.Message, measurement: Measurement | None) -> Iterator[Event]:
        """Events of one message; `measurement`: the stored result."""
        self._progress.follow(message)
        point = self._progress.points.get(str(getattr(message, "point", "")))
        if isinstance(message, protocol.Plan):
            recorder = self._recorder
            if self._progress.restarts:
                return
            yield Started(
                run=self.run, suite=message.suite, device=recorder.device, fingerprint=recorder.fingerprint, points=message.points
            )
        elif isinstance(message, protocol.Error):
            self._error = message
        elif isinstance(message, protocol.Bye):
            self._bye = message.reason
        elif point is not None:
            if isinstance(message, protocol.Start):
                yield PointStarted(point)
            elif isinstance(message, protocol.Progress):
                yield PointProgress(point, message.fraction, message.eta_s, message.note)
            elif isinstance(message, protocol.Skip):
                yield PointSkipped(point, message.reason)
            elif isinstance(message, protocol.Result) and message.round < message.rounds and message.value is not None:
                yield RoundDone(point, message.round, message.rounds)
            elif measurement is not None:
                yield PointDone(point, measurement)

    def _last_event(self, broken: progress.Breakdown | None) -> Finished | Failed | None:
        """End of the run, regular or by a breakdown; None if another worker takes over."""
        if broken is not None and self._restarting:
            self._restarting = False
            return None
        kept = f"{self._recorder.kept_text}{self._progress.restarts_text}"
        if self._stopping.is_set() or self._bye == "stopped":
            return self._finished("cancelled", f"Cancelled: {kept}")
        if broken is None or self._progress.through:
            return self._finished("finished", kept + (", ended at its time limit" if self._bye == "wall-cap" else ""))
        state, reason = broken
        sentence = f"{reason[:1].upper()}{reason[1:]}"
        if state in NEXT_STEPS and not self._recorder.kept:
            return self._failed(state, f"{sentence}.", NEXT_STEPS[state])
        return self._failed(state, f"{sentence}: {kept}.", NEXT_STEPS.get(state, AGAIN))

    def _finished(self, state: EndState, message: str) -> Finished:
        return Finished(
            state=state,
            run=self.run,
            kept=self._recorder.kept,
            waiting=self._waiting,
            elapsed_s=time.monotonic() - self._begun,
            message=message,
        )

    def _failed(self, state: FailureState, message: str, next_step: str) -> Failed:
        printed = tuple(self._worker.last_lines) if self._worker is not None else ()
        return Failed(
            state=state,
            run=self.run,
            kept=self._recorder.kept,
            waiting=self._waiting,
            message=message,
            next_step=next_step,
            stderr=printed,
        )

    @property
    def _waiting(self) -> int:
        return self._recorder.store.waiting(self.run)
