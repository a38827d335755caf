"""Python for the benchmark: checks its version and its torch, without loading torch, before it is used."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from planner.reading import kind_of

OLDEST = (3, 10)
"""Oldest Python version of the benchmark, and of the torch versions it supports."""
LOOK_S = 20.0
"""Seconds that a cold interpreter on a network disk may take to report its version."""
LOOK_AGAIN_S = 0.05
MOST_SAID = 1 << 20
"""Maximum bytes of its output that are stored."""
LOOK = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.util, json
found = importlib.util.find_spec("torch")
version = None
if found is not None and found.origin is not None:
    try:
        from importlib.metadata import version as version_of
        version = version_of("torch")
    except Exception:
        version = "unknown"
print(json.dumps({"bench-probe": 1, "python": list(sys.version_info[:3]), "torch": version, "executable": sys.executable}))
"""
"""Program that finds torch without importing it: 40 ms instead of seconds."""

OTHER = "Name another with --python PATH."

InterpreterState = Literal["no-interpreter", "not-python", "too-old", "no-torch"]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can measure."""

    path: Path
    python_version: str
    torch_version: str

    def __str__(self) -> str:
        return f"Python {self.python_version} with torch {self.torch_version} ({self.path})"


@dataclass(frozen=True, slots=True)
class NoInterpreter:
    """A Python that cannot measure, the reason, and what to do about it."""

    state: InterpreterState
    message: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}"


def probe_interpreter(python: Path | None = None) -> Interpreter | NoInterpreter:
    """Inspect `python`: a file, a command on PATH, or a virtual environment; None: the running one. Blocks."""
    return asyncio.run(probe_interpreter_async(python))


async def probe_interpreter_async(python: Path | None = None) -> Interpreter | NoInterpreter:
    """`probe_interpreter` without blocking the event loop; the interpreter is killed when the task is cancelled."""
    found = _executable(python)
    if isinstance(found, NoInterpreter):
        return found
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            found, "-c", LOOK, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except (OSError, ValueError) as refused:
        why = getattr(refused, "strerror", None) or refused
        return NoInterpreter("no-interpreter", f"{found} cannot be started: {why}.", OTHER)
    said = [bytearray(), bytearray()]
    reading = [
        asyncio.ensure_future(_read(stream, into)) for stream, into in zip((process.stdout, process.stderr), said, strict=True)
    ]
    try:
        async with asyncio.timeout(LOOK_S):
            while not all(one.done() for one in reading) and _facts(bytes(said[0])) is None and process.returncode is None:
                await asyncio.wait(reading, timeout=LOOK_AGAIN_S)
            await asyncio.wait(reading, timeout=LOOK_AGAIN_S)  # another process may keep the pipes open for ever
    except TimeoutError:
        return NoInterpreter("not-python", f"{found} did not answer within {LOOK_S:.0f} s.", OTHER)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for one in reading:
            one.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.gather(*reading, return_exceptions=True)
                await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # there is no public way to close pipes that other processes keep open
    return _judged(found, bytes(said[0]), bytes(said[1]))


async def _read(stream: asyncio.StreamReader | None, into: bytearray) -> None:
    """Read `stream` to its end, or up to the maximum that is stored."""
    while stream is not None and len(into) < MOST_SAID and (chunk := await stream.read(1 << 16)):
        into += chunk


def _judged(found: str, output: bytes, errors: bytes) -> Interpreter | NoInterpreter:
    """Result of the probe."""
    facts = _facts(output)
    if facts is None:
        said = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return NoInterpreter("not-python", f"{found} does not behave like a Python interpreter: {said}", OTHER)
    version = ".".join(str(part) for part in facts["python"])
    if tuple(facts["python"][:2]) < OLDEST:
        floor = ".".join(str(part) for part in OLDEST)
        return NoInterpreter("too-old", f"{found} is Python {version}; the benchmark needs {floor} or later.", OTHER)
    if facts["torch"] is None:
        return NoInterpreter(
            "no-torch",
            f"{found} (Python {version}) has no torch, which the benchmark measures with.",
            "Name one that has it with --python PATH, or install it here: pip install 'gpu-planner[bench]'.",
        )
    return Interpreter(Path(found), version, str(facts["torch"]))


def _executable(python: Path | None) -> str | NoInterpreter:
    """File to start, or the reason why it cannot be found."""
    if python is None:
        if sys.executable:
            return sys.executable
        return NoInterpreter("no-interpreter", "The running program does not know its Python.", "Name one with --python PATH.")
    none = NoInterpreter("no-interpreter", f"There is no {python}.", "Name an interpreter that exists with --python PATH.")
    try:
        given = python.expanduser()
    except RuntimeError:  # ~ of an unknown user
        return none
    kind = kind_of(given)
    if kind == stat.S_IFDIR:
        inside = given / "bin" / "python"
        if inside.exists():
            return str(inside)
        return NoInterpreter(
            "no-interpreter", f"{python} is a folder without bin/python.", "Name the interpreter itself with --python PATH."
        )
    if kind:
        if shutil.which(str(given.absolute())):
            return str(given.absolute())
        return NoInterpreter("no-interpreter", f"{python} is not executable.", "Name a Python interpreter with --python PATH.")
    named = len(given.parts) == 1 and "\0" not in str(given)
    return (shutil.which(str(given)) if named else None) or none


def _facts(output: bytes) -> dict[str, Any] | None:
    """Answer of the probe; start-up files of the interpreter may print other lines."""
    for line in reversed(output.splitlines()):
        if b'"bench-probe"' in line:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict) and isinstance(answer.get("python"), list):
                return answer
    return None
