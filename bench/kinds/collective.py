"""Collectives among the GPUs of this machine, or among processes of its CPU; each is a rank, started as torchrun does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import protocol
from bench.kinds.ranks import JOIN_S, Group
from bench.machine import adapters
from bench.points import Bench, UnsupportedError, rate_result
from bench.protocol import Point, Result
from bench.timing import Stopped, median, timing_of

GPU_SIZES = tuple(2**power for power in (15, 18, 20, 22, 24, 26, 28, 30))
GPU_SHARE = 16
"""Divisor of a GPU's memory that gives the largest buffer."""
CPU_SIZES = tuple(2**power for power in (15, 20, 24))
LOOPBACK = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo") if Path("/sys/class/net/lo").exists() else {}
"""Variables for ranks of one machine, which meet in a file and listen on no other interface."""
LOOK_S = 0.01
"""Seconds between two checks of the ranks."""


def gpu_sizes(memory_bytes: float) -> tuple[int, ...]:
    """Buffer sizes in bytes that fit a GPU."""
    return tuple(size for size in GPU_SIZES if size <= memory_bytes / GPU_SHARE)


def bus_factor(op: str, ranks: int) -> float:
    """Bytes over one rank's link for each byte of the buffer: 2(n-1)/n for an all-reduce, (n-1)/n for the others (nccl-tests)."""
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks


def measure_collective(bench: Bench, point: Point, op: str, ranks: int, sizes: tuple[int, ...]) -> Result:
    """Bus bandwidth at the largest size; `latency_s` at the smallest, the whole series in `series`. Raises `UnsupportedError`."""
    return _result(bench, point, op, 1, _run(bench, op, ranks, sizes, point.cap_s))


def measure_joined(bench: Bench, point: Point, op: str, nodes: int, sizes: tuple[int, ...]) -> Result:
    """Time a collective among the ranks of torchrun on `nodes` machines. Raises `UnsupportedError` and errors of torch."""
    if bench.group is None:
        bench.progress(0.0, "waiting for the other ranks")
        bench.group = Group(on_gpu=not bench.device.is_cpu)
    if bench.group.lost:
        raise UnsupportedError(f"the ranks have lost each other: {bench.group.lost}")
    return _result(bench, point, op, nodes, bench.group.measure(op, sizes))


def _result(bench: Bench, point: Point, op: str, nodes: int, measured: dict[str, Any]) -> Result:
    ranks = int(measured["ranks"])
    series = [(int(size), median(samples)) for size, samples in measured["series"]]
    largest, samples = measured["series"][-1]
    wire = bus_factor(op, ranks) * largest
    timed = timing_of(samples)
    if bench.crowded:
        timed = replace(timed, status="shared", detail=bench.crowded)
    parameters = {
        "op": op,
        "ranks": ranks,
        "nodes": nodes,
        **(adapters.here(measured["backend"]) if nodes > 1 else {}),
        "backend": measured["backend"],
        "bytes": largest,
        "latency_s": series[0][1],
        "series": [[size, float(f"{seconds:.6g}")] for size, seconds in series],
    }
    return rate_result(point, timed, wire, "B/s", None, parameters, bytes=wire)


def _run(bench: Bench, op: str, ranks: int, sizes: tuple[int, ...], cap_s: float) -> dict[str, Any]:
    """Start the ranks, read the answer of the first one, and end all of them."""
    arguments = ["ranks", "--op", op, "--device", "cpu" if bench.device.is_cpu else "cuda", "--sizes", *map(str, sizes)]
    meeting = tempfile.mkdtemp(prefix="gpu-planner-ranks-")  # only readable by this user
    arguments += ["--store", f"{meeting}/store"]
    started: list[subprocess.Popen[str]] = []
    patience_s = JOIN_S + 3 * cap_s
    try:
        for rank in range(ranks):
            environment = {
                **os.environ,
                **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
                **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks)),
                **LOOPBACK,
                **({"OMP_NUM_THREADS": "1"} if bench.device.is_cpu else {}),
            }
            command = [sys.executable, "-u", str(Path(protocol.__file__).parent), *arguments]
            # a pipe that nobody reads would block a rank with much output
            with _words_of(meeting, rank).open("w") as words_of_rank:
                pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": words_of_rank}
                started.append(subprocess.Popen(command, env=environment, text=True, **pipes))
        begin = time.perf_counter()
        while any(one.poll() is None for one in started):
            elapsed = time.perf_counter() - begin
            bench.progress(min(1.0, elapsed / cap_s), "")
            if bench.stopping():
                raise Stopped
            failed = next((rank for rank, one in enumerate(started) if one.poll()), None)
            if failed is not None:
                raise UnsupportedError(_last_words(meeting, failed, started[failed].returncode))
            if elapsed > patience_s:
                raise UnsupportedError(f"the {ranks} ranks did not end within {patience_s:.0f} s")
            time.sleep(LOOK_S)
        words = started[0].stdout.read() if started[0].stdout else ""
        failed = next((rank for rank, one in enumerate(started) if one.returncode), None)
        if failed is not None or not words:
            raise UnsupportedError(_last_words(meeting, failed or 0, started[failed or 0].returncode))
        found: dict[str, Any] = json.loads(words)
        return found
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
            one.communicate()
        shutil.rmtree(meeting, ignore_errors=True)


def _words_of(meeting: str, rank: int) -> Path:
    """File for the standard error of a rank."""
    return Path(meeting) / f"rank-{rank}.txt"


def _last_words(meeting: str, rank: int, status: int | None) -> str:
    text = _words_of(meeting, rank).read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return f"torch.distributed refuses it here: {lines[-1][:200] if lines else f'exit status {status}'}"
