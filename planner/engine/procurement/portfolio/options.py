"""Problem of a portfolio, built from the plans of its workloads, the stock, and the offers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.evaluate.offer_prices import priced_offers
from planner.engine.evaluate.task import Supply
from planner.engine.money import bought_usd, running_usd_per_h
from planner.engine.procurement.paying import TERMS
from planner.engine.procurement.portfolio.pool_cost import pool_cost
from planner.engine.procurement.portfolio.records import FILTERS, Entry, Need, Pool, PortfolioFile, Problem, Source
from planner.engine.procurement.portfolio.time_classes import TimeClass, hourly_factors, rounded_share, time_classes
from planner.engine.procurement.portfolio.ways import PARTS, PoolKey, SharedRow, way_on
from planner.engine.search.supply.owned_nodes import parts_of
from planner.engine.search.supply.quotes import admitted
from planner.hardware.catalogue.gpus import Gpu
from planner.units import HOURS_PER_MONTH
from planner.workload.hardware.owned import Owning
from planner.workload.tasks import Workload

TOO_DEAR = 3.0
"""Ratio to the cheapest pool of each workload above which, for all workloads, a pool is left out."""


class PlannedWorkload(NamedTuple):
    """One workload with its plan."""

    entry: Entry
    service: bool
    plan: Plan
    shared: Plan | None = None
    """Plan on shares of GPUs, for a service that may share them."""
    above: float = 0.0
    upto: float = 1.0
    """Upper end of the load that it serves, as a share of the largest load of a day: all of it, a base, or the load above a base."""

    @property
    def may_stop(self) -> bool:
        """True if it may be interrupted."""
        return not self.service if self.entry.interruptible is None else self.entry.interruptible

    def part(self, load: float) -> float:
        """Requests per second of `load` that this part serves."""
        return max(0.0, min(load, self.upto) - self.above)

    def split(self) -> list[PlannedWorkload]:
        """Its base, which is the load of the quietest hour, and the load above it; unsplit where it must not be split, or no such hour exists."""
        base = min(hourly_factors(self.entry)) if self.service and self.entry.mixed else 0.0
        if not 0 < base < 1:
            return [self]
        names = (f"{self.entry.name}, all day", f"{self.entry.name}, above that")
        low, high = (msgspec.structs.replace(self.entry, name=name) for name in names)
        return [self._replace(entry=low, upto=base), self._replace(entry=high, above=base)]


class Built(NamedTuple):
    """Problem, and the way each workload runs in each pool."""

    problem: Problem
    ways: Mapping[tuple[int, int], SharedRow]
    classes: Sequence[TimeClass]


def build(asked: Sequence[PlannedWorkload], file: PortfolioFile, supply: Supply) -> Built:
    """Problem of `file`, whose workloads are `asked`."""
    pools = _pools(file, supply)
    keys = list(pools)
    ways = {
        (number, place): way
        for number, one in enumerate(asked)
        for place, key in enumerate(keys)
        if (way := way_on(one.plan, one.shared, key, service=one.service)) is not None
    }
    parts = PARTS if any(way.divisor > 1 for way in ways.values()) else 1
    shares = {key: share for key, way in ways.items() if (share := _share(asked[key[0]], way.row)) is not None}
    classes = time_classes([one.entry for one in asked], [one.service for one in asked], shares.values())
    needs = {
        (number, place): need
        for (number, place), way in ways.items()
        if (need := _need(asked[number], way, number, classes, shares.get((number, place)), parts)) is not None
    }
    counted = [_in_parts(pool, parts) for pool in pools.values()]
    kept = _worth_it(needs, counted, classes, len(asked), parts)
    moved = {place: number for number, place in enumerate(kept)}
    problem = Problem(
        needs={(number, moved[place]): need for (number, place), need in needs.items() if place in moved},
        workloads=len(asked),
        pools=tuple(counted[place] for place in kept),
        weights=tuple(one.share for one in classes),
        capex_usd=file.capex_usd,
        parts=parts,
    )
    return Built(problem, {(number, moved[place]): way for (number, place), way in ways.items() if place in moved}, classes)


def _share(asked: PlannedWorkload, row: PlanRow) -> float | None:
    """Share of the month that a job takes, rounded up; above 1: it does not end in time; None: a service, or a job without an end."""
    if asked.service or row.job_h is None:
        return None
    share = row.job_h.value * asked.entry.runs_per_month / HOURS_PER_MONTH
    return share if share > 1 else rounded_share(share)


def _need(
    asked: PlannedWorkload, way: SharedRow, number: int, classes: Sequence[TimeClass], share: float | None, parts: int
) -> Need | None:
    """Parts of GPUs (whole ones where `parts` is 1) in every class of hours; None for a job that takes longer than the month."""
    layout = way.row.answer.layout
    assert layout is not None
    whole = way.parts * parts // PARTS
    if asked.service:
        each = way.replica_parts * parts // PARTS
        least = asked.entry.min_replicas if not asked.above else 0
        replicas = (max(least, math.ceil(layout.dp * asked.part(one.factors[number]) - 1e-9)) for one in classes)
        return Need(tuple(count * each for count in replicas), asked.may_stop)
    if share is None:
        return Need(tuple(whole for _ in classes), asked.may_stop)
    if share > 1:
        return None
    return Need(tuple(whole if one.begin < share - 1e-9 else 0 for one in classes), asked.may_stop)


def _pools(file: PortfolioFile, supply: Supply) -> dict[PoolKey, Pool]:
    """A pool for each GPU and size of node that is owned or offered, with its cheapest source of every kind."""
    owning = file.owning or Owning()
    wanted = {supply.find_gpu(name).name for name in file.gpus}
    sources: dict[PoolKey, dict[str, Source]] = defaultdict(dict)
    for source, key in _offered(file, supply):
        best = sources[key].get(source.kind)
        if best is None or source.usd_per_month < best.usd_per_month:
            sources[key][source.kind] = source
    owned: dict[PoolKey, tuple[int, float]] = {}
    for own, part in zip(file.own, parts_of(file.own, supply), strict=True):
        power = min((own.power_limit_w or math.inf) / part.of_whole, part.tdp_w or math.inf)
        key = part.name, 1 if own.mig else own.count
        running = running_usd_per_h(power, owning.of_part(part.of_whole)) * HOURS_PER_MONTH if math.isfinite(power) else 0.0
        owned[key] = owned.get(key, (0, 0.0))[0] + own.gpus, running
        sources.setdefault(key, {})
    found = {}
    for key in sorted(sources):
        if wanted and key[0] not in wanted and key not in owned:
            continue
        count, running = owned.get(key, (0, 0.0))
        known = sources[key]
        fixed = [known[kind] for kind in ("reserved-1y", "reserved-3y") if kind in known]
        found[key] = Pool(
            gpu=key[0],
            owned=count,
            owned_usd_per_month=running,
            fixed=min(fixed, key=lambda one: one.usd_per_month, default=None),
            hourly=known.get("on-demand"),
            spot=known.get("spot"),
            bought=_bought(supply.find_gpu(key[0]), key[1], owning, file) if file.capex_usd else None,
        )
    return found


def _offered(file: PortfolioFile, supply: Supply) -> Iterator[tuple[Source, PoolKey]]:
    filters = Workload(model="", task="serve", **{key: getattr(file, key) for key in FILTERS})
    for market, term in TERMS.items():
        for price, offer in priced_offers(supply.offers, market, file.providers):
            if not admitted(offer, supply.providers.get(offer.provider), filters):
                continue
            monthly = price * HOURS_PER_MONTH
            if term:  # owed as a whole
                monthly *= math.ceil(file.months / term) * term / file.months
            size = offer.gpus
            while size <= (offer.gpus_max or offer.gpus):
                who = f"{offer.provider} {offer.instance}"
                usd_per_month = monthly * size / offer.gpus
                yield Source(kind=market, gpus=size, usd_per_month=usd_per_month, who=who), (offer.gpu, size)
                size *= 2


def _in_parts(pool: Pool, parts: int) -> Pool:
    """`pool` with its GPUs counted in parts."""

    def counted(source: Source | None) -> Source | None:
        return source and msgspec.structs.replace(source, gpus=source.gpus * parts)

    return msgspec.structs.replace(
        pool,
        owned=pool.owned * parts,
        owned_usd_per_month=pool.owned_usd_per_month / parts,
        fixed=counted(pool.fixed),
        hourly=counted(pool.hourly),
        spot=counted(pool.spot),
        bought=counted(pool.bought),
    )


def _bought(gpu: Gpu, per_node: int, owning: Owning, file: PortfolioFile) -> Source | None:
    """A node's GPUs, bought: their depreciation per month, and the cost of running them."""
    if gpu.purchase is None or gpu.tdp_w is None:
        return None
    entry = bought_usd(gpu.purchase.price_usd, owning) * per_node
    lives = math.ceil(file.months / (owning.life_years * 12))
    lost = entry * lives / (lives * owning.life_years * 12) * (1 - owning.residual)
    running = running_usd_per_h(gpu.tdp_w, owning) * HOURS_PER_MONTH * per_node
    return Source(kind="bought", gpus=per_node, usd_per_month=lost + running, who=f"{per_node} × {gpu.name}", entry_usd=entry)


def _worth_it(
    needs: Mapping[tuple[int, int], Need], pools: Sequence[Pool], classes: Sequence[TimeClass], workloads: int, parts: int
) -> list[int]:
    """Numbers of the pools that are owned, or nearly the cheapest for some workload alone, which pays for the part of a GPU it uses."""
    weights = [one.share for one in classes]
    alone = {key: pool_cost(pools[key[1]], need.gpus, [0] * len(weights), weights).usd for key, need in needs.items()}
    alone |= {
        key: min(alone[key], pool_cost(pools[key[1]], [0] * len(weights), need.gpus, weights).usd)
        for key, need in needs.items()
        if need.interruptible
    }
    alone = {key: usd * min(1.0, max(needs[key].gpus) / parts) for key, usd in alone.items()}
    best = [min((usd for (one, _), usd in alone.items() if one == number), default=math.inf) for number in range(workloads)]
    near = {place for (number, place), usd in alone.items() if usd <= TOO_DEAR * best[number]}
    return [place for place, pool in enumerate(pools) if place in near or (pool.owned and any(one == place for _, one in needs))]
