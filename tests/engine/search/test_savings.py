"""Savings: what would make the first row cheaper, and that its own command says the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from engine_sample import session, workload

from planner.engine.answers.plan import Lever, Plan
from planner.engine.levers.changed_plans import ChangedPlans
from planner.engine.levers.savings import LEAST_SAVING, MOST_NAMED, cost_of
from planner.engine.search.selection import Choice
from planner.present.choice.levers import lever_text, saving_text
from planner.workload.tasks import Workload

pytestmark = pytest.mark.sweep

CASES: dict[str, Workload] = {
    name: workload(name, **changes)
    for name, changes in {
        "llama-3.1-70b-chat-service": {"gpus_considered": ["H100 SXM5 80GB", "A100 80GB SXM"]},
        "qwen3-30b-a3b-service": {},
        "llama-3.1-8b-full-finetune": {},
        "llama-3.1-8b-lora": {},
        "qwen3-8b-single-user-chat": {},
    }.items()
}


def plan(asked: Workload) -> Plan:
    return session().plan(asked, basis="spec", hints=True)


@cache
def offered(case: str) -> tuple[Plan, list[Lever]]:
    found = plan(CASES[case])
    return found, found.levers


def changed(asked: Workload, change: dict[str, Any]) -> Workload:
    return session().workload(msgspec.to_builtins(asked) | msgspec.to_builtins(change), "test")


@pytest.mark.parametrize("case", CASES)
def test_a_saving_is_what_its_own_command_finds(case: str) -> None:
    found, levers = offered(case)
    assert len(levers) <= MOST_NAMED
    paid = cost_of(found.rows[0], CASES[case])
    assert paid is not None
    for lever in levers:
        asked = changed(CASES[case], lever.change)
        row = session().plan(asked, basis="spec").rows[0]
        cost = cost_of(row, asked)
        assert lever.before is not None
        assert lever.after is not None
        assert cost is not None
        assert cost <= (1 - LEAST_SAVING) * paid
        assert row.usd_per_h is not None
        assert found.rows[0].usd_per_h is not None
        assert lever.before.usd_per_h == found.rows[0].usd_per_h.value
        assert (lever.after.gpu, lever.after.usd_per_h) == (row.gpu, row.usd_per_h.value)


@pytest.mark.parametrize("case", CASES)
def test_a_saving_does_not_offer_itself_again(case: str) -> None:
    for lever in offered(case)[1]:
        again = plan(changed(CASES[case], lever.change)).levers
        assert lever.change not in [other.change for other in again]


def test_savings_are_found_and_said_in_dollars() -> None:
    every = [lever for case in CASES for lever in offered(case)[1]]
    assert len({next(iter(lever.change)) for lever in every}) >= 2, "or the cases would try little"
    for lever in every:
        words = saving_text(lever)
        assert words.startswith("−")
        assert words in lever_text(lever)
    lora = {next(iter(lever.change)): lever for lever in offered("llama-3.1-8b-lora")[1]}
    assert lora["market"].change == {"market": "spot"}
    assert "nodes may be interrupted" in lever_text(lora["market"])


def test_nothing_is_saved_where_nothing_is_paid() -> None:
    found = plan(workload("qwen3-8b-single-user-chat", gpus_considered=["MI355X"], providers=[], max_gpus=1))
    assert found.rows[0].rank == 1
    assert found.rows[0].usd_per_h is None
    assert not found.levers


@pytest.mark.parametrize("rate", [30.0, 60.0])
def test_levers_of_services_are_what_their_commands_simulate(rate: float) -> None:
    base = {"model": "llama-3.1-8b", "task": "serve", "input_tokens": 900, "output_tokens": 20, "request_rate_per_s": rate}
    base |= {"max_gpus": 2, "gpus_considered": ["RTX 4090"], "targets": {"p95_request_s": 5.0}}
    found = session().plan(session().workload(base, "test"), basis="spec")
    promised = [lever for lever in found.levers if lever.gpu]
    assert promised
    for lever in promised:
        again = session().plan(session().workload(base | msgspec.to_builtins(lever.change), "test"), basis="spec")
        first = next(row for row in again.rows if row.rank and not row.here)
        assert first.answer.layout is not None
        assert (first.gpu, first.answer.layout.gpus) == (lever.gpu, lever.gpus), lever.text


@pytest.mark.parametrize("share", [0.5, 0.95, 2.0])
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "qwen3-30b-a3b-service"])
def test_dear_nodes_are_left_out_without_a_change_of_the_first_solution_below_the_price(preset: str, share: float) -> None:
    asked = workload(preset)
    plans = ChangedPlans(session()._task(asked), session()._supply("spec"))
    usual = next(choice for choice in plans.solutions({}) if choice.sure)
    below = share * float(usual.deployments.bill.usd_per_h[usual.row])
    for keys in ({"weight_dtype": "int4"}, {"market": "reserved-3y"}):
        whole, cheap = (
            next((_place(one) for one in plans.solutions(keys, below_usd_per_h=most) if one.sure), None) for most in (None, below)
        )
        assert whole is not None
        assert cheap == whole if whole[2] < below else cheap is None or cheap[2] >= below


def _place(choice: Choice) -> tuple[str, float, float]:
    d, row = choice.deployments, choice.row
    return choice.node_type.gpu.name, float(d.gpus[row]), float(d.bill.usd_per_h[row])
