"""A copy of this process that plans, so that the screen shares neither Python's lock nor a processor with the search.

The copy is taken before anything slow is imported. It makes the first plan while the screen is still being imported, laid out and painted,
and answers questions afterwards. Where none can be made, or it has ended, the session thread of this process answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from planner.errors import Problem, UserError
from planner.startup import keep_freed_memory

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.session import Session
    from widgets.background.opened import PlanQuestion
    from widgets.options import AppOptions

Forgotten = Literal["nothing", "measurements", "session"]
"""Data of the copy that is out of date since the last question."""
FORGETS: tuple[Forgotten, ...] = ("nothing", "measurements", "session")
"""Least first; the greater includes the less."""

YIELDING = 10
"""Steps of niceness of the copy, for machines that are busy: the frames of the screen come first, and the plan is wanted only after them."""
LENGTH_BYTES = 8
"""Size of the number before each message: its length."""

UNSENT = (OSError, ValueError, OverflowError, TypeError)
"""Failures of sending: the copy has ended, its pipe is closed, or the form holds what msgpack cannot carry."""


class UnansweredError(Exception):
    """The copy has ended, or failed at the question."""


class PlannerProcess:
    """Copy, as seen by the process it was taken from. Made by `planner_process()`; used by one thread at a time."""

    def __init__(self, process: int, questions: BinaryIO, answers: BinaryIO) -> None:
        self._process, self._questions, self._answers = process, questions, answers
        self._first: tuple[PlanQuestion, Plan, list[str]] | None = None
        self._read = self._ended = False
        self._forgotten: Forgotten = "nothing"

    def first_plan(self, asked: PlanQuestion) -> tuple[Plan, list[str]] | None:
        """(the ranking that answers `asked`, faults of the measurements), once it is there; None: the first plan answers another question."""
        self._read_first()
        if self._first is None or self._first[0] != asked:
            return None
        return self._first[1:]

    def ask(self, question: str, asked: PlanQuestion, rows: Sequence[PlanRow]) -> Any:
        """Answer to the `question` of that name; raises `UserError` as the session does, `UnansweredError` for anything else."""
        from widgets.background.questions import answer_types

        self._read_first()
        forgotten, self._forgotten = self._forgotten, "nothing"
        try:
            _send(self._questions, (forgotten, question, asked, rows))
        except UNSENT as error:
            self._forgotten = forgotten
            raise UnansweredError from error
        return self._next(answer_types()[question])

    def forget(self, what: Forgotten) -> None:
        """Have it read measurements, or everything, anew before the next answer."""
        self._forgotten = max(what, self._forgotten, key=FORGETS.index)

    def end(self) -> None:
        """End the copy at once; a caller that waits for an answer gets `UnansweredError`."""
        if not self._ended:
            self._ended = True
            os.kill(self._process, signal.SIGKILL)  # nobody else has waited for it, so its number is still its own
            os.waitpid(self._process, 0)
            self._answers.close()
            with contextlib.suppress(OSError):
                self._questions.close()

    def _read_first(self) -> None:
        if not self._read:
            self._read = True
            with contextlib.suppress(UnansweredError, UserError):
                from planner.engine.answers.plan import Plan

                self._first = self._next(tuple[tuple[dict[str, Any], str, str], Plan, list[str]])

    def _next(self, answered: Any) -> Any:
        try:
            answer, wrong = _received(self._answers, tuple[answered | None, tuple[Problem, ...] | None])
        except (EOFError, OSError, ValueError) as error:
            raise UnansweredError from error
        if wrong is not None:
            raise UserError(wrong) if wrong else UnansweredError
        return answer


@contextlib.contextmanager
def planner_process(options: AppOptions) -> Iterator[PlannerProcess | None]:
    """A copy of this process that plans for a screen with these options; None if it would find no processor of its own."""
    started = _start(options) if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 else None
    try:
        yield started
    finally:
        if started is not None:
            started.end()


def _start(options: AppOptions) -> PlannerProcess | None:
    import threading

    if threading.active_count() > 1:  # the copy would wait for what another thread holds
        return None
    answers, answering = os.pipe()
    asked, asking = os.pipe()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # the copy is silent at Ctrl+C, however early it comes
    try:
        process = os.fork()
    except OSError:  # no more processes are allowed, or there is no memory for one
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        for end in (answers, answering, asked, asking):
            os.close(end)
        return None
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if not process:
        os.close(answers)
        os.close(asking)
        _work(options, asked, answering)
    os.close(asked)
    os.close(answering)
    return PlannerProcess(process, os.fdopen(asking, "wb"), os.fdopen(answers, "rb"))


def _work(options: AppOptions, asking: int, answering: int) -> None:
    """Make the first plan, answer questions until the pipe is closed, then end this process."""
    try:
        os.nice(YIELDING)
        keep_freed_memory()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # whoever waits for the end of these waits for the first process alone
            os.dup2(nowhere, standard)
        with os.fdopen(asking, "rb") as asked, os.fdopen(answering, "wb") as answers:
            _answer(options, asked, answers)
    finally:
        os._exit(0)


def _answer(options: AppOptions, asked: BinaryIO, answers: BinaryIO) -> None:
    session = options.session()
    session.begin_machine()
    _send(answers, _answered(partial(_first, session, options)))

    from planner.engine.answers.plan import PlanRow
    from widgets.background import questions
    from widgets.background.opened import PlanQuestion

    message = tuple[Forgotten, str, tuple[dict[str, Any], str, str], list[PlanRow]]
    while True:
        forgotten, name, about, rows = _received(asked, message)
        if forgotten == "measurements":
            session.refresh()
        elif forgotten == "session":
            session = options.session()
        _send(answers, _answered(partial(questions.about, session, getattr(questions, name), PlanQuestion(*about), rows)))


def _answered(question: Callable[[], Any]) -> tuple[Any, Sequence[Problem] | None]:
    """(answer, what is wrong with the question); an empty list where the planner is at fault: the other process then repeats the question and reports the failure."""
    try:
        return question(), None
    except UserError as error:
        return None, error.problems
    except Exception:  # noqa: BLE001
        return None, ()


def _first(session: Session, options: AppOptions) -> tuple[PlanQuestion, Plan, Sequence[str]]:
    """First plan, with the question that it answers."""
    from planner.paths import DEFAULT_PRESET
    from widgets.background import questions
    from widgets.background.opened import first_question, read_saved
    from widgets.state import state_files

    left = read_saved(state_files.load_session(options.state)) if options.preset is None else None
    asked = first_question(session, left, options.preset or DEFAULT_PRESET)
    return asked, *questions.about(session, questions.ranking, asked, ())


def _send(pipe: BinaryIO, message: object) -> None:
    import msgspec

    text = msgspec.msgpack.encode(message)
    pipe.write(len(text).to_bytes(LENGTH_BYTES, "big") + text)
    pipe.flush()


def _received(pipe: BinaryIO, message: Any) -> Any:
    """Next message, of this type; raises EOFError where there will be none."""
    import msgspec

    length = int.from_bytes(pipe.read(LENGTH_BYTES), "big")
    text = pipe.read(length)
    if not text or len(text) != length:
        raise EOFError
    return msgspec.msgpack.decode(text, type=message)
