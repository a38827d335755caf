"""One planner for a program: a workload in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.results import Answers, EstimateResult, MemoryResult, PlanResult, ReplayResult, StudyResult, TrafficResult
from planner.errors import Problem, UserError
from planner.schema import read_struct
from planner.session import Session
from planner.workload.tasks import Objective, Request, Workload

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.answer import Answer
    from planner.engine.study.sizes import Study
    from planner.hardware.prices.offers import Offer

NO_CHANGES: Mapping[str, Any] = {}
WorkloadLike = str | Path | Workload | Mapping[str, Any]
"""A preset's name, the path of a .toml file, the keys of one, or a `Workload`."""


class Planner:
    """Plans, estimates, memory and studies, from the catalogue, your prices and the measurements of this machine.

    `config` and `state` are the folders of `gpu-planner --config` and `--state`; `basis="spec"` leaves measurements out. Unusable
    input raises `planner.UserError`, whose `problems` name every fault.
    """

    def __init__(
        self, *, config: str | Path | None = None, state: str | Path | None = None, basis: BasisChoice = "measured"
    ) -> None:
        self.basis: BasisChoice = basis
        self.session = Session.open(config=Path(config) if config else None, state=Path(state) if state else None)

    def workload(self, workload: WorkloadLike, changes: Mapping[str, Any] = NO_CHANGES) -> Workload:
        """`workload` with `changes` by dotted keys (`{"targets.p95_request_s": 3}`), checked."""
        where = ""
        if isinstance(workload, (str, Path)):
            preset = self.session.preset(workload)
            workload, where = preset.workload, str(preset.path)
        elif not isinstance(workload, Workload):
            workload = read_struct(Workload, workload, "workload")
        return self.session.workload(self.session.changed(workload, changes), where)

    def plan(
        self,
        workload: WorkloadLike,
        changes: Mapping[str, Any] = NO_CHANGES,
        *,
        gpus: Sequence[str] = (),
        objective: Objective | None = None,
        top: int | None = None,
        hints: bool = False,
    ) -> PlanResult:
        """Every GPU, count and layout that could run `workload`, ranked.

        `gpus`: consider these alone. `top`: the largest number of rows. `hints`: say for each GPU that is no solution what would make it
        one, which takes a few times as long.
        """
        asked = self.workload(workload, self._asked(changes, gpus, objective))
        return PlanResult(self.session.plan(asked, basis=self.basis, top=top, hints=hints))

    def memory(self, workload: WorkloadLike, gpu: str, changes: Mapping[str, Any] = NO_CHANGES) -> MemoryResult:
        """Memory of the best layout of `workload` on `gpu`, item by item, whether or not it fits."""
        asked = self.workload(workload, self._asked(changes, [gpu], None))
        rows = self.session.plan(asked, basis=self.basis, levers=False).rows
        row = next((row for row in rows if not row.here), rows[0] if rows else None)
        detail = self.session.memory_detail(asked, row, basis=self.basis) if row else None
        if row is None or detail is None:
            raise UserError(Problem("", "gpu", f"{gpu}: {row.why if row else 'no candidate'}; its memory is not known."))
        return MemoryResult(detail, row)

    def estimate(self, *requests: Request | Mapping[str, Any]) -> EstimateResult:
        """Candidates as given, without a search: a `Request` or its keys each. Only model, gpu and task are required."""
        asked = [
            request if isinstance(request, Request) else read_struct(Request, request, f"request {number}")
            for number, request in enumerate(requests, 1)
        ]
        found = self.session.estimate(asked, basis=self.basis)
        problems = [
            _numbered(problem, number)
            for number, answer in enumerate(found, 1)
            if isinstance(answer, UserError)
            for problem in answer.problems
        ]
        if problems:
            raise UserError(problems)
        answers: list[Answer] = [answer for answer in found if not isinstance(answer, UserError)]
        return EstimateResult(Answers(answers))

    def study(
        self, study: Study | None = None, *, gpus: Sequence[str] = (), prices: str = "", given: Mapping[str, float] | None = None
    ) -> StudyResult:
        """Compute per dollar over model or batch sizes; `given`: USD an hour of a GPU that go before the price set's."""
        return StudyResult(self.session.study(study, gpus=gpus, prices=prices, given=given, basis=self.basis))

    def traffic(self, *files: str | Path, seconds: float | None = None) -> TrafficResult:
        """Summary of the requests in `files`; `seconds`: between two pages of metrics, or since the engine started."""
        from planner.observe.traffic.reading import read_traffic

        return TrafficResult(*read_traffic([Path(file) for file in files], seconds=seconds))

    def replay(
        self,
        traffic: TrafficResult,
        workload: WorkloadLike,
        changes: Mapping[str, Any] = NO_CHANGES,
        *,
        gpus: Sequence[str] = (),
        replicas: int | None = None,
    ) -> ReplayResult:
        """Serve the requests of `traffic` by the best layout for `workload`; `replicas`: by default as many as needed."""
        from planner.workload.traffic.preset import service_of, traced

        if traffic.trace is None:
            raise UserError(Problem(traffic.source, "", "has no requests one by one."))
        trace = traced(traffic.trace)
        service = self.workload(service_of(self.workload(workload, changes), traffic.answer), self._asked({}, gpus, None))
        row = next((row for row in self.session.plan(service, basis=self.basis, levers=False).rows if row.answer.layout), None)
        if row is None:
            raise UserError(Problem("", "workload", "no GPU can serve it."))
        return ReplayResult(self.session.replay(service, row, trace, replicas=replicas, basis=self.basis))

    def offers(self, gpu: str | None = None) -> tuple[Offer, ...]:
        """Rental offers, of one GPU or of all."""
        if gpu is None:
            return self.session.offers
        name = self.session.gpus.find(gpu).name
        return tuple(offer for offer in self.session.offers if offer.gpu == name)

    @staticmethod
    def _asked(changes: Mapping[str, Any], gpus: Sequence[str], objective: Objective | None) -> dict[str, Any]:
        """`changes` with the GPUs to consider and the objective, where these are given."""
        more: dict[str, Any] = {"gpus_considered": list(gpus)} if gpus else {}
        return {**changes, **more, **({"objective": objective} if objective else {})}


def _numbered(problem: Problem, number: int) -> Problem:
    """`problem` of the request with that `number`."""
    return problem._replace(where=problem.where or f"request {number}")
