"""Lengths given as one number: means of lengths that differ, and how long clients of a loop keep in step."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.workload.tasks import Lengths, Request, Workload
from planner.workload.traffic.lengths import CONVERSATIONS_SIGMA, drawn_outputs, in_step, sigma_of

BURST: dict[str, Any] = {"concurrency": 1000, "requests": 1000}


def request(**given: Any) -> Request:
    given.setdefault("input_tokens", 200)
    return Request(model="llama-3.1-8b", gpu="H100 SXM5 80GB", task="serve", **given)


@pytest.mark.parametrize("tokens", [16, 200, 201, 1024])
def test_a_mean_spreads_where_clients_send_so_many_requests_and_then_stop(tokens: int) -> None:
    drawn = drawn_outputs(request(output_tokens=tokens, **BURST))
    assert isinstance(drawn, Lengths)
    assert drawn.mean == tokens
    assert sigma_of(drawn) == pytest.approx(CONVERSATIONS_SIGMA)


@pytest.mark.parametrize(
    "given",
    [
        {"output_tokens": 201, "concurrency": 1000},
        {"output_tokens": 201, "request_rate_per_s": 5.0, "requests": 1000},
        {"output_tokens": Lengths(mean=201, p50=201), **BURST},
        {"output_tokens": Lengths(mean=201, p50=150, p95=400), **BURST},
    ],
)
def test_other_lengths_stay_as_given(given: dict[str, Any]) -> None:
    assert drawn_outputs(request(**given)) == given["output_tokens"]


def test_a_mean_alone_is_the_same_as_a_number() -> None:
    assert drawn_outputs(request(output_tokens=Lengths(mean=214), **BURST)) == drawn_outputs(request(output_tokens=214, **BURST))


def spread(sigma: float) -> Lengths:
    return Lengths(mean=200, p50=200 * math.exp(-(sigma**2) / 2))


def test_clients_of_a_loop_drift_apart_as_their_answers_differ() -> None:
    """Ten rounds of which the k-th keeps exp(-(2 pi sigma)^2 k/2): by hand for sigma = 0.1 a sum of 0.821^k, 1 to 10, over ten."""
    shares = [in_step(request(concurrency=64, output_tokens=spread(sigma))) for sigma in (0.0, 0.001, 0.1, 0.8)]
    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(1.0, abs=2e-4)
    assert shares[2] == pytest.approx(0.821 * (1 - 0.821**10) / (1 - 0.821) / 10, rel=2e-3)
    assert shares[3] < 1e-5


def test_inputs_that_differ_move_clients_apart_as_well() -> None:
    alike, inputs, both = (
        in_step(request(concurrency=64, output_tokens=of, input_tokens=over))
        for of, over in ((200, 200), (200, spread(0.1)), (spread(0.1), spread(0.1)))
    )
    assert 1.0 == alike > inputs > both


def test_requests_at_a_rate_are_never_in_step() -> None:
    assert in_step(request(request_rate_per_s=5.0, output_tokens=200)) == 0.0


def test_a_job_that_a_search_finds_places_for_is_no_benchmark() -> None:
    """Its requests are the size of the job; ramp and drain of a replica are nothing beside it."""
    job = Workload(model="llama-3.1-8b", task="serve", input_tokens=200, output_tokens=200, concurrency="max", requests=1e6)
    assert drawn_outputs(job) == 200
    assert in_step(job) == 1.0
