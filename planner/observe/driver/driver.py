"""Driver of the GPUs, called through a separate process, so that a call that never returns cannot block this one.

No process is started if the driver's library is not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

import planner
from planner.observe.driver.messages import ListedProcesses, Question, Reply
from planner.observe.driver.nvml import NVML_DETAILS, NvmlState, library_installed

START = (
    "import os, sys; os.write(1, b'\\n'); sys.path[:] = sys.argv[2:]; "
    "from planner.observe.driver.helper import main; main(float(sys.argv[1]))"
)
START_S = 10.0
"""Seconds that Python on a slow disk may take to start."""
SILENCE_S = 2.5
"""Seconds of silence allowed to a driver while it is opened or reads one GPU."""
LATER_S = 0.5
"""Seconds after the kernel's timer at which this side gives up: the timer cannot end a process that waits inside the kernel."""
TOTAL_S = 20.0
"""Seconds that one answer may take in total, GPU by GPU."""
CLOSE_S = 0.5
KILLED_S = 0.4
"""Seconds until a killed process has ended; on a busy machine that takes more than 0.1 s."""

AMD_MODULE = Path("/sys/module/amdgpu")
"""Folder that exists while the kernel's driver of AMD is loaded."""


def amd_available() -> bool:
    """True if AMD's driver is loaded and its `amdsmi` installed, which is not imported."""
    return AMD_MODULE.exists() and importlib.util.find_spec("amdsmi") is not None


class DriverError(Exception):
    """Failure of the driver to answer; `state` and `detail` are the reason, and the process is gone or being ended."""

    def __init__(self, state: NvmlState, detail: str = "") -> None:
        super().__init__(detail or NVML_DETAILS[state])
        self.state = state
        self.detail = str(self)


class Driver:
    """The driver of this machine's GPUs; a context manager. Created by `Driver.start()`, and used by one thread, except `kill`."""

    _stuck: list[subprocess.Popen[bytes]] = []  # noqa: RUF012  # shared by all: processes that were killed and have not ended
    """Processes that wait inside the kernel, where even a kill has no immediate effect."""

    def __init__(self, process: subprocess.Popen[bytes], silence_s: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._ask, self._said = process, process.stdin, process.stdout
        self._silence_s = silence_s
        self._rest = b""
        self._begun = self._opened = False

    @classmethod
    def start(cls, silence_s: float = SILENCE_S) -> Self:
        """Start the process, without waiting for the driver; raises `DriverError` without a driver."""
        cls._stuck[:] = [one for one in cls._stuck if one.poll() is None]
        if not library_installed() and not amd_available():
            raise DriverError("no driver")
        if cls._stuck:
            raise DriverError("not answering", f"{NVML_DETAILS['not answering']}: process {cls._stuck[0].pid} still waits for it")
        paths = [str(Path(planner.__file__).parents[1]), *(str(Path(entry).absolute()) for entry in sys.path)]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START, str(silence_s), *paths],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as refused:
            raise DriverError("error", f"{NVML_DETAILS['error']}: {sys.executable} cannot be started: {refused}") from None
        return cls(process, silence_s)

    def facts(self) -> Reply:
        """Facts that do not change while the driver runs; raises `DriverError`."""
        return self._answer(Question(facts=True))

    def read(self, *, slow: bool, processes: ListedProcesses = "as before") -> Reply:
        """Current state of every GPU; raises `DriverError`."""
        return self._answer(Question(slow=slow, processes=processes))

    def _answer(self, question: Question) -> Reply:
        try:
            self._wait_until_open()
            self._ask.write(msgspec.json.encode(question) + b"\n")
            self._ask.flush()
            return self._reply()
        except (OSError, ValueError, msgspec.MsgspecError):
            self.kill()
            raise self._ended() from None
        except DriverError:
            self.kill()
            raise

    def _wait_until_open(self) -> None:
        if self._opened:
            return
        self._line(START_S)
        self._begun = True
        opened = self._reply()
        if opened.state != "ready":
            raise DriverError(opened.state, opened.detail)
        self._opened = True

    def _reply(self) -> Reply:
        """Next reply; empty lines, which only show that the process lives, are skipped."""
        until_s = time.monotonic() + TOTAL_S
        while (left_s := until_s - time.monotonic()) > 0:
            line = self._line(min(self._silence_s + LATER_S, left_s))
            if line:
                return msgspec.json.decode(line, type=Reply)
        raise self._silent(TOTAL_S)

    def _line(self, within_s: float) -> bytes:
        """Next line; raises `DriverError` after `within_s` seconds of silence."""
        poll = select.poll()
        poll.register(self._said, select.POLLIN)
        until_s = time.monotonic() + within_s
        while b"\n" not in self._rest:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise self._silent(self._silence_s if self._begun else START_S)
            chunk = os.read(self._said.fileno(), 1 << 16)
            if not chunk:
                raise self._ended()
            self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def _silent(self, seconds: float) -> DriverError:
        return DriverError("not answering", f"{NVML_DETAILS['not answering']} within {seconds:g} s")

    def _ended(self) -> DriverError:
        """Error that describes the end of the process."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)
        status = self._process.returncode
        if status == -signal.SIGALRM:
            return self._silent(self._silence_s)
        how = f"signal {-status}" if status and status < 0 else f"exit status {status}"
        return DriverError("error", f"The library of the NVIDIA driver ended the process that called it ({how})")

    def kill(self) -> None:
        """Kill the process; may be called from any thread. A process that waits inside the kernel remains."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_S)
        if self._process.returncode is None and self._process not in self._stuck:
            self._stuck.append(self._process)

    def close(self) -> None:
        """End the session, properly if the driver permits it; closing twice is harmless."""
        with contextlib.suppress(OSError):
            self._ask.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
