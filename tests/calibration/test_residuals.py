"""Ranges by residuals of sources left out, in worlds whose noise is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranges.residual import MEMORY_SKEW, Residual, interval_scores, mean_of_sources, weights
from ranges.residuals import LOAD, Design, left_out

from planner.workload.published.spreads import ENGINE_OPEN, KINDS

LAPLACE_90 = np.log(10)
"""Half width of the middle 90 % of Laplace's distribution, in scales."""


def world(rng: np.random.Generator, *, sources: int = 25, values: int = 40, bias: float = 0.0) -> list[Residual]:
    """Sources whose residuals are Laplace's: of scale 0.1 for training, 0.2 in a batch, twice that for mixtures; the first is off by `bias`."""
    found = []
    for number in range(sources):
        for kind, scale in (("training speed", 0.1), ("batch throughput", 0.2)):
            for mixture in (0.0, 1.0):
                drawn = rng.laplace(0.0, scale * (1 + mixture), values // 2) + bias * (number == 0)
                found += [Residual(kind, f"source {number}", float(off), {"mixture of experts": mixture}) for off in drawn]
    return found


@pytest.mark.sweep
def test_ranges_of_nominal_90_percent_hold_90_percent_of_what_is_drawn_anew() -> None:
    """Of every class as well, as soon as sources are so many that none of it is borrowed."""
    rng = np.random.default_rng(1)
    known = world(rng, sources=60)
    fresh = world(rng, sources=1, values=10_000)
    named = [Residual(one.kind, "new", one.off, one.facts) for one in fresh]
    found = left_out([*known, *named])
    new = found.groups == "new"
    offs, half = np.array([one.off for one in named]), found.half_widths()[new]
    inside = np.abs(offs) <= half
    assert 0.88 < inside.mean() < 0.92
    for kind in ("training speed", "batch throughput"):
        for mixture in (0.0, 1.0):
            own = np.array([one.kind == kind and one.facts["mixture of experts"] == mixture for one in named])
            assert 0.85 < inside[own].mean() < 0.95, (kind, mixture)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_other_nominal_shares_hold_as_well(share: float) -> None:
    residuals = world(np.random.default_rng(2))
    inside = np.abs([one.off for one in residuals]) <= left_out(residuals).half_widths(share)
    assert inside.mean() == pytest.approx(share, abs=0.03)


def test_a_source_of_constant_bias_widens_the_ranges_of_others_by_its_share_alone() -> None:
    plain, biased = (left_out(world(np.random.default_rng(3), bias=bias)) for bias in (0.0, np.log(2)))
    others = plain.groups != "source 0"
    ratio = biased.half_widths()[others] / plain.half_widths()[others]
    assert 1.0 < np.median(ratio) < 1 + 2 * 2 / 25 * np.log(2) / 0.2, "one source of 25, twice its share at most"


def test_a_source_counts_as_one_however_many_values_it_has() -> None:
    rng = np.random.default_rng(4)
    few, many = world(rng), world(rng)
    many += [one for one in many if one.source == "source 1"] * 20
    few_width, many_width = (np.median(left_out(one).half_widths()) for one in (few, many))
    assert many_width == pytest.approx(few_width, rel=0.1)


def test_knowing_less_never_narrows() -> None:
    rng = np.random.default_rng(5)
    residuals = [
        Residual("prefill", f"source {number}", float(rng.laplace(0, 0.3 - 0.2 * fact)), {"engine not named": fact})
        for number in range(20)
        for fact in (0.0, 1.0)
        for _ in range(10)
    ]
    half = left_out(residuals).half_widths()
    known, unknown = (half[[one.facts["engine not named"] == fact for one in residuals]] for fact in (0.0, 1.0))
    assert np.median(unknown) == pytest.approx(np.median(known), rel=0.02)


def less_said(rng: np.random.Generator, times: float) -> list[Residual]:
    """The training values of a world once more, asked without the engine, and so many times as far off."""
    facts = {ENGINE_OPEN: 1.0}
    return [
        replace(one, off=one.off * times, facts={**one.facts, **facts}, asked="engine")
        for one in world(rng, sources=25)
        if one.kind == "training speed"
    ]


def test_what_a_question_leaves_open_widens_its_own_ranges_and_hardly_those_of_others() -> None:
    stated, doubled, alike = (
        left_out([*world(np.random.default_rng(7)), *more])
        for more in ([], less_said(np.random.default_rng(8), 2.0), less_said(np.random.default_rng(8), 0.5))
    )
    known, training = doubled.stated, doubled.kinds == "training speed"
    wider = np.median(doubled.half_widths()[~known]) / np.median(doubled.half_widths()[known & training])
    assert 1.25 < wider < 2.2, "twice as far off, less what the ridge keeps"
    narrower = np.median(alike.half_widths()[~known]) / np.median(alike.half_widths()[known & training])
    assert narrower == pytest.approx(1.0, rel=0.1), "knowing less never narrows"
    assert doubled.half_widths()[known] == pytest.approx(stated.half_widths(), rel=0.1)
    inside = np.abs([one.off for one in doubled.residuals]) <= doubled.half_widths()
    assert inside[~known].mean() == pytest.approx(0.9, abs=0.05)


def test_a_kind_whose_ranges_would_hold_too_few_of_its_sources_gets_a_factor_of_its_own() -> None:
    """Residuals that are small or large by nothing that is known of them, in twelve of 52 sources."""
    rng = np.random.default_rng(9)
    mixed = [
        Residual("prefill", f"source {number}", float(rng.laplace(0, 0.5 if rng.random() < 0.2 else 0.02)))
        for number in range(12)
        for _ in range(30)
    ]
    even = [Residual("decode", f"other {number}", float(off)) for number in range(40) for off in rng.uniform(-0.3, 0.3, 20)]
    found = left_out([*mixed, *even])
    inside = np.abs([one.off for one in found.residuals]) <= found.half_widths()
    for kind in ("prefill", "decode"):
        assert inside[found.kinds == kind].mean() == pytest.approx(0.9, abs=0.06), kind


def test_values_of_a_source_count_less_the_more_there_are_of_it() -> None:
    """One value is worth a fifth of a source, five are worth 5 / (1 + 4 · 0.2) = 2.8 values, and no number of them more than five."""
    for values, worth in ((1, 0.2), (5, 5 / 9), (10_000, 1.0)):
        assert weights([Residual("decode", "a", 0.1)] * values).sum() == pytest.approx(worth, abs=1e-3)


def test_a_kind_of_many_sources_is_no_wider_for_what_others_need() -> None:
    """Prompts of every fifth source are far off, all of them, which no fact says; decoding is even."""
    rng = np.random.default_rng(10)
    mixed = [
        Residual("prefill", f"source {number}", float(rng.laplace(0, 0.6 if number % 5 == 0 else 0.05)))
        for number in range(30)
        for _ in range(30)
    ]
    even = [Residual("decode", f"other {number}", float(off)) for number in range(60) for off in rng.laplace(0, 0.1, 30)]
    found = left_out([*mixed, *even])
    assert found.factor("decode") < 0.9 * found.factor("prefill")
    inside = np.abs([one.off for one in found.residuals]) <= found.half_widths()
    assert 0.88 < inside[found.kinds == "decode"].mean() < 0.94


def test_few_sources_borrow_from_the_rest() -> None:
    rng = np.random.default_rng(6)
    lone = [Residual("decode", "alone", float(off)) for off in rng.laplace(0, 0.01, 40)]
    found = left_out([*world(rng), *lone])
    width = found.half_widths()[found.groups == "alone"].mean()
    assert width > 0.1 * LAPLACE_90, "one close source is no proof for the next one"


def test_the_more_sources_tell_of_an_engine_the_nearer_it_is_to_its_own_width() -> None:
    def share_of_others(sources: int) -> float:
        rng = np.random.default_rng(11)
        others = [Residual("decode", f"other {number}", float(off)) for number in range(12) for off in rng.laplace(0, 0.2, 30)]
        close = [
            Residual("decode", f"close {number}", float(off), {"llama.cpp": 1.0})
            for number in range(sources)
            for off in rng.laplace(0, 0.03, 40)
        ]
        half = left_out([*others, *close]).half_widths()
        assert np.mean(np.abs([one.off for one in close]) <= half[len(others) :]) > 0.85
        return float(np.median(half[len(others) :]) / np.median(half[: len(others)]))

    one, three, six = (share_of_others(sources) for sources in (1, 3, 6))
    assert six < three < one
    assert one > 0.9, "one close source is no proof for the next one"
    assert three > 0.6, "nor are three for a part that none of them tried"


def test_the_interval_score_charges_width_and_misses() -> None:
    inside, outside = Residual("decode", "a", 0.0), Residual("decode", "a", 0.5)
    reaching = replace(outside, further_up=0.2)
    scores = interval_scores([inside, outside, reaching], np.array([0.2, 0.2, 0.2]))
    assert scores == pytest.approx([0.4, 0.4 + 20 * 0.3, 0.4 + 0.2 + 20 * 0.1]), "what a question may mean as well is width"
    pair = [Residual("decode", name, 0.0) for name in ("a", "a", "b")]
    assert mean_of_sources(pair, np.array([0.0, 1.0, 1.0])) == pytest.approx(0.75)
    assert set(KINDS.values()) == {"training", "batch", "service", "memory"}


def test_memory_compares_by_the_end_of_the_range_that_is_near_and_by_what_the_question_may_mean() -> None:
    """Ranges of memory reach further up by a quarter; of what replicas may divide, a truth that is lower is not off."""
    more, less = (Residual("training memory", "a", off, further_down=0.1, further_up=0.05) for off in (0.3, -0.25))
    assert (more.reach, less.reach) == pytest.approx((0.25 / (1 + MEMORY_SKEW), -0.15 / (1 - MEMORY_SKEW)))
    assert Residual("training memory", "a", -0.05, further_down=0.1).reach == 0.0
    assert Residual("training speed", "a", -0.25).reach == -0.25


def test_first_tokens_at_a_rate_have_a_factor_of_their_own() -> None:
    """A fifth of the closed loops is far off, no request at a rate is; no residual says which it is."""
    rng = np.random.default_rng(12)
    ttft = "time to first token"
    residuals = [
        Residual(ttft, f"{load} {number}", float(rng.laplace(0, 0.6 if load == "loop" and rng.random() < 0.2 else 0.05)), facts)
        for load, facts in (("loop", {}), ("rate", {LOAD: 1.0}))
        for number in range(5)
        for _ in range(40)
    ]
    others = [Residual("decode", f"other {number}", float(off)) for number in range(30) for off in rng.uniform(-0.3, 0.3, 20)]
    found = left_out([*residuals, *others])
    assert found.factor(ttft, at_rate=True) < 0.8 * found.factor(ttft)
    inside = np.abs([one.off for one in found.residuals]) <= found.half_widths()
    for load in ("loop", "rate"):
        own = np.array([one.source.startswith(load) for one in found.residuals])
        assert inside[own].mean() > 0.85, load


def test_a_mixture_does_not_widen_first_tokens() -> None:
    rng = np.random.default_rng(13)
    residuals = [
        Residual(kind, f"source {number}", float(rng.laplace(0, 0.1 * (1 + mixture))), {"mixture of experts": mixture})
        for kind in ("time to first token", "time per output token")
        for number in range(12)
        for mixture in (0.0, 1.0)
        for _ in range(20)
    ]
    design = Design(residuals)
    fitted = design.named(design.fit())
    assert fitted.facts["mixture of experts"] > 0.1
    assert fitted.slopes["time to first token"]["mixture of experts"] == -fitted.facts["mixture of experts"]
    assert "mixture of experts" not in fitted.slopes["time per output token"]
