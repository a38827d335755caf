"""An orderly end of commands that hold the terminal: what a block changed is undone before a signal ends the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


class _Ended(BaseException):
    """A signal that asks the process to end."""


@contextmanager
def undone_before_signals() -> Iterator[None]:
    """Block that is left as by an exception when a signal asks the process to end; the same signal then ends the process.

    Signals that were ignored before stay ignored (`nohup`), and a second one does not cut the block's clean-up short.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        came.append(number)
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise _Ended

    before = {number: signal.getsignal(number) for number in ENDING if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except _Ended:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])
