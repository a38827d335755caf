"""The stand-in for NVIDIA's management library: built with the C compiler, told what to say by a control file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from repository import ROOT

SOURCE = Path(__file__).with_name("nvml_stub.c")
COMPILER = shutil.which("cc")

H100: dict[str, object] = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "capability": "9.0",
    "total": 85520809984,
    "reserved": 626327552,
    "used": 21474836480,
    "util_gpu": 97,
    "util_memory": 41,
    "power_usage": 611000,
    "power_instant": 633250,
    "power_average": 611500,
    "power_limit": 700000,
    "management_limit": 700000,
    "energy": 123456789012,
    "sm_clock": 1755,
    "memory_clock": 2619,
    "max_sm_clock": 1980,
    "event_reasons": 0x24,
    "temperature": 61,
    "memory_temperature": 84,
    "pcie_gen": 4,
    "pcie_width": 8,
    "max_pcie_gen": 5,
    "max_pcie_width": 16,
    "persistence": 1,
    "throttle_power": 5_000_000_000,
    "throttle_sw_thermal": 250_000_000,
    "throttle_hw_thermal": 0,
    "throttle_brake": 0,
    "mig": 0,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "ecc_corrected_ever": 12,
    "ecc_uncorrected_ever": 0,
    "remapped": "1 0 0 0",
    "gpm": 1,
    "gpm.1": 99.5,
    "gpm.2": 92.5,
    "gpm.3": 24,
    "gpm.4": 3.5,
    "gpm.5": 61.25,
    "gpm.10": 33,
    "gpm.11": 0,
    "gpm.12": 7.5,
    "gpm.13": 1.25,
    "gpm.20": 120,
    "gpm.21": 640.5,
    "gpm.60": 10,
    "gpm.61": 20,
}
"""What an H100 under load might say, in NVML's own units."""

A100: dict[str, object] = {
    "name": "NVIDIA A100-SXM4-80GB",
    "uuid": "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "capability": "8.0",
    "total": 85899345920,
    "reserved": 500000000,
    "used": 0,
    "util_gpu": 0,
    "util_memory": 0,
    "power_usage": 58000,
    "power_limit": 400000,
    "management_limit": 400000,
    "event_reasons": 1,
    "mig": 0,
    "gpm": 0,
}


def build(folder: Path, *defines: str) -> Path:
    """Compile the library into `folder` under the name the dynamic linker looks for; returns `folder`."""
    assert COMPILER is not None
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wl,-soname,libnvidia-ml.so.1",
        *(f"-D{name}" for name in defines),
    ]
    subprocess.run([COMPILER, *flags, "-o", str(library), str(SOURCE)], check=True)
    return folder


class ControlFile:
    """What the library says; may be rewritten while a process uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, object] = {"driver": "570.86.15", "cuda": 12080, "devices": 0}

    def devices(self, *devices: Mapping[str, object]) -> None:
        """Have these GPUs, and say so from the next call on."""
        self.lines["devices"] = len(devices)
        for index, device in enumerate(devices):
            self.lines |= {f"{index}.{key}": value for key, value in device.items()}
        self.write()

    def set(self, **changes: object) -> None:
        """Change lines: `set(**{"0.sm_clock": 345})`; None leaves one out."""
        self.lines |= changes
        self.write()

    def write(self) -> None:
        """Put the file in place whole, so that no reader sees half of it."""
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{key} = {value}\n" for key, value in self.lines.items() if value is not None))
        new.replace(self.path)


def environment(library: Path, control: ControlFile, **more: str) -> dict[str, str]:
    """The environment of a process whose dynamic linker finds the stand-in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return kept | {"LD_LIBRARY_PATH": str(library), "NVML_STUB": str(control.path)} | more


def run_python(code: str, library: Path, control: ControlFile, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter at the repository's root, warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment(library, control, **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def start_python(code: str, library: Path, control: ControlFile) -> subprocess.Popen[str]:
    """The same, left running with pipes to talk through."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env=environment(library, control),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
