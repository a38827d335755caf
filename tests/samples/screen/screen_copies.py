"""Copies of the terminal program with fixed answers, each on a terminal of its own: forked from a process that has opened it once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from pathlib import Path
from typing import IO, Any, Self

from repository import ROOT

from planner.hardware.measurements.store import Store

STAND_IN = """#!{python}
import json, os, signal, sys, time
if "-c" in sys.argv:
    print(json.dumps({{"bench-probe": 1, "python": [3, 11, 0], "torch": "0", "executable": ""}}))
    raise SystemExit
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open({said!r}, "w") as said:
    said.write(str(os.getpid()))
sys.path.insert(0, {root!r})
from bench import protocol
from bench.channel import Channel
channel = Channel(int(sys.argv[sys.argv.index("--fd") + 1]), None)
points = [protocol.Point(id=name, kind="copy", label=name, device="cpu", expected_s=1.0, cap_s=1000.0) for name in ("copy/memory", "copy/cache")]
channel.send(protocol.Hello(schema=protocol.SCHEMA, method=protocol.METHOD, pid=1, device="cpu", device_name="A processor",
    machine={{"device": "A processor", "cores": 1}}, software={{"torch": "0"}}, environment={{}}))
channel.send(protocol.Plan(suite="smoke", points=tuple(points)))
channel.send(protocol.Start(point=points[0].id))
channel.send(protocol.Result(point=points[0].id, kind="copy", dtype=None, parameters={{}}, value=1e10, low=9e9, high=1.1e10, unit="B/s",
    status="ok", detail="", samples_s=(1.0, 1.0, 1.0), spread=0.1, bytes=1e10, taken_at=protocol.utc_now()))
channel.send(protocol.Start(point=points[1].id))
time.sleep(1000)
"""
"""An interpreter whose worker measures one of two points, and hears no signal during the other."""
MODES = (1049, 1000, 1003, 1006, 2004, 1004)
"""Private modes of a terminal that the program sets: the other screen, the mouse, pasting, the focus."""


class Copies:
    """The process that is copied; a context manager."""

    def __enter__(self) -> Self:
        samples = ROOT / "tests" / "samples"
        folders = [str(one) for one in (ROOT, samples, samples / "benchmark", Path(__file__).parent)]
        code = f"import sys; sys.path[:0] = {folders!r}; import screen_copies; screen_copies.serve()"
        self._process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.codes: dict[int, int] = {}
        """Exit code of each copy that has ended; negative: the signal that ended it."""
        assert self._line() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def _line(self) -> str:
        out: IO[str] | None = self._process.stdout
        assert out is not None
        return out.readline().strip()

    def start(self, folder: Path, terminal: str, mode: str) -> int:
        """Start a copy; returns its process id."""
        self._ask(f"start {folder} {terminal} {mode}")
        return int(self._line())

    def code(self, pid: int) -> int | None:
        """The exit code of a copy; None while it runs."""
        if pid not in self.codes:
            self._ask("ended")
            self.codes |= {int(one.split(":")[0]): int(one.split(":")[1]) for one in self._line().split()}
        return self.codes.get(pid)

    def _ask(self, words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()


class Copy:
    """One copy and the main end of its terminal."""

    def __init__(self, copies: Copies, folder: Path, mode: str = "plain", *, columns: int = 120, rows: int = 40) -> None:
        self._copies = copies
        self._main, worker = os.openpty()
        self._name = os.ttyname(worker)
        termios.tcsetwinsize(self._main, (rows, columns))
        self._worker = worker
        self._before = termios.tcgetattr(worker)
        self.written = b""
        folder.mkdir(parents=True)
        self.pid = copies.start(folder, self._name, mode)
        self._folder = folder

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._copies.code(self.pid)

    def read(self, within_s: float = 0.0) -> bytes:
        """Take what is written meanwhile; all of it so far."""
        while self._main >= 0 and select.select([self._main], [], [], within_s)[0]:
            with contextlib.suppress(OSError):
                if data := os.read(self._main, 1 << 16):
                    self.written += data
                    within_s = 0.0
                    continue
            break
        return self.written

    def type(self, keys: bytes) -> None:
        os.write(self._main, keys)

    @property
    def worker(self) -> int | None:
        """Process id of its benchmark's worker, dead or alive; None where none was started."""
        said = self._folder / "worker.pid"
        return int(said.read_text() or 0) or None if said.exists() else None

    @property
    def measured(self) -> list[str]:
        """Points with a value that are kept in its store."""
        return [one.point for one in Store.open(self._folder / "state").all() if one.value is not None]

    def hang_up(self) -> None:
        """Close the terminal under it."""
        self.close()

    def given_back(self) -> str:
        """What is not as it was before; empty: the terminal is given back."""
        self.read()
        pairs = [(f"mode {mode}", b"\x1b[?%dl" % mode, b"\x1b[?%dh" % mode) for mode in MODES]
        wrong = [
            name
            for name, off, on in [*pairs, ("cursor", b"\x1b[?25h", b"\x1b[?25l")]
            if self.written.rfind(off) < self.written.rfind(on)
        ]
        return ", ".join([*wrong, *(["attributes"] if termios.tcgetattr(self._worker) != self._before else [])])

    def close(self) -> None:
        """Let go of the terminal."""
        if self._main >= 0:
            os.close(self._worker)
            os.close(self._main)
            self._main = -1


def serve() -> None:
    """Copy this process for each line, and tell which copies have ended."""
    import tui_sample

    import widgets.app
    import widgets.crash_report
    import widgets.signals
    from widgets import launch
    from widgets.background import benchmark

    del benchmark
    _open_once(widgets.app.PlannerApp, tui_sample)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)  # as a command of the program does
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while line := sys.stdin.readline():
        words = line.split()
        if words[0] == "ended":
            said = " ".join(_ended())
        else:
            child = os.fork()
            if child == 0:
                _run(launch, widgets.app.PlannerApp, tui_sample.sample_options, *words[1:])
            said = str(child)
        sys.stdout.write(said + "\n")
        sys.stdout.flush()


def _open_once(app: Any, sample: Any) -> None:
    """Open the program without a terminal and leave it: copies know what its style sheets say, and load no module.

    With the tooltips and notifications that it has on a terminal, as all widgets of a screen are styled together.
    """
    import pytest
    from headless import parse_styles_once

    async def opened(folder: Path) -> None:
        async with app(sample.sample_options(folder)).run_test(size=(80, 24), tooltips=True, notifications=True) as pilot:
            await sample.settle(pilot)

    parse_styles_once(pytest.MonkeyPatch())
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(opened(Path(folder)))
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()  # a copy would have no such thread


def _ended() -> list[str]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            found.append(f"{pid}:{os.waitstatus_to_exitcode(status)}")
    return found


def _run(launch: Any, app: Any, sample_options: Any, folder: str, terminal: str, mode: str) -> None:
    code = 99
    try:
        os.setsid()
        name = os.open(terminal, os.O_RDWR)  # its own terminal from here on
        for number in range(3):
            os.dup2(name, number)
        os.close(name)
        for number in (signal.SIGHUP, signal.SIGQUIT):  # ignored where the tests run in the background
            signal.signal(number, signal.SIG_DFL)
        if mode == "nohup":
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if mode == "crash":
            app.action_act = _broken
        code = launch.open_app(sample_options(Path(folder), **(_measuring(Path(folder)) if mode == "measuring" else {})))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    except BaseException:  # noqa: BLE001  # a copy must never go on as the process that is copied
        traceback.print_exc()
    finally:
        os._exit(code)


def _measuring(folder: Path) -> dict[str, Any]:
    """Options under which a benchmark can be started, on an interpreter that is a stand-in."""
    from measuring_sample import MeasuredSession

    python = folder / "python"
    python.write_text(STAND_IN.format(python=sys.executable, root=str(ROOT), said=str(folder / "worker.pid")))
    python.chmod(0o755)
    return {"open_session": lambda: MeasuredSession(folder), "suite": "smoke", "python": str(python)}


def _broken(*_: object) -> None:
    raise RuntimeError("an action broke")
