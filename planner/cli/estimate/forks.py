"""Forked copies of this process that answer a part of its lines, to use several processors.

A copy ends when its pipes are closed, so it never outlives the process that created it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Lines = list[bytes]
MOST_FORKS = 3
"""Maximum number of copies; with more, each part is too small."""
FEWEST_LINES = 768
"""Minimum number of lines for which copies are created, which takes about ten milliseconds."""


def spare_processors() -> int:
    """Number of processors for copies; 0 if processes cannot be forked safely."""
    if sys.platform != "linux":
        return 0
    return min(MOST_FORKS, len(os.sched_getaffinity(0)) - 1)


class Fork:
    """A copy of this process that calls `answer` with the lines sent to it. Raises `OSError` if it cannot be created."""

    def __init__(self, answer: Callable[[Lines], bytes], older: Sequence[Fork]) -> None:
        from multiprocessing.connection import Pipe

        self.pipe, other_end = Pipe()
        sys.stdout.flush()
        gc.freeze()  # the collector leaves existing objects alone, so their memory stays shared
        try:
            with warnings.catch_warnings():  # Python 3.12 counts the idle threads of NumPy's library, which outlive a fork
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process = os.fork()
        except OSError:
            self.pipe.close()
            other_end.close()
            raise
        if not self._process:
            _serve(answer, other_end, [one.pipe for one in (*older, self)])
        other_end.close()

    def send(self, lines: Lines) -> None:
        """Send `lines`, whose answers `receive` returns."""
        with contextlib.suppress(ConnectionError):  # `receive` notices that the copy has ended
            self.pipe.send_bytes(b"\n".join(lines))

    def receive(self) -> bytes | None:
        """Wait for the answers to the lines sent last; None if the copy has ended."""
        try:
            return self.pipe.recv_bytes()
        except (EOFError, ConnectionError):
            return None

    def end(self) -> None:
        """End the copy immediately."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self.pipe.close()


class Shared:
    """Answers lines in this process and its copies, which are created when there are enough lines."""

    def __init__(self, answer: Callable[[Lines], bytes], forks: int) -> None:
        self._answer, self._wanted = answer, forks
        self._forks: list[Fork] = []

    def __call__(self, lines: Lines) -> Iterator[bytes]:
        """Answers to `lines` in their order, a part from each process; a few lines are answered without copies."""
        if not self._wanted or len(lines) < FEWEST_LINES:
            yield self._answer(lines)
            return
        try:
            while len(self._forks) < self._wanted:
                with _uninterrupted():
                    self._forks.append(Fork(self._answer, self._forks))
        except OSError:  # the limit of processes or memory is reached
            self._wanted = len(self._forks)
        each = -(-len(lines) // (1 + len(self._forks)))
        own, *parts = [lines[begin : begin + each] for begin in range(0, len(lines), each)]
        for fork, part in zip(self._forks, parts, strict=False):
            fork.send(part)
        yield self._answer(own)
        for fork, part in zip(self._forks, parts, strict=False):
            answers = fork.receive()
            if answers is None:  # the copy was killed: this process answers its part and all later lines
                self._wanted = 0
                answers = self._answer(part)
            yield answers

    def end(self) -> None:
        """End every copy."""
        while self._forks:
            self._forks.pop().end()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl+C until the block ends; a copy forked in it exits silently.

    Python runs library functions in a new copy and would print the traceback of an interrupt there. Blocking the signal in this
    thread is not enough: another thread of the process takes it.
    """
    before, first, came = signal.getsignal(signal.SIGINT), os.getpid(), []

    def noted(number: int, _frame: object) -> None:
        if os.getpid() != first:
            os._exit(1)
        came.append(number)

    if not callable(before):  # the signal is ignored, or ends the process: nothing is raised
        yield
        return
    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _serve(answer: Callable[[Lines], bytes], pipe: Connection, others: Sequence[Connection]) -> None:
    """Answer until the other end is closed, then end this process; the parent process notices and reports a failure."""
    code = 1
    try:
        for other in others:  # otherwise they would not notice that the parent has ended
            other.close()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # so that a reader of these streams does not wait for the copies
            os.dup2(nowhere, standard)
        with contextlib.suppress(EOFError):
            while True:
                pipe.send_bytes(answer(pipe.recv_bytes().split(b"\n")))
        code = 0
    finally:
        os._exit(code)
