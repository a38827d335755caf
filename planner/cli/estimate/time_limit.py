"""A limit of the processor time that a block of code may take, which other programs on the machine do not use up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class TimeUpError(Exception):
    """The time is up."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeUpError` in the block once this process has worked for so long.

    There is no limit where Python has no timers (Windows), nor outside the main thread, which alone is interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise TimeUpError

    handler = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, handler)
