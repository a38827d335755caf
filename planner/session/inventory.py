"""Inventory of a session: the catalogue, offers, models, presets, this machine and its measurements."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from planner import paths
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice, CeilingsCache
    from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.ceilings.records import CeilingRecords
    from planner.hardware.measurements.measurement import Measurement
    from planner.hardware.measurements.store import Store
    from planner.hardware.prices.api_prices import ApiPrice
    from planner.hardware.prices.offers import Offer
    from planner.hardware.prices.providers import Provider
    from planner.hardware.prices.refresh import Refreshed
    from planner.observe.driver.driver import Driver
    from planner.observe.machine import Machine
    from planner.predictions.learning import Learned
    from planner.predictions.log import PredictionLog
    from planner.workload.architecture import Architecture, Models
    from planner.workload.hardware.owned import Own
    from planner.workload.models import ModelShelf
    from planner.workload.presets import PresetShelf
    from planner.workload.studies import PublishedStudy
    from planner.workload.tasks import Workload


class Inventory:
    """Opened cheaply; every part is read when it is first asked for."""

    def __init__(self, *, state: Path, config: Path) -> None:
        self.state = state
        self.config = config
        self.exact = False
        """True if models are described by their own code even where their family is known."""
        self._architectures: dict[str, Architecture] = {}
        self._refused: dict[str, UserError] = {}
        self.narrate: Callable[[str], None] = lambda _: None
        """Receiver of messages about work that takes long."""
        self._driver: Driver | None = None

    @classmethod
    def open(cls, *, state: Path | None = None, config: Path | None = None) -> Self:
        """A session on the user's own folders, or the ones given."""
        return cls(state=state or paths.state_folder(), config=config or paths.config_folder())

    @cached_property
    def gpus(self) -> GpuCatalogue:
        """GPUs of the catalogue, and those of the user's `gpus` folder."""
        from planner.hardware.catalogue.gpus import load_gpus

        return load_gpus(paths.presets_folder() / "gpus", self.config / "gpus")

    def machines(self, path: Path) -> list[Own]:
        """Machines that an inventory lists: TOML, Slurm's `sinfo`, or nodes of Kubernetes. Raises `UserError`."""
        from planner.hardware.catalogue.gpus import spellings
        from planner.workload.hardware.inventory import part_finder, read_inventory

        names = {spelling: gpu.name for gpu in self.gpus.all for spelling in spellings(gpu)}
        return read_inventory(path, part_finder(names), self.gpus.names())

    @cached_property
    def offers(self) -> tuple[Offer, ...]:
        """Offers to rent GPUs: the user's own, and shipped ones of other providers, with advertised discounts applied."""
        from planner.hardware.prices.offers import with_own
        from planner.hardware.prices.providers import with_discounts

        return with_discounts(with_own(self.shipped_offers, self.own_offers), self.providers)

    @cached_property
    def providers(self) -> dict[str, Provider]:
        """Providers by name: shipped records, and the user's own in their place (`providers/` of the config folder)."""
        from planner.hardware.prices.providers import load_providers

        return load_providers(paths.presets_folder() / "providers") | load_providers(self.config / "providers")

    @cached_property
    def shipped_offers(self) -> tuple[Offer, ...]:
        """Offers that are shipped with the program."""
        from planner.hardware.prices.offers import load_offers

        return load_offers(paths.presets_folder() / "offers", self.gpus)

    @cached_property
    def own_offers(self) -> tuple[Offer, ...]:
        """Offers in the user's config folder, from `offers refresh` or by hand. Raises `UserError` for unusable ones."""
        from planner.hardware.prices.offers import load_own_offers

        return load_own_offers(self.offers_folder, self.gpus)

    @cached_property
    def api_prices(self) -> tuple[ApiPrice, ...]:
        """Prices of models by the token: the user's own, and the shipped ones."""
        from planner.hardware.prices.api_prices import load_api_prices

        return load_api_prices(paths.presets_folder() / "api_prices", self.config / "api_prices")

    @property
    def offers_folder(self) -> Path:
        """Folder of the user's own offers, a file a provider (not created here)."""
        return self.config / "offers"

    def refresh_offers(
        self,
        providers: Sequence[str] = (),
        *,
        source: str | None = None,
        today: dt.date,
        dry_run: bool = False,
        fewer: bool = False,
        timeout_s: float = 60.0,
        within_s: float = 120.0,
    ) -> Iterator[Refreshed]:
        """Fetch the prices of `providers` (empty: all) into the user's own offers; yields one result each as it arrives.

        `source`: another copy of the catalogue, a URL or a folder. `fewer`: accept files that leave out most parts. `timeout_s`
        limits a file, `within_s` all of them. Raises `UserError` for an unknown source or provider.
        """
        from planner.hardware.prices.catalogue import load_price_catalogue
        from planner.hardware.prices.refresh import OfferFolder, base_url, chosen_providers, refresh

        catalogue = load_price_catalogue(paths.presets_folder() / "catalogues" / "skypilot.toml", self.gpus)
        try:
            current = self.offers
        except UserError:  # own files that cannot be used: they may be what is to be replaced
            current = self.shipped_offers
        destination = OfferFolder(self.shipped_offers, current, self.offers_folder, self.gpus, fewer)
        base = base_url(source, catalogue)
        chosen = chosen_providers(catalogue, providers)
        return refresh(chosen, catalogue, base, destination, today=today, dry_run=dry_run, timeout_s=timeout_s, within_s=within_s)

    @cached_property
    def models(self) -> ModelShelf:
        """Models by name."""
        from planner.workload.models import ModelShelf

        return ModelShelf(paths.presets_folder() / "models")

    @cached_property
    def presets(self) -> PresetShelf:
        """Workloads by name: shipped ones, and the user's."""
        from planner.workload.presets import PresetShelf

        return PresetShelf(paths.presets_folder() / "workloads", self.config, self.models)

    @cached_property
    def ceiling_records(self) -> CeilingRecords:
        """Rates that parts of each kind are known to reach before they are measured here."""
        from planner.hardware.ceilings.records import load_ceiling_records

        return load_ceiling_records(paths.presets_folder() / "ceilings")

    @cached_property
    def store(self) -> Store:
        """Measurements made here; results of a worker that outlived its planner are recovered first."""
        from planner.hardware.measurements.store import Store

        store = Store.open(self.state)
        if any((self.state / "runs").glob(f"*{paths.OPEN_SUFFIX}")):
            from planner.observe.benchmark.journal import recover_journals

            recover_journals(self.state, store, self.canonical_name)
        return store

    @cached_property
    def predictions(self) -> PredictionLog:
        """Predictions and their results."""
        from planner.predictions.log import PredictionLog

        return PredictionLog(self.state)

    def own_results(self) -> Mapping[str, Learned]:
        """Kind of figure -> what ranges learn from one's own results."""
        from planner.predictions.learning import learned

        pairs = self.predictions.pairs()
        return learned(pairs) if pairs else {}

    @property
    def warnings(self) -> Sequence[str]:
        """Faults of the store so far; empty while nothing has asked for it."""
        return self.store.warnings if "store" in self.__dict__ else ()

    def canonical_name(self, driver_name: str) -> str | None:
        """Catalogue's name of the GPU that its driver calls `driver_name`; None if it has none."""
        part = self.gpus.find_nvml(driver_name)
        return part.name if part else None

    @cached_property
    def shipped(self) -> tuple[Measurement, ...]:
        """Measurements that came with the program, quarantined ones too."""
        from planner.hardware.measurements.exchange import load_shipped

        return load_shipped(paths.presets_folder() / "measurements", self.part_named)

    def measurements(self, *, without_run: str | None = None) -> tuple[Measurement, ...]:
        """Measurements that plans use: the latest of each device and point; your own precede shipped ones."""
        from planner.hardware.measurements.exchange import with_shipped

        return with_shipped(self.store.latest(without_run=without_run), self.shipped)

    def part_named(self, name: str) -> Gpu | None:
        """Part of that name in this machine or the catalogue, or None."""
        here = next((device for device in self.machine.devices if device.name == name), None)
        return here or self.gpus.known(name)

    def part(self, name: str) -> Gpu:
        """Part of the catalogue of that name, or this machine's processor by its name or "cpu"; raises `UserError`."""
        return self.gpus.known(name) or (self.cpu if name in {"cpu", self.cpu.name} else self.gpus.find(name))

    @cached_property
    def cpu(self) -> Gpu:
        """This machine's processor."""
        from planner.observe.cpu import read_cpu

        return read_cpu()

    @cached_property
    def ceilings_cache(self) -> CeilingsCache:
        """Ceilings of devices as far as they are known now."""
        from planner.ceilings_cache import CeilingsCache

        return CeilingsCache(
            records=self.ceiling_records,
            related=self.gpus,
            measurements=self.measurements,
            architecture=self.architecture,
            own_results=self.own_results,
        )

    def ceilings(self, gpu: Gpu, *, basis: BasisChoice = "measured") -> Ceilings:
        """Rates that `gpu` reaches, by measurements or ("spec") without them."""
        return self.ceilings_cache.ceilings(gpu, basis)

    @cached_property
    def machine(self) -> Machine:
        """This machine's CPU and GPUs."""
        from planner.observe.machine import read_machine

        return read_machine(self.gpus, self._driver)

    def begin_machine(self) -> None:
        """Have the driver answer while other parts are read; `machine` takes its answer."""
        from planner.observe.driver.driver import Driver, DriverError

        with contextlib.suppress(DriverError):  # `machine` tries again and has the reason
            self._driver = Driver.start()

    @cached_property
    def published_study(self) -> PublishedStudy:
        """Study that ours is held against."""
        from planner.workload.studies import load_study

        return load_study(paths.presets_folder() / "studies" / "compute-per-dollar.toml")

    def architecture(self, model: str | dict[str, Any], where: str = "") -> Architecture:
        """Architecture of a catalogue name, a config.json or an inline config; raises `UserError`.

        An unknown family is read from the shapes of its tensors, where a checkpoint lies beside the config; otherwise its code is
        traced with torch and transformers, once in about a minute, and kept.
        """
        key = model if isinstance(model, str) else json.dumps(model, sort_keys=True, default=str)
        if key not in self._architectures:
            name = model if isinstance(model, str) else ""
            config = self.models.config(name) if isinstance(model, str) else model
            place = f"{where}: {name}" if where and name else where or name
            self._architectures[key] = self._architecture(config, place, name)
        return self._architectures[key]

    def _architecture(self, config: dict[str, Any], where: str, name: str) -> Architecture:
        from planner.workload.huggingface.config import in_published_format, known_family, one_stack, read_architecture

        if known_family(config) and not self.exact:
            found = read_architecture(config, where)
            if name.casefold().endswith(".gguf"):
                self.models.check_gguf(name, found)
            return found
        if self.traced(config):
            return self._described_once(config)
        if name and (tensors := self.models.tensors(name)):
            from planner.workload.checkpoints.shapes import description_by_shapes
            from planner.workload.huggingface.described import described_architecture

            try:
                return in_published_format(described_architecture(description_by_shapes(config, tensors, where)), config)
            except ValueError as error:
                raise UserError(Problem(where, "model", f"cannot be described by the shapes of its tensors: {error}.")) from None
        from planner.observe.benchmark.description import described_types

        possible = one_stack(config) and str(config.get("model_type")) in described_types()
        return self._described_once(config) if possible else read_architecture(config, where)

    def _described_once(self, config: dict[str, Any]) -> Architecture:
        """`described`, not tried again for a config that was refused."""
        key = json.dumps(config, sort_keys=True, default=str)
        if key in self._refused:
            raise self._refused[key]
        try:
            return self.described(config)
        except UserError as refused:
            self._refused[key] = refused
            raise

    def traced(self, config: dict[str, Any]) -> bool:
        """True if `config` is planned as its own code was traced: asked for, or done before and of no known family."""
        from planner.observe.benchmark.description import stored_description
        from planner.workload.huggingface.config import known_family

        return self.exact or (not known_family(config) and stored_description(config, self.descriptions) is not None)

    @property
    def descriptions(self) -> Path:
        """Folder of descriptions of models by their own code."""
        return self.state / "descriptions"

    def described(self, config: dict[str, Any], python: Path | None = None) -> Architecture:
        """Architecture of `config` as its own code has it, kept or made now under `python`; raises `UserError`."""
        from planner.observe.benchmark.description import make_description, require_few_layers, stored_description
        from planner.workload.huggingface.config import in_published_format, parts_beside_text
        from planner.workload.huggingface.described import described_architecture

        found = stored_description(config, self.descriptions)
        if found is None:
            require_few_layers(config)
            self.narrate(f"Tracing the code of {config.get('model_type')} in transformers: this takes up to a few minutes, once.")
            found = make_description(config, self.descriptions, python)
        try:
            a = in_published_format(described_architecture(found), config)
            return replace(a, left_out=() if a.towers else parts_beside_text(config))
        except ValueError as error:
            raise UserError(Problem("", "model", f"cannot be described by its own code: {error}.")) from None

    def models_of(self, workload: Workload, where: str = "") -> Models:
        """Architectures of the workload's model and of its companions; raises `UserError`."""
        from planner.workload.architecture import Models

        others = (self.architecture(other.model or workload.model, where) for other in workload.companions)
        return Models(self.architecture(workload.model, where), tuple(others))

    def local_counts(self) -> dict[str, int]:
        """Number of each device of this machine, by name."""
        counts: dict[str, int] = {self.machine.cpu.name: 1}
        for local in self.machine.gpus:
            for device in local.devices:
                counts[device.name] = counts.get(device.name, 0) + 1
        return counts
