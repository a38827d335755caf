"""What a workload needs is made once on its way to rows: its job is resolved once, its plan is made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_sample import workload

from planner.engine.evaluate import evaluation, sizing, task
from planner.engine.evaluate.task import Supply
from planner.engine.job.compute_capability import USUAL
from planner.engine.performance.simulation import continuous_batching, replicas
from planner.engine.search import plan
from planner.engine.search.supply import node_types
from planner.session import Session
from planner.workload.tasks import Workload


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(state=tmp_path / "state", config=tmp_path / "config")


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, key: Callable[..., object]) -> Counter[object]:
    """How often `module.name` is called from now on, by `key` of its arguments."""
    calls, whole = Counter[object](), getattr(module, name)

    def once_more(*arguments: Any, **named: Any) -> Any:
        calls[key(*arguments)] += 1
        return whole(*arguments, **named)

    monkeypatch.setattr(module, name, once_more)
    return calls


def spelled(given: Workload, *_: object) -> bytes:
    return msgspec.json.encode(given)


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-8b-full-finetune", "llama-3.1-70b-chat-service", "qwen3-32b-batch-job"])
def test_a_workload_is_resolved_once_however_much_is_asked_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    fields = msgspec.to_builtins(workload(preset, dtype="bf16", gpus_considered=["H100 SXM5 80GB", "L4"]))
    calls = counted(monkeypatch, task, "resolve", spelled)
    given = session.workload(fields)
    found = session.plan(given, hints=True)
    for row in found.rows:
        session.memory_detail(given, row)
        session.time_detail(given, row)
    assert calls[spelled(given)] == 1
    assert max(calls.values()) == 1


@pytest.mark.sweep
def test_an_open_dtype_is_resolved_once_for_each_that_is_tried(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, task, "resolve", spelled)
    given = session.workload({"model": "llama-3.1-8b", "task": "generate", "input_tokens": 100, "output_tokens": 100})
    for row in session.plan(given).rows:
        session.memory_detail(given, row)
    assert sorted(calls.values()) == [1] * (1 + len(USUAL))


def test_help_is_added_to_the_plan_that_was_made(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    given = workload("llama-3.1-8b-lora", gpus_considered=["T4", "H100 SXM5 80GB"], max_gpus=1)
    calls = counted(monkeypatch, plan, "make_plan", lambda given, *_: spelled(given.workload))
    ranking = session.plan(given, levers=False)
    whole = session.plan(given, hints=True)
    assert calls[spelled(given)] == 1
    assert [row.gpu for row in whole.rows] == [row.gpu for row in ranking.rows]
    session.refresh()
    session.plan(given)
    assert calls[spelled(given)] == 2


@pytest.mark.parametrize(
    ("preset", "rounds", "runs", "steps"), [("llama-3.1-70b-chat-service", 1, 1, 280), ("deepseek-v3-service", 1, 1, 620)]
)
def test_a_service_is_evaluated_twice_and_once_for_each_round_of_simulations(
    session: Session, monkeypatch: pytest.MonkeyPatch, preset: str, rounds: int, runs: int, steps: int
) -> None:
    """Screened, sized, and served: the best candidates of all screenings are simulated side by side, in so many runs of so many steps."""
    evaluations = counted(monkeypatch, evaluation, "serve_of", lambda *_, **__: "")
    simulations = counted(monkeypatch, replicas, "run_batches", lambda *_: "")
    taken = counted(monkeypatch, continuous_batching, "_iterate", lambda *_: "")
    session.plan(workload(preset), levers=False)
    assert evaluations.total() == 2 + rounds
    assert simulations.total() == runs
    assert taken.total() <= steps


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "qwen3-30b-a3b-service"])
def test_littles_law_is_asked_once_for_each_number_of_replicas_of_a_layout(
    session: Session, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    asked, whole = list[list[tuple[int, float]]](), sizing.__dict__["request_times"]

    def once_more(time: Any, rules: Any, load: Any, row: Any) -> Any:
        asked.append([*zip(row.tolist(), load.rate_per_s.tolist(), strict=True)])
        return whole(time, rules, load, row)

    monkeypatch.setattr(sizing, "request_times", once_more)
    session.plan(workload(preset), levers=False)
    assert asked
    for one in asked:
        assert len({*one}) == len(one)


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-8b-pretrain", "qwen3-32b-batch-job"])
@pytest.mark.parametrize(
    "limits", [{"p95_request_s": 9.0}, {"burst": 0.5}, {"budget_usd": 2e4}, {"headroom": 0.3}, {"deadline_h": 30.0}]
)
def test_other_limits_take_up_the_search_that_was_made_and_answer_as_one_of_their_own(
    session: Session, monkeypatch: pytest.MonkeyPatch, preset: str, limits: dict[str, float]
) -> None:
    given = workload(preset, gpus_considered=["H100 SXM5 80GB", "L4"])
    if "deadline_h" in limits and given.request_rate_per_s:
        pytest.skip("a service that goes on has no deadline")
    other = msgspec.structs.replace(given, targets=msgspec.structs.replace(given.targets, **limits))
    first, supply = session._task(given), session._supply("measured")
    plan.make_plan(first, supply, simulated=False)
    searches = counted(monkeypatch, plan, "_search", lambda *_: "")
    after = plan.make_plan(first.changed(other), supply, simulated=False)
    assert searches.total() == ("headroom" in limits or "deadline_h" in limits)
    assert after == plan.make_plan(task.Task(other, first.models), supply, simulated=False)


def test_what_a_search_found_is_forgotten_with_the_measurements_and_with_the_next_workload(session: Session) -> None:
    given = workload("llama-3.1-8b-lora", gpus_considered=["L4"])
    session.plan(given)
    kept = session._task(given)
    assert kept.searches
    session.plan(msgspec.structs.replace(given, gpus_considered=["T4"]))
    assert not kept.searches
    session.refresh()
    assert session._task(given) is not kept


def test_node_types_of_some_gpus_are_those_of_the_list_of_all(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    every = workload("llama-3.1-70b-chat-service")
    some = msgspec.structs.replace(every, gpus_considered=["H100 SXM5 80GB", "L40S"])
    own = msgspec.structs.replace(some, price_usd_per_gpu_h=1.5)
    s, chips = session, session.ceilings_cache.chips("spec")
    fresh = Supply(s.gpus.all, s.gpus.find, s.offers, s.machine.devices, {}, chips, chips)
    alone, priced = (node_types.node_types_for(one, fresh) for one in (some, own))
    fresh.node_types.clear()
    made = counted(monkeypatch, node_types, "_node_types_for", spelled)
    node_types.node_types_for(every, fresh)
    assert node_types.node_types_for(some, fresh) == alone
    assert made.total() == 1
    assert node_types.node_types_for(own, fresh) == priced
    assert priced != alone
    assert made.total() == 2
