"""This computer without its GPUs: processors, memory and limits of this process, from /proc, /sys and cgroups.

Every reader takes the root folder to read below (`/` outside tests) and returns None where the system does not report it.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import msgspec

from planner.numbers import as_number

ROOT = Path("/")

ARM_CORES = {
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse-N1",
    "0xd40": "Neoverse-V1",
    "0xd42": "Cortex-A78AE",
    "0xd49": "Neoverse-N2",
    "0xd4f": "Neoverse-V2",
    "0xd83": "Neoverse-V3",
    "0xd8e": "Neoverse-N3",
}
"""Part numbers of /proc/cpuinfo (implementer 0x41) as in Linux arch/arm64/include/asm/cputype.h."""


class Processor(msgspec.Struct, frozen=True):
    """One logical CPU as /proc/cpuinfo describes it."""

    number: int
    entries: dict[str, str]
    """Key -> value, both as in the file."""

    @property
    def core(self) -> tuple[str, str] | None:
        """Package and core id of the physical core; None if the system does not state it."""
        core_id = self.entries.get("core id")
        return None if core_id is None else (self.entries.get("physical id", "0"), core_id)

    @property
    def flags(self) -> frozenset[str]:
        """Instruction-set flags ('avx2', 'asimd')."""
        return frozenset((self.entries.get("flags") or self.entries.get("Features") or "").split())


class BusyTime(msgspec.Struct, frozen=True):
    """Processor time since boot in ticks: in total, and the part spent on work."""

    total_ticks: int
    busy_ticks: int


def read_text(path: Path) -> str | None:
    """Stripped text of a small system file; None if it is missing or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def processors(root: Path = ROOT) -> tuple[Processor, ...]:
    """All logical CPUs of /proc/cpuinfo; empty on systems without it."""
    found = []
    for block in (read_text(root / "proc/cpuinfo") or "").split("\n\n"):
        entries = {}
        for line in block.splitlines():
            key, colon, value = line.partition(":")
            if colon:
                entries[key.strip()] = value.strip()
        if entries.get("processor", "").isdigit():
            found.append(Processor(int(entries["processor"]), entries))
    return tuple(found)


def cpu_name(root: Path = ROOT) -> str:
    """Model name of the processor without repeated blanks; on Arm the core's name; else Python's name of the platform."""
    listed = processors(root)
    if listed:
        entries = listed[0].entries
        name = entries.get("model name") or ARM_CORES.get(entries.get("CPU part", ""), "")
        if name:
            return re.sub(r"\s+", " ", name).strip()
    return _platform_cpu_name()


def _platform_cpu_name() -> str:
    if platform.system() == "Darwin":
        import subprocess

        try:
            brand = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=2, check=True
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            brand = ""
        if brand:
            return brand
    return platform.machine() or "unknown CPU"  # `platform.processor` would start the program `uname`, and wait for it


def usable_processors() -> frozenset[int] | None:
    """Numbers of the logical CPUs that this process may run on; None if the system has no affinity."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return frozenset(os.sched_getaffinity(0))


def memory_info(root: Path = ROOT) -> dict[str, float]:
    """/proc/meminfo in bytes ('MemTotal', 'MemAvailable'); empty on systems without it."""
    sizes = {}
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        match = re.match(r"(\w+):\s+(\d+) kB", line)
        if match:
            sizes[match[1]] = float(match[2]) * 1024
    return sizes


def memory_total_bytes(root: Path = ROOT) -> float | None:
    """Installed memory as the kernel counts it."""
    total = memory_info(root).get("MemTotal")
    if total is None and root == ROOT:
        try:
            total = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            total = None
    return total if total and total > 0 else None


def cgroup_memory_limit_bytes(root: Path = ROOT) -> float | None:
    """Smallest memory limit of the control groups of this process (v2 memory.max, v1 memory.limit_in_bytes)."""
    limits = [as_number(text) for text in _cgroup_files(root, "memory", "memory.max", "memory.limit_in_bytes")]
    known = [limit for limit in limits if limit is not None and limit < 2**60]  # v1 writes "none" as a number near 2^63
    return min(known, default=None)


def cgroup_cpu_quota(root: Path = ROOT) -> float | None:
    """Smallest processor quota of the control groups of this process, in CPUs' worth of time."""
    quotas = []
    for text in _cgroup_files(root, "cpu", "cpu.max", None):
        quota, _, period = text.partition(" ")
        if quota != "max" and (share := _ratio(quota, period or "100000")) is not None:
            quotas.append(share)
    v1_quotas = _cgroup_files(root, "cpu", None, "cpu.cfs_quota_us")
    v1_periods = _cgroup_files(root, "cpu", None, "cpu.cfs_period_us")
    quotas += [share for pair in zip(v1_quotas, v1_periods, strict=False) if (share := _ratio(*pair)) is not None]
    return min(quotas, default=None)


def _ratio(quota: str, period: str) -> float | None:
    above, below = as_number(quota), as_number(period)
    return above / below if above and below and above > 0 and below > 0 else None


def _cgroup_files(root: Path, controller: str, v2_name: str | None, v1_name: str | None) -> list[str]:
    """Texts of one limit file from this process's group up to the root of the hierarchy."""
    texts = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            base, name = root / "sys/fs/cgroup", v2_name
        elif controller in controllers.split(","):
            base, name = root / "sys/fs/cgroup" / controllers, v1_name
            if not base.exists():
                base = root / "sys/fs/cgroup" / controller
        else:
            continue
        if name is None:
            continue
        folder = base / group.lstrip("/")
        for place in (folder, *folder.parents):
            if (text := read_text(place / name)) is not None:
                texts.append(text)
            if place == base:
                break
    return texts


def busy_time(root: Path = ROOT) -> BusyTime | None:
    """Total processor time of all CPUs so far (first line of /proc/stat); None on systems without it.

    Waiting for a disk (iowait) counts as idle; time that a hypervisor took away (steal) counts as busy.
    """
    first = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    if len(first) < 5 or first[0] != "cpu":
        return None
    ticks = [int(value) for value in first[1:9]]  # user nice system idle iowait irq softirq steal; guest is in user
    idle = sum(ticks[3:5])
    return BusyTime(sum(ticks), sum(ticks) - idle)
