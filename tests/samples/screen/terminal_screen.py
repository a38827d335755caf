"""The terminal program in a process and on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from repository import ROOT

NOT_PASSED_ON = ("NO_COLOR", "COLUMNS", "LINES")
"""Variables of the terminal the tests run on, not of this one."""


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (120, 40)) -> None:
        """`arguments` of this Python; `size` is (columns, rows)."""
        self._main, worker = pty.openpty()
        fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=worker, stdout=worker, stderr=worker, env={**environment, "PYTHONPATH": str(ROOT)}, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        os.close(worker)

    def read(self, until: bytes = b"", within_s: float = 60.0) -> bytes:
        """Return what is written until `until` appears, at the latest after `within_s`; without `until`, all of that time."""
        written, end_s = b"", time.monotonic() + within_s
        while time.monotonic() < end_s and not (until and until in written):
            if select.select([self._main], [], [], 0.02)[0]:
                try:
                    written += os.read(self._main, 1 << 16)
                except OSError:
                    break
        return written

    def type(self, keys: bytes) -> None:
        os.write(self._main, keys)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)


class Screen(Terminal):
    """The program in 24-bit colour, with folders of its own in `home`; `variables` are added to its environment."""

    def __init__(self, home: Path, *options: str, size: tuple[int, int] = (200, 50), tour: bool = False, **variables: str) -> None:
        """`tour`: begin as a first start does."""
        choices = home / "state" / "gpu-planner" / "choices.json"
        if not tour and not choices.exists():
            choices.parent.mkdir(parents=True, exist_ok=True)
            choices.write_text('{"tour": "seen"}')
        folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        plain = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON and not name.startswith("TEXTUAL")}
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        super().__init__(["-m", "widgets.launch", *options], plain | terminal | folders | variables, size)
