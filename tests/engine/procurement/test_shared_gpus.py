"""Several services on one uncut GPU: sums against real packing, and shares that the engine has checked."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from each_case import each_case

from planner.engine.procurement.portfolio.local_search import choices, local_search
from planner.engine.procurement.portfolio.portfolio import ON_SHARES
from planner.engine.procurement.portfolio.records import Need, Pool, Portfolio, PortfolioFile, Problem, Source
from planner.engine.procurement.portfolio.ways import PARTS
from planner.hardware.catalogue.mig import DIVISORS
from planner.schema import read_struct
from planner.session import Session
from planner.workload.tasks import Request


def _fewest_gpus(sizes: Sequence[int]) -> int:
    """GPUs that hold replicas of `sizes` parts when none is divided, by trying every one in every GPU; whole GPUs hold nothing else."""
    whole, small = sum(size // PARTS for size in sizes if size >= PARTS), sorted((s for s in sizes if s < PARTS), reverse=True)

    def fits(left: Sequence[int], free: tuple[int, ...]) -> bool:
        if not left:
            return True
        return any(
            fits(left[1:], tuple(sorted((*free[:place], room - left[0], *free[place + 1 :]))))
            for place, room in enumerate(free)
            if room >= left[0] and room not in free[:place]
        )

    return next(whole + count for count in itertools.count() if fits(small, (PARTS,) * count))


@each_case("seed", range(40))
def test_shares_fit_wherever_their_sum_does(seed: int) -> None:
    """A half, a quarter and an eighth divide each other, so that no room is lost between them."""
    chance = random.Random(seed)  # noqa: S311  # the same cases every time
    sizes = [chance.choice([PARTS // divisor for divisor in DIVISORS] + [PARTS]) for _ in range(chance.randint(1, 9))]
    assert _fewest_gpus(sizes) == math.ceil(sum(sizes) / PARTS)
    assert _fewest_gpus([3, 3, 3, 3, 3, 1]) > math.ceil(16 / PARTS), "other sizes leave room that nobody can use"


def _small(seed: int) -> tuple[Problem, dict[tuple[int, int], int]]:
    """A problem of services on parts of GPUs by the hour, and the parts of a replica of each."""
    chance = random.Random(seed)  # noqa: S311
    pools = tuple(
        Pool(gpu=f"part {number}", hourly=Source(kind="on-demand", gpus=PARTS, usd_per_month=chance.uniform(50, 400)))
        for number in range(3)
    )
    needs, each = {}, {}
    for workload, pool in itertools.product(range(5), range(3)):
        each[workload, pool] = chance.choice([PARTS // divisor for divisor in DIVISORS] + [PARTS])
        replicas = chance.randint(1, 2), chance.randint(1, 2)
        needs[workload, pool] = Need(tuple(each[workload, pool] * count for count in replicas), interruptible=False)
    return Problem(needs=needs, workloads=5, pools=pools, weights=(0.25, 0.75), parts=PARTS), each


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_what_trying_every_packing_finds(seed: int) -> None:
    milp = pytest.importorskip("planner.engine.procurement.portfolio.milp")
    pytest.importorskip("highspy")
    problem, each = _small(seed)

    def usd(placement: tuple[int, ...]) -> float:
        total = 0.0
        for pool, made in enumerate(problem.pools):
            for hour, weight in enumerate(problem.weights):
                there = [(w, problem.needs[w, pool].gpus[hour]) for w, place in enumerate(placement) if place == pool]
                replicas = [each[w, pool] for w, parts in there for _ in range(parts // each[w, pool])]
                assert made.hourly is not None
                total += weight * made.hourly.usd_per_month * (_fewest_gpus(replicas) if replicas else 0)
        return total

    best = min(usd(placement) for placement in itertools.product(*choices(problem)))
    solved, found = milp.solve(problem), local_search(problem)
    assert solved is not None
    assert found is not None
    assert usd(solved.placement) == pytest.approx(best, rel=1e-4)
    assert best <= usd(found) * (1 + 1e-9) <= 1.3 * best


SERVICE = {"task": "serve", "weight_dtype": "fp8", "input_tokens": 500, "output_tokens": 100}


def _service(name: str, model: str, rate: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "set": SERVICE | {"model": model, "request_rate_per_s": rate}, **more}


def _file(**changes: Any) -> PortfolioFile:
    small = [_service("a", "qwen3-8b", 0.3), _service("b", "qwen3-4b", 0.2), _service("c", "qwen3-4b", 0.5)]
    return msgspec.convert({"own": [{"gpu": "L40S"}], "workload": [one | changes for one in small]}, PortfolioFile)


@cache
def _session() -> Session:
    return Session.open()


@cache
def _shared() -> Portfolio:
    """The three services on shares of GPUs."""
    return _session().portfolio(_file(shared=True))


@pytest.mark.sweep
def test_three_small_services_share_the_one_gpu_that_is_owned() -> None:
    """One L40S is owned: without sharing it holds one of three, and two are rented; shared, a half and two quarters fill it at most."""
    alone, shared = _session().portfolio(_file()), _shared()
    assert sum(one.gpu == "L40S" for one in alone.workloads) == 1
    assert ON_SHARES not in alone.notes
    assert {one.gpu for one in shared.workloads} == {"L40S"}
    assert all(one.share in DIVISORS and one.gpus_at_most == 1 for one in shared.workloads)
    taken = sum(1 / one.share for one in shared.workloads)
    assert taken <= 1
    (pool,) = shared.pools
    assert (pool.owned, pool.gpus_at_most, pool.hourly_gpu_h) == (1, 1, 0)
    assert pool.usd_per_month == pytest.approx(taken * 0.35 * 730 * 0.15, rel=1e-6), "the part of the power that its shares use"
    assert shared.usd_per_month < alone.usd_per_month
    assert ON_SHARES in shared.notes


@pytest.mark.sweep
def test_a_share_is_checked_by_the_engine() -> None:
    """8.8 GiB of weights in FP8 fit a half of 48 GB with their cache, no eighth; and a half of the time takes twice as long."""
    session, shared = _session(), _shared()
    assert next(one for one in shared.workloads if one.name == "a").share in {2, 4}
    asked = [{"model": "qwen3-8b", "gpu": gpu, "concurrency": 1, **SERVICE} for gpu in ("L40S", "L40S 1/2", "L40S 1/8")]
    answers: list[Any] = list(session.estimate([read_struct(Request, one, "") for one in asked]))
    whole, half, eighth = answers
    assert half.fits
    assert not eighth.fits
    assert 1.75 < whole.decode_tokens_per_s.value / half.decode_tokens_per_s.value < 2.05
    assert half.memory_bytes.total.value <= 48e9 / 2 * 1.1


def test_a_latency_decides_which_share_is_enough() -> None:
    """A whole L40S takes more than a second, and so does a quarter of an H100: two services share one H100 in halves."""
    session = Session.open()
    quick = [_service(name, "qwen3-8b", 0.2, shared=True) for name in "ab"]
    for one in quick:
        one["set"] |= {"targets": {"p95_request_s": 1.0}}
    file = msgspec.convert({"gpus": ["L4", "L40S", "H100 SXM5 80GB"], "workload": quick}, PortfolioFile)
    found = session.portfolio(file)
    assert [(one.gpu, one.share) for one in found.workloads] == [("H100 SXM5 80GB", 2)] * 2
    (pool,) = found.pools
    assert pool.gpus_at_most == 1
    assert found.alone_usd_per_month is not None
    assert found.usd_per_month < found.alone_usd_per_month
