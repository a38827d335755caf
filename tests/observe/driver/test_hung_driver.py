"""A driver whose every call takes 3,000 s, or ends its caller: no command waits for it, each says why, and no process is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nvml_stub import COMPILER, H100, ControlFile, environment, start_python
from repository import ROOT
from terminal_screen import Screen

from planner.observe.driver import driver as driver_module
from planner.observe.driver.driver import Driver, DriverError

pytestmark = [
    pytest.mark.process,
    pytest.mark.pty,
    pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with"),
]
HUNG = "did not answer within 2.5 s"
COMMANDS = (["plan", "--top", "1"], ["doctor"], ["watch", "--once"])


def told(library: Path, control: ControlFile, *arguments: str) -> tuple[int, str, float]:
    """The exit code of a command, all it wrote, and how long it took."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        env=environment(library, control), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split()), time.monotonic() - began_s


def told_at_once(library: Path, control: ControlFile) -> list[tuple[int, str, float]]:
    """Output of each of the commands, run beside the others."""
    with ThreadPoolExecutor(len(COMMANDS)) as pool:
        return list(pool.map(lambda arguments: told(library, control, *arguments), COMMANDS))


def test_a_driver_that_hangs_delays_no_command_for_long(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    control.set(slow=3000)
    for arguments, (code, words, took_s) in zip(COMMANDS, told_at_once(library, control), strict=True):
        assert (arguments, code) == (arguments, 0)
        assert HUNG in words
        assert took_s < 30, arguments  # four seconds on an idle machine; each call would take 3,000 s


def test_a_library_that_ends_its_caller_ends_no_command(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    control.set(crash=1)
    code, words, _ = told(library, control, "doctor")
    assert code == 0
    assert "ended the process that called it (signal 6)" in words


def test_beside_a_driver_that_hangs_the_screen_plans_and_leaves_at_once(
    library: Path, control: ControlFile, tmp_path: Path
) -> None:
    control.devices(H100)
    control.set(slow=3000)
    assert seconds_to_leave(environment(library, control), tmp_path) < 10  # 0.2 s on an idle machine


def seconds_to_leave(found: dict[str, str], folder: Path) -> float:
    """How long the screen takes to end at q, beside a driver that does not answer."""
    screen = Screen(folder, LD_LIBRARY_PATH=found["LD_LIBRARY_PATH"], NVML_STUB=found["NVML_STUB"])
    try:
        assert b"the driver does not answer" in screen.read(until=b"the driver does not answer")
        screen.type(b"q")
        began_s = time.monotonic()
        while screen.process.poll() is None and time.monotonic() - began_s < 60:
            screen.read(within_s=0.01)
        assert screen.process.poll() == 0
        return time.monotonic() - began_s
    finally:
        screen.close()


def test_the_kernel_ends_a_hung_call_when_nobody_is_left_to_do_it(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    code = """
from planner.observe.driver.driver import Driver
driver = Driver.start(silence_s=1.0)
driver.read(slow=False)
print(driver._process.pid, flush=True)
input()
driver.read(slow=False)
"""
    with start_python(code, library, control) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        helper = int(process.stdout.readline())
        control.set(slow=3000)
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(0.3)
        process.kill()
    for _ in range(1200):
        try:
            os.kill(helper, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it outlived the timer")


def test_a_driver_is_not_asked_again_while_a_process_waits_inside_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "library_installed", lambda: True)
    with subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL) as stuck:
        monkeypatch.setattr(Driver, "_stuck", [stuck])
        with pytest.raises(DriverError, match=f"process {stuck.pid} still waits"):
            Driver.start()
        stuck.kill()


def test_without_the_library_no_process_is_started() -> None:
    with pytest.raises(DriverError, match="was not found"):
        Driver.start()
