"""Benchmarks under torchrun: one of the started programs measures and stores the results, the others are its ranks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from bench import protocol
from planner.observe.benchmark.worker import worker_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.observe.benchmark.interpreter import Interpreter

SUITE = "collectives"


def rank_of(environment: Mapping[str, str]) -> int | None:
    """This program's rank among those that torchrun started; None outside torchrun."""
    rank, ranks = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and ranks.isdigit() and int(ranks) > 1 else None


async def follow(interpreter: Interpreter, device: str) -> int:
    """Be a rank that does what rank 0 orders, to its end; the exit status."""
    kind = device.partition(":")[0]
    process = await asyncio.create_subprocess_exec(
        *(str(interpreter.path), "-u", str(Path(protocol.__file__).parent), "ranks", "--follow", "--device", kind),
        stdin=asyncio.subprocess.DEVNULL,
        env=worker_environment(device),
    )
    return await process.wait()
