"""Copies of this process that take a part of its lines off it, each on a processor of its own.

A copy lives as long as its pipes: it ends with the process that made it, however that ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence

Lines = list[bytes]
MOST_FORKS = 3
"""More copies share so little that making them pays for few."""
FEWEST_LINES = 768
"""So many at once are worth copies, which take some ten milliseconds to make."""
SIZE_BYTES = 8
"""A message begins with its length."""


def spare_processors() -> int:
    """Copies that would find a processor to run on; 0 where a process cannot be copied in safety."""
    if sys.platform != "linux":
        return 0
    return min(MOST_FORKS, len(os.sched_getaffinity(0)) - 1)


class Fork:
    """A copy of this process that calls `answer` with the lines it is asked. Raises OSError where none can be made."""

    def __init__(self, answer: Callable[[Lines], bytes], older: Sequence[Fork]) -> None:
        asked, self._ask = os.pipe()
        self._told, tell = os.pipe()
        sys.stdout.flush()
        gc.freeze()  # what is there stays where it is, and shared
        try:
            with warnings.catch_warnings():  # Python 3.12 counts the idle threads of NumPy's library, which outlive a fork
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process = os.fork()
        except OSError:
            for pipe in (asked, tell, *self.pipes):
                os.close(pipe)
            raise
        if not self._process:
            _serve(answer, asked, tell, [pipe for one in (*older, self) for pipe in one.pipes])
        os.close(asked)
        os.close(tell)

    @property
    def pipes(self) -> tuple[int, int]:
        """The ends of this process."""
        return self._ask, self._told

    def ask(self, lines: Lines) -> None:
        """Hand over `lines`, whose answers `told` returns."""
        with contextlib.suppress(BrokenPipeError):  # `told` will see that it is gone
            _send(self._ask, b"\n".join(lines))

    def told(self) -> bytes | None:
        """The answers to the lines asked last, once they are there; None if the copy has ended."""
        return _receive(self._told)

    def end(self) -> None:
        """The copy ends, whatever it is at."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        for pipe in self.pipes:
            os.close(pipe)


class Shared:
    """Lines answered by this process and its copies, which are made for the first lines that are worth it."""

    def __init__(self, answer: Callable[[Lines], bytes], forks: int) -> None:
        self._answer, self._wanted = answer, forks
        self._forks: list[Fork] = []

    def __call__(self, lines: Lines) -> Iterator[bytes]:
        """Answers to `lines` in their order, a part from each process; a few are answered here alone."""
        if not self._wanted or len(lines) < FEWEST_LINES:
            yield self._answer(lines)
            return
        try:
            while len(self._forks) < self._wanted:
                with _uninterrupted():
                    self._forks.append(Fork(self._answer, self._forks))
        except OSError:  # no more processes are allowed, or there is no memory for one
            self._wanted = len(self._forks)
        each = -(-len(lines) // (1 + len(self._forks)))
        own, *parts = [lines[begin : begin + each] for begin in range(0, len(lines), each)]
        for fork, part in zip(self._forks, parts, strict=False):
            fork.ask(part)
        yield self._answer(own)
        for fork, part in zip(self._forks, parts, strict=False):
            told = fork.told()
            if told is None:  # it was killed: what it was asked is answered here, and so is all that comes after
                self._wanted = 0
                told = self._answer(part)
            yield told

    def end(self) -> None:
        """No copy is left."""
        while self._forks:
            self._forks.pop().end()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is raised once the block is left. A copy made in here ends without a word at one, however early it comes.

    Python calls functions of its library in a new copy, and would print the traceback of an interrupt in one of them. Blocking
    the signal in this thread would not do: another thread of the process takes it, and it is raised in this one all the same.
    """
    before, first, came = signal.getsignal(signal.SIGINT), os.getpid(), []

    def noted(number: int, _frame: object) -> None:
        if os.getpid() != first:
            os._exit(1)
        came.append(number)

    if not callable(before):  # it is ignored, or ends the process: nothing is raised
        yield
        return
    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _serve(answer: Callable[[Lines], bytes], asked: int, tell: int, others: Sequence[int]) -> None:
    """Answer until nobody asks any more, then end this process; what goes wrong is for the one that made it to find and say."""
    code = 1
    try:
        for pipe in others:  # whose ends have to be seen
            os.close(pipe)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # whoever waits for the end of these waits for the first process alone
            os.dup2(nowhere, standard)
        while (lines := _receive(asked)) is not None:
            _send(tell, answer(lines.split(b"\n")))
        code = 0
    finally:
        os._exit(code)


def _send(pipe: int, message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(SIZE_BYTES, "big") + message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> bytes | None:
    """The next message; None where it never came, or not all of it."""
    size = _exactly(pipe, SIZE_BYTES)
    return None if size is None else _exactly(pipe, int.from_bytes(size, "big"))


def _exactly(pipe: int, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        block = os.read(pipe, min(count - len(received), 1 << 20))
        if not block:
            return None
        received += block
    return bytes(received)
