"""Names of a part in other tools."""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import Problem, UserError

SKY_NAMES = {
    "A10": "A10",
    "A10G": "A10G",
    "A100 40GB PCIe": "A100",
    "A100 40GB SXM": "A100",
    "A100 80GB PCIe": "A100-80GB",
    "A100 80GB SXM": "A100-80GB-SXM",
    "A16 (per GPU)": "A16",
    "A30": "A30",
    "A40": "A40",
    "B200 SXM": "B200",
    "B300 SXM": "B300",
    "GB200": "GB200",
    "GB300": "GB300",
    "GH200 96GB": "GH200",
    "H100 NVL": "H100-NVL",
    "H100 PCIe": "H100",
    "H100 SXM5 80GB": "H100",
    "H200 NVL": "H200-NVL",
    "H200 SXM": "H200",
    "L4": "L4",
    "L40": "L40",
    "L40S": "L40S",
    "MI300X": "MI300X",
    "P100 PCIe 16GB": "P100",
    "P100 SXM2 16GB": "P100",
    "P40": "P40",
    "RTX 3080 10GB": "RTX3080",
    "RTX 3090": "RTX3090",
    "RTX 4080": "RTX4080",
    "RTX 4090": "RTX4090",
    "RTX 5080": "RTX5080",
    "RTX 5090": "RTX5090",
    "RTX 6000 Ada": "RTX6000-Ada",
    "RTX A4000": "A4000",
    "RTX A5000": "A5000",
    "RTX A6000": "A6000",
    "RTX PRO 6000 Blackwell Server": "RTXPRO6000",
    "T4": "T4",
    "V100 PCIe 16GB": "V100",
    "V100 PCIe 32GB": "V100-32GB",
    "V100 SXM2 16GB": "V100",
    "V100 SXM2 32GB": "V100-32GB",
}
"""Canonical name -> accelerator of SkyPilot's catalogues (`sky gpus list --all`, docs.skypilot.co/en/stable/compute/gpus.html, and
the names its release 0.14 knows). One of these may cover several forms of a part; the driver of the rented machine distinguishes them."""


def accelerators(gpus: Sequence[str]) -> tuple[str, ...]:
    """SkyPilot's names, each once; raises `UserError` with every GPU that has none."""
    missing = [name for name in gpus if name not in SKY_NAMES]
    if missing:
        have = ", ".join(SKY_NAMES)
        raise UserError([Problem("--gpu", "", f"SkyPilot has no name for {name}; it has one for {have}.") for name in missing])
    return tuple(dict.fromkeys(SKY_NAMES[name] for name in gpus))


def site_name(name: str) -> str:
    """A guess at a cluster's name for it: 'H100 SXM5 80GB' -> 'h100'."""
    first = name.split(maxsplit=1)[0].lower()
    return first if first not in {"rtx", "quadro"} else "".join(name.lower().split()[:2])
