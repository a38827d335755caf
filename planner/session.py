"""One opened planner: the catalogue, this machine and its measurements, ready to answer.

The only room front ends (`planner.cli`, `widgets`) go through; they format what it returns.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import paths
from planner.errors import UserError

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice, CeilingsCache
    from planner.engine.advice.observation import Observed
    from planner.engine.advice.ownership import Owning
    from planner.engine.advice.rightsizing import Advice
    from planner.engine.answers.answer import Answer
    from planner.engine.answers.lever import Lever
    from planner.engine.answers.memory import MemoryDetail
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.engine.answers.study import StudyAnswer
    from planner.engine.answers.time import TimeDetail
    from planner.engine.study.sizes import Study
    from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.ceilings.records import CeilingRecords
    from planner.hardware.measurements.measurement import Measurement, Prediction
    from planner.hardware.measurements.store import Store
    from planner.hardware.prices.offers import Offer
    from planner.hardware.prices.refresh import Refreshed
    from planner.observe.machine import Machine
    from planner.workload.architecture import Architecture
    from planner.workload.presets import ModelShelf, PresetShelf
    from planner.workload.studies import PublishedStudy
    from planner.workload.tasks import Request, Workload

DEFAULT_PRESET = "llama-3.1-70b-chat-service"
"""What is planned when nothing was asked for."""


class Session:
    """Opened cheaply; every part is read when it is first asked for."""

    def __init__(self, *, state: Path, config: Path) -> None:
        self.state = state
        self.config = config
        self._architectures: dict[str, Architecture] = {}

    @classmethod
    def open(cls, *, state: Path | None = None, config: Path | None = None) -> Session:
        """A session on the user's own folders, or the ones given."""
        return cls(state=state or paths.state_folder(), config=config or paths.config_folder())

    @cached_property
    def gpus(self) -> GpuCatalogue:
        """The GPUs of the catalogue."""
        from planner.hardware.catalogue.gpus import load_gpus

        return load_gpus(paths.presets_folder() / "gpus")

    @cached_property
    def offers(self) -> tuple[Offer, ...]:
        """What they cost to rent: the user's own offers, and those shipped of every other provider."""
        from planner.hardware.prices.offers import with_own

        return with_own(self.shipped_offers, self.own_offers)

    @cached_property
    def shipped_offers(self) -> tuple[Offer, ...]:
        """Those that came with the program."""
        from planner.hardware.prices.offers import load_offers

        return load_offers(paths.presets_folder() / "offers", self.gpus)

    @cached_property
    def own_offers(self) -> tuple[Offer, ...]:
        """Those in the user's config folder: written there by `offers refresh` or by hand. Raises `UserError` for unusable ones."""
        from planner.hardware.prices.offers import load_own_offers

        return load_own_offers(self.offers_folder, self.gpus)

    @property
    def offers_folder(self) -> Path:
        """Where the user's own offers are, a file a provider (not created here)."""
        return self.config / "offers"

    def refresh_offers(
        self,
        providers: Sequence[str] = (),
        *,
        source: str | None = None,
        today: dt.date,
        dry_run: bool = False,
        timeout_s: float = 20.0,
    ) -> Iterator[Refreshed]:
        """Fetch the prices of `providers` (none: all that are regenerated) into the user's own offers, one result each as it comes.

        `source`: another copy of the catalogue, a URL or a folder. Raises `UserError` for either of them unknown.
        """
        from planner.hardware.prices.catalogue import load_price_catalogue
        from planner.hardware.prices.refresh import Shelf, base_url, chosen_providers, refresh

        catalogue = load_price_catalogue(paths.presets_folder() / "catalogues" / "skypilot.toml", self.gpus)
        try:
            current = self.offers
        except UserError:  # own files that cannot be used: they may be what is to be replaced
            current = self.shipped_offers
        shelf = Shelf(self.shipped_offers, current, self.offers_folder, self.gpus)
        base = base_url(source, catalogue)
        asked = chosen_providers(catalogue, providers)
        return refresh(asked, catalogue, base, shelf, today=today, dry_run=dry_run, timeout_s=timeout_s)

    @cached_property
    def models(self) -> ModelShelf:
        """Models by name."""
        from planner.workload.presets import ModelShelf

        return ModelShelf(paths.presets_folder() / "models")

    @cached_property
    def presets(self) -> PresetShelf:
        """Workloads by name: shipped ones, and the user's."""
        from planner.workload.presets import PresetShelf

        return PresetShelf(paths.presets_folder() / "workloads", self.config)

    @cached_property
    def ceiling_records(self) -> CeilingRecords:
        """What parts of each kind are known to reach before they are measured here."""
        from planner.hardware.ceilings.records import load_ceiling_records

        return load_ceiling_records(paths.presets_folder() / "ceilings")

    @cached_property
    def store(self) -> Store:
        """What was measured here; results of a worker that outlived its planner are taken in first."""
        from planner.hardware.measurements.store import Store
        from planner.observe.benchmark.journal import adopt_journals

        store = Store.open(self.state)
        adopt_journals(self.state, store, self.canonical_name)
        return store

    def canonical_name(self, driver_name: str) -> str | None:
        """The catalogue's name of the GPU that its driver calls `driver_name`; None when it has none."""
        part = self.gpus.find_nvml(driver_name)
        return part.name if part else None

    @cached_property
    def shipped(self) -> tuple[Measurement, ...]:
        """Measurements that came with the program, quarantined ones too."""
        from planner.hardware.measurements.exchange import load_shipped

        return load_shipped(paths.presets_folder() / "measurements", self.part_named)

    def measurements(self, *, without_run: str | None = None) -> tuple[Measurement, ...]:
        """What plans rest on: the latest of every device and point, one's own before what came with the program."""
        from planner.hardware.measurements.exchange import with_shipped

        return with_shipped(self.store.latest(without_run=without_run), self.shipped)

    def part_named(self, name: str) -> Gpu | None:
        """The part of that name in this machine or the catalogue; None when there is none."""
        here = next((device for device in self.machine.devices if device.name == name), None)
        try:
            return here or self.gpus.find(name)
        except UserError:
            return None

    @cached_property
    def ceilings_cache(self) -> CeilingsCache:
        """What devices reach, as far as it is known now."""
        from planner.ceilings_cache import CeilingsCache

        return CeilingsCache(
            records=self.ceiling_records, related=self.gpus.all, measurements=self.measurements, architecture=self.architecture
        )

    def ceilings(self, gpu: Gpu, *, basis: BasisChoice = "measured") -> Ceilings:
        """What `gpu` reaches, by measurements or ("spec") without them."""
        return self.ceilings_cache.ceilings(gpu, basis)

    def log_prediction(self, measured: Measurement) -> Prediction | None:
        """Keep what plans said of a point before its run; None where nothing can be said of it or it is not to be believed."""
        from planner.engine.estimate.benchmark_point import predict

        part = self.part_named(measured.device) if measured.reliable else None
        if part is None:
            return None
        before = self.ceilings_cache.ceilings_by(part, self.measurements(without_run=measured.run))
        found = predict(measured, part, before, self.architecture)
        if found is not None:
            self.store.add_prediction(found)
        return found

    @cached_property
    def machine(self) -> Machine:
        """This machine's CPU and GPUs."""
        from planner.observe.machine import read_machine

        return read_machine(self.gpus)

    def workload(self, fields: Mapping[str, Any], where: str = "") -> Workload:
        """`fields` as a workload whose model is known; raises `UserError` with every problem."""
        from planner.engine.job.resolve import resolve
        from planner.workload.presets import read_workload

        workload = read_workload(fields, where)
        resolve(workload, self.architecture_of(workload, where), where)
        return workload

    def architecture(self, model: str | dict[str, Any], where: str = "") -> Architecture:
        """The architecture of a catalogue name, a config.json or an inline config; raises `UserError`."""
        from planner.workload.huggingface.config import read_architecture

        key = model if isinstance(model, str) else json.dumps(model, sort_keys=True)
        if key not in self._architectures:
            config = self.models.config(model) if isinstance(model, str) else model
            self._architectures[key] = read_architecture(config, where)
        return self._architectures[key]

    def architecture_of(self, workload: Workload, where: str = "") -> Architecture:
        """The architecture of the workload's model, with those of its companions; raises `UserError`."""
        main = self.architecture(workload.model, where)
        if not workload.companions:
            return main
        others = tuple(self.architecture(other.model or workload.model, where) for other in workload.companions)
        return replace(main, companions=others)

    def plan(
        self,
        workload: Workload,
        *,
        basis: BasisChoice = "measured",
        top: int | None = None,
        levers: bool = True,
        hints: bool = False,
    ) -> Plan:
        """Rank every candidate for `workload`; `basis` "spec" leaves this machine's measurements out. Raises `UserError`.

        `levers`: when nothing fits, look for the changes that help.
        `hints` adds, to every GPU that is no solution, the change that would make it one; it takes a few times as long.
        """
        from planner.engine.search.plan import Sources, make_plan

        sources = Sources(
            gpus=self.gpus.all,
            offers=self.offers,
            machine=self.machine.devices,
            local_counts=self._local_counts(),
            find_gpu=self.gpus.find,
            chip=self.ceilings_cache.chips(basis),
            spec_chip=self.ceilings_cache.chips("spec"),
        )
        return make_plan(workload, self.architecture_of(workload), sources, top=top, levers=levers, hints=hints)

    def memory_detail(self, workload: Workload, row: PlanRow, *, basis: BasisChoice = "measured") -> MemoryDetail | None:
        """What takes the memory of `row` of the plan for `workload`, item by item; None where its memory is not known.

        `basis`: the plan's.
        """
        from planner.engine.explain.candidate import memory_detail

        return memory_detail(workload, self.architecture_of(workload), row, self._gpu_of(row), self.ceilings_cache.chips(basis))

    def time_detail(self, workload: Workload, row: PlanRow, *, basis: BasisChoice = "measured") -> TimeDetail | None:
        """Where the time of `row` of the plan for `workload` goes, operator by operator; None where it cannot be timed.

        `basis`: the plan's.
        """
        from planner.engine.explain.time_detail import time_detail

        architecture = self.architecture_of(workload)
        return time_detail(workload, architecture, row, self._gpu_of(row), self.offers, self.ceilings_cache.chips(basis))

    def levers(self, workload: Workload, row: PlanRow) -> list[Lever]:
        """The changes of `workload` that would make the GPU of `row` a solution, the cheapest first; empty where it is one."""
        import msgspec

        try:
            self.gpus.find(row.gpu)
        except UserError:  # a part of this machine that the catalogue does not know
            return []
        only = msgspec.structs.replace(workload, gpus_considered=[row.gpu])
        return [lever for lever in self.plan(only).levers if "gpus_considered" not in lever.change]

    def estimate(self, requests: Sequence[Request], *, basis: BasisChoice = "measured") -> list[Answer | UserError]:
        """One answer a request, in order."""
        from planner.engine.estimate.estimate import estimate

        return estimate(requests, self.gpus.find, self.architecture_of, self.ceilings_cache.chips(basis))

    def study(
        self,
        study: Study | None = None,
        *,
        gpus: Sequence[str] = (),
        prices: str = "",
        given: Mapping[str, float] | None = None,
        basis: BasisChoice = "measured",
    ) -> StudyAnswer:
        """The study of compute per dollar on `gpus` ('all': the whole catalogue); none named: the usual ones, and this machine's.

        `given`: USD an hour of a GPU that go before the price set's. Raises `UserError`.
        """
        import msgspec

        from planner.engine.study.gpus import named_parts, usual_parts
        from planner.engine.study.price_sets import price_set
        from planner.engine.study.published import compared
        from planner.engine.study.run import run_study
        from planner.engine.study.sizes import DEFAULT_PRICES, Study

        named = tuple((self.gpus.find(name).name, usd) for name, usd in (given or {}).items())
        asked = study or Study()
        chosen = price_set(prices or DEFAULT_PRICES, self.offers, named, self.published_study)
        local = self.machine.devices
        points = {device.name: self.ceilings(device).train_points for device in local} if basis == "measured" else {}
        found = run_study(
            asked,
            named_parts(gpus, self.gpus, local)
            or usual_parts(asked, chosen, points, catalogue=self.gpus, local=local, architecture=self.architecture),
            prices=chosen.name,
            price_of=chosen.of,
            architecture=self.architecture,
            chip=self.ceilings_cache.chips(basis),
            measured=points,
            here=frozenset(device.name for device in local),
        )
        return msgspec.structs.replace(found, published=compared(found, self.published_study))

    @cached_property
    def published_study(self) -> PublishedStudy:
        """The study that ours is held against."""
        from planner.workload.studies import load_study

        return load_study(paths.presets_folder() / "studies" / "compute-per-dollar.toml")

    def rightsize(
        self,
        observed: Sequence[Observed],
        *,
        workload: Workload | None = None,
        tokens_per_s: float | None = None,
        usd_per_h: float | None = None,
        providers: Sequence[str] = (),
        owning: Owning | None = None,
    ) -> Advice:
        """What to change about the GPUs observed, and what it saves; raises `UserError` for an unknown provider.

        `workload` is what runs on each, where that is known, `tokens_per_s` what it was measured to do there, `usd_per_h` what one costs.
        """
        from planner.engine.advice.ownership import Owning
        from planner.engine.advice.rightsizing import Means, right_size

        means = Means(
            find_gpu={gpu.name: gpu for gpu in self.gpus.all},
            offers=self.offers,
            chip=self.ceilings_cache.chips("measured"),
            estimate=self.estimate,
            workload=workload,
            tokens_per_s=tokens_per_s,
            usd_per_h=usd_per_h,
            providers=providers,
            owning=owning or Owning(),
        )
        return right_size(observed, means)

    def refresh(self) -> None:
        """Forget what was read of measurements, so that the next plan sees new ones."""
        self.ceilings_cache.forget()

    def _gpu_of(self, row: PlanRow) -> Gpu:
        """The part that `row` is about: this machine's own where it stands here."""
        here = next((local for local in self.machine.devices if row.here and local.name == row.gpu), None)
        return here or self.gpus.find(row.gpu)

    def _local_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {self.machine.cpu.name: 1}
        for local in self.machine.gpus:
            if local.gpu is not None:
                counts[local.gpu.name] = counts.get(local.gpu.name, 0) + 1
        return counts
