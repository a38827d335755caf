"""Power by load, and what a power limit or a locked clock slows: against a published sweep, against arithmetic, and in order."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from engine_sample import ask, chip, plan
from repository import ROOT

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.performance.operators.power import MEMORY_EXPONENT, clock_share, drawn_w

MEASURED = ROOT / "docs" / "evidence" / "h200" / "power-h100.jsonl"
SWEEP = {300: (9326, 72.1), 250: (8436, 70.7), 200: (5941, 68.3), 150: (2549, 62.6)}
"""Limit in W -> tokens/s of prompts and of decoding on RTX 3090, at 350 W 9,893 and 72.6 (llmgarage.ai, 2026-02)."""
TRAINING = {
    "model": "llama-3.1-8b",
    "gpu": "H200 SXM",
    "task": "train",
    "gpus": 8,
    "sharding": "zero3",
    "micro_batch": 2,
    "sequence": 4096,
}
DECODING = {"model": "llama-3.1-8b", "gpu": "H200 SXM", "task": "generate", "input_tokens": 100, "output_tokens": 400}


def figures(**given: Any) -> tuple[Answer, Figure, Figure, Figure]:
    """An answer with its rate, its power and its energy."""
    answer = ask(**given)
    assert answer.tokens_per_s is not None
    assert answer.power_w is not None
    assert answer.energy_j_per_token is not None
    return answer, answer.tokens_per_s, answer.power_w, answer.energy_j_per_token


@pytest.mark.parametrize("limit", SWEEP)
def test_the_law_follows_a_published_sweep(limit: int) -> None:
    prompts, decoding = SWEEP[limit]
    clock = clock_share(limit / 350)
    assert clock == pytest.approx(prompts / 9893, rel=0.12)
    assert clock**MEMORY_EXPONENT == pytest.approx(decoding / 72.6, rel=0.03)


def test_lower_limits_are_slower_and_never_stop_a_clock() -> None:
    clocks = [clock_share(share / 100) for share in range(100, 0, -5)]
    assert clocks[0] == 1.0
    assert clock_share(1.5) == 1.0
    assert all(after <= before for before, after in itertools.pairwise(clocks))
    assert clocks[-1] > 0


@pytest.mark.parametrize("limit", [600, 500, 400])
def test_training_slows_and_decoding_hardly_does(limit: int) -> None:
    (_, free, _, _), (_, capped, drawn, _) = figures(**TRAINING), figures(**TRAINING, power_limit_w=limit)
    clock = clock_share(limit / 700)
    assert clock - 1e-9 <= capped.value / free.value < 1.0
    assert drawn.high <= 8 * limit * (1 + 1e-9)
    assert math.log(capped.high / capped.low) > math.log(free.high / free.low), "the law is not sure"
    alone, limited = figures(**DECODING)[1], figures(**DECODING, power_limit_w=limit)[1]
    assert 0.9 < limited.value / alone.value <= 1.0


def test_a_limit_above_what_a_part_ships_with_changes_nothing() -> None:
    assert figures(**TRAINING)[1] == figures(**TRAINING, power_limit_w=2000)[1]
    assert figures(**TRAINING)[1] == figures(**TRAINING, clock_limit_hz=5e9)[1]


def test_a_locked_clock_slows_products_in_proportion_and_saves_power() -> None:
    device = chip("H200 SXM")
    boost = device.gpu.boost_clock_hz
    assert boost is not None
    (_, free, before, _), (_, locked, after, _) = figures(**TRAINING), figures(**TRAINING, clock_limit_hz=0.5 * boost)
    assert 0.5 < locked.value / free.value < 0.85
    assert after.value < 0.8 * before.value


def test_power_is_that_of_what_binds_and_idle_time_counts() -> None:
    device = chip("H200 SXM")
    idle, host, memory, products = (
        drawn_w(device, products=one, host=waits, busy=busy)
        for one, waits, busy in ((0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 1.0))
    )
    assert idle < host < memory < products == device.power_w
    assert memory < drawn_w(device, products=0.5) < products
    half = drawn_w(device, products=1.0, busy=0.5)
    assert half == pytest.approx((idle + products) / 2)
    service = {"model": "llama-3.1-8b", "gpu": "H200 SXM", "task": "serve", "input_tokens": 600, "output_tokens": 200}
    rare, usual = (figures(**service, request_rate_per_s=rate) for rate in (0.01, 4.0))
    assert rare[2].value < usual[2].value
    assert rare[3].value > 10 * usual[3].value, "a GPU that waits costs energy for no token"
    for _, rate, power, energy in (rare, usual):
        assert energy.value == pytest.approx(power.value / rate.value)


def test_states_of_one_gpu_draw_what_was_measured() -> None:
    """Copies, sums, activations and products of few rows are bound by memory, larger products by themselves (docs/evidence/h200/power-h100.jsonl)."""
    device = chip("H100 SXM5 80GB")
    counted = {line["state"]: line["counted_w"] for line in map(json.loads, MEASURED.read_text().splitlines()[1:])}
    waits = [counted[name] for name in ("idle with a context", "short kernels, launched one by one")]
    reads = [
        watts for name, watts in counted.items() if "GiB" in name or "SiLU" in name or "product 1x" in name or "product 16x" in name
    ]
    computes = [watts for name, watts in counted.items() if "8192x8192x8192" in name or "2048x" in name or "attention" in name]
    assert (len(waits), len(reads), len(computes)) == (2, 6, 4)
    assert waits == pytest.approx([float(drawn_w(device, products=0.0, host=1.0))] * 2, rel=0.03)
    assert reads == pytest.approx([float(drawn_w(device, products=0.0))] * 6, rel=0.12)
    assert computes == pytest.approx([float(drawn_w(device, products=1.0))] * 4, rel=0.06)


def test_a_plan_knows_the_limit() -> None:
    free, capped = (
        plan("llama-3.1-8b-lora", gpus_considered=["H100 SXM5 80GB"], **given).rows[0] for given in ({}, {"power_limit_w": 400})
    )
    assert free.job_h is not None
    assert capped.job_h is not None
    assert capped.job_h.value > 1.02 * free.job_h.value
