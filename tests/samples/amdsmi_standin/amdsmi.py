"""A stand-in for AMD's `amdsmi`, with what its documentation says of an MI300X; `AMDSMI_STANDIN` names what does not answer."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

AmdSmiMemoryType = SimpleNamespace(VRAM=0)
BROKEN = os.environ.get("AMDSMI_STANDIN", "").split(",")


class AmdSmiException(Exception):  # noqa: N818  # the library's own name
    """What every call raises that is refused."""


def _asked(function: str) -> None:
    if function in BROKEN:
        raise AmdSmiException(f"{function}: AMDSMI_STATUS_NOT_SUPPORTED")


def amdsmi_init(flag: int = 2) -> None:
    del flag
    _asked("init")


def amdsmi_shut_down() -> None:
    pass


def amdsmi_get_processor_handles() -> list[int]:
    return [7, 8]


def amdsmi_get_gpu_device_uuid(handle: int) -> str:
    return f"0bff74a1-0000-1000-80{handle:02}-000000000000"


def amdsmi_get_gpu_device_bdf(handle: int) -> str:
    return f"0000:{handle:02}:00.0"


def amdsmi_get_gpu_asic_info(handle: int) -> dict[str, Any]:
    return {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "num_of_compute_units": 304, "oam_id": handle}


def amdsmi_get_gpu_driver_info(handle: int) -> dict[str, str]:
    del handle
    return {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "2015/01/01 00:00"}


def amdsmi_get_gpu_memory_total(handle: int, kind: int) -> int:
    del handle, kind
    return 206_141_652_992


def amdsmi_get_gpu_memory_usage(handle: int, kind: int) -> int:
    del handle, kind
    return 20_000_000_000


def amdsmi_get_energy_count(handle: int) -> dict[str, Any]:
    del handle
    _asked("energy")
    return {"energy_accumulator": 7_000_000_000_000, "counter_resolution": 15.259, "timestamp": 1}


def amdsmi_get_gpu_metrics_info(handle: int) -> dict[str, Any]:
    del handle
    _asked("metrics")
    return {
        "temperature_edge": "N/A",
        "temperature_hotspot": 61,
        "temperature_mem": 50,
        "average_gfx_activity": 97,
        "average_umc_activity": 41,
        "current_socket_power": 702,
        "average_socket_power": "N/A",
        "current_gfxclk": 0xFFFF,
        "current_uclk": 1300,
    }
