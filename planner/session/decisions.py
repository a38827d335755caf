"""Decisions of a session: models that given GPUs run, ways to pay, the guide, and several workloads on one stock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from planner.errors import Problems, UserError
from planner.session.session import Session as Planning

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.advice.observation import Observed
    from planner.engine.answers.fit import Fit, Order
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.engine.money import Costs
    from planner.engine.procurement.guide import Answers, Guide
    from planner.engine.procurement.paying import Terms
    from planner.engine.procurement.portfolio.records import Entry, Portfolio, PortfolioFile
    from planner.workload.tasks import Workload


class Guided(NamedTuple):
    """A guide with the workload and the plan it rests on."""

    workload: Workload
    plan: Plan
    guide: Guide
    terms: Terms


class Session(Planning):
    """Plans, estimates, studies and advice, and the decisions that rest on them."""

    def fit(
        self,
        fields: Mapping[str, Any],
        gpu: str,
        gpus: int = 1,
        *,
        per_node: int | None = None,
        order: Order = "size",
        basis: BasisChoice = "measured",
        each_tokens_per_s: float | None = None,
    ) -> Fit:
        """Models that run on `gpus` of `gpu`, each in every weight precision: the catalogue's that are made for the task, or the `model` in `fields`.

        `per_node`: GPUs of one machine. `fields`: keys of a workload or a request. `each_tokens_per_s`: see `fit_models`; absent: what a
        reader needs. Raises `UserError` for unusable fields.
        """
        from planner.engine.fit.fit import READER_TOKENS_PER_S, fit_models, is_made_for
        from planner.schema import read_struct, with_numbers
        from planner.workload.architecture import Models
        from planner.workload.studies import NAME_PREFIX
        from planner.workload.tasks import Request

        part, fields = self.gpus.find(gpu), with_numbers(Request, fields)
        served = [name for name in self.models.names() if not name.startswith(NAME_PREFIX)]
        names = [fields["model"]] if "model" in fields else served
        usual = {"task": "serve"} | ({"gpus_per_node": min(per_node, gpus)} if per_node else {})
        base = read_struct(Request, {**usual, **fields, "model": names[0], "gpu": part.name}, "")
        models = {str(name): Models(self.architecture(name)) for name in names}
        catalogue = {name: found for name, found in models.items() if "model" in fields or is_made_for(base.task, found.main)}
        return fit_models(
            base,
            part,
            gpus,
            catalogue,
            self.ceilings_cache.chips(basis),
            order=order,
            given={"task": base.task, **fields},
            each_tokens_per_s=READER_TOKENS_PER_S if each_tokens_per_s is None else each_tokens_per_s,
            left_out=sorted(set(models) - set(catalogue)),
        )

    def costs(
        self, workload: Workload, row: PlanRow, terms: Terms | None = None, *, basis: BasisChoice = "measured"
    ) -> Costs | None:
        """Every way to pay for `row` of the plan for `workload`, over years; None if it has no layout.

        Where `terms` name no API, the cheapest one that sells the model is taken.
        """
        from planner.engine.procurement.paying import Terms, costs_of
        from planner.hardware.prices.api_prices import price_of_model

        asked = terms or Terms()
        if asked.api is None and isinstance(workload.model, str):
            asked = msgspec.structs.replace(asked, api=price_of_model(self.api_prices, self._catalogue_name(workload.model)))
        supply = self._supply(basis)
        return costs_of(self._task(workload).workload, row, supply.gpu_of(row), supply, asked)

    def _catalogue_name(self, model: str) -> str:
        """Catalogue's own name of a model; '' if it has none."""
        try:
            return self.models.find(model).name
        except UserError:  # a path, or an id of the hub
            return ""

    def guide(
        self, answers: Answers, observed: Sequence[Observed] = (), *, basis: BasisChoice = "measured", where: str = ""
    ) -> Guided:
        """Steps from `answers`, and from `observed` use of GPUs, to a contract; raises `UserError`.

        `where`: the file of the answers, from which relative paths in it start.
        """
        from planner.engine.procurement.guide import chosen_plan, guide_of, share_in_use
        from planner.engine.procurement.paying import Terms

        asked = self.workload(answers.fields(), where)
        plan, on_spot = self.plan(asked, basis=basis), msgspec.structs.replace(asked, market="spot")
        choice = chosen_plan(answers, plan, self.plan(on_spot, basis=basis, levers=False) if answers.may_stop else None)
        if choice.plan is not plan:
            asked = on_spot
        row = next((one for one in choice.plan.rows if one.rank), None)
        terms = Terms(months=answers.months, use=share_in_use(answers, row))
        job = self.job(asked, row) if row else None
        costs = self.costs(asked, row, terms, basis=basis) if row else None
        advice = self.rightsize(observed, workload=asked) if observed else None
        guide = guide_of(answers, self._task(asked).workload, choice, job, costs, advice)
        return Guided(asked, choice.plan, guide, terms)

    def portfolio(self, file: PortfolioFile, where: str = "", *, basis: BasisChoice = "measured") -> Portfolio:
        """Cheapest mix for several workloads on one stock; raises `UserError` with every problem of the `file` at `where`."""
        from planner.engine.procurement.portfolio.options import PlannedWorkload
        from planner.engine.procurement.portfolio.portfolio import portfolio_of
        from planner.engine.procurement.portfolio.ways import on_shares
        from planner.engine.search.supply.owned_nodes import parts_of

        problems, asked = Problems(where), list[PlannedWorkload]()
        try:
            parts_of(file.own, self._supply(basis))
        except UserError as error:
            for problem in error.problems:
                problems.add(problem.key, problem.message, problem.nearest)
            file = msgspec.structs.replace(file, own=[])
        for number, entry in enumerate(file.workload):
            try:
                workload = self._entry_workload(entry, file)
                ends = workload.task != "serve" or workload.requests is not None
                plan, shared = self.plan(workload, basis=basis, levers=False), None
                if entry.shared and not ends:
                    shared = self.plan(on_shares(workload, plan), basis=basis, levers=False)
                asked.append(PlannedWorkload(entry, not ends, plan, shared))
            except UserError as error:
                for problem in error.problems:
                    problems.add(f"workload[{entry.name or number}].{problem.key}", problem.message, problem.nearest)
        problems.raise_if_any()
        return portfolio_of(asked, file, self._supply(basis), time.process_time)

    def _entry_workload(self, entry: Entry, file: PortfolioFile) -> Workload:
        """Workload of one entry, on all GPUs that the file allows."""
        from planner.engine.procurement.portfolio.records import FILTERS
        from planner.workload.changes import with_settings

        asked = self.changed(self.presets.load(entry.preset).workload, entry.set) if entry.preset else with_settings({}, entry.set)
        stock = {"own": msgspec.to_builtins(file.own), "gpus_considered": file.gpus, **{key: getattr(file, key) for key in FILTERS}}
        return self.workload(asked | {key: value for key, value in stock.items() if value})
