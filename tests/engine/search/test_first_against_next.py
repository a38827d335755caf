"""How firmly the first row stands: paired draws against arithmetic, and inputs whose change puts another GPU first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import msgspec
import numpy as np
import pytest
from engine_sample import plan, session, shipped, workload

from planner.engine.search import paired_draws
from planner.engine.search.paired_draws import Uncertain, chances_of_first
from planner.engine.study.sensitivity import formats_tried
from planner.present.choice.certainty import is_close, sensitivity, standing
from planner.workload.published.spreads import Shared, Spreads, published_spreads

NORMAL = [(share, NormalDist().inv_cdf((1 + share) / 2) / 1.6449) for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)]


def candidate(number: int, *, half: float = 0.5, gpu: str = "", meets: float = math.nan, fits: float = 1.0) -> Uncertain:
    return Uncertain(gpu or f"GPU {number}", half, meets, fits, number)


@pytest.fixture
def normal_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Errors that are normal and independent, so that chances have a formula."""
    of_normal: Spreads = msgspec.structs.replace(published_spreads(), quantiles=NORMAL, shared=Shared())
    monkeypatch.setattr(paired_draws, "published_spreads", lambda: of_normal)
    paired_draws._table.cache_clear()
    yield
    paired_draws._table.cache_clear()


@pytest.mark.usefixtures("normal_errors")
@pytest.mark.parametrize("dearer", [1.0, 1.1, 1.5, 3.0])
def test_independent_normal_errors_give_the_normal_chance(dearer: float) -> None:
    half = 0.5
    sigma = math.sqrt(2) * half / 1.6449
    expected = NormalDist().cdf(math.log(dearer) / sigma)
    _, chance = chances_of_first([(1.0, candidate(0, half=half)), (dearer, candidate(1, half=half))])
    assert chance == pytest.approx(expected, abs=0.03)


def test_what_two_have_in_common_does_not_count() -> None:
    """On one GPU errors are alike, so that a difference of a tenth says more; one candidate at two prices leaves no doubt."""
    apart, alike, same = (
        chances_of_first([(1.0, candidate(0, gpu=gpu)), (1.1, candidate(number, gpu=gpu))])[1]
        for gpu, number in (("", 1), ("H100", 1), ("", 0))
    )
    assert 0.5 < apart < alike < same == 1.0


def test_a_first_row_that_may_not_fit_may_lose_to_any() -> None:
    _, far = chances_of_first([(1.0, candidate(0, fits=0.9)), (100.0, candidate(1))])
    assert far == pytest.approx(0.9, abs=0.02)


def test_a_service_that_surely_meets_its_targets_costs_what_it_costs() -> None:
    """Its price changes only where it lacks replicas."""
    _, sure = chances_of_first([(1.0, candidate(0, meets=0.999)), (1.05, candidate(1, meets=0.999))])
    _, unsure = chances_of_first([(1.0, candidate(0, meets=0.5)), (1.05, candidate(1, meets=0.999))])
    assert sure > 0.95
    assert unsure < 0.75


def test_rows_say_it_and_words_follow() -> None:
    found = shipped("llama-3.1-8b-lora")
    rows = [row for row in found.rows if row.rank]
    assert rows[0].probability_first_better is None
    chances = [row.probability_first_better for row in rows[1:12]]
    assert all(chance is not None and 0.3 < chance <= 1 for chance in chances)
    by_gpu = [row for row in rows[1:12] if row.gpu != rows[0].gpu]
    assert (
        np.corrcoef([row.job_usd.value for row in by_gpu if row.job_usd], [row.probability_first_better or 0 for row in by_gpu])[
            0, 1
        ]
        > 0
    )
    words = standing(found)
    assert words.startswith("chance that 1 is really cheaper: than ")
    assert ("≈" in words) == any(is_close(row) for row in rows[1:4])
    assert standing(msgspec.structs.replace(found, rows=rows[:1])) == ""


def test_the_price_at_which_another_gpu_wins_is_where_it_wins() -> None:
    """Every change that is named puts the GPU first that is named with it."""
    of = workload("qwen3-32b-batch-job")
    found = session().with_flips(of, shipped("qwen3-32b-batch-job"), basis="spec")
    first = next(row for row in found.rows if row.rank)
    by_key = {flip.key: flip for flip in found.flips}
    assert by_key["usd_per_h"].factor is not None
    assert by_key["usd_per_h"].factor >= 1
    assert len(sensitivity(found)) == len(found.flips) >= 2
    for flip in found.flips:
        if flip.key != "usd_per_h":
            again = plan("qwen3-32b-batch-job", **{flip.key: flip.value}, gpus_considered=[first.gpu, flip.gpu])
            assert again.rows[0].gpu == flip.gpu != first.gpu


@pytest.mark.parametrize(("stored_as", "tried"), [("", ["bf16", "fp8", "gptq-int4"]), ("fp8", ["fp8", "gptq-int4"]), ("mxfp4", [])])
def test_a_model_is_not_tried_in_more_bits_than_it_is_published_in(stored_as: str, tried: list[str]) -> None:
    assert formats_tried(stored_as) == tried
