"""All known GPUs, read from `presets/gpus/` and the user's own files."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from planner.errors import Problem, UserError, nearest_names
from planner.hardware.catalogue.gpu import DTYPES, Gpu, MigProfile, Purchase
from planner.hardware.catalogue.mig import DIVISORS, profiles_of, share_of, slice_of, split_name
from planner.hardware.catalogue.spelling import Spelled, agrees, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["DTYPES", "Gpu", "GpuCatalogue", "MigProfile", "Purchase", "load_gpus", "spellings"]

COUNTED = re.compile(r"(?P<number>\d+) ?[x×*] ?(?P<part>\S.*)|(?P<part_first>.*\S) ?[x×*:] ?(?P<number_last>\d+)", re.IGNORECASE)
"""A GPU with its number, in the spellings of schedulers and people: 8xH100, 8 × H100, H100:8, H100 x8."""
ONLY_NAMED = "only_named"
"""Folder of the GPUs with `Gpu.only_named`."""


class GpuCatalogue:
    """All known GPUs by canonical name, alias or NVML name in any spelling; a profile or 1/2, 1/4, 1/8 after it names a slice or share.

    Letter case, punctuation, the vendor's name and the number of an SXM socket do not matter, nor do correct additional words of a name.
    """

    def __init__(self, gpus: Iterable[Gpu], only_named: Callable[[], Iterable[Gpu]] = tuple) -> None:
        """Catalogue of `gpus`; `only_named` reads the GPUs that no ranking contains, when a name is not among the others."""
        self._ranked = tuple(gpus)
        self._read_only_named = only_named
        self._by_spelling = _by_spelling(self._ranked)

    @cached_property
    def all(self) -> tuple[Gpu, ...]:
        """Every part, in the order of the files."""
        return (*self._ranked, *self._only_named)

    def __iter__(self) -> Iterator[Gpu]:
        """Every GPU; those that no ranking contains are read last."""
        yield from self._ranked
        yield from self._only_named

    @cached_property
    def _only_named(self) -> tuple[Gpu, ...]:
        found = tuple(self._read_only_named())
        self._by_spelling = _by_spelling((*self._ranked, *found))
        return found

    def known(self, name: str) -> Gpu | None:
        """The GPU called `name`, or the most common of several with that name; None if there is none."""
        return self._whole(name) or self._slice(name)

    def find(self, name: str) -> Gpu:
        """The GPU called `name`, as in `known`; raises `UserError` with the nearest names where there is none, which takes a millisecond or more."""
        found = self.known(name)
        if found is None:
            if (counted := _counted(name)) and self.known(counted[1]):
                number, part = counted
                raise UserError(
                    Problem("", "gpu", f"{name!r} is a number and a GPU: give {part!r}, and {number} as the number of GPUs.")
                )
            near = self.nearest(name)
            how = (
                ""
                if near
                else " `gpu-planner gpus` lists those of the catalogue, which are GPUs and Gaudi; files in the gpus folder of the configuration add others."
            )
            raise UserError(Problem("", "gpu", f"{name!r} is not a known GPU.{how}", near))
        return found

    def _whole(self, name: str) -> Gpu | None:
        """The GPU called `name`: in one of its spellings, else in another form that matches a single GPU."""
        if (exactly := self._exactly(name.strip().casefold())) is not None:
            return exactly
        given = spelled(name)
        if (alike := self._by_parts.get(given)) is not None:
            return alike
        agreeing = [gpu for gpu in self.all if agrees(given, gpu)] if given.model else []
        return agreeing[0] if len(agreeing) == 1 else None

    def _exactly(self, folded: str) -> Gpu | None:
        if folded not in self._by_spelling:
            _ = self._only_named  # adds the spellings of the new GPUs
        return self._by_spelling.get(folded)

    @cached_property
    def _by_parts(self) -> dict[Spelled, Gpu]:
        """Every spelling, divided into its parts, and the names that mean the most common of several."""
        found: dict[Spelled, Gpu] = {}
        for gpu in self.all:
            for spelling in (*spellings(gpu), *gpu.commonest_of):
                found.setdefault(spelled(spelling), gpu)
        return found

    def _slice(self, name: str) -> Gpu | None:
        """Slice or share called `name` ('H100 PCIe 3g.40gb', 'L40S 1/4'); None without such a slice or GPU."""
        parts = split_name(name)
        whole = self._whole(parts[0]) if parts else None
        if parts is None or whole is None:
            return None
        cut = (slice_of(whole, profile) for profile in profiles_of(whole) if profile.name == parts[1])
        return next(cut, None) or next((share_of(whole, divisor) for divisor in DIVISORS if parts[1] == f"1/{divisor}"), None)

    def nearest(self, name: str, most: int = 4) -> tuple[str, ...]:
        """GPUs of the model in `name`, or with `name` in their own, or else those with the closest spellings, each once."""
        folded, model = name.strip().casefold(), spelled(name).model
        same = [gpu.name for gpu in self.all if model and spelled(gpu.name).model == model]
        holding = same or [gpu.name for gpu in self.all if len(folded) > 1 and folded in gpu.name.casefold()]
        if holding:
            return tuple(holding[:most])
        accepted = self.names()
        parts = (self.known(spelling) for spelling in nearest_names(name, accepted, len(accepted)))
        return tuple(dict.fromkeys(part.name for part in parts if part is not None))[:most]

    def find_nvml(self, nvml_name: str) -> Gpu | None:
        """The GPU whose driver name is exactly `nvml_name`; None if no GPU states it."""
        found = self._exactly(nvml_name.casefold())
        return found if found is not None and nvml_name in found.nvml_names else None

    def names(self) -> tuple[str, ...]:
        """Every accepted spelling."""
        return tuple(spelling for gpu in self.all for spelling in spellings(gpu))


def _counted(name: str) -> tuple[str, str] | None:
    """(number, GPU) in a name that includes a number; None without one."""
    found = COUNTED.fullmatch(name.strip())
    return found and (found["number"] or found["number_last"], found["part"] or found["part_first"])


def spellings(gpu: Gpu) -> tuple[str, ...]:
    """The canonical name first, then aliases, then driver names."""
    return (gpu.name, *gpu.aliases, *gpu.nvml_names)


def _by_spelling(gpus: Iterable[Gpu]) -> dict[str, Gpu]:
    """GPUs by each of their spellings, without letter case; the first GPU with a spelling keeps it."""
    found: dict[str, Gpu] = {}
    for gpu in gpus:
        for spelling in spellings(gpu):
            found.setdefault(spelling.casefold(), gpu)
    return found


def load_gpus(folder: Path, own: Path | None = None) -> GpuCatalogue:
    """Every GPU of the files in `folder`; the optional folder `own` replaces GPUs by name. Raises `UserError` with all faults.

    Files in `folder/only_named` are read when a name is not found in the others.
    """
    from planner.hardware.catalogue.entries import catalogue_files, read_catalogue
    from planner.reading import toml_files

    owners: dict[str, tuple[Path, Gpu]] = {}

    def faults(gpus: Sequence[Gpu], path: Path) -> Iterator[Problem]:
        for gpu in gpus:
            yield from _faults_of_figures(gpu, path)
            yield from _claim_spellings(gpu, path, owners)

    every, rare = catalogue_files(folder), folder / ONLY_NAMED
    shipped = read_catalogue([path for path in every if path.parent != rare], "gpu", Gpu, faults)

    def only_named() -> list[Gpu]:
        return read_catalogue([path for path in every if path.parent == rare], "gpu", Gpu, faults)

    files = toml_files(own) if own is not None else []
    if not files:
        return GpuCatalogue(shipped, only_named)
    shipped += only_named()
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
    """Problems for spellings that another GPU has already; the rest become this GPU's."""
    for spelling in {name.casefold(): name for name in spellings(gpu)}.values():
        owner_path, owner = owners.setdefault(spelling.casefold(), (path, gpu))
        if owner is not gpu:
            yield Problem(str(path), f"gpu[{gpu.name}]", f"{spelling!r} already names {owner.name!r} in {owner_path}.")
