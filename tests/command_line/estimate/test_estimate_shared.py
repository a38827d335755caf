"""`estimate` of many lines: copies of the process share them, and nothing of it can be told from the answers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from planner.cli.estimate import command as estimate
from planner.cli.estimate import forks
from planner.cli.estimate.forks import Lines, Shared, spare_processors

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone"),
]
SERVICE = {"model": "Qwen/Qwen3-8B", "gpu": "H100 SXM5 80GB", "task": "serve", "output_tokens": 64}


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "FEWEST_LINES", 4)


def told(lines: Lines) -> bytes:
    return b"".join(b"%s by %d\n" % (line, os.getpid()) for line in lines)


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = Shared(told, 2)
    yield made
    made.end()


def alive(process: int) -> bool:
    """True if it runs, and is not merely waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(process: int) -> bool:
    """True if it ends within the time a busy machine needs."""
    ends = time.monotonic() + 60
    while alive(process) and time.monotonic() < ends:
        time.sleep(0.01)
    return not alive(process)


def test_each_process_answers_a_part_and_the_order_is_kept(shared: Shared) -> None:
    lines = [b"%d" % number for number in range(31)]
    parts = list(shared(lines))
    answered = [answer.split(b" by ") for answer in b"".join(parts).splitlines()]
    assert [line for line, _ in answered] == lines
    by = [int(process) for _, process in answered]
    assert by[0] == os.getpid()
    assert [by.count(process) for process in dict.fromkeys(by)] == [11, 11, 9]
    again = [int(answer.split(b" by ")[1]) for answer in b"".join(shared(lines)).splitlines()]
    assert set(again) == set(by), "the same copies go on"
    shared.end()
    assert all(gone(process) for process in set(by) - {os.getpid()})


def test_few_lines_are_not_shared(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    monkeypatch.setattr(forks, "FEWEST_LINES", 1001)
    answered = b"".join(shared([b"%d" % number for number in range(1000)]))
    assert {int(answer.split(b" by ")[1]) for answer in answered.splitlines()} == {os.getpid()}


def test_a_copy_that_is_killed_costs_no_answer(shared: Shared) -> None:
    lines = [b"%d" % number for number in range(30)]
    by = {int(answer.split(b" by ")[1]) for answer in b"".join(shared(lines)).splitlines()} - {os.getpid()}
    os.kill(min(by), signal.SIGKILL)
    for _ in range(2):
        answered = b"".join(shared(lines)).splitlines()
        assert [answer.split(b" by ")[0] for answer in answered] == lines


def test_where_no_process_can_be_made_this_one_answers(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    def refused() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    lines = [b"%d" % number for number in range(30)]
    for _ in range(2):
        answered = [answer.split(b" by ") for answer in b"".join(shared(lines)).splitlines()]
        assert [line for line, _ in answered] == lines
        assert {int(process) for _, process in answered} == {os.getpid()}


def test_what_fails_in_a_copy_fails_here() -> None:
    def fails(lines: Lines) -> bytes:
        if b"29" in lines:
            raise ValueError("no such line")
        return told(lines)

    shared = Shared(fails, 1)
    try:
        with pytest.raises(ValueError, match="no such line"):
            list(shared([b"%d" % number for number in range(30)]))
    finally:
        shared.end()


INTERRUPTED = """
import os, signal, sys
from planner.cli.estimate import forks

forks.FEWEST_LINES = 4

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

os.register_at_fork(**{sys.argv[1]: interrupt})
shared = forks.Shared(lambda lines: b"".join(line + b"\\n" for line in lines), 2)
try:
    sys.stdout.buffer.write(b"".join(shared([b"%d" % number for number in range(30)])))
except KeyboardInterrupt:
    print("interrupted with", len(shared._forks), "copy")
finally:
    shared.end()
"""


@pytest.mark.parametrize(
    ("where", "told"), [("after_in_child", [str(n) for n in range(30)]), ("after_in_parent", ["interrupted with 1 copy"])]
)
def test_an_interrupt_while_a_copy_is_made_prints_no_traceback(where: str, told: list[str]) -> None:
    """In the copy it ends the copy; here it is raised when the copy is one of those that `end` ends."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, where], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == told


def waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_what_comes_in_a_bulk_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe holds 64 KiB; who writes more is waited for."""
    monkeypatch.setattr(estimate, "PAUSE_S", 30.0)
    lines = [b"%06d" % number + b"x" * 100 for number in range(3000)]
    read, write = os.pipe()

    def written() -> None:
        with os.fdopen(write, "wb") as end:
            end.write(b"".join(line + b"\n" for line in lines))

    writer = threading.Thread(target=written)
    writer.start()
    while waiting_bytes(read) < estimate.BULK_BYTES:
        time.sleep(0.001)
    found = list(estimate.arriving_lines(read, 100_000))
    writer.join()
    os.close(read)
    assert found == [lines]


def test_no_more_is_read_than_is_answered_together() -> None:
    read, write = os.pipe()
    os.write(write, b"{}\n" * 12_000)  # a bulk
    for _ in range(2):
        assert len(next(estimate.arriving_lines(read, 1000))) == 12_000
        os.write(write, b"{}\n" * 12_000)
    os.close(write)
    os.close(read)


def test_one_line_is_not_waited_for() -> None:
    read, write = os.pipe()
    arriving = estimate.arriving_lines(read, 1000)
    for number in range(3):
        os.write(write, b"%d\n" % number)
        assert next(arriving) == [b"%d" % number]
    os.write(write, b"begun")
    os.close(write)
    assert list(arriving) == [[b"begun"]]
    os.close(read)


# --- the program itself ---------------------------------------------------------------------------------------------------


def lines_of(count: int) -> bytes:
    lines = [json.dumps({"id": n, **SERVICE, "request_rate_per_s": 1 + n % 16, "input_tokens": 100 + n}) for n in range(count)]
    lines[count // 2] = '{"id": "wrong", "model": '
    return "".join(line + "\n" for line in lines).encode()


def started(tmp_path: Path) -> subprocess.Popen[bytes]:
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE")}
    return subprocess.Popen(
        [sys.executable, "-m", "planner", "estimate", "-"],
        cwd=tmp_path, env={**os.environ, **homes, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def copies_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Copies made for the lines after the first; answers are read meanwhile, as a full pipe would hold them up."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    ends = time.monotonic() + 60
    while time.monotonic() < ends and process.poll() is None:
        if len(found := children(process.pid)) == spare_processors():
            return found
        with contextlib.suppress(BlockingIOError):
            os.read(process.stdout.fileno(), 1 << 20)
        time.sleep(0.001)
    raise AssertionError("no copy was made")


def written(pipe: IO[bytes]) -> None:
    """Lines without end, until nobody reads them; the model that they lack would be computed for."""
    lines = b"{}\n" * 100_000
    with contextlib.suppress(BrokenPipeError):
        while True:
            pipe.write(lines)


needs_two = pytest.mark.skipif(not spare_processors(), reason="there is one processor")


@needs_two
def test_many_lines_have_the_answers_that_few_have(tmp_path: Path) -> None:
    given = lines_of(1400)
    with started(tmp_path) as process:
        answers, complaints = process.communicate(given, timeout=300)
    assert (process.returncode, complaints) == (0, b"")
    together = answers.splitlines()
    assert [json.loads(answer)["id"] for answer in together] == [n if n != 700 else None for n in range(1400)]
    some = [3, 300, 900, 1399]
    with started(tmp_path) as process:
        alone, _ = process.communicate(b"".join(given.splitlines(keepends=True)[n] for n in some), timeout=300)
    assert alone.splitlines() == [together[n] for n in some]


@needs_two
@pytest.mark.parametrize("way", ["ctrl-c", "interrupt", "kill", "reader leaves"])
def test_no_copy_outlives_the_program(tmp_path: Path, way: str) -> None:
    with started(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        writer = threading.Thread(target=written, args=(process.stdin,))
        writer.start()
        copies = copies_of(process)
        if way == "ctrl-c":
            os.killpg(process.pid, signal.SIGINT)
        elif way == "reader leaves":
            process.stdout.close()
        else:
            process.send_signal(signal.SIGINT if way == "interrupt" else signal.SIGKILL)
        process.wait(timeout=300)
        complaints = process.stderr.read().decode()
        writer.join()
        assert len(copies) == spare_processors()
        assert all(gone(copy) for copy in copies)
        assert process.returncode == {"kill": -signal.SIGKILL, "reader leaves": 141}.get(way, 130)
        assert "Traceback" not in complaints
