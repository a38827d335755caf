"""The search in columns finds what a search one by one does: memory of each candidate, and which of them become rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine_sample import session, workload
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.candidate import PLAN_HEADROOM
from planner.engine.evaluate import Candidates
from planner.engine.job.jobs import resolve
from planner.engine.memory import MemoryColumns, memory_of
from planner.engine.search.choosing import NO_FASTER, best_of_each, choose
from planner.engine.search.layouts import enumerate_layouts
from planner.engine.search.rows import Evaluation
from planner.engine.search.screening import screen
from planner.engine.search.sites import sites_for
from planner.workload.tasks import Workload


def posed(asked: Workload) -> tuple[Any, ...]:
    """Job, sites and chips of every part that can run it."""
    s = session()
    job = resolve(asked, s.architecture_of(asked), headroom=PLAN_HEADROOM)
    sites = sites_for(asked, s.gpus.all, s.offers, s.machine.devices, {}, set(), asked.max_gpus or 64)
    found = [(site, s.reach.chips("spec")(site.gpu, job.dtype, job.stored)) for site in sites]
    return job, [site for site, chip in found if chip], [chip for _, chip in found if chip]


@pytest.mark.parametrize(
    ("preset", "change"),
    [
        ("llama-3.1-8b-pretrain", {}),
        ("llama-3.1-8b-pretrain", {"sharding": "hsdp", "sequence": 3000}),
        ("llama-3.1-70b-qlora", {}),
        ("llama-3.1-70b-chat-service", {}),
        ("qwen3-32b-batch-job", {}),
    ],
)
def test_memory_of_what_differs_is_that_of_every_candidate(preset: str, change: dict[str, Any]) -> None:
    job, sites, chips = posed(workload(preset, **{"dtype": "bf16"} | change))
    chips[3] = replace(chips[3], context_bytes=5e8, allocator_slack=0.2)  # as if measured
    layouts = enumerate_layouts(job, sites)
    owner = layouts.site_index
    screened = screen([job], np.zeros(len(sites), dtype=np.int64), chips, layouts)
    assert layouts.ways.gpus.size < owner.size / 3
    candidates = Candidates([job], np.zeros(owner.size, dtype=np.int64), chips, owner, layouts.columns)
    expected, every = memory_of(candidates.table()), np.arange(owner.size)
    found = screened.memory(candidates, every)
    for name in MemoryColumns.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(screened.fits, expected.fits)
    np.testing.assert_array_equal(screened.filled, expected.total / expected.usable)


def test_ways_are_spread_over_the_gpus_they_name() -> None:
    job, sites, _ = posed(workload("llama-3.1-405b-pretrain", dtype="bf16"))
    found = enumerate_layouts(job, sites)
    s, per_node = found.columns, np.array([site.per_node for site in sites])[found.site_index]
    np.testing.assert_array_equal(s.gpus, s.tp * s.pp * s.dp)
    np.testing.assert_array_equal(s.gpus_per_node, np.minimum(per_node, s.gpus))
    most = np.array([site.most if site.largest else min(site.most, site.per_node) for site in sites])[found.site_index]
    assert (s.gpus <= most).all()
    rows = {(int(place), *way) for place, way in zip(found.site_index, zip(*vars(s).values(), strict=True), strict=True)}
    assert len(rows) == found.site_index.size


@given(st.lists(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=6), min_size=1, max_size=6))
def test_of_every_owner_the_first_smallest_is_marked(scores: list[list[float]]) -> None:
    owner = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    marked = best_of_each(owner, np.array([score for own in scores for score in own]))
    expected = [place == own.index(min(own)) for own in scores for place in range(len(own))]
    assert marked.tolist() == expected


def one_by_one(
    gpus: list[str], counts: list[float], tiers: list[int], keys: list[float], rates: list[float]
) -> list[tuple[int, bool]]:
    """What `choose` says, candidate after candidate."""
    kept: dict[str, list[int]] = {}
    seen = set()
    for row in sorted(range(len(gpus)), key=lambda row: (tiers[row], keys[row])):
        own = kept.setdefault(gpus[row], [])
        if (gpus[row], counts[row]) in seen or (own and tiers[row] > 0):
            continue
        if any(rates[row] <= rates[other] * NO_FASTER for other in own):
            continue
        seen.add((gpus[row], counts[row]))
        own.append(row)
    return [(row, row == own[0]) for own in kept.values() for row in own]


CANDIDATE = st.tuples(
    st.sampled_from(["A", "B", "C"]),
    st.sampled_from([1.0, 2.0, 4.0]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([1.0, 1.5, 2.0, 3.0]),
    st.sampled_from([10.0, 10.005, 11.0, 20.0, 40.0]),
)


@settings(max_examples=300)
@given(st.lists(CANDIDATE, min_size=1, max_size=40))
def test_rows_are_chosen_as_one_by_one(candidates: list[tuple[str, float, int, float, float]]) -> None:
    gpus, counts, tiers, keys, rates = (list(column) for column in zip(*candidates, strict=True))
    key, tier = np.array(keys), np.array(tiers)
    names = sorted(set(gpus))
    outcome = SimpleNamespace(meets=tier == 0, score=key, overshoot=key, gpus=np.array(counts), tokens_per_s=np.array(rates))
    memory = SimpleNamespace(fits=tier < 2, total=key, usable=np.ones(key.size))
    v = SimpleNamespace(
        evaluated=SimpleNamespace(memory=memory),
        outcome=outcome,
        site_index=np.array([names.index(name) for name in gpus]),
        sites=[SimpleNamespace(gpu=SimpleNamespace(name=name), here=False) for name in names],
    )
    assert choose(cast("Evaluation", v)) == one_by_one(gpus, counts, tiers, keys, rates)
