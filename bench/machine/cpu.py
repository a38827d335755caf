"""The CPU as the system describes it, read from files of the kernel."""

from __future__ import annotations

import contextlib
import os
import platform

INSTRUCTIONS = (
    "amx_bf16",
    "amx_fp16",
    "amx_int8",
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "sve",
    "bf16",
    "asimdhp",
)
"""Instruction sets that decide which dtype is fast on a CPU."""


def cpu_name() -> str:
    """The CPU's model name from the system, without repeated blanks; the architecture where it states none."""
    for line in system_lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine()  # `platform.processor` would start the program `uname`, and wait for it


def visible_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def instructions() -> tuple[str, ...]:
    """Instruction sets among `INSTRUCTIONS` that this CPU has."""
    for line in system_lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return tuple(name for name in INSTRUCTIONS if name in value.split())
    return ()


def cache_bytes() -> float:
    """Size of the largest cache of core 0; 32 MiB where the system does not report it."""
    scale = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [0.0]
    for index in range(8):
        for text in system_lines(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size"):
            with contextlib.suppress(ValueError, KeyError):
                sizes.append(float(text.strip()[:-1]) * scale[text.strip()[-1]])
    return max(sizes) or 32.0 * 2**20


def ram_bytes() -> float:
    """Installed RAM, or the memory limit of the container where that is lower."""
    total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        for line in system_lines(path):
            if line.strip().isdigit():
                total = min(total, float(line))
    return total


def quota_cores() -> float | None:
    """CPU share of the container in cores (cgroup v2, then v1); None: no limit."""
    for line in system_lines("/sys/fs/cgroup/cpu.max"):
        quota, _, period = line.partition(" ")
        if quota.isdigit():
            return int(quota) / int(period)
    limit = system_lines("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period_us = system_lines("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if limit and period_us and int(limit[0]) > 0:
        return int(limit[0]) / int(period_us[0])
    return None


def system_lines(path: str) -> list[str]:
    """Lines of a kernel file; empty if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:  # noqa: PTH123  # paths of the kernel, read once
            return source.readlines()
    except OSError:
        return []
