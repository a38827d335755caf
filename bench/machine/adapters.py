"""Network between machines: separate adapters for GPUs or one shared port, read from files of the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ACTIVE = "ACTIVE"
GPUS_AN_ADAPTER = 2
"""Maximum number of GPUs that share an adapter that counts as their own (AWS p4d: 8 GPUs, 4 adapters)."""


def fabric_between(backend: str, local_ranks: int, environment: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    """Parameters of a point measured among `local_ranks` GPUs of this machine: `fabric`, and the network adapters found.

    The fabric is 'infiniband' where NCCL has an RDMA adapter (InfiniBand, RoCE, EFA) for every two GPUs, else 'ethernet'.
    """
    rates = [] if environment.get("NCCL_IB_DISABLE") == "1" or backend != "nccl" else _rdma_bits_per_s(root)
    own = bool(rates) and local_ranks <= GPUS_AN_ADAPTER * len(rates)
    adapters = {"adapters": len(rates), "adapter_bits_per_s": max(rates)} if rates else {}
    return {"fabric": "infiniband" if own else "ethernet", **adapters}


def here(backend: str) -> dict[str, Any]:
    """`fabric_between` for this machine, under torchrun."""
    return fabric_between(backend, int(os.environ.get("LOCAL_WORLD_SIZE", "1")), os.environ)


def _rdma_bits_per_s(root: Path) -> list[float]:
    """Bits per second of each active RDMA port that a program may use here; 0 if the kernel does not report it."""
    if not any((root / "dev" / "infiniband").glob("uverbs*")):
        return []
    found = []
    for port in sorted((root / "sys" / "class" / "infiniband").glob("*/ports/*")):
        if ACTIVE in _words(port / "state"):
            rate = re.match(r"([\d.]+) Gb/sec", _words(port / "rate"))
            found.append(float(rate[1]) * 1e9 if rate else 0.0)
    return found


def _words(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
