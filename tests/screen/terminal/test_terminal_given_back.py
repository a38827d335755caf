"""The terminal is given back, with the exit code that is documented: signals at every phase of the program, on real terminals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from screen_copies import Copies, Copy
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import AppBlur, Key, MouseMove, Paste, Resize
from textual.message import Message

from widgets.background import terminal
from widgets.background.terminal import MOST_BYTES, MOST_TYPED, REST_S, PromptDriver

pytestmark = [pytest.mark.process, pytest.mark.pty]
PAINTED, ENTERED = b"Cheapest that meets", b"\x1b[?1049h"
SIGNALS = ("TERM", "HUP", "QUIT", "INT", "USR1", "TERM TERM", "STOP CONT TERM", "TSTP CONT HUP")
PHASES: dict[str, tuple[bytes, bytes]] = {
    "entered": (ENTERED, b""),
    "painted": (PAINTED, b""),
    "row": (PAINTED, b"jj"),
    "filter": (PAINTED, b"/h1"),
    "form": (PAINTED, b"w"),
    "palette": (PAINTED, b"\x10"),
    "palette, typed": (PAINTED, b"\x10zz\x1b[6~"),
    "why": (PAINTED, b"\r"),
    "help": (PAINTED, b"?"),
    "memory": (PAINTED, b"M"),
    "theme": (PAINTED, b"t"),
    "measuring": (PAINTED, b"b"),
    "leaving": (PAINTED, b"?\x1b"),
}
"""What has been written, and what is typed then."""
OF_THEIR_OWN = ("entered", "painted", "measuring")
"""Phases in which the program ends in another way: before its first frame, with nothing open, with a worker.

Each of them meets every second signal in `make test`, and the first two together meet all. Of the other phases, in which something is open or
being closed, each meets one, so that each signal meets one of them or more. They meet the others in `make test-sweep`.
"""


def signals_of(phase: str) -> tuple[str, ...]:
    """Signals that `make test` tries in a phase."""
    if phase in OF_THEIR_OWN:
        return SIGNALS[phase == "painted" :: 2]
    return (SIGNALS[list(PHASES).index(phase) % len(SIGNALS)],)


@pytest.fixture(scope="module")
def copies() -> Iterator[Copies]:
    with Copies() as found:
        yield found


def wait(cases: list[Copy], until: Callable[[Copy], object], within_s: float = 60.0) -> None:
    """Read from all terminals until `until` holds of each."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s and not all(until(one) for one in cases):
        for one in cases:
            one.read(within_s=0.01)


def pause(cases: list[Copy], seconds: float) -> None:
    """Read from all terminals for that long."""
    end_s = time.monotonic() + seconds
    wait(cases, lambda _: time.monotonic() > end_s)


def number_of(name: str) -> int:
    return int(signal.Signals[f"SIG{name}"])


def state_of(pid: int | None) -> str:
    """Letter of the state of a process as the kernel gives it; "": there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def runs(pid: int | None) -> bool:
    """True if there is such a process; an ended one that nobody has waited for is none."""
    return state_of(pid) not in {"", "Z"}


def test_each_signal_meets_phases_with_nothing_and_with_something_open() -> None:
    for phases in OF_THEIR_OWN[:2], set(PHASES) - set(OF_THEIR_OWN):
        assert {name for phase in phases for name in signals_of(phase)} == set(SIGNALS)


@pytest.mark.parametrize("phase", PHASES)
def test_every_signal_gives_the_terminal_back(copies: Copies, tmp_path: Path, phase: str) -> None:
    assert_given_back_after(signals_of(phase), phase, copies, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("phase", PHASES)
def test_every_other_signal_gives_the_terminal_back(copies: Copies, tmp_path: Path, phase: str) -> None:
    """With those of the test above 104 cases in all."""
    assert_given_back_after([names for names in SIGNALS if names not in signals_of(phase)], phase, copies, tmp_path)


def assert_given_back_after(signals: Sequence[str], phase: str, copies: Copies, folder: Path) -> None:
    """Lead a copy for each of `signals` to the phase and end it."""
    painted, keys = PHASES[phase]
    mode = "measuring" if phase == "measuring" else "plain"
    cases = {names: Copy(copies, folder / names.replace(" ", "-"), mode, columns=80, rows=24) for names in signals}
    every = list(cases.values())
    try:
        wait(every, lambda one: painted in one.written)
        for one in every:
            one.type(keys)
        if mode == "measuring":
            wait(every, lambda one: one.measured)
            assert all(runs(one.worker) for one in every)
        for step in range(3):
            for names, one in cases.items():
                parts = names.split()
                if step < len(parts) and one.code is None:
                    os.kill(one.pid, number_of(parts[step]))
            if step < 2:
                pause(every, 0.15)
            if step == 0:  # a shell goes on with what has stopped
                wait([one for names, one in cases.items() if names.startswith("TSTP")], lambda one: state_of(one.pid) == "T")
        wait(every, lambda one: one.code is not None)
        found = {names: (one.code, one.given_back()) for names, one in cases.items()}
        assert found == {names: (128 + number_of(names.rpartition(" ")[2]), "") for names in signals}
        wait(every, lambda one: not runs(one.worker))  # a killed process ends when it is next scheduled
        assert not any(runs(one.worker) for one in every)
        assert [one.measured for one in every] == [["copy/memory"] if mode == "measuring" else []] * len(every)
    finally:
        for one in every:
            one.close()


@pytest.mark.parametrize("times_s", [(0.0, 0.02), pytest.param((0.02, 0.0), marks=pytest.mark.thorough)])
def test_a_signal_while_it_leaves_gives_the_terminal_back(copies: Copies, tmp_path: Path, times_s: tuple[float, float]) -> None:
    """It comes before the end, and is its code, or after it."""
    cases = {
        (name, late): Copy(copies, tmp_path / f"{name}{late}", columns=80, rows=24)
        for name, late in zip(("TERM", "HUP", "INT", "QUIT"), 2 * times_s, strict=True)
    }
    every = list(cases.values())
    wait(every, lambda one: PAINTED in one.written)
    for (name, late), one in cases.items():
        one.type(b"q")
        time.sleep(late)
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, number_of(name))
    wait(every, lambda one: one.code is not None)
    for (name, _), one in cases.items():
        assert one.given_back() == ""
        assert one.code in {0, 128 + number_of(name), -number_of(name)}
        assert b"Traceback" not in one.written
        one.close()


@pytest.mark.parametrize("mode", ["plain", "nohup"])
def test_a_terminal_that_goes_away_ends_the_program(copies: Copies, tmp_path: Path, mode: str) -> None:
    one = Copy(copies, tmp_path / mode, mode, columns=80, rows=24)
    wait([one], lambda one: PAINTED in one.written)
    one.hang_up()
    wait([one], lambda one: one.code is not None)
    assert one.code == 128 + signal.SIGHUP


def test_a_terminal_that_goes_away_during_a_benchmark_leaves_its_results_and_no_worker(copies: Copies, tmp_path: Path) -> None:
    one = Copy(copies, tmp_path / "hung-up", "measuring", columns=80, rows=24)
    wait([one], lambda one: PAINTED in one.written)
    one.type(b"b")
    wait([one], lambda one: one.measured)
    assert runs(one.worker)
    one.hang_up()
    wait([one], lambda one: one.code is not None)
    assert one.code == 128 + signal.SIGHUP
    wait([one], lambda one: not runs(one.worker))
    assert not runs(one.worker)
    assert one.measured == ["copy/memory"]


TYPED: dict[str, bytes] = {
    "no UTF-8": b"\xff\xe4\xc3q",
    "NULs": b"\x00" * 10 + b"q",
    "a click far outside": b"\x1b[<0;9999;9999M\x1b[<0;9999;9999mq",
    "a number of 5,000 digits": b"\x1b[" + b"9" * 5000 + b";1Rq\x1b\x1bq",
    "a device control string without an end": b"\x1bP" + b"a" * 1000 + b"|q",
    "a title without an end": b"\x1b]" + b"a" * 20_000 + b"|q",
    "an application command without an end": b"\x1b_" + b"a" * 1000 + b"|\x1b^" + b"a" * 1000 + b"\x1bX" + b"a" * 1000 + b"|q",
    "a sequence without an end": b"\x1b[" + b"1;" * 1000 + b"|q",
    "an answer that nobody asked for": b"\x1b]11;rgb:ffff/ffff\x07|q",
    "Alt and a bracket": b"\x1b]|q",
    "a large paste": b"\x1b[200~" + b"x" * 100_000 + b"\x1b[201~q",
    "a paste that is not marked as one": b"cz\r" * 1000 + b"|q",
    "a palette clicked twice": b"\x10|\x1b[<0;60;9M\x1b[<0;60;9m\x1b[<0;60;9M\x1b[<0;60;9m|\x1b\x1b|q|q",
    "a palette left twice": b"\x10|\x1b[<0;3;38M\x1b[<0;3;38m\x1b[<0;3;38M\x1b[<0;3;38m|q|q",
    "a palette entered twice": b"\x10|\x1b[B|\r\r|\x1b|\x1b|q|q",
    "a page in an empty list": b"\x10zzzz\x1b[6~|\x1b[6~\x1b[5~|\x1b|q|q",
}


@pytest.mark.parametrize(
    ("read", "keys"),  # None: nothing comes for a while
    [
        ((b"\x1b]11;rgb:ff", b"ff/ffff\x07", b"x"), ["x"]),
        ((b"\x1b]11;rgb:ff", b"ff/ffff\x1b", b"\\x"), ["x"]),
        ((b"\x1bP>|term", b"inal\x1b\\", b"xy"), ["x", "y"]),
        ((b"x", b"\x1b]" + b"q" * MOST_BYTES, b"q" * MOST_BYTES, b"\x1b", b"\\y"), ["x", "y"]),
        ((b"x\x1bP" + b"q" * 40 + b"\x1b[A", b"y"), ["x", "up", "y"]),
        ((b"x\x1b_" + b"q" * 40, b"\x1b", b"[A", b"y"), ["x", "up", "y"]),
        ((b"x\x1b^" + b"q" * 40, None, b"qy"), ["x", "q", "y"]),
        ((b"x\x1bX" + b"q" * 40, b"q" * 40 + b"\x18y"), ["x", "y"]),
        ((b"\x1b[" + b"1" * 40, b"1" * 5000, b";!", b"Ry"), ["y"]),
        ((b"\x1b[" + b"1;" * 40, b"\ry"), ["enter", "y"]),
        ((b"\x1b[1", b";5A", b"y"), ["ctrl+up", "y"]),
        ((b"\x1b]x", None, b"y"), ["right_square_bracket", "x", "y"]),
        ((b"z" * MOST_TYPED, b"y"), [*"z" * MOST_TYPED, "y"]),
        ((b"z" * MOST_BYTES, b"z" * 20, None, b"y"), ["z" * MOST_BYTES, "z" * 20, "y"]),
        ((b"x\x1b[A" + b"bq\r" * 20 + b"\x1b[B", b"x", None, b"y"), ["x", "up", "bq\r" * 20, "down", "x", "y"]),
        ((b"\x1b[200~" + b"z" * 40, b"z" * 40 + b"\x1b[201~", b"y"), ["z" * 80, "y"]),
    ],
)
def test_what_comes_in_parts_is_no_keys_unless_somebody_typed_it(
    read: tuple[bytes | None, ...], keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, found = list(read), list[str]()

    class Parts(PromptDriver):
        def __init__(self) -> None:
            self.exit_event, self._debug, self._pipe = threading.Event(), False, os.pipe()
            self.fileno, self.writing = os.pipe()
            os.write(self.writing, b"ready")
            self.now_s, self.rested = 0.0, False

        def _given(self) -> bytes:
            if len(parts) == 1:
                self.exit_event.set()
            given = parts.pop(0)
            self.now_s += self.rested  # time passes where nothing comes
            self.rested = bool(parts) and parts[0] is None
            if self.rested:
                parts.pop(0)
                os.read(self.fileno, MOST_BYTES)
                threading.Timer(2 * REST_S, os.write, (self.writing, b"ready")).start()
            assert given is not None
            return given

        def process_message(self, message: Message) -> None:
            found.append(message.key if isinstance(message, Key) else message.text if isinstance(message, Paste) else repr(message))

    driver = Parts()
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: driver.now_s))
    driver.run_input_thread()
    for end in (driver.fileno, driver.writing, *(driver._pipe or ())):
        os.close(end)
    assert found == keys


def test_of_a_thousand_moves_read_at_once_the_last_counts_and_a_size_has_an_end() -> None:
    text = "".join(f"\x1b[<35;{column};9M" for column in range(1, 400)) + "x" + "\x1b[I\x1b[O" * 400 + "\x1b[48;65535;65535;1;1t"
    read = [*XTermParser().feed(text)]
    assert len(read) > 1200
    move, key, focus, size = terminal._not_overtaken(read)
    assert isinstance(move, MouseMove)
    assert move.x == 398
    assert isinstance(key, Key)
    assert isinstance(focus, AppBlur)
    assert isinstance(size, Resize)
    assert size.size == terminal.MOST_CELLS


async def test_a_stop_in_the_middle_of_a_start_waits_for_its_end_and_one_of_an_app_that_left_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = list[str]()

    class Taking(PromptDriver):
        def __init__(self) -> None:
            self._loop, self._auto_restart = asyncio.get_running_loop(), True

    def start(driver: LinuxDriver) -> None:
        done.append("start")
        vars(driver)["_writer_thread"] = SimpleNamespace(is_alive=lambda: True)
        if "started" not in done:
            driver._sigtstp_application()
        done.append("started")

    monkeypatch.setattr(LinuxDriver, "start_application_mode", start)
    monkeypatch.setattr(LinuxDriver, "stop_application_mode", lambda _: done.append("given back"))
    monkeypatch.setattr(LinuxDriver, "close", lambda _: None)
    monkeypatch.setattr(os, "kill", lambda _, number: done.append(signal.Signals(number).name))
    driver = Taking()
    driver.start_application_mode()
    assert done == ["start", "started"]
    await asyncio.sleep(0)
    assert done[2:] == ["given back", "SIGSTOP"]
    driver._sigcont_application()
    driver._sigcont_application()
    assert done[4:] == ["start", "started"], "it is taken once"
    done.clear()
    driver.stop_application_mode()
    driver._sigtstp_application()
    await asyncio.sleep(0)
    driver._sigcont_application()
    assert done == ["given back", "SIGSTOP"], "the app leaves: it is not taken again"
    driver.close()


STILL_RUNNING = 143
"""Ended by the test: q was a letter in the field that a second click went into, or was typed before a palette had closed."""


def test_whatever_is_typed_the_program_lives_and_leaves(copies: Copies, tmp_path: Path) -> None:
    wide = {name for name in TYPED if "clicked" in name or "left" in name}  # as far as the clicks go
    cases = {
        name: Copy(copies, tmp_path / str(number), columns=120 if name in wide else 80, rows=40 if name in wide else 24)
        for number, name in enumerate(TYPED)
    }
    every = list(cases.values())
    wait(every, lambda one: PAINTED in one.written)
    parts = {name: TYPED[name].split(b"|") for name in TYPED}
    for step in range(max(map(len, parts.values()))):
        for name, one in cases.items():
            if step < len(parts[name]) and one.code is None:
                one.type(parts[name][step])
        pause(every, 0.6)
    wait([one for name, one in cases.items() if "palette" not in name], lambda one: one.code is not None)
    for one in every:
        if one.code is None:
            os.kill(one.pid, signal.SIGTERM)
    wait(every, lambda one: one.code is not None)
    found = {name: (one.code, one.given_back(), one.written.partition(b"Traceback")[2][-900:]) for name, one in cases.items()}
    for one in every:
        one.close()
    codes = {name: STILL_RUNNING if "palette" in name and found[name][0] == STILL_RUNNING else 0 for name in TYPED}
    assert found == {name: (code, "", b"") for name, code in codes.items()}


def test_a_fault_in_an_action_exits_with_70_and_is_written_down(copies: Copies, tmp_path: Path) -> None:
    one = Copy(copies, tmp_path / "crash", "crash", columns=80, rows=24)
    wait([one], lambda one: PAINTED in one.written)
    one.type(b"?")
    wait([one], lambda one: one.code is not None)
    assert (one.code, one.given_back()) == (70, "")
    assert b"RuntimeError: an action broke" in one.written.partition(b"\x1b[?1049l")[2]
    assert "an action broke" in (tmp_path / "crash" / "state" / "last-fault.txt").read_text()
    one.close()
