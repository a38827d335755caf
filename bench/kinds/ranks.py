"""One rank of a collective: a process for each GPU, or one of several on a CPU, with the variables that torchrun sets.

On one machine the worker starts the ranks itself, one set for each operation, and rank 0 prints the times. Over several nodes torchrun
starts them all: rank 0 is then the worker, and sends orders to the others, one at a time, through the store in which they met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
WARM, TIMED = 5, 20
TIMEOUT_S = 60
QUEUED_BYTES, MOST_QUEUED = 2**24, 20
"""Bytes and calls that are queued between two events."""
GRAPHED_BYTES = 2**20
"""Largest message whose calls are replayed from a graph: links carry it faster than the host launches the next call."""
JOIN_S = 120.0
"""Seconds that ranks may take to load torch and to meet, and that an order may take to arrive."""
FEWER_ABOVE_S = 0.05
"""Duration of a call above which it is repeated only a quarter as often."""


def main(arguments: Sequence[str]) -> int:
    """Measure one operation over several sizes, or follow the orders of rank 0; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench ranks", description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--op", choices=OPERATIONS)
    wanted.add_argument("--follow", action="store_true", help="measure what rank 0 of these ranks orders")
    parser.add_argument("--sizes", type=int, nargs="+", default=[], help="bytes of the whole buffer")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cuda")
    parser.add_argument("--store", default="", help="file that the ranks of one machine meet in; else as torchrun says")
    options = parser.parse_args(arguments)
    out = os.dup(1)
    os.dup2(2, 1)
    import torch
    import torch.distributed as dist

    on_gpu = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    if options.follow:
        Group(on_gpu=on_gpu).follow()
        return 0
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{os.path.abspath(options.store)}" if options.store else "env://",  # noqa: PTH100  # pathlib costs start-up
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    place = "cuda" if on_gpu else "cpu"
    series = [[size, _seconds(torch, dist, options.op, size, place)] for size in options.sizes]
    if dist.get_rank() == 0:
        measured = {"op": options.op, "ranks": dist.get_world_size(), "backend": dist.get_backend(), "series": series}
        os.write(out, json.dumps(measured).encode() + b"\n")
    dist.destroy_process_group()
    return 0


@dataclass(frozen=True, slots=True)
class World:
    """Ranks that torchrun started, including this process."""

    rank: int
    ranks: int
    nodes: int

    @classmethod
    def around(cls, environment: Mapping[str, str]) -> World | None:
        """Ranks that torchrun's variables describe; None outside of torchrun, or where it started a single rank."""
        try:
            rank, ranks = int(environment["RANK"]), int(environment["WORLD_SIZE"])
            local = int(environment.get("LOCAL_WORLD_SIZE", ranks))
            nodes = int(environment.get("GROUP_WORLD_SIZE", max(1, ranks // max(1, local))))
        except (KeyError, ValueError):
            return None
        return cls(rank, ranks, nodes) if ranks > 1 else None


class Group:
    """This process among the ranks that torchrun started."""

    def __init__(self, *, on_gpu: bool) -> None:
        """Join the other ranks. Raises errors of torch when they do not join."""
        import torch
        import torch.distributed as dist

        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        patience = timedelta(seconds=JOIN_S)
        store, rank, ranks = next(dist.rendezvous("env://", timeout=patience))
        store.set_timeout(patience)
        dist.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=ranks, timeout=patience)
        self._torch, self._dist = torch, dist
        self._orders = dist.PrefixStore("gpu-planner", store)
        self._given = 0
        self._place = "cuda" if on_gpu else "cpu"
        self.lost = ""
        """Reason why the ranks can no longer measure; empty while they can."""

    def measure(self, op: str, sizes: Sequence[int]) -> dict[str, Any]:
        """Run `op` on all ranks and return its times; on rank 0. Raises errors of torch when a rank does not answer."""
        self._order([op, *map(str, sizes)])
        try:
            series = self._series(op, sizes)
        except RuntimeError as broken:
            self.lost = str(broken).splitlines()[0][:200]
            raise
        return {"op": op, "ranks": self._dist.get_world_size(), "backend": self._dist.get_backend(), "series": series}

    def follow(self) -> None:
        """Follow the orders of rank 0 until it ends this rank."""
        while True:
            order = self._orders.get(f"{self._given}").decode().split()
            self._given += 1
            if not order:
                break
            self._series(order[0], [int(size) for size in order[1:]])
        self._dist.destroy_process_group()

    def end(self) -> None:
        """End the other ranks, and leave the group; on rank 0."""
        if not self.lost:
            self._order([])
            self._dist.destroy_process_group()

    def _order(self, words: Sequence[str]) -> None:
        self._orders.set(f"{self._given}", " ".join(words))
        self._given += 1

    def _series(self, op: str, sizes: Sequence[int]) -> list[list[Any]]:
        return [[size, _seconds(self._torch, self._dist, op, size, self._place)] for size in sizes]


def _seconds(torch: Any, dist: Any, op: str, size: int, place: str) -> list[float]:
    """Seconds of single calls on the slowest rank, one per sample."""
    call = _call(torch, dist, op, size // 4, place)
    for _ in range(WARM):
        call()
    queue, calls = _queue(torch, call, size) if place == "cuda" else (call, 1)
    taken: list[float] = []
    most = TIMED
    while len(taken) < most:
        dist.barrier()
        taken.append(_queued_s(torch, queue) / calls if place == "cuda" else _waited_s(call))
        slowest = torch.tensor(taken[-1:], dtype=torch.float64, device=place)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        taken[-1] = float(slowest.item())
        if len(taken) == WARM and min(taken) > FEWER_ABOVE_S:
            most = WARM
    return taken


def _waited_s(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _queue(torch: Any, call: Callable[[], Any], size: int) -> tuple[Callable[[], Any], int]:
    """(function that runs several calls back to back, their number): a graph for small messages, where torch can record one."""
    calls = max(1, min(MOST_QUEUED, QUEUED_BYTES // size))

    def several() -> None:
        for _ in range(calls):
            call()

    if size > GRAPHED_BYTES:
        return several, calls
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's watchdog queries events meanwhile
            several()
    except RuntimeError:
        torch.cuda.synchronize()
        return several, calls
    return graph.replay, calls


def _queued_s(torch: Any, queue: Callable[[], Any]) -> float:
    """Device seconds of `queue`, run twice so that the host is ahead and its own time, which a model hides, is excluded."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    queue()
    start.record()
    queue()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _call(torch: Any, dist: Any, op: str, count: int, place: str) -> Callable[[], Any]:
    """A call over `count` elements in total: the buffer of an all-reduce, the gathered one of a gather, else the one that is sent."""
    ranks = dist.get_world_size()
    part = max(1, count // ranks)
    whole = torch.randn(part * ranks, device=place)
    if op == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if op == "all_gather":
        own = torch.randn(part, device=place)
        return lambda: dist.all_gather_into_tensor(whole, own)
    if op == "reduce_scatter":
        own = torch.empty(part, device=place)
        return lambda: dist.reduce_scatter_tensor(own, whole)
    target = torch.empty_like(whole)
    return lambda: dist.all_to_all_single(target, whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
