"""Lengths given as one number: what a load generator sets, and means of lengths that differ."""

from __future__ import annotations

from typing import Any

import pytest

from planner.workload.tasks import Lengths, Request
from planner.workload.traffic.lengths import CONVERSATIONS_SIGMA, drawn_outputs, is_setting


def request(**given: Any) -> Request:
    return Request(model="llama-3.1-8b", gpu="H100 SXM5 80GB", task="serve", input_tokens=200, **given)


@pytest.mark.parametrize("tokens", [1, 16, 99, 100, 128, 150, 250, 500, 512, 1000, 1023, 1024, 1500, 2048, 32000, 31999, 131072])
def test_settings_of_load_generators(tokens: int) -> None:
    assert is_setting(tokens)


@pytest.mark.parametrize("tokens", [101, 194, 201, 214, 338, 922, 1034, 7373])
def test_means_that_nobody_sets(tokens: int) -> None:
    assert not is_setting(tokens)


def test_a_mean_spreads_where_clients_send_so_many_requests_and_then_stop() -> None:
    drawn = drawn_outputs(request(output_tokens=201, concurrency=1000, requests=1000))
    assert isinstance(drawn, Lengths)
    assert drawn.mean == 201
    assert drawn.p50 == pytest.approx(201 * 2.718281828 ** (-(CONVERSATIONS_SIGMA**2) / 2))


@pytest.mark.parametrize(
    "given",
    [
        {"output_tokens": 200, "concurrency": 1000, "requests": 1000},
        {"output_tokens": 201, "concurrency": 1000},
        {"output_tokens": 201, "request_rate_per_s": 5.0, "requests": 1000},
        {"output_tokens": Lengths(mean=201, p50=201, p95=201), "concurrency": 1000, "requests": 1000},
    ],
)
def test_other_lengths_stay_as_given(given: dict[str, Any]) -> None:
    assert drawn_outputs(request(**given)) == given["output_tokens"]


def test_a_mean_alone_is_the_same_as_a_number() -> None:
    load = {"concurrency": 50, "requests": 500}
    assert drawn_outputs(request(output_tokens=Lengths(mean=214), **load)) == drawn_outputs(request(output_tokens=214, **load))
