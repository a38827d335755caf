"""The first plan, made by a copy of this process while the screen is still being imported, laid out and painted.

The copy is taken before anything slow is imported, and ends by itself. Where none can be made, or what it was asked is not what the screen
asks, the session thread of this process makes the plan.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan
    from widgets.background.opened import Asked
    from widgets.options import AppOptions

    _First = tuple[tuple[dict[str, Any], str, str], Plan, list[str]]

YIELDING = 15
"""Steps of niceness of the copy, for machines that are busy: the frames of the screen come first, and the plan is wanted only after them."""
LENGTH_BYTES = 8
"""Size of the number that says how long an answer is."""


class HeadStart:
    """The plan that a copy of this process makes. Made by `head_start()`; one thread at a time asks for it."""

    def __init__(self, process: int, answers: BinaryIO) -> None:
        self._process, self._answers = process, answers
        self._first: _First | None = None
        self._read = self._ended = False

    def plan(self, asked: Asked) -> tuple[Plan, list[str]] | None:
        """(the ranking that `asked` is answered with, faults of the measurements), once it is there; None: the copy has none, or another."""
        if not self._read:
            self._read = True
            self._first = self._first_answer()
        if self._first is None or self._first[0] != asked:
            return None
        return self._first[1:]

    def advice(self) -> Plan | None:
        """The same plan with what would help its losers, once it is there; None where the copy has none."""
        import msgspec

        from planner.engine.answers.plan import Plan

        answer = self._next()
        return msgspec.msgpack.decode(answer, type=Plan) if answer else None

    def end(self) -> None:
        """End the copy, whatever it is at; who waits for an answer gets None."""
        if not self._ended:
            self._ended = True
            os.kill(self._process, signal.SIGKILL)  # nobody else has waited for it, so its number is still its own
            os.waitpid(self._process, 0)
            self._answers.close()

    def _first_answer(self) -> _First | None:
        answer = self._next()
        if answer is None:
            return None
        import msgspec

        from planner.engine.answers.plan import Plan

        return msgspec.msgpack.decode(answer, type=tuple[tuple[dict[str, Any], str, str], Plan, list[str]])

    def _next(self) -> bytes | None:
        """The next answer; None where the copy has ended without one."""
        with contextlib.suppress(ValueError):  # closed: it was ended
            length = int.from_bytes(self._answers.read(LENGTH_BYTES), "big")
            answer = self._answers.read(length)
            return answer if answer and len(answer) == length else None
        return None


@contextlib.contextmanager
def head_start(options: AppOptions) -> Iterator[HeadStart | None]:
    """A copy of this process that plans what a screen with these options opens with; None where it would find no processor of its own."""
    started = _start(options) if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 else None
    try:
        yield started
    finally:
        if started is not None:
            started.end()


def _start(options: AppOptions) -> HeadStart | None:
    import threading

    if threading.active_count() > 1:  # the copy would wait for what another thread holds
        return None
    reading, writing = os.pipe()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # the copy is silent at Ctrl+C, however early it comes
    try:
        process = os.fork()
    except OSError:  # no more processes are allowed, or there is no memory for one
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        os.close(reading)
        os.close(writing)
        return None
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if not process:
        _work(options, writing)
    os.close(writing)
    return HeadStart(process, os.fdopen(reading, "rb"))


def _work(options: AppOptions, writing: int) -> None:
    """Answer what the screen will ask first, then end this process; a failure is for the screen to find and say."""
    try:
        os.nice(YIELDING)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # whoever waits for the end of these waits for the first process alone
            os.dup2(nowhere, standard)
        with os.fdopen(writing, "wb") as pipe:
            for answer in _answers(options):
                pipe.write(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
                pipe.flush()
    finally:
        os._exit(0)


def _answers(options: AppOptions) -> Iterator[bytes]:
    """The first plan with its question, then the plan with advice where a row has use for it."""
    from planner.paths import DEFAULT_PRESET
    from widgets import state_files
    from widgets.background.opened import first_question, read_left

    session = options.session()
    session.begin_machine()
    left = read_left(state_files.load_session(options.state)) if options.preset is None else None
    asked = first_question(session, left, options.preset or DEFAULT_PRESET)
    import msgspec

    workload = session.workload(asked.workload, asked.where)
    plan = session.plan(workload, basis=asked.basis, levers=False)
    yield msgspec.msgpack.encode((asked, plan, list(session.warnings)))
    if wants_advice(plan):
        yield msgspec.msgpack.encode(session.plan(workload, basis=asked.basis, hints=True))


def wants_advice(plan: Plan) -> bool:
    """Whether a row of `plan` is no solution, so that a change may help it; this machine's own rows are there either way."""
    return not all(row.rank or row.here for row in plan.rows)
