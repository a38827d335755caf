"""The measured device and its conditions. Only listed facts are read, so that no host, user or path name gets into a result."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.machine import cpu
from bench.protocol import METHOD, hidden
from bench.timing import LOWER_QUARTILE, MEDIAN

VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)
"""Environment variables that change the figures; no others are read."""


class NoDeviceError(Exception):
    """Failure to use the requested device: it does not exist, or torch cannot use it."""


@dataclass(frozen=True, slots=True)
class Device:
    """The measured device."""

    torch_name: str
    """'cpu' or 'cuda:0'."""
    name: str
    """Model name."""
    memory_bytes: float
    """Total memory; for a CPU the RAM of the machine, or the share of the container."""
    cache_bytes: float
    """Size of the last-level cache."""
    threads: int
    """CPU threads torch uses (1 on a GPU: the host thread)."""
    instructions: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None

    @property
    def is_cpu(self) -> bool:
        """True if this is the CPU."""
        return self.torch_name == "cpu"

    @property
    def quantile(self) -> float:
        """Share of the calls that are faster than the figure of a point."""
        return LOWER_QUARTILE if self.is_cpu else MEDIAN


INFINITY_CACHE_BYTES = 256 * 2**20
"""Cache between the L2 and the memory of MI300 and MI350 (AMD's CDNA 3 and CDNA 4 white papers); torch reports only the L2."""


def amd_architecture(torch_name: str) -> str:
    """Architecture of an AMD GPU, such as 'gfx942'; empty for others and for a CPU."""
    if torch_name == "cpu" or getattr(torch.version, "hip", None) is None:
        return ""
    return str(getattr(torch.cuda.get_device_properties(torch_name), "gcnArchName", ""))


def last_cache_bytes(torch_name: str) -> float:
    """Size of the last cache before a GPU's memory; 0 if it is not known."""
    l2_bytes = float(getattr(torch.cuda.get_device_properties(torch_name), "L2_cache_size", 0) or 0)
    return max(l2_bytes, float(INFINITY_CACHE_BYTES)) if amd_architecture(torch_name).startswith(("gfx94", "gfx95")) else l2_bytes


def find_device(wanted: str) -> Device:
    """Device called 'cpu', 'cuda:N' or 'auto' (the first GPU, else the CPU). Raises `NoDeviceError`."""
    if wanted == "auto":
        wanted = "cuda:0" if torch.cuda.is_available() else "cpu"
    if wanted == "cpu":
        return Device("cpu", cpu.cpu_name(), cpu.ram_bytes(), cpu.cache_bytes(), torch.get_num_threads(), cpu.instructions())
    kind, _, index = wanted.partition(":")
    if kind != "cuda" or not (index or "0").isdigit():
        raise NoDeviceError(f"'{wanted}' is not a device: use 'cpu', 'cuda:N' or 'auto'")
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
        raise NoDeviceError(f"torch {torch.__version__} {'finds no GPU it can use' if built else 'is built without CUDA'}")
    if int(index or 0) >= torch.cuda.device_count():
        raise NoDeviceError(f"there is no {wanted}: torch sees {torch.cuda.device_count()} GPU(s)")
    name = f"cuda:{int(index or 0)}"
    torch.cuda.set_device(name)  # events and graphs belong to the current device
    facts = torch.cuda.get_device_properties(name)
    capability = (facts.major, facts.minor)
    return Device(name, facts.name, float(facts.total_memory), last_cache_bytes(name), 1, capability=capability)


def within_quota(device: Device) -> Device:
    """The CPU with torch limited to the cores of its container: more threads would only take turns."""
    quota = cpu.quota_cores()
    threads = min(device.threads, max(1, round(quota))) if quota else device.threads
    if threads == device.threads:
        return device
    torch.set_num_threads(threads)
    return replace(device, threads=threads)


def machine_parts(device: Device) -> dict[str, Any]:
    """Parts of `protocol.machine_key`."""
    if device.is_cpu:
        return {"device": device.name, "cores": cpu.visible_cores(), "arch": platform.machine()}
    uuid = uuid_of(device)
    return {"device": device.name, "uuid": hidden(uuid) if uuid is not None else None}


def uuid_of(device: Device) -> str | None:
    """UUID of a GPU, in lower case without 'gpu-'; None for a CPU, or where torch does not report it."""
    if device.is_cpu:
        return None
    uuid = getattr(torch.cuda.get_device_properties(device.torch_name), "uuid", None)
    return str(uuid).lower().removeprefix("gpu-") if uuid is not None else None


def local_ranks(device: Device) -> int:
    """Number of GPUs that torch sees; on a CPU two processes if it has two cores, else one."""
    return min(2, cpu.visible_cores()) if device.is_cpu else torch.cuda.device_count()


def software_parts(device: Device) -> dict[str, Any]:
    """Parts of the second half of `protocol.fingerprint`: versions to the minor one, threads, method."""
    return {
        "method": METHOD,
        "torch": _minor(torch.__version__),
        "cuda": _minor(torch.version.cuda or "") or None,
        "threads": device.threads if device.is_cpu else None,
        **({"hip": _minor(torch.version.hip)} if getattr(torch.version, "hip", None) else {}),
    }


def describe(device: Device) -> dict[str, Any]:
    """Further facts about the machine and its software."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "os": platform.system(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "cpu": cpu.cpu_name(),
        "cores_visible": cpu.visible_cores(),
        "cgroup_quota_cores": cpu.quota_cores(),
        "threads": torch.get_num_threads(),
        "ram_bytes": cpu.ram_bytes(),
        "load_average_1_min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "container": any(os.path.exists(mark) for mark in ("/.dockerenv", "/run/.containerenv")),  # noqa: PTH110  # two marks, no path work
        "instructions": list(device.instructions),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "memory_bytes": device.memory_bytes,
        "cache_bytes": device.cache_bytes,
    }
    return found if device.is_cpu else {**found, **_describe_gpu(device)}


def _describe_gpu(device: Device) -> dict[str, Any]:
    facts = torch.cuda.get_device_properties(device.torch_name)
    settings = torch.backends.cuda.matmul
    flags = (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_reduced_precision_reduction",
        "allow_fp16_accumulation",
        "fp32_precision",
    )
    free_bytes, total_bytes = torch.cuda.mem_get_info(device.torch_name)
    return {
        "memory_in_use_bytes": total_bytes - free_bytes,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version(),
        "driver": _nvidia_driver(),
        "capability": list(device.capability or ()),
        "sm_count": facts.multi_processor_count,
        "gpus_visible": torch.cuda.device_count(),
        "flags": {name: getattr(settings, name, None) for name in flags},
    }


def _nvidia_driver() -> str | None:
    for line in cpu.system_lines("/proc/driver/nvidia/version"):
        if "Kernel Module" in line:
            return next((word for word in line.split() if word[0].isdigit() and "." in word), None)
    return None


def _minor(version: str) -> str:
    return ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])
