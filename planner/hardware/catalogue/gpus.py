"""All known GPUs, read from `presets/gpus/` and the user's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Problem, UserError, nearest_names
from planner.hardware.catalogue.gpu import DTYPES, Gpu, MigProfile, Purchase
from planner.hardware.catalogue.mig import profiles_of, slice_of, split_name
from planner.hardware.catalogue.shares import DIVISORS, share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["DTYPES", "Gpu", "GpuCatalogue", "MigProfile", "Purchase", "load_gpus", "spellings"]


class GpuCatalogue:
    """All known parts by canonical name, alias or NVML name in any letter case; a profile or 1/2, 1/4, 1/8 after it names a slice or share."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.all: tuple[Gpu, ...] = tuple(gpus)
        """Every part, in the order of the files."""
        self._by_spelling: dict[str, Gpu] = {}
        for gpu in self.all:
            for spelling in spellings(gpu):
                self._by_spelling.setdefault(spelling.casefold(), gpu)

    def find(self, name: str) -> Gpu:
        """The part called exactly `name`; raises `UserError` with the nearest names."""
        found = self._by_spelling.get(name.strip().casefold()) or self._slice(name)
        if found is None:
            raise UserError(Problem("", "gpu", f"{name!r} is not a known GPU.", self.nearest(name)))
        return found

    def _slice(self, name: str) -> Gpu | None:
        """The slice or share called `name` ('H100 PCIe 3g.40gb', 'L40S 1/4'); None without such a slice or GPU."""
        parts = split_name(name)
        whole = self._by_spelling.get(parts[0].strip().casefold()) if parts else None
        if parts is None or whole is None:
            return None
        cut = (slice_of(whole, profile) for profile in profiles_of(whole) if profile.name == parts[1])
        return next(cut, None) or next((share_of(whole, divisor) for divisor in DIVISORS if parts[1] == f"1/{divisor}"), None)

    def nearest(self, name: str, most: int = 4) -> tuple[str, ...]:
        """Parts whose name holds `name` ('A100' is four parts), or else the spellings closest to it."""
        folded = name.strip().casefold()
        holding = [gpu.name for gpu in self.all if len(folded) > 1 and folded in gpu.name.casefold()]
        return tuple(holding[:most]) or nearest_names(name, self.names(), most)

    def find_nvml(self, nvml_name: str) -> Gpu | None:
        """The part whose driver name is exactly `nvml_name`; None when no part states it."""
        found = self._by_spelling.get(nvml_name.casefold())
        return found if found is not None and nvml_name in found.nvml_names else None

    def names(self) -> tuple[str, ...]:
        """Every accepted spelling."""
        return tuple(spelling for gpu in self.all for spelling in spellings(gpu))


def spellings(gpu: Gpu) -> tuple[str, ...]:
    """The canonical name first, then aliases, then driver names."""
    return (gpu.name, *gpu.aliases, *gpu.nvml_names)


def load_gpus(folder: Path, own: Path | None = None) -> GpuCatalogue:
    """Every part of `folder/*.toml`; the optional folder `own` replaces parts by name. Raises `UserError` with all faults."""
    from planner.hardware.catalogue.entries import catalogue_files, read_catalogue
    from planner.reading import toml_files

    owners: dict[str, tuple[Path, Gpu]] = {}

    def faults(gpus: Sequence[Gpu], path: Path) -> Iterator[Problem]:
        for gpu in gpus:
            yield from _faults_of_figures(gpu, path)
            yield from _claim_spellings(gpu, path, owners)

    shipped = read_catalogue(catalogue_files(folder), "gpu", Gpu, faults)
    files = toml_files(own) if own is not None else []
    if not files:
        return GpuCatalogue(shipped)
    theirs, owners = owners, {}
    added = read_catalogue(files, "gpu", Gpu, faults)
    names = {gpu.name.casefold() for gpu in added}
    kept = [gpu for gpu in shipped if gpu.name.casefold() not in names]
    taken = {spelling: theirs[spelling.casefold()][1] for gpu in kept for spelling in spellings(gpu)}
    problems = [
        Problem(str(owners[spelling.casefold()][0]), f"gpu[{gpu.name}]", f"{spelling!r} already names {taken[spelling].name!r}.")
        for gpu in added
        for spelling in spellings(gpu)
        if spelling in taken
    ]
    if problems:
        raise UserError(problems)
    return GpuCatalogue([*kept, *added])


def _faults_of_figures(gpu: Gpu, path: Path) -> Iterator[Problem]:
    for name in gpu.compute_flop_per_s:
        if name not in DTYPES:
            near = nearest_names(name, DTYPES)
            yield Problem(
                str(path), f"gpu[{gpu.name}].compute_flop_per_s.{name}", f"unknown dtype; known: {', '.join(DTYPES)}.", near
            )
    for name in gpu.figure_sources:
        if name not in Gpu.__struct_fields__:
            near = nearest_names(name, Gpu.__struct_fields__)
            yield Problem(str(path), f"gpu[{gpu.name}].figure_sources.{name}", "is not a figure of a GPU.", near)


def _claim_spellings(gpu: Gpu, path: Path, owners: dict[str, tuple[Path, Gpu]]) -> Iterator[Problem]:
    """Problems for spellings that another part has already; the rest become this part's."""
    for spelling in {name.casefold(): name for name in spellings(gpu)}.values():
        owner_path, owner = owners.setdefault(spelling.casefold(), (path, gpu))
        if owner is not gpu:
            yield Problem(str(path), f"gpu[{gpu.name}]", f"{spelling!r} already names {owner.name!r} in {owner_path}.")
