"""Latency of a row against its load, held against the plan itself and against simulations at other rates."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from engine_sample import session

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import UnderLoad
from planner.workload.presets import read_workload
from planner.workload.tasks import Workload

FIELDS = {
    "model": "llama-3.1-8b",
    "task": "serve",
    "input_tokens": 600,
    "output_tokens": 100,
    "request_rate_per_s": 8.0,
    "gpus_considered": ["H100 SXM"],
    "targets": {"p95_request_s": 3.0, "burst": 0.2},
}


def asked(**changes: object) -> tuple[Workload, PlanRow]:
    workload = read_workload({**FIELDS, **changes}, "")
    return workload, session().plan(workload, levers=False).rows[0]


@pytest.fixture(scope="module")
def served() -> tuple[Workload, PlanRow, UnderLoad]:
    workload, row = asked()
    found = session().under_load(workload, row)
    assert found is not None
    return workload, row, found


def at(workload: Workload, row: PlanRow, rate: float) -> UnderLoad:
    """The same row under another rate."""
    found = session().under_load(msgspec.structs.replace(workload, request_rate_per_s=rate), row)
    assert found is not None
    return found


def test_at_the_load_asked_for_it_says_what_the_plan_says(served: tuple[Workload, PlanRow, UnderLoad]) -> None:
    _, row, found = served
    (here,) = [one for one in found.points if one.load == found.asked == 8.0]
    assert row.answer.request_s is not None
    assert here.request_s.p95 == row.answer.request_s.p95


def test_latency_rises_with_the_load(served: tuple[Workload, PlanRow, UnderLoad]) -> None:
    _, _, found = served
    means = [one.request_s.mean.value for one in found.points]
    assert len(means) > 10
    assert all(after > before for before, after in itertools.pairwise(means))


def test_where_a_target_ends_it_is_just_met(served: tuple[Workload, PlanRow, UnderLoad]) -> None:
    workload, row, found = served
    (end,) = found.ends
    assert end.load is not None
    assert end.load.low < end.load.value < end.load.high
    again = at(workload, row, end.load.value)
    (here,) = [one for one in again.points if one.load == again.asked]
    assert here.request_s.p95 is not None
    assert here.request_s.p95.value == pytest.approx(3.0, rel=0.15)  # straight between two loads of a curve that bends upwards


def test_beyond_the_most_that_is_answered_there_is_no_latency(served: tuple[Workload, PlanRow, UnderLoad]) -> None:
    workload, row, found = served
    assert found.full is not None
    assert max(one.load for one in found.points) <= found.full
    beyond = at(workload, row, 1.1 * found.full)
    assert beyond.full == pytest.approx(found.full, rel=0.01)
    assert all(one.load < beyond.asked for one in beyond.points)


def test_clients_that_wait_have_a_load_of_requests_in_flight() -> None:
    workload, row = asked(request_rate_per_s=None, concurrency=32)
    found = session().under_load(workload, row)
    assert found is not None
    assert (found.by, found.asked, found.full) == ("in-flight", 32.0, None)
    assert found.points[-1].load == 128.0


@pytest.mark.parametrize("changes", [{"concurrency": 20}, {"concurrency": 7, "output_tokens": {"mean": 100, "p95": 300}}])
def test_clients_that_wait_have_one_latency_in_plan_and_curve(changes: dict[str, object]) -> None:
    workload, row = asked(request_rate_per_s=None, targets={}, **changes)
    found = session().under_load(workload, row)
    assert found is not None
    (here,) = [one for one in found.points if one.load == found.asked]
    for name in ("request_s", "ttft_s", "tpot_s"):
        own, at_load = getattr(row.answer, name), getattr(here, name)
        assert [figure.value for figure in (own.mean, own.p50, own.p95, own.p99)] == pytest.approx(
            [figure.value for figure in (at_load.mean, at_load.p50, at_load.p95, at_load.p99)]
        )
    assert all(after.request_s.mean.value > before.request_s.mean.value for before, after in itertools.pairwise(found.points))


def test_clients_beyond_the_most_that_are_served_wait_by_littles_law() -> None:
    """Twice the clients on a full replica take twice the time, as no more are answered."""
    workload, row = asked(request_rate_per_s=None, concurrency=256, max_num_seqs=256, max_gpus=1, targets={})
    found = session().under_load(workload, row)
    assert found is not None
    means = {one.load: one.request_s.mean.value for one in found.points}
    assert means[512.0] == pytest.approx(2 * means[256.0], rel=1e-3)
    assert means[1024.0] == pytest.approx(4 * means[256.0], rel=1e-3)


def test_what_serves_nobody_has_no_latency_by_load() -> None:
    workload = read_workload({"model": "llama-3.1-8b", "task": "prefill", "input_tokens": 600, "gpus_considered": ["H100 SXM"]}, "")
    row = session().plan(workload, levers=False).rows[0]
    assert session().under_load(workload, row) is None
