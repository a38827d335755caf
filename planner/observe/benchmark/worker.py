"""Process of the benchmark: started in its own session, read through a pipe, ended within a second.

It is started as `PYTHON -u …/bench`: another interpreter gets only that package and nothing else from the planner's
environment (no PYTHONPATH, which would put all of it in front of its own packages). Under torchrun one of the started
programs measures and stores the results, and the others are its ranks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from bench import protocol
from planner.startup import environment_of_others

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.observe.benchmark.interpreter import Interpreter
    from planner.workload.architecture import Architecture

POLITE_S = 0.5
"""Seconds a worker has to stop before it is killed: cancelling ends within a second."""
KILLED_S = 3.0
"""Seconds to wait for a killed worker."""
LAST_LINES = 20
QUIET_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Settings against spinning OpenMP threads, which on a shared CPU gave consistent figures that were wrong by factors of 14 to 140."""
KEPT_PAGES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "99999999999", "MALLOC_TOP_PAD_": "67108864"}
"""Settings against returning large arrays to the system after every step, as glibc does otherwise: 160 thousand page faults a training step."""


class Worker:
    """One started worker."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        self.pid = process.pid
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        """Last lines that the worker printed."""
        self._process = process
        self._reader = reader
        self._transport = transport
        self._draining = asyncio.ensure_future(self._drain())

    @classmethod
    async def start(cls, python: Path, arguments: Sequence[str], device: str, inherited: int | None) -> Worker:
        """Start `python` on the benchmark; `inherited` is a descriptor that it keeps open. Raises `OSError`."""
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(str(python), "-u", str(Path(protocol.__file__).parent), "--fd", str(writing), *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(writing,) if inherited is None else (writing, inherited),
                start_new_session=True,
                env=worker_environment(device),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        reader = asyncio.StreamReader(limit=1 << 20)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        return cls(process, reader, transport)

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def suspended(self) -> bool:
        """True if a signal has stopped it, so that it neither works nor ends."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except OSError:
            return False

    async def read(self, most_s: float) -> bytes:
        """Next bytes from the worker; empty if it has closed the pipe. Raises `TimeoutError`."""
        async with asyncio.timeout(most_s):
            return await self._reader.read(1 << 16)

    async def stop(self) -> None:
        """Request an end, wait half a second, then kill; returns when the process is gone."""
        if self.status is None:
            with contextlib.suppress(OSError, RuntimeError, AttributeError):
                self._process.stdin.write(b"stop\n")  # type: ignore[union-attr]  # absent only once closed, which is suppressed
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self.wait(POLITE_S)
        await self.kill()

    async def wait(self, most_s: float) -> None:
        """Wait until it has ended, or `most_s` seconds have passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._process.wait()

    def kill_group(self) -> None:
        """Kill it with all processes it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """Kill the whole process group at once, unless it has ended; a process that waits inside the kernel remains."""
        if self.status is None:
            self.kill_group()
        await self.wait(KILLED_S)

    async def close(self) -> None:
        """Release everything; a worker that still runs is killed with all it started. `last_lines` are complete afterwards."""
        await self.kill()
        self.kill_group()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._transport.close()
        await asyncio.wait({self._draining}, timeout=0.2)
        self._draining.cancel()
        await asyncio.gather(self._draining, return_exceptions=True)

    async def _drain(self) -> None:
        """Store the last printed lines; if they were not read, a full pipe would stop the worker."""
        stream, rest = self._process.stderr, b""
        while stream is not None and (chunk := await stream.read(1 << 16)):
            *lines, rest = (rest + chunk)[-(1 << 17) :].split(b"\n")
            self.last_lines.extend(line.decode(errors="replace")[:500] for line in lines if line.strip())
        if rest.strip():
            self.last_lines.append(rest.decode(errors="replace")[:500])


def worker_environment(device: str) -> dict[str, str]:
    """Environment of this process, with variables that have to be set before torch is loaded."""
    return {**environment_of_others(), **QUIET_THREADS, **({} if device.startswith("cuda") else KEPT_PAGES)}


LONGEST_S = protocol.PROMISED_S
"""Suite -> its longest time on a GPU."""
WITH_PRODUCTS = ("quick", "standard")
"""Suites that also measure the products of a model."""


def product_options(architecture: Architecture) -> tuple[str, ...]:
    """Worker's arguments: ('--shapes', '2048x4096x4096', …)."""
    from planner.workload.matrices import product_shapes

    return ("--shapes", *(f"{m}x{n}x{k}" for m, n, k in product_shapes(architecture)))


SUITE = "collectives"


def rank_of(environment: Mapping[str, str]) -> int | None:
    """This program's rank among those that torchrun started; None outside torchrun."""
    rank, ranks = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and ranks.isdigit() and int(ranks) > 1 else None


async def follow(interpreter: Interpreter, device: str) -> int:
    """Run as a rank that follows the orders of rank 0; returns the exit status."""
    kind = device.partition(":")[0]
    process = await asyncio.create_subprocess_exec(
        *(str(interpreter.path), "-u", str(Path(protocol.__file__).parent), "ranks", "--follow", "--device", kind),
        stdin=asyncio.subprocess.DEVNULL,
        env=worker_environment(device),
    )
    return await process.wait()
