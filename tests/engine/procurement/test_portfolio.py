"""Portfolios: the optimum against every placement there is, sums worked by hand, and whole files."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import msgspec
import pytest

from planner.engine.answers.plan import Plan
from planner.engine.procurement.portfolio.local_search import Costs, choices, local_search
from planner.engine.procurement.portfolio.options import PlannedWorkload
from planner.engine.procurement.portfolio.pool_cost import pool_cost
from planner.engine.procurement.portfolio.records import Entry, Need, Pool, PortfolioFile, Problem, Source
from planner.engine.procurement.portfolio.time_classes import hourly_factors, rounded_share, time_classes
from planner.errors import UserError
from planner.session import Session

DAY = [2.0, 1, 1, 1, 1, 2, 4, 6, 8, 10, 10, 10, 9, 9, 10, 10, 9, 8, 8, 7, 6, 5, 4, 3]


def _source(kind: str, gpus: int, usd: float, entry: float = 0.0) -> Source:
    return Source(kind=kind, gpus=gpus, usd_per_month=usd, entry_usd=entry)


def _random(seed: int, workloads: int, pools: int, hours: int, *, capex: float | None = None) -> Problem:
    """Pools of every make-up, and workloads that run on most of them."""
    chance = random.Random(seed)  # noqa: S311  # the same problems every time
    made = []
    for number in range(pools):
        size, price = chance.choice([1, 1, 2, 4, 8]), chance.uniform(200, 4000)
        kinds = [chance.random() < 0.6 for _ in range(2)]
        made.append(
            Pool(
                gpu=f"part {number}",
                owned=chance.choice([0, 0, 0, 8, 16]),
                owned_usd_per_month=40.0,
                hourly=_source("on-demand", size, price * size),
                spot=_source("spot", size, price * size * chance.uniform(0.3, 0.7)) if kinds[0] else None,
                fixed=_source("reserved-1y", size, price * size * chance.uniform(0.5, 0.8)) if kinds[1] else None,
                bought=_source("bought", 1, price * chance.uniform(0.2, 0.9), 20_000.0) if capex else None,
            )
        )
    needs = {}
    for workload in range(workloads):
        base, soft, load = chance.randint(1, 24), chance.random() < 0.3, [chance.uniform(0.2, 1) for _ in range(hours)]
        for pool in range(pools):
            speed = chance.uniform(0.5, 2)
            if chance.random() < 0.7 or pool == workload % pools:
                needs[workload, pool] = Need(tuple(max(1, round(base * speed * part)) for part in load), soft)
    return Problem(needs=needs, workloads=workloads, pools=tuple(made), weights=(1 / hours,) * hours, capex_usd=capex)


def test_hours_above_a_base_are_rented_by_the_hour() -> None:
    """2 GPUs at night, 6 for half of the day: commit to 2 (50 $), rent 4 for half of the month (100 $ · 4 / 2)."""
    pool = Pool(gpu="a", hourly=_source("on-demand", 1, 100.0), fixed=_source("reserved-1y", 1, 60.0))
    mix = pool_cost(pool, [2, 6], [0, 0], [0.5, 0.5])
    assert (mix.usd, mix.fixed, mix.hourly) == (2 * 60 + 4 * 100 * 0.5, 2, (0, 4))
    cheap = msgspec.structs.replace(pool, fixed=_source("reserved-1y", 1, 40.0))
    assert pool_cost(cheap, [2, 6], [0, 0], [0.5, 0.5]).usd == 6 * 40, "below half of the price, the base is the peak"


def test_what_stays_is_never_put_on_spot_and_ones_own_come_first() -> None:
    pool = Pool(gpu="a", owned=3, owned_usd_per_month=10.0, hourly=_source("on-demand", 1, 100.0), spot=_source("spot", 1, 30.0))
    firm = pool_cost(pool, [5], [0], [1.0])
    assert (firm.usd, firm.owned, firm.hourly, firm.spot) == (230.0, (3,), (2,), (0,))
    loose = pool_cost(pool, [2], [6], [1.0])
    assert (loose.usd, loose.owned, loose.hourly, loose.spot) == (3 * 10 + 5 * 30, (3,), (0,), (5,))


def test_whole_instances_are_paid() -> None:
    pool = Pool(gpu="a", hourly=_source("on-demand", 8, 800.0))
    assert pool_cost(pool, [6, 9], [0, 0], [0.5, 0.5]).usd == 0.5 * 800 + 0.5 * 1600
    assert pool_cost(Pool(gpu="a", owned=4), [6], [0], [1.0]).usd == float("inf"), "nobody rents the rest out"


@pytest.mark.parametrize("seed", range(12))
def test_the_solver_finds_what_trying_everything_finds(seed: int) -> None:
    milp = pytest.importorskip("planner.engine.procurement.portfolio.milp")
    pytest.importorskip("highspy")
    problem = _random(seed, 4 + seed % 3, 3 + seed % 2, 1 + seed % 4)
    costs = Costs(problem)
    best = min(costs.total(placement) for placement in itertools.product(*choices(problem)))
    solved = milp.solve(problem)
    assert solved is not None
    assert costs.total(solved.placement) == pytest.approx(best, rel=1e-4)
    found = local_search(problem)
    assert found is not None
    assert best <= costs.total(found) * (1 + 1e-9) <= 1.6 * best


@pytest.mark.parametrize("seed", range(4))
def test_a_capital_is_spent_where_it_saves_most(seed: int) -> None:
    milp = pytest.importorskip("planner.engine.procurement.portfolio.milp")
    pytest.importorskip("highspy")
    problem = _random(seed, 3, 2, 2, capex=60_000.0)

    def usd(placement: tuple[int, ...], units: tuple[int, ...]) -> float:
        total = 0.0
        for pool in set(placement):
            hard, soft = ([0, 0], [0, 0])
            for workload, place in enumerate(placement):
                if place == pool:
                    need = problem.needs[workload, pool]
                    into = soft if need.interruptible else hard
                    for hour in range(2):
                        into[hour] += need.gpus[hour]
            total += pool_cost(problem.pools[pool], hard, soft, problem.weights, units[pool]).usd
        return total

    splits = [units for units in itertools.product(range(4), repeat=2) if sum(units) <= 3]
    best = min(usd(placement, units) for placement in itertools.product(*choices(problem)) for units in splits)
    solved = milp.solve(problem)
    assert solved is not None
    assert sum(solved.bought) * 20_000 <= 60_000
    assert usd(solved.placement, solved.bought) == pytest.approx(best, rel=1e-4)


@pytest.mark.sweep
def test_twenty_workloads_on_sixty_offers_take_less_than_five_seconds() -> None:
    milp = pytest.importorskip("planner.engine.procurement.portfolio.milp")
    pytest.importorskip("highspy")
    problem = _random(1224, 20, 60, 6)
    began = time.process_time()
    solved = milp.solve(problem)
    assert time.process_time() - began < 5
    assert solved is not None
    assert solved.gap <= milp.GAP
    began = time.process_time()
    assert local_search(problem) is not None
    assert time.process_time() - began < 5


@pytest.mark.sweep
def test_a_proof_is_given_processor_seconds_and_the_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock an answer would depend on what else the machine does."""
    milp = pytest.importorskip("planner.engine.procurement.portfolio.milp")
    pytest.importorskip("highspy")
    problem = _random(1224, 20, 60, 6)
    proved = milp.solve(problem)
    monkeypatch.setattr(milp, "PROCESSOR_LIMIT_S", 0.02)
    cut_off = milp.solve(problem, time.process_time)
    assert proved is not None
    assert proved.gap <= milp.GAP
    assert cut_off is None or cut_off.gap > milp.GAP


def test_replicas_start_before_they_are_needed_and_jobs_take_the_quiet_hours() -> None:
    late = hourly_factors(Entry(name="a", load=DAY, start_minutes=0))
    early = hourly_factors(Entry(name="a", load=DAY, start_minutes=10))
    assert late[8] == 0.8
    assert early[8] == 1.0, "replicas for the load of nine o'clock start at eight"
    assert early[23] == 0.3
    share = rounded_share(0.1)
    assert 0.1 <= share < 0.111
    classes = time_classes([Entry(name="a", load=DAY), Entry(name="b")], [True, False], [share])
    assert sum(one.share for one in classes) == pytest.approx(1.0)
    running = [one for one in classes if one.begin < share - 1e-9]
    assert sum(one.share for one in running) == pytest.approx(share)
    assert max(one.factors[0] for one in running) == min(one.factors[0] for one in classes)


FILE: dict[str, Any] = {
    "months": 12,
    "own": [{"gpu": "L40S", "count": 4}],
    "gpus": ["L40S", "L4", "H100 SXM5 80GB"],
    "workload": [
        {
            "name": "assistant",
            "set": {"model": "qwen3-8b", "task": "serve", "weight_dtype": "fp8", "request_rate_per_s": 6.0, "input_tokens": 800, "output_tokens": 200},
            "load": DAY,
            "min_replicas": 2,
        },
        {"name": "tuning", "preset": "llama-3.1-8b-lora", "runs_per_month": 2},
    ],
}  # fmt: skip


def _file(**changes: Any) -> PortfolioFile:
    return msgspec.convert(FILE | changes, PortfolioFile)


def test_a_file_is_placed_on_ones_own_first() -> None:
    found = Session.open().portfolio(_file())
    assert [one.name for one in found.workloads] == ["assistant", "tuning"]
    assistant, tuning = found.workloads
    assert assistant.gpus_at_least >= 2
    assert (assistant.interruptible, tuning.interruptible) == (False, True)
    assert tuning.gpus_at_least == 0
    assert found.usd_per_month == pytest.approx(sum(pool.usd_per_month for pool in found.pools))
    (pool,) = found.pools
    assert pool.gpu == "L40S"
    assert pool.owned >= 2
    # 350 W · 0.15 $/kWh · 730 h = 38.3 $ a month of one of them
    assert pool.owned_usd_per_month <= pool.owned * 38.33
    rented = Session.open().portfolio(_file(own=[]))
    assert rented.usd_per_month > found.usd_per_month
    assert rented.alone_usd_per_month is not None
    assert rented.usd_per_month <= rented.alone_usd_per_month * 1.0001


def test_a_service_on_two_kinds_of_gpu_has_its_base_on_ones_own() -> None:
    """A tenth of 20 requests/s all day is one replica of two L40S: 2 · 0.35 kW · 730 h · 0.15 $ = 76.65 $; others rent what comes above."""
    service = {"model": "qwen3-32b", "task": "serve", "weight_dtype": "fp8", "input_tokens": 800, "output_tokens": 200}
    one = {"name": "assistant", "set": service | {"request_rate_per_s": 20.0}, "load": DAY}
    session = Session.open()
    whole = session.portfolio(_file(workload=[one], gpus=[]))
    mixed = session.portfolio(_file(workload=[one | {"mixed": True}], gpus=[]))
    assert mixed.usd_per_month < 0.995 * whole.usd_per_month
    assert mixed.alone_usd_per_month == whole.alone_usd_per_month
    base, above = mixed.workloads
    assert (base.name, above.name) == ("assistant, all day", "assistant, above that")
    assert (base.gpu, base.gpus_at_least) == ("L40S", base.gpus_at_most)
    assert above.gpu != "L40S"
    assert above.gpus_at_least == 0
    owned = next(pool for pool in mixed.pools if pool.gpu == "L40S")
    assert owned.owned_usd_per_month == pytest.approx(owned.owned * 0.35 * 730 * 0.15)
    assert f"on one kind each: {whole.usd_per_month:,.0f} $" in mixed.notes[-1]
    flat = session.portfolio(_file(workload=[one | {"mixed": True, "load": [1.0] * 24}], gpus=[]))
    assert [found.name for found in flat.workloads] == ["assistant"], "a load that never changes has no base"


def test_both_parts_of_a_service_hold_its_load_together() -> None:
    chance = random.Random(5)  # noqa: S311  # samples, no secrets
    plan = msgspec.convert({"task": {}, "rows": [], "counts": {"considered": 0, "fit": 0, "shown": 0}}, Plan)
    for _ in range(50):
        load = [chance.uniform(0.1, 10) for _ in range(24)]
        low, high = PlannedWorkload(Entry(name="a", mixed=True, load=load), service=True, plan=plan).split()
        for factor in hourly_factors(low.entry):
            assert low.part(factor) + high.part(factor) == pytest.approx(factor)
            assert low.part(factor) == pytest.approx(low.upto)


def test_filters_hold_for_every_workload_and_for_what_is_rented() -> None:
    """No marketplace, none but Europe: what is taken comes from providers with a record of both."""
    session = Session.open()
    whole = session.portfolio(_file(own=[]))
    kept = session.portfolio(_file(own=[], kinds=["hyperscaler", "gpu-cloud"], countries=["EU"], exclude=["verda"]))
    assert kept.usd_per_month > whole.usd_per_month
    sellers = {words.split(" ")[0] for pool in kept.pools for words in (pool.hourly_from, pool.spot_from) if words}
    assert sellers
    for name in sellers:
        assert name != "verda"
        assert session.providers[name].kind in {"hyperscaler", "gpu-cloud"}
    with pytest.raises(UserError, match="Atlantis"):
        session.portfolio(_file(countries=["Atlantis"]))


def test_faults_of_every_workload_are_told_and_what_runs_nowhere_is_named() -> None:
    wrong = [{"name": "a", "set": {"model": "qwen3-8b", "task": "srve"}}, {"name": "b", "preset": "no-such-preset"}]
    with pytest.raises(UserError) as error:
        Session.open().portfolio(_file(workload=wrong), "file.toml")
    assert {problem.key.split(".")[0] for problem in error.value.problems} == {"workload[a]", "workload[b]"}
    with pytest.raises(UserError) as error:
        Session.open().portfolio(_file(own=[{"gpu": "L40X"}, {"gpu": "A100 80GB SXM", "mig": "9g.9gb"}]), "file.toml")
    assert [problem.key for problem in error.value.problems] == ["own[0].gpu", "own[1].mig"]
    assert "3g.40gb" in error.value.problems[1].message
    huge = [
        {"name": "huge", "set": {"model": "llama-3.1-405b", "task": "train", "sequence": 8192, "train_tokens": 1e9, "max_gpus": 1}}
    ]
    found = Session.open().portfolio(_file(workload=huge, own=[]))
    assert not found.workloads
    assert "huge" in found.notes[0]
