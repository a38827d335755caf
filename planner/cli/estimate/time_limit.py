"""A limit of the time that a block of code may take."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator


class TimeUpError(Exception):
    """The time is up."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeUpError` in the block once it has taken so long. A timer that was set before goes on afterwards.

    There is no limit where Python has no timers (Windows), nor outside the main thread, which alone is interrupted.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise TimeUpError

    handler, began_s = signal.signal(signal.SIGALRM, ring), time.monotonic()
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(1e-3, left_s + began_s - time.monotonic()) if left_s else 0.0)
        signal.signal(signal.SIGALRM, handler)
