"""The CPU of this computer as a device to plan for: the peak rates that its instruction set and clock allow.

The figures are estimates for a machine without a published data sheet, so their confidence is "low"; a benchmark
replaces them. Rates count a fused multiply-add as two operations, per physical core and cycle:

AVX-512  2 pipes x 16 FP32 lanes x 2 = 64 on server cores with both 512-bit pipes; some cores (many Xeon Silver, most
         client parts) have one and reach 32. AMD Zen 4 runs 512-bit work on 256-bit pipes: 32; Zen 5: 64.
AVX2+FMA 2 pipes x 8 x 2 = 32.   AVX  8 adds + 8 multiplies = 16.   SSE2  4 + 4 = 8.
AVX512_BF16, AVX512_FP16  twice the FP32 rate of the same pipes: 128.   AVX512_VNNI  four times: 256.
AMX      one TMUL of 16 rows x 16 columns x 4 bytes; BF16 and FP16 1024 multiply-adds = 2048, INT8 4096.
         (Intel 64 and IA-32 Architectures Optimization Reference Manual; Agner Fog, The microarchitecture of Intel,
         AMD and VIA CPUs; AMD Software Optimization Guide for the AMD Zen 4 Microarchitecture, 57647.)
NEON     2 pipes x 4 x 2 = 16; Neoverse V1 (2 x 256-bit SVE), V2 and V3 (4 x 128-bit) 32. FP16 arithmetic twice that;
         BF16 matrix instructions (BFMMLA) four times. (Arm Neoverse Software Optimization Guides.)
"""

from __future__ import annotations

import datetime as dt
import math
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from planner.hardware.catalogue.gpus import Gpu
from planner.observe import host

ASSUMED_BANDWIDTH_BYTES_PER_S = 51.2e9
"""Two channels of DDR4-3200 (2 x 8 bytes x 3.2 GT/s, JEDEC JESD79-4): the floor of one socket of this decade."""
ASSUMED_CLOCK_HZ = 2.5e9
"""Assumed, with a note, if the system does not report its clock (Arm virtual machines)."""
_CLOCK_ASSUMED = f"clock assumed {ASSUMED_CLOCK_HZ / 1e9:g} GHz: the system does not report it"
WIDE_ARM_CORES = frozenset({"Neoverse-V1", "Neoverse-V2", "Neoverse-V3"})


class Cores(msgspec.Struct, frozen=True):
    """Number of cores that this process can keep busy, and its source."""

    usable: float
    """Physical cores; fractional under a processor quota."""
    note: str


def flop_per_cycle(flags: frozenset[str], name: str = "", vendor: str = "", family: int = 0) -> dict[str, float]:
    """Dtype -> operations per physical core and cycle; a dtype without an instruction is missing.

    `flags` are those of /proc/cpuinfo; `vendor` ('AuthenticAMD') and `family` (25 is Zen 4, 26 Zen 5) distinguish AMD's pipes.
    """
    if "asimd" in flags or "neon" in flags:
        return _arm_flop_per_cycle(flags, name)
    rates: dict[str, float] = {}
    if "avx512f" in flags:
        fp32 = 32.0 if vendor == "AuthenticAMD" and family < 26 else 64.0
        for flag, dtype, factor in (("avx512_bf16", "bf16", 2), ("avx512_fp16", "fp16", 2), ("avx512_vnni", "int8", 4)):
            if flag in flags:
                rates[dtype] = fp32 * factor
        rates["fp32"] = fp32
    elif "avx2" in flags and "fma" in flags:
        rates["fp32"] = 32.0
        if "avx_vnni" in flags:
            rates["int8"] = 128.0
    elif "avx" in flags:
        rates["fp32"] = 16.0
    elif "sse2" in flags:
        rates["fp32"] = 8.0
    matrix_rates = (("amx_bf16", "bf16", 2048.0), ("amx_fp16", "fp16", 2048.0), ("amx_int8", "int8", 4096.0))
    return rates | {dtype: rate for flag, dtype, rate in matrix_rates if flag in flags}


def _arm_flop_per_cycle(flags: frozenset[str], name: str) -> dict[str, float]:
    fp32 = 32.0 if name in WIDE_ARM_CORES or name.startswith("Apple") else 16.0
    rates = {"fp32": fp32}
    if "asimdhp" in flags:
        rates["fp16"] = 2 * fp32
    if "bf16" in flags:
        rates["bf16"] = 4 * fp32
    if "i8mm" in flags:
        rates["int8"] = 8 * fp32
    return rates


def usable_cores(listed: tuple[host.Processor, ...], allowed: frozenset[int] | None, quota: float | None) -> Cores:
    """Physical cores among the logical CPUs of this process, at most its processor quota; hyper-threads of one core count once."""
    mine = [processor for processor in listed if allowed is None or processor.number in allowed]
    cores = {processor.core for processor in mine}
    if not mine:
        usable, note = float(len(allowed) if allowed else os.cpu_count() or 1), "every logical CPU is taken as a core"
    elif None in cores:
        usable, note = float(len(mine)), "the system names no cores: every logical CPU is taken as one"
    else:
        usable, note = float(len(cores)), f"{len(mine)} logical CPUs on {len(cores)} physical cores"
        if len(cores) == len(mine) and any("hypervisor" in processor.flags for processor in mine):
            note += " as the hypervisor reports them (they may be hyper-threads)"
    if quota is not None and quota < usable:
        usable, note = quota, f"{note}; a control group allows {quota:g} of them"
    return Cores(usable, note)


def clock_hz(listed: tuple[host.Processor, ...], root: Path = host.ROOT) -> tuple[float | None, str]:
    """Highest clock that the system reports, and its source."""
    text = host.read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if text is not None and text.isdigit():
        return float(text) * 1e3, "highest single-core clock"
    stated = [float(value) for processor in listed if re.fullmatch(r"[\d.]+", value := processor.entries.get("cpu MHz", ""))]
    if stated and max(stated) > 0:
        return max(stated) * 1e6, "current clock"
    in_name = re.search(r"@ ([\d.]+) ?GHz", listed[0].entries.get("model name", "")) if listed else None
    return (float(in_name[1]) * 1e9, "base clock in its name") if in_name else (None, "")


def last_level_cache_bytes(root: Path = host.ROOT) -> float | None:
    """Size of CPU 0's last-level cache; None if the system does not report it."""
    found: dict[int, float] = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, size = host.read_text(folder / "level"), re.fullmatch(r"(\d+)([KM])", host.read_text(folder / "size") or "")
        if level is not None and level.isdigit() and size:
            found[int(level)] = max(found.get(int(level), 0.0), float(size[1]) * {"K": 2**10, "M": 2**20}[size[2]])
    return found[max(found)] if found else None


def read_cpu(root: Path = host.ROOT, allowed: frozenset[int] | None = None) -> Gpu:
    """Part of this computer's CPU that this process may use, as a device of kind "cpu". Never fails.

    `allowed`: the logical CPUs to count (default: this process's affinity).
    """
    listed = host.processors(root)
    first = listed[0].entries if listed else {}
    name = host.cpu_name(root)
    cores = usable_cores(listed, host.usable_processors() if allowed is None else allowed, host.cgroup_cpu_quota(root))
    clock, clock_source = clock_hz(listed, root)
    family = int(first["cpu family"]) if first.get("cpu family", "").isdigit() else 0
    flags = listed[0].flags if listed else frozenset({"asimd"} if platform.machine().lower() in {"arm64", "aarch64"} else {"sse2"})
    rates = flop_per_cycle(flags, name, first.get("vendor_id", ""), family)
    total, limit = host.memory_total_bytes(root), host.cgroup_memory_limit_bytes(root)
    memory = min((size for size in (total, limit) if size is not None), default=math.nan)
    clock_note = f"{clock_source} {clock / 1e9:.2f} GHz" if clock else _CLOCK_ASSUMED
    limited = limit is not None and memory == limit and limit != total
    return Gpu(
        name=name,
        vendor=first.get("vendor_id", "") or platform.system(),
        architecture=platform.machine() or "unknown",
        kind="cpu",
        memory_bytes=memory,
        usable_memory_bytes=memory,
        memory_type="system memory",
        memory_bandwidth_bytes_per_s=ASSUMED_BANDWIDTH_BYTES_PER_S,
        compute_flop_per_s={dtype: cores.usable * (clock or ASSUMED_CLOCK_HZ) * rate for dtype, rate in sorted(rates.items())},
        sm_count=max(1, math.floor(cores.usable)),
        boost_clock_hz=clock,
        l2_bytes=last_level_cache_bytes(root),
        source="this computer: /proc/cpuinfo, /proc/meminfo, control groups; operations per cycle from the instruction set",
        retrieved=dt.datetime.now(tz=dt.UTC).date(),
        confidence="low",
        note="; ".join((cores.note, clock_note, *_caveats(flags, limited=limited))),
    )


def _caveats(flags: frozenset[str], *, limited: bool) -> Iterator[str]:
    """Evidence for the figures of a processor with these flags; `limited`: a control group allows less memory than there is."""
    yield f"memory bandwidth assumed {ASSUMED_BANDWIDTH_BYTES_PER_S / 1e9:g} GB/s (two channels of DDR4-3200): no file states it"
    if "avx512f" in flags:
        yield "two 512-bit pipes per core assumed"
    if {"amx_bf16", "amx_fp16", "amx_int8"} & flags:
        yield "matrix-unit (AMX) peak, rarely approached by a framework"
    if limited:
        yield "memory limited by a control group"
