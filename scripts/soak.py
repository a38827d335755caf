"""Eight hours of use in minutes: snapshots, the screen, plans, benchmarks and imports. Memory, handles and threads must not grow.

Prints a table with the rounds of each part, and returns exit code 1 where something grew. Everything is written into a temporary folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from planner.observe.benchmark.events import BenchRequest, Finished
from planner.observe.benchmark.process import BenchRun
from planner.observe.snapshot import Snapshot
from planner.observe.telemetry.exposition import prometheus_text
from planner.observe.telemetry.recording import Recorder, read_demo
from planner.observe.telemetry.stream import replay
from planner.observe.telemetry.window import observe
from planner.session import Session
from widgets.app import PlannerApp
from widgets.background.telemetry import SnapshotRead
from widgets.options import AppOptions

SNAPSHOTS, PLANS, BENCHMARKS, IMPORTS = 30_000, 2_000, 200, 50
PAINTED = 25
"""Snapshots after which the program waits until the screen is painted."""
MOST_GROWTH_BYTES = 24 * 2**20
"""Memory that the second half of a part may keep, as an allocator does."""
WORKER = """#!{python}
import sys
if "-c" in sys.argv:
    print('{{"bench-probe": 1, "python": [3, 11, 0], "torch": "0", "executable": ""}}')
    sys.exit()
sys.path.insert(0, {root!r})
from bench import protocol
from bench.channel import Channel
at = sys.argv.index("--fd") + 1
channel = Channel(int(sys.argv[at]), None)
point = protocol.Point(id="copy/memory", kind="copy", label="copy", device="cpu", expected_s=1.0, cap_s=1.0)
channel.send(protocol.Hello(schema=protocol.SCHEMA, method=protocol.METHOD, pid=1, device="cpu", device_name="Soaked processor",
    machine={{"device": "Soaked processor", "cores": 1}}, software={{"torch": "0"}}, environment={{}}))
channel.send(protocol.Plan(suite="quick", points=(point,)))
channel.send(protocol.Start(point=point.id))
channel.send(protocol.Result(point=point.id, kind="copy", dtype=None, parameters={{}}, value=1e10, low=9e9, high=1.1e10, unit="B/s", status="ok",
    detail="", samples_s=(1.0, 1.0, 1.0), spread=0.1, bytes=1e10, taken_at=protocol.utc_now()))
channel.send(protocol.Bye(reason="finished"))
"""


class Use(NamedTuple):
    """Resources of the process."""

    memory_bytes: int
    handles: int
    threads: int


class Part(NamedTuple):
    """One kind of work, repeated for `rounds`."""

    name: str
    rounds: int
    work: Callable[[int], None]


def used() -> Use:
    """Present resources of the process, after garbage collection."""
    gc.collect()
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        handles = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a Path each would be a handle more
    except OSError:  # no Linux: the highest value so far
        resident, handles = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    return Use(resident, handles, threading.active_count())


class ShownScreen:
    """The program without a terminal, with telemetry as large as the screen; opened by the first snapshot."""

    def __init__(self, folder: Path, ending: contextlib.ExitStack) -> None:
        self._runner = ending.enter_context(asyncio.Runner())
        self._ending = ending
        self._app = PlannerApp(AppOptions(state=folder / "state", config=folder / "config", telemetry=False))
        self._test = self._app.run_test(size=(120, 40))
        self._demo = read_demo().snapshots

    def __call__(self, number: int) -> None:
        """Show a snapshot, a second after the previous one."""
        if number == 0:
            self._runner.run(self._open())
        taken = self._demo[number % len(self._demo)]
        snapshot = msgspec.structs.replace(taken, taken_at_s=float(number), source="demo")
        self._runner.run(self._show(snapshot, wait=number % PAINTED == 0))

    async def _open(self) -> None:
        self._pilot = await self._test.__aenter__()
        self._ending.callback(lambda: self._runner.run(self._test.__aexit__(None, None, None)))
        while self._app.plan is None:
            await self._pilot.pause(0.05)
        await self._pilot.press("4", "z", "P")

    async def _show(self, snapshot: Snapshot, *, wait: bool) -> None:
        self._app.post_message(SnapshotRead(snapshot))
        await (self._pilot.pause() if wait else asyncio.sleep(0))


def parts(folder: Path, share: float, ending: contextlib.ExitStack) -> list[Part]:
    """The work, with `share` of its rounds; `ending` closes open resources."""
    session = Session.open(state=folder / "state", config=folder / "config")
    demo = read_demo()
    recorder = Recorder(folder / "recording.jsonl", 2**20)

    def snapshot(number: int) -> None:
        taken = demo.snapshots[number % len(demo.snapshots)]
        read = msgspec.json.decode(msgspec.json.encode(taken), type=Snapshot)
        recorder.keep(read)
        prometheus_text(read)
        if number % 300 == 299:
            observe(demo.snapshots[:60], session.gpus)
        if number % 3000 == 2999:
            seen: list[Snapshot] = []
            stream = replay(demo, seen.append, speed=0.0)
            stream.start()
            while not stream.ended:
                time.sleep(0.01)
            assert stream.stop(5.0)
            assert len(seen) == len(demo.snapshots)

    def plan(number: int) -> None:
        session.plan(session.workload({"model": "qwen3-0.6b", "task": "train", "recipe": "amp", "optimizer": "adamw",
            "sequence": 256 + number, "global_batch": 4, "train_tokens": 1e9, "gpus_considered": ["L40S"]}), levers=False)  # fmt: skip

    worker = folder / "python"
    worker.write_text(WORKER.format(python=sys.executable, root=str(Path(__file__).parent.parent)))
    worker.chmod(worker.stat().st_mode | stat.S_IXUSR)

    async def followed() -> None:
        run = BenchRun(BenchRequest(state=folder / "state", suite="quick", device="cpu", python=worker), session.store)
        last = None
        async for event in run.events():
            last = event
        assert isinstance(last, Finished), last
        assert last.kept == 1, last

    def measure(_: int) -> None:
        asyncio.run(followed())

    def again(_: int) -> None:
        from planner.hardware.measurements.exchange import load_shipped
        from planner.paths import presets_folder

        assert load_shipped(presets_folder() / "measurements", session.part_named) is not None
        Session.open(state=folder / "state", config=folder / "config").measurements()

    work = (
        ("snapshots", SNAPSHOTS, snapshot),
        ("screen", SNAPSHOTS, ShownScreen(folder, ending)),
        ("plans", PLANS, plan),
        ("benchmarks", BENCHMARKS, measure),
        ("imports", IMPORTS, again),
    )
    return [Part(name, max(4, int(rounds * share)), does) for name, rounds, does in work]


def main(share: float = 1.0) -> int:
    """Run all parts; 1 where one of them left something behind."""
    grew = 0
    print(f"{'part':12}{'rounds':>8}{'seconds':>9}{'memory at half':>16}{'at the end':>12}{'handles':>10}{'threads':>9}")
    with tempfile.TemporaryDirectory(prefix="gpu-planner-soak-") as name, contextlib.ExitStack() as ending:
        for part in parts(Path(name), share, ending):
            began_s = time.monotonic()
            before = half = used()
            for number in range(part.rounds):
                if number == part.rounds // 2:
                    half = used()
                part.work(number)
            after = used()
            most = (before.handles + 1, before.threads + 1)
            flat = after.memory_bytes - half.memory_bytes <= MOST_GROWTH_BYTES and after[1:] <= most
            grew += not flat
            print(
                f"{part.name:12}{part.rounds:>8,}{time.monotonic() - began_s:>9.1f}{half.memory_bytes / 2**20:>12,.0f} MiB"
                f"{after.memory_bytes / 2**20:>8,.0f} MiB{f'{before.handles}→{after.handles}':>10}{f'{before.threads}→{after.threads}':>9}"
                + ("" if flat else "  grew"),
                flush=True,
            )
    return 1 if grew else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
