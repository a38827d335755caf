"""Speed of the planner itself: start to first paint, `plan --json`, re-ranks, `estimate`, the simulation of services.

Prints a table of measured values and their budgets. Start-up is measured on a pseudo-terminal, alternating between the program and the
smallest possible Textual app, and `plan --json` alternates with importing Textual: budgets are ratios, because a busy machine slows both equally.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import multiprocessing
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from program import ROOT, own_folders

MINIMAL_APP = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("first-paint")
Minimal().run()
"""
PROGRAM = [sys.executable, "-m", "widgets.launch"]
PAINTED, ANSWERED = b"Ranking", b"GPUs \xc2\xb7"
KEY_PRESET, SECOND_ROW, MEASURING, STOPPED = "llama-3.1-70b-chat-service", b"B300 SXM", b" left \xc2\xb7 x stops", b"Cancelled"
"""Preset in whose ranking keys are pressed, its second row, and texts of a running and of a stopped benchmark."""
GPUS = ("H100 SXM5 80GB", "H200 SXM", "A100 80GB SXM", "L40S", "RTX 4090", "L4")
ESTIMATES = 5000
ESTIMATED = (("batch", "", 2000), ("concurrency", " of a closed loop", 2000), ("request_rate_per_s", " at a rate", 2000))
"""Questions of lines of `estimate`, in words, and the required lines per second; services at a request rate are simulated, and need two
processors for it."""
RERANKED = {
    "llama-3.1-8b-pretrain": 50,
    "llama-3.1-405b-pretrain": 50,
    "llama-3.1-70b-qlora": 50,
    "llama-3.1-70b-chat-service": 100,
    "qwen3-30b-a3b-service": 100,
    "llama-3.2-3b-offline": 50,
}
"""Presets whose plan is made again, and allowed milliseconds; services are simulated."""
ALL_TERMS = ("llama-3.1-70b-chat-service", "qwen3-30b-a3b-service")
"""Presets among these that are also planned with every term of the offers in one ranking."""
QUIET_S = 0.3
"""Seconds without output before a key is pressed."""
POLLING = """
import time
from planner.observe.telemetry.poller import Poller
poller = Poller(interval_s=0.1)
poller.start()
time.sleep(1.5)
began, wall = time.process_time(), time.monotonic()
time.sleep(8)
print((time.process_time() - began) / (time.monotonic() - wall))
assert len(poller.latest.devices) == 8
poller.stop()
"""


def environment(home: str) -> dict[str, str]:
    """A separate home and Python's default settings, so that neither a saved form nor missing bytecode affects the times."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TEXTUAL", "PYTHON")) and name != "NO_COLOR"}
    return plain | own_folders(home) | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def opened(arguments: Sequence[str], home: str) -> Iterator[int]:
    """A program on a 120×40 pseudo-terminal, whose near end is yielded; it is killed in the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, env=environment(home), start_new_session=True)
    os.close(slave)
    try:
        yield master
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def await_drawn(master: int, marker: bytes, limit_s: float = 30.0) -> None:
    """Read until `marker` has been drawn."""
    drawn, ends = b"", time.perf_counter() + limit_s
    while marker not in drawn:
        left_s = ends - time.perf_counter()
        if left_s <= 0 or not select.select([master], [], [], left_s)[0]:
            raise SystemExit(f"{marker!r} was not drawn within {limit_s:.0f} s; last of the output: {drawn[-300:]!r}")
        drawn += os.read(master, 1 << 16)


def await_quiet(master: int) -> None:
    """Read until no output has come for `QUIET_S`."""
    while select.select([master], [], [], QUIET_S)[0]:
        os.read(master, 1 << 16)


def seconds_until(arguments: Sequence[str], marker: bytes, home: str) -> float:
    """Seconds from starting a program until it has drawn `marker`."""
    began = time.perf_counter()
    with opened(arguments, home) as master:
        await_drawn(master, marker)
        return time.perf_counter() - began


def keystroke_seconds(home: str, presses: int) -> tuple[list[float], list[float]]:
    """Seconds from each press of an arrow key until its row is drawn: on an idle program, then while it measures this machine."""
    with opened([*PROGRAM, KEY_PRESET], home) as master:
        await_drawn(master, ANSWERED)
        await_quiet(master)
        idle = [row_drawn_after(master, press) for press in range(presses)]
        os.write(master, b"b")
        await_drawn(master, MEASURING, 120.0)
        measuring = [row_drawn_after(master, press) for press in range(presses)]
        os.write(master, b"x")
        await_drawn(master, STOPPED)  # a benchmark survives a killed screen
        return idle, measuring


def row_drawn_after(master: int, press: int) -> float:
    """Seconds from a press of the key down, or up, until the second row is redrawn; other changes name no GPU."""
    quiet_from = time.perf_counter() + QUIET_S
    while (left_s := quiet_from - time.perf_counter()) > 0:
        if select.select([master], [], [], left_s)[0]:
            os.read(master, 1 << 16)
    began = time.perf_counter()
    os.write(master, b"\x1b[A" if press % 2 else b"\x1b[B")
    await_drawn(master, SECOND_ROW)
    return time.perf_counter() - began


def p95(seconds: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(seconds, n=20)[-1]


def seconds_of(arguments: Sequence[str], home: str, given: str | None = None) -> float:
    """Seconds of a whole process."""
    began = time.perf_counter()
    subprocess.run(
        arguments, env=environment(home), input=given, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


def rerank_seconds(home: str, preset: str, repeats: int, **changes: Any) -> list[float]:
    """Seconds of each re-rank of the whole catalogue, after a first one, every time for new lengths.

    Meant for a process of its own, which like the one behind the screen has done nothing else and keeps freed memory. `changes` are made
    to the preset.
    """
    os.environ.update(environment(home))
    import msgspec

    from planner.session import Session
    from planner.startup import collect_rarely, keep_freed_memory
    from planner.workload.tasks import trains

    collect_rarely()
    keep_freed_memory()
    session = Session.open()
    workload = msgspec.structs.replace(session.presets.load(preset).workload, **changes)
    session.plan(workload)
    taken = []
    for change in range(repeats):
        other = {"sequence": 2048 + 64 * change} if trains(workload.task) else {"output_tokens": 201 + change}
        changed = msgspec.structs.replace(workload, **other)
        began = time.perf_counter()
        session.plan(changed)
        taken.append(time.perf_counter() - began)
    return taken


def telemetry_share(home: str) -> float | None:
    """Share of one core for polling eight GPUs ten times a second, without the driver; None without a C compiler."""
    sys.path.insert(0, str(ROOT / "tests" / "samples"))
    from nvml_stub import COMPILER, H100, ControlFile, build, run_python

    if COMPILER is None:
        return None
    control = ControlFile(Path(home) / "control")
    control.devices(*(H100 | {"uuid": f"GPU-{index}"} for index in range(8)))
    done = run_python(POLLING, build(Path(home) / "nvml"), control, NVML_STUB_FIXED="1")
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def request_lines(count: int, asked: str = "batch") -> str:
    """`count` different lines of `estimate`: a fixed batch, or a service by `concurrency` or `request_rate_per_s`."""
    common = {"model": "Qwen/Qwen3-8B", "task": "generate" if asked == "batch" else "serve", "output_tokens": 128}
    alike = len(GPUS) * 16
    lines = (
        {"id": n, "gpu": GPUS[n % len(GPUS)], asked: 1 + n // len(GPUS) % 16, **common, "input_tokens": 100 + n // alike}
        for n in range(count)
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def simulated_per_minute(replicas: int, measured: int) -> float:
    """Requests that one core serves in the simulation of continuous batching in a minute: 600 tokens in, 200 out, 45 in flight."""
    import numpy as np

    from planner.engine.performance.simulation.batching_rules import BatchingRules
    from planner.engine.performance.simulation.continuous_batching import run_batches
    from planner.engine.performance.simulation.iteration_time import constant_time
    from planner.engine.performance.simulation.load import Load, token_lengths
    from planner.engine.performance.simulation.traffic import traffic_of

    times = constant_time(replicas, step_s=0.01, prefill_s=2e-5, cached_s=2e-8, sequence_s=1e-5)
    plain = {"budget": 8192.0, "sequences": 256.0, "capacity": 4e5, "reserve": False, "mixed": True}
    rules = BatchingRules(**{name: np.full(replicas, value) for name, value in plain.items()})
    zero, same = np.zeros(replicas), [None] * replicas
    load = Load(zero + 18, zero, token_lengths(same, [600] * replicas), token_lengths(same, [200] * replicas), zero, zero + 1, zero)
    traffic = traffic_of(load, range(replicas), 45 + 24 + measured + 80, in_flight=np.full(replicas, 45))
    began = time.perf_counter()
    trace = run_batches(times, rules, traffic, warm=np.full(replicas, 69), measured=np.full(replicas, measured))
    return int(np.isfinite(trace.end_s).sum()) / (time.perf_counter() - began) * 60


def in_pairs(what: str, taken_s: Sequence[float], yardstick_s: Sequence[float], most: float) -> tuple[str, str, str, bool]:
    """A finding about times, each divided by the yardstick measured right after or before it; shows the median of both."""
    ratio = statistics.median(taken / yardstick for taken, yardstick in zip(taken_s, yardstick_s, strict=True))
    return what, f"{statistics.median(taken_s) * 1e3:.0f} ms ({ratio:.2f}×)", f"≤ {most:.1f}×", ratio <= most


def findings(repeats: int) -> Iterator[tuple[str, str, str, bool]]:
    """Each measured thing: what, how much, its budget, whether the budget is met."""
    with tempfile.TemporaryDirectory() as home:
        minimal, painted, answered, imported, planned = [], [], [], [], []
        for _ in range(repeats):
            minimal.append(seconds_until([sys.executable, "-c", MINIMAL_APP], b"first-paint", home))
            painted.append(seconds_until(PROGRAM, PAINTED, home))
            answered.append(seconds_until(PROGRAM, ANSWERED, home))
            imported.append(seconds_of([sys.executable, "-c", "import textual.app"], home))
            planned.append(seconds_of([*PROGRAM, "plan", "--json"], home))
        yield "smallest Textual app: start → first paint", f"{statistics.median(minimal) * 1e3:.0f} ms", "", True
        yield in_pairs("gpu-planner: start → first paint", painted, minimal, 1.2)
        yield in_pairs("gpu-planner: start → ranked plan on screen", answered, minimal, 3.5)
        yield "import textual.app, whole process", f"{statistics.median(imported) * 1e3:.0f} ms", "", True
        yield in_pairs("gpu-planner plan --json, whole process", planned, imported, 2.0)
        for when, taken in zip(("idle", "during a benchmark"), keystroke_seconds(home, 6 * repeats), strict=True):
            key = p95(taken)
            yield f"key in the ranking → its row drawn, p95, {when}", f"{key * 1e3:.0f} ms", "≤ 50 ms", key <= 0.05
        one = statistics.median(seconds_of([*PROGRAM, "estimate", "-"], home, request_lines(1)) for _ in range(repeats))
        yield "gpu-planner estimate of one line, whole process", f"{one * 1e3:.0f} ms", "≤ 500 ms", one <= 0.5
        for asked, words, least in ESTIMATED:
            rate = ESTIMATES / seconds_of([*PROGRAM, "estimate", "-"], home, request_lines(ESTIMATES, asked))
            yield f"estimate of {ESTIMATES:,} lines{words}", f"{rate:,.0f} lines/s", f"≥ {least:,} /s", rate >= least
        share = telemetry_share(home)
        if share is not None:
            yield "8 GPUs watched at 10 Hz (C stand-in), of one core", f"{share:.2%}", "≤ 2 %", share <= 0.02
        plans: list[tuple[str, int, str, dict[str, str]]] = [(preset, most_ms, "", {}) for preset, most_ms in RERANKED.items()]
        plans += [(preset, RERANKED[preset], ", all terms", {"market": "any"}) for preset in ALL_TERMS]
        for preset, most_ms, terms, changes in plans:
            with multiprocessing.get_context("spawn").Pool(1) as process:
                rerank = statistics.median(process.apply(rerank_seconds, (home, preset, 3 * repeats), changes)) * 1e3
            yield f"re-rank of {preset}{terms}", f"{rerank:.1f} ms", f"≤ {most_ms} ms", rerank <= most_ms
        for replicas in (16, 256):
            served = simulated_per_minute(replicas, 256 if replicas == 16 else 64)
            what = f"continuous batching simulated, {replicas} replicas at once"
            yield what, f"{served / 1e6:.1f} M/min", "≥ 1 M/min", served >= 1e6


def main() -> int:
    """Measure, print, and exit with 0 whatever the numbers are, because they depend on the machine too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="processes per start-up figure; the median is shown")
    repeats = parser.parse_args().repeats
    print(f"{'what':<52}{'median':>18}   {'budget':<12}")
    for what, measured, budget, holds in findings(repeats):
        print(f"{what:<52}{measured:>18}   {budget:<12}{'' if not budget else 'ok' if holds else 'over'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
