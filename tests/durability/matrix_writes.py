"""Every write of the program on a folder of its own, tried at each step of it with each fault. Run as a script, it prints what broke.

A write is prepared once, carried out once without fault to count its steps, and then on a fresh copy of the folder for every step
and fault: the process is killed there (by a fork), or the system refuses. What holds is the same for all of them:

- what was there before, or what was to be written, is there whole, and another program can read it;
- what was told as kept is there; what was not kept is told with the system's reason;
- the next start writes as if nothing had been.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from measurement_sample import measurement

from bench.channel import Channel
from bench.protocol import Hello, Plan, Point, Result, decode, encode
from planner.cli import main
from planner.durable import WriteResult
from planner.hardware.measurements import line_file
from planner.hardware.measurements.exchange import export_document
from planner.hardware.measurements.store import Store
from planner.hardware.prices.offers import write_offers
from planner.observe.benchmark.journal import journal_path, recover_journals
from planner.session import Session
from planner.workload.tasks import Workload
from widgets.actions.plan_files import write_export
from widgets.state.state_files import load_choices, save_choices

KILLED, TORN = 1000, 1001
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.EACCES)
RUN = "20260101T000000Z-abcdef"
SESSION = Session.open(state=Path("/nonexistent"), config=Path("/nonexistent"))


class Outcome(NamedTuple):
    """What a write said of itself."""

    kept: bool
    words: str


class Write(NamedTuple):
    """One way the program writes."""

    prepare: Callable[[Path], object]
    write: Callable[[Path], Outcome]
    state: Callable[[Path], object]
    """What another program finds in the folder."""


def outcome(result: WriteResult) -> Outcome:
    return Outcome(result.kept, result.reason)


def command(*arguments: str) -> Outcome:
    """A command; its exit code says whether it kept."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(argv=arguments)
    if code not in {0, 74}:
        raise AssertionError(f"exit code {code}: {said.getvalue()}")
    return Outcome(code == 0, said.getvalue())


def points(root: Path) -> object:
    """Points of the store and of journals, read on a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(root, Path(folder) / "copy")
        store = Store.open(copy)
        recover_journals(copy, store)
        return sorted((one.point, one.run) for one in store.all())


def content(*names: str) -> Callable[[Path], object]:
    return lambda root: {name: path.read_text() for name in names if (path := root / name).exists()}


def stored(*numbers: int) -> Callable[[Path], object]:
    return lambda root: Store.open(root).add_all([measurement(f"gemm/{number}") for number in numbers])


def damaged_store(root: Path) -> None:
    stored(1, 2)(root)
    path = root / "measurements.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((lines[0], lines[1][:40] + b"\n", *lines[1:])) + b'{"measurement":{"poi')


def journal(root: Path) -> list[bytes]:
    """Lines of a run that was cut off before its planner had stored anything."""
    lasting = [Point(id=f"gemm/{n}", kind="gemm", label="", device="cpu", expected_s=1, cap_s=1) for n in (7, 8)]
    hello = Hello(schema=1, method=1, pid=1, device="cuda:0", device_name="X", machine={}, software={}, environment={})
    return [encode(one) for one in (hello, Plan(suite="quick", points=tuple(lasting)), result(7))]


def result(number: int) -> Result:
    return Result(
        point=f"gemm/{number}",
        kind="gemm",
        dtype="bf16",
        parameters={},
        value=1.0,
        low=1.0,
        high=1.0,
        unit="FLOP/s",
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
    )


def left_journal(root: Path) -> None:
    stored(1)(root)
    journal_path(root, RUN).write_bytes(b"".join(journal(root)))


def recover(root: Path) -> Outcome:
    store = Store.open(root)
    recover_journals(root, store)
    return Outcome(
        store.result.kept and "was not changed" not in str(store.warnings), " ".join((store.result.reason, *store.warnings))
    )


def journal_line(root: Path) -> Outcome:
    said, nowhere = io.StringIO(), os.open(os.devnull, os.O_WRONLY)
    with contextlib.redirect_stderr(said):
        channel = Channel(nowhere, str(root / "journal"))
        channel.send(result(8))
    os.close(nowhere)
    return Outcome(not said.getvalue(), said.getvalue())


def whole_lines(root: Path) -> object:
    lines = (root / "journal").read_bytes().split(b"\n")
    return sorted({one.point for line in lines[:-1] if isinstance(one := decode(line), Result)})


def nothing(_: Path) -> None:
    """What a write needs that makes its file."""


def import_file(root: Path) -> None:
    stored(1, 2)(root)
    (root / "new.json").write_bytes(export_document([measurement("gemm/9")], [], version="1", exported_at="2026-01-01T00:00:00Z"))


def preset(root: Path) -> Outcome:
    try:
        Session.open(state=root, config=root).presets.save("own", Workload(task="train", model="gpt2"), overwrite=True)
    except Exception as wrong:  # noqa: BLE001  # its words are looked at
        return Outcome(kept=False, words=str(wrong))
    return Outcome(kept=True, words="")


def screen_export(root: Path) -> Outcome:
    import datetime as dt

    with contextlib.chdir(root):
        return outcome(write_export("new", "plan", "csv", root, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)))


def removed(root: Path) -> Outcome:
    name = measurement("gemm/2").id
    return command("--state", str(root), "measurements", "remove", name, "--yes")


OFFERS = SESSION.offers[:3]
WRITES = {
    "first point": Write(
        nothing,
        lambda root: outcome(Store.open(root / "state").add(measurement("gemm/3"))),
        lambda root: points(root / "state") if (root / "state").exists() else [],
    ),
    "next point": Write(stored(1, 2), lambda root: outcome(Store.open(root).add(measurement("gemm/3"))), points),
    "point beside damage": Write(damaged_store, lambda root: outcome(Store.open(root).add(measurement("gemm/3"))), points),
    "import": Write(
        import_file,
        lambda root: command("--state", str(root), "measurements", "import", str(root / "new.json")),
        points,
    ),
    "recovered journal": Write(left_journal, recover, points),
    "journal": Write(lambda root: (root / "journal").write_bytes(b"".join(journal(root))), journal_line, whole_lines),
    "choices": Write(
        lambda root: save_choices(root, {"theme": "nord"}),
        lambda root: outcome(save_choices(root, {"theme": "dracula"})),
        load_choices,
    ),
    "preset": Write(
        lambda root: Session.open(state=root, config=root).presets.save("own", Workload(task="serve", model="gpt2")),
        preset,
        lambda root: Session.open(state=root, config=root).presets.load("own").workload.task,
    ),
    "export": Write(
        lambda root: (stored(1, 2)(root), (root / "out.json").write_text("mine")),
        lambda root: command("--state", str(root), "measurements", "export", "--out", str(root / "out.json")),
        lambda root: text if (text := (root / "out.json").read_text()) == "mine" else sorted(json.loads(text)),
    ),
    "screen": Write(nothing, screen_export, lambda root: [path.read_text() for path in root.glob("*.csv")]),
    "offers": Write(
        lambda root: write_offers(root / "lambda.toml", OFFERS[:1], SESSION.gpus),
        lambda root: outcome(write_offers(root / "lambda.toml", OFFERS[1:], SESSION.gpus)),
        content("lambda.toml"),
    ),
}


class Disk:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.disk_trace.restype = ctypes.c_char_p

    @contextlib.contextmanager
    def failing(self, root: Path, at: int, error: int) -> Iterator[None]:
        self._library.disk_arm(str(root).encode(), ctypes.c_long(at), error)
        try:
            yield
        finally:
            self._library.disk_disarm()

    def trace(self) -> list[list[str]]:
        return [line.split("\t") for line in self._library.disk_trace().decode().splitlines()]


def killed(disk: Disk, root: Path, way: Write, at: int, error: int) -> None:
    """Carry the write out in a process that is killed on its way."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException), disk.failing(root, at, error):
            way.write(root)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if error == KILLED and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError("it was not killed")


def faults_of(way: Write, disk: Disk, folder: Path) -> Iterator[str]:
    """What does not hold for a write, a line each; the last one says how many cases were tried."""
    base, done = folder / "base", folder / "done"
    base.mkdir()
    way.prepare(base)
    shutil.copytree(base, done)
    with disk.failing(done, sys.maxsize, 0):
        said = way.write(done)
    trace = disk.trace()
    if not said.kept:
        yield f"without a fault: {said.words}"
    before, after = way.state(base), way.state(done)
    yield from unflushed(trace)
    tried = 0
    for at in range(1, len(trace) + 1):
        for error in (KILLED, TORN, *ERRORS):
            if error == TORN and trace[at - 1][0] != "write":
                continue
            tried += 1
            root = shutil.copytree(base, folder / f"{at}-{error}")
            case = (
                f"{' '.join(trace[at - 1])} (step {at}), {errno.errorcode.get(error, {KILLED: 'killed', TORN: 'torn'}.get(error))}"
            )
            try:
                yield from (f"{case}: {fault}" for fault in _case(way, disk, root, (at, error), before, after))
            except Exception as broken:  # noqa: BLE001  # a finding like others
                yield f"{case}: {type(broken).__name__}: {broken}"
            shutil.rmtree(root)
    yield f"tried {tried}"


def _case(way: Write, disk: Disk, root: Path, fault: tuple[int, int], before: object, after: object) -> Iterator[str]:
    at, error = fault
    if error in {KILLED, TORN}:
        killed(disk, root, way, at, error)
        found = way.state(root)
        if found not in (before, after):
            yield f"there is {found}, neither {before} nor {after}"
    else:
        with disk.failing(root, at, error):
            said = way.write(root)
        found = way.state(root)
        if found != after and (said.kept or found != before):
            yield f"kept {said.kept}, there is {found}, neither {before} nor {after}"
        if not said.kept and os.strerror(error) not in said.words:
            yield f"does not say {os.strerror(error)!r}: {said.words}"
        debris = [path.name for path in root.rglob("*.part")]
        if debris and error != errno.EROFS:
            yield f"leaves {debris}"
    again = way.write(root)
    if not again.kept or way.state(root) != after:
        yield f"the next start: {again}, there is {way.state(root)}"


def unflushed(trace: list[list[str]]) -> Iterator[str]:
    """What a power cut could undo although it was told as kept, and names that could be guessed or lead elsewhere."""
    for place, (call, path, more) in enumerate(trace):
        rest = [(one[0], one[1]) for one in trace[place + 1 :]]
        until = next((number for number, one in enumerate(rest) if one == ("rename", path)), len(rest))
        if call == "write" and ("fsync", path) not in rest[:until]:
            yield f"{path} is written and not flushed"
        if call in {"rename", "mkdir"} and ("fsync", str(Path(more or path).parent).rstrip("/")) not in rest:
            yield f"the folder of {more or path} is not flushed"
        if call == "open" and path.endswith(".part") and ".jsonl" not in path and more.split() != ["excl", "nofollow"]:
            yield f"{path} is opened with {more!r}"
        if call == "open" and "trunc" in more:
            yield f"{path} is emptied"


def run(names: list[str]) -> dict[str, list[str]]:
    """The findings of each write."""
    line_file.LOCK_WAIT_S = 0.05
    disk, found = Disk(), {}
    for name in names:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
            found[name] = list(faults_of(WRITES[name], disk, Path(folder)))
    return found


if __name__ == "__main__":
    findings: Any = run(sys.argv[1:] or list(WRITES))
    print(json.dumps(findings))  # noqa: T201  # read by the test
