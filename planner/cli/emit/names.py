"""Names of a part in other tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from planner.errors import Problem, UserError
from planner.hardware.prices.catalogue import PriceCatalogue
from planner.paths import read_shipped


@cache
def sky_names() -> dict[str, str]:
    """Canonical name -> accelerator of SkyPilot's catalogues."""
    return read_shipped(PriceCatalogue, "catalogues", "skypilot.toml").asked


def accelerators(gpus: Sequence[str]) -> tuple[str, ...]:
    """SkyPilot's names, each once; raises `UserError` with every GPU that has none."""
    known = sky_names()
    missing = [name for name in gpus if name not in known]
    if missing:
        have = ", ".join(known)
        raise UserError([Problem("--gpu", "", f"SkyPilot has no name for {name}; it has one for {have}.") for name in missing])
    return tuple(dict.fromkeys(known[name] for name in gpus))


def site_name(name: str) -> str:
    """A guess at a cluster's name for it: 'H100 SXM5 80GB' -> 'h100'."""
    first = name.split(maxsplit=1)[0].lower()
    return first if first not in {"rtx", "quadro"} else "".join(name.lower().split()[:2])
