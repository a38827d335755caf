"""Signals that end the program: it leaves in good order, and where it cannot, the terminal is given back all the same.

A thread waits for them on a pipe that the kernel's side of Python writes to, so that they count while the program is busy or stuck in
a library.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widgets.app import PlannerApp

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
GRACE_S = 3.0
"""Time an orderly end may take."""
GIVE_BACK = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l"  # pasting, wrapping, reports of the size
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # the mouse
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"  # keys, the other screen, the cursor, the focus
)


class SignalWatch:
    """Ends `app` when a signal says so; made by `watched()`."""

    def __init__(self) -> None:
        self.app: PlannerApp | None = None
        """Running application; None: none has taken the terminal yet."""
        self.leaving = False
        """A signal has ended the app: no second one may cut the end short, and with it the exit code."""
        self._attributes: list[Any] | None = None
        with contextlib.suppress(termios.error, ValueError):
            self._attributes = termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)

    def arrived(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal while nothing runs that could leave: end here. While the app runs, the thread does it."""
        if self.app is None or self.app._loop is None:
            raise SystemExit(128 + number)

    def wait(self, reading: int) -> None:
        """Ask the app to leave at the first signal; end the process when it has not left in time. A thread of its own."""
        until_s, code = float("inf"), 0
        while True:
            left_s = until_s - time.monotonic()
            ready = select.select([reading], [], [], None if code == 0 else max(0.0, left_s))[0]
            if not ready:
                self.give_back()
                os._exit(code)
            numbers = os.read(reading, 64)
            if not numbers:
                os.close(reading)
                return
            asked = next((number for number in numbers if number in ENDING), None)
            if asked is not None and code == 0 and self.app is not None and self.app.leave_from_thread(128 + asked):
                until_s, code, self.leaving = time.monotonic() + GRACE_S, 128 + asked, True

    def give_back(self) -> None:
        """Put the terminal into the state it was in, and end the benchmark's worker, without the app's help."""
        if self.app is None or self.app._driver is None:
            return
        if self.app.benchmark is not None:
            self.app.benchmark.kill_worker()
        with contextlib.suppress(OSError, termios.error):
            if self._attributes is not None:
                termios.tcflush(0, termios.TCIOFLUSH)
                termios.tcsetattr(0, termios.TCSANOW, self._attributes)
            if select.select([], [2], [], 0.2)[1]:
                os.write(2, GIVE_BACK)


@contextlib.contextmanager
def watched() -> Iterator[SignalWatch]:
    """A watch on the signals that end a program, but for those that whoever started this one told it to ignore."""
    watch = SignalWatch()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, watch.arrived)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=watch.wait, args=(reading,), name="signals", daemon=True).start()
    try:
        yield watch
    except BaseException:
        watch.give_back()
        raise
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if watch.leaving else handler)
        os.close(writing)
