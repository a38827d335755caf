"""One planning session: workloads in, plans, estimates, studies and advice out.

Front ends (`planner.cli`, `widgets`) use only this package, and format its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from planner.errors import UserError
from planner.session.inventory import Inventory

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.advice.advice import Advice
    from planner.engine.advice.observation import Observed
    from planner.engine.answers.answer import Answer
    from planner.engine.answers.memory import MemoryDetail
    from planner.engine.answers.plan import Lever, Plan, PlanRow
    from planner.engine.answers.replay import Replay
    from planner.engine.answers.study import StudyAnswer
    from planner.engine.answers.time import TimeDetail, UnderLoad
    from planner.engine.evaluate.task import Supply, Task
    from planner.engine.job.job import Job
    from planner.engine.replay.runs import MapChunks
    from planner.engine.study.sizes import Study
    from planner.hardware.measurements.measurement import Measurement, Prediction
    from planner.workload.hardware.owned import Owning
    from planner.workload.presets import Preset
    from planner.workload.tasks import Request, Workload
    from planner.workload.traffic.trace import Trace


K = TypeVar("K")
V = TypeVar("V")

MOST_KEPT = 8
"""Workloads whose jobs and plans are kept."""


class Session(Inventory):
    """Plans, estimates, studies and advice, from the session's data."""

    def __init__(self, *, state: Path, config: Path) -> None:
        super().__init__(state=state, config=config)
        self._supplies: dict[BasisChoice, Supply] = {}
        self._tasks: dict[bytes, Task] = {}
        self._rankings: dict[tuple[bytes, BasisChoice], Plan] = {}

    def log_prediction(self, measured: Measurement) -> Prediction | None:
        """Keep what plans predicted for a point before its run; None if there is no prediction or it is not credible."""
        from planner.engine.estimate.benchmark_point import predict

        part = self.part_named(measured.device) if measured.reliable else None
        if part is None:
            return None
        before = self.ceilings_cache.ceilings_by(part, self.measurements(without_run=measured.run))
        found = predict(measured, part, before, self.architecture)
        if found is not None:
            self.store.add_prediction(found)
        return found

    def preset(self, name: str | Path) -> Preset:
        """Preset called `name`, or the .toml file at that path; raises `UserError` with every problem, of the names in it too."""
        try:
            return self.presets.load(name)
        except UserError as wrong:
            raise self._with_names(wrong, *self.presets.given(name)) from wrong

    def workload(self, fields: Mapping[str, Any], where: str = "") -> Workload:
        """`fields` as a workload whose model is known; raises `UserError` with every problem."""
        from planner.workload.presets import read_workload

        try:
            workload = read_workload(fields, where)
            self._task(workload, where).job(where=where)
        except UserError as wrong:
            raise self._with_names(wrong, fields, where) from wrong
        return workload

    def _with_names(self, wrong: UserError, fields: Mapping[str, Any], where: str) -> UserError:
        """`wrong` with what else is wrong with the names in `fields`."""
        from planner.session.unread_names import with_unread_names

        return with_unread_names(wrong, fields, where, self._supply("spec"), self.models.config)

    def changed(self, workload: Workload, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Wire form of `workload` with `changes`, as `fields_of` has it; unchecked, and without a format of weights that another model leaves behind."""
        from planner.workload.changes import fields_of

        fields = fields_of(workload, changes)
        left_behind = (
            "weight_dtype" not in changes and "model" in changes and self.stores_less(fields["model"], workload.weight_dtype)
        )
        return {key: value for key, value in fields.items() if key != "weight_dtype" or not left_behind}

    def stores_less(self, model: str | dict[str, Any], weight_dtype: object) -> bool:
        """True if `model` is published in clearly fewer bits than `weight_dtype` has, so that nobody stores it so."""
        from planner.engine.fit.variants import FEWER_BITS
        from planner.workload.weights import FORMATS

        if weight_dtype not in FORMATS:
            return False
        try:
            published = FORMATS.get(self.architecture(model).stored_as)
        except UserError:  # reported with the workload's other problems, when it is checked
            return False
        return published is not None and published.bits < FEWER_BITS * FORMATS[str(weight_dtype)].bits

    def plan(
        self,
        workload: Workload,
        *,
        basis: BasisChoice = "measured",
        top: int | None = None,
        each_gpu: bool = False,
        levers: bool = True,
        hints: bool = False,
    ) -> Plan:
        """Rank every candidate for `workload`; `basis` "spec" leaves this machine's measurements out. Raises `UserError`.

        `top`: at most this many rows, or with `each_gpu` the best row of at most this many GPUs. `levers`: when nothing fits, find
        the changes that help. `hints`: find for every GPU that is no solution the change that would make it one, which takes a few
        times as long.
        """
        from planner.engine.levers.plan import with_levers

        task, supply = self._task(workload), self._supply(basis)
        found = with_levers(self._ranking(task, basis), task, supply, top=top, each_gpu=each_gpu, levers=levers, hints=hints)
        if not self.machine.silent:
            return found
        return msgspec.structs.replace(
            found, notes=[*found.notes, f"{self.machine.silent}: the GPUs of this machine are left out."]
        )

    def with_flips(self, workload: Workload, plan: Plan, *, basis: BasisChoice = "measured") -> Plan:
        """The `plan` for `workload` with the nearest changes of its inputs that put another GPU first; `basis`: the plan's."""
        from planner.engine.study.sensitivity import flips_of

        return msgspec.structs.replace(plan, flips=flips_of(self._task(workload), self._supply(basis), plan))

    def job(self, workload: Workload, row: PlanRow) -> Job:
        """Resolved job of `row` of the plan for `workload`."""
        return self._task(workload).job_of(row)

    def memory_detail(self, workload: Workload, row: PlanRow, *, basis: BasisChoice = "measured") -> MemoryDetail | None:
        """Memory of `row` of the plan for `workload`, item by item; None if it is not known. `basis`: the plan's."""
        from planner.engine.explain.details import memory_detail

        return memory_detail(self._task(workload), row, self._supply(basis))

    def time_detail(self, workload: Workload, row: PlanRow, *, basis: BasisChoice = "measured") -> TimeDetail | None:
        """Time of `row` of the plan for `workload`, operator by operator; None if it cannot be timed. `basis`: the plan's."""
        from planner.engine.explain.details import time_detail

        return time_detail(self._task(workload), row, self._supply(basis))

    def under_load(self, workload: Workload, row: PlanRow, *, basis: BasisChoice = "measured") -> UnderLoad | None:
        """Latencies by load of `row` of the plan for `workload`; None unless a service of equal replicas. `basis`: the plan's."""
        from planner.engine.explain.under_load import under_load

        return under_load(self._task(workload), row, self._supply(basis))

    def levers(self, workload: Workload, row: PlanRow) -> list[Lever]:
        """Changes of `workload` that would make the GPU of `row` a solution, the cheapest first; empty if it is one."""
        if self.gpus.known(row.gpu) is None:  # a part of this machine
            return []
        price = workload.price_usd_per_gpu_h
        if isinstance(price, float) and not workload.gpus_considered:
            price = None
        only = msgspec.structs.replace(workload, gpus_considered=[row.gpu], price_usd_per_gpu_h=price)
        return [lever for lever in self.plan(only).levers if "gpus_considered" not in lever.change]

    def estimate(self, requests: Sequence[Request], *, basis: BasisChoice = "measured") -> list[Answer | UserError]:
        """One answer a request, in order."""
        from planner.engine.estimate.estimate import estimate

        return estimate(requests, self.part, self.models_of, self.ceilings_cache.chips(basis))

    def study(
        self,
        study: Study | None = None,
        *,
        gpus: Sequence[str] = (),
        prices: str = "",
        given: Mapping[str, float] | None = None,
        basis: BasisChoice = "measured",
    ) -> StudyAnswer:
        """Study of compute per dollar on `gpus` ('all': the catalogue; none: the usual ones and this machine's). Raises `UserError`.

        `given`: USD an hour of a GPU, instead of the price set's.
        """
        from planner.engine.study.inputs import StudyInputs
        from planner.engine.study.run import run_study
        from planner.engine.study.sizes import Study

        devices = self.machine.devices
        inputs = StudyInputs(
            catalogue=self.gpus,
            offers=self.offers,
            machine=devices,
            measured={device.name: self.ceilings(device).train_points for device in devices} if basis == "measured" else {},
            architecture=self.architecture,
            chip=self.ceilings_cache.chips(basis),
            published=self.published_study,
        )
        return run_study(study or Study(), inputs, gpus=gpus, prices=prices, given=given)

    def replay(
        self,
        workload: Workload,
        row: PlanRow,
        trace: Trace,
        *,
        replicas: int | None = None,
        by_hour: bool = True,
        basis: BasisChoice = "measured",
        map_chunks: MapChunks = map,
    ) -> Replay:
        """Serve `trace` by `replicas` (None: as many as needed) of `row` of the plan for `workload`; raises `UserError`.

        `by_hour`: count them for each hour. `map_chunks` serves the chunks of the simulation: `map` in this process.
        """
        from planner.engine.replay.replay import replay

        task, supply = self._task(workload), self._supply(basis)
        return replay(task, row, supply, trace, replicas=replicas, by_hour=by_hour, map_chunks=map_chunks)

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
        """Advice for the GPUs observed: the changes and their savings; raises `UserError` for an unknown provider.

        By place: `workload` that runs there, `tokens_per_s` measured there, and `usd_per_h` of a GPU, where known.
        """
        from planner.engine.advice.case import Inputs
        from planner.engine.advice.rightsizing import right_size
        from planner.workload.hardware.owned import Owning

        inputs = Inputs(
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
        return right_size(observed, inputs)

    def refresh(self) -> None:
        """Forget the measurements read so far, so that the next plan reads new ones."""
        self.ceilings_cache.forget()
        self._rankings.clear()
        self._tasks.clear()  # with what the search kept of them

    def _task(self, workload: Workload, where: str = "") -> Task:
        """`workload` with its architecture; the last few are kept."""
        from planner.engine.evaluate.task import Task
        from planner.engine.job.people import with_request_rate

        workload = with_request_rate(workload, where)
        return _kept(self._tasks, msgspec.json.encode(workload), lambda: Task(workload, self.models_of(workload, where)))

    def _ranking(self, task: Task, basis: BasisChoice) -> Plan:
        """The whole plan for `task`; the last few are kept until new measurements come."""
        from planner.engine.search.plan import make_plan

        for other in self._tasks.values():
            if other is not task:
                other.searches.clear()  # ten megabytes each
        key = msgspec.json.encode(task.workload), basis
        return _kept(self._rankings, key, lambda: make_plan(task, self._supply(basis)))

    def _supply(self, basis: BasisChoice) -> Supply:
        """Catalogue, its offers and this machine, with what each GPU reaches on this basis."""
        from planner.engine.evaluate.task import Supply

        if basis not in self._supplies:
            self._supplies[basis] = Supply(
                gpus=self.gpus.all,
                find_gpu=self.gpus.find,
                offers=self.offers,
                machine=self.machine.devices,
                local_counts=self.local_counts(),
                chip=self.ceilings_cache.chips(basis),
                spec_chip=self.ceilings_cache.chips("spec"),
                providers=self.providers,
                power_limits_w=self.machine.power_limits_w,
            )
        return self._supplies[basis]


def _kept(kept: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Value of `key`, made when it is not there; the oldest value goes when there are too many."""
    if key not in kept:
        value = make()
        if len(kept) >= MOST_KEPT:
            del kept[next(iter(kept))]
        kept[key] = value
    return kept[key]
