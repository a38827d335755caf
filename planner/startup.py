"""The process's own streams and its interrupt key, made safe before anything else is imported."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself takes as long as all else here
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""Variables that numpy reads on import. The planner multiplies no matrices, but the threads of numpy's OpenBLAS, one a core, each wait in
a busy loop for work: half the processor time of the import on two cores."""
KEPT_BYTES = {-1: 1 << 28, -3: 1 << 25}
"""Parameters of glibc's `mallopt`: free memory that is kept (M_TRIM_THRESHOLD), and the smallest array that is the system's own (M_MMAP_THRESHOLD, at its most)."""
_set_here: set[str] = set()


def prepare() -> None:
    """Reopen closed standard streams, so that no later file takes their place, and end at Ctrl+C without a traceback."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # as long as the process
    end_at_interrupt()
    _set_here.update(ALONE.keys() - os.environ.keys())
    os.environ.update({name: ALONE[name] for name in _set_here})


def collect_rarely(young_objects: int = 100_000) -> None:
    """Collect garbage once this many objects are added: a start makes few cycles, and the search took a seventh of its processor time."""
    gc.set_threshold(young_objects, 50, 50)


def keep_freed_memory() -> None:
    """Have glibc keep the memory of freed arrays: returning it and getting it again took a twelfth of `estimate`."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(AttributeError):  # another C library
        for parameter, kept_bytes in KEPT_BYTES.items():
            ctypes.CDLL(None).mallopt(parameter, kept_bytes)


def environment_of_others() -> dict[str, str]:
    """The variables of this process as it was given them, for programs that do multiply matrices."""
    return {name: value for name, value in os.environ.items() if name not in _set_here}


def can_draw() -> bool:
    """True if a full-screen program can draw: on a terminal both ways, or by the driver in TEXTUAL_DRIVER (`textual serve`)."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
    return terminal or bool(os.environ.get("TEXTUAL_DRIVER"))


def end_at_interrupt() -> None:
    """End at Ctrl+C at once: while modules are imported, and when all is said."""
    if signal.getsignal(signal.SIGINT) in {signal.default_int_handler, signal.SIG_DFL}:
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """Raise KeyboardInterrupt at Ctrl+C, so that running code can clean up."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def stderr_may_fail() -> Iterator[None]:
    """Write to stderr; where that cannot be written nothing more can be said."""
    try:
        yield
        sys.stderr.flush()
    except OSError:
        forget(sys.stderr)


def forget(stream: Any) -> None:
    """Discard further output to stdout or stderr, which nobody reads or which cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
