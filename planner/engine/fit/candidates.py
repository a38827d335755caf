"""Candidates of every model of a catalogue on given GPUs: those that can be evaluated, and why the others cannot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.estimate.estimate import Prepared, job_of_request, laid_out, prepare
from planner.engine.fit.variants import Variant, variants_of
from planner.engine.job.context_length import check_context
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import FindChip
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Models
from planner.workload.tasks import Request, trains

Competition = tuple[str, str, str]
"""Model, weight precision and training method: the candidates that compete for one row."""

DEGREES = ("gpus", "tp", "pp", "dp")
"""Keys of a request that belong to its layout, not to its job."""


class Candidate(NamedTuple):
    """One variant of a model, ready to be evaluated."""

    variant: Variant
    prepared: Prepared

    @property
    def key(self) -> Competition:
        """Row it competes for."""
        return competition_of(self.variant)


class Candidates(NamedTuple):
    """Candidates that can be evaluated, by kind of task; why the others cannot; and how many there are in all."""

    by_kind: Mapping[str, Sequence[Candidate]]
    refused: Mapping[Competition, Answer | UserError]
    considered: int


class Pool(NamedTuple):
    """GPUs that are given, and the models that may run on them."""

    gpu: Gpu
    gpus: int
    catalogue: Mapping[str, Models]
    find_chip: FindChip

    def candidates(self, base: Request) -> Candidates:
        """Candidates of every model with the settings of `base`."""
        by_kind: dict[str, list[Candidate]] = defaultdict(list)
        refused: dict[Competition, Answer | UserError] = {}
        considered = 0
        for name, models in self.catalogue.items():
            before, jobs = considered, dict[tuple[object, ...], Job]()
            for variant in variants_of(msgspec.structs.replace(base, model=name), self.gpu, self.gpus, models.main):
                considered += 1
                found = self.prepared(variant, jobs)
                if isinstance(found, Prepared):
                    by_kind[found.kind].append(Candidate(variant, found))
                else:
                    refused.setdefault(competition_of(variant), found)
            if considered == before:
                why = f"{base.global_batch} sequences cannot be divided over {self.gpus} GPUs in whole micro batches."
                refused[name, base.weight_dtype or "", ""] = UserError(Problem("", "global_batch", why))
        return Candidates(by_kind, refused, considered)

    def prepared(self, variant: Variant, jobs: dict[tuple[object, ...], Job]) -> Prepared | Answer | UserError:
        """`variant` as `prepare` makes it; layouts that differ in degrees alone share one of `jobs`, those of this model."""
        request, models = variant.request, self.catalogue[str(variant.request.model)]
        try:
            check_context(request, models.main)
            if trains(request.task):
                return prepare(request, self.gpu, models, self.find_chip)
            key = (variant.weight_dtype, variant.method, request.engine, request.dtype)
            if (job := jobs.get(key)) is None:
                job = jobs[key] = job_of_request(request, self.gpu, models)
            degrees = {name: getattr(request, name) for name in DEGREES}
            workload = msgspec.structs.replace(job.workload, **degrees)
            job = msgspec.structs.replace(job, workload=workload, assumed=dict(job.assumed))
            return laid_out(job, request, self.gpu, self.find_chip)
        except UserError as error:
            return error

    def with_requests(self, candidate: Candidate, at_once: int) -> Candidate:
        """`candidate` with this number of requests at once on all replicas."""
        variant = candidate.variant._replace(request=msgspec.structs.replace(candidate.variant.request, concurrency=at_once))
        prepared = self.prepared(variant, {})
        assert isinstance(prepared, Prepared), "fewer requests are refused nothing that more are given"
        return Candidate(variant, prepared)


def competition_of(variant: Variant) -> Competition:
    """Row that `variant` competes for."""
    return str(variant.request.model), variant.weight_dtype, variant.method


def rows_of(candidates: Sequence[Candidate]) -> Collection[Sequence[int]]:
    """Numbers of the candidates that compete for a row, for each row."""
    numbers: dict[Competition, list[int]] = defaultdict(list)
    for number, one in enumerate(candidates):
        numbers[one.key].append(number)
    return numbers.values()
