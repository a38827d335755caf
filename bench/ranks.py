"""One rank of a collective: started once per GPU (or CPU process) with the variables torchrun sets; rank 0 prints what it took.

`torchrun --nnodes 2 --nproc-per-node 8 … bench ranks --op all_reduce` measures across nodes the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
WARM, TIMED = 5, 20
TIMEOUT_S = 60
FEWER_ABOVE_S = 0.05
"""A call this long is repeated a quarter as often."""


def main(arguments: Sequence[str]) -> int:
    """Measure one operation over several sizes; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench ranks", description=__doc__)
    parser.add_argument("--op", choices=OPERATIONS, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="bytes of the whole buffer")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    options = parser.parse_args(arguments)
    out = os.dup(1)
    os.dup2(2, 1)
    import torch
    import torch.distributed as dist

    on_gpu = options.device == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(seconds=TIMEOUT_S))
    place = "cuda" if on_gpu else "cpu"
    series = [[size, _seconds(torch, dist, options.op, size, place)] for size in options.sizes]
    if dist.get_rank() == 0:
        told = {"op": options.op, "ranks": dist.get_world_size(), "backend": dist.get_backend(), "series": series}
        os.write(out, json.dumps(told).encode() + b"\n")
    dist.destroy_process_group()
    return 0


def _seconds(torch: Any, dist: Any, op: str, size: int, place: str) -> list[float]:
    """Seconds of single calls on the slowest rank, one a sample."""
    call = _call(torch, dist, op, size // 4, place)
    for _ in range(WARM):
        call()
    taken: list[float] = []
    most = TIMED
    while len(taken) < most:
        dist.barrier()
        begin = time.perf_counter()
        call()
        if place == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
        slowest = torch.tensor(taken[-1:], dtype=torch.float64, device=place)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        taken[-1] = float(slowest.item())
        if len(taken) == WARM and min(taken) > FEWER_ABOVE_S:
            most = WARM
    return taken


def _call(torch: Any, dist: Any, op: str, count: int, place: str) -> Callable[[], Any]:
    """`count` elements altogether: the buffer of an all-reduce, the gathered one of a gather, the sent one of the others."""
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
