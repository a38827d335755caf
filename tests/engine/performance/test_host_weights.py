"""Weights in the host's memory while a model generates: what fits then, and how long their reading takes."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, memory, session, workload

from planner.errors import UserError

LARGE: dict[str, Any] = {
    "model": "llama-3.1-70b",
    "gpu": "RTX 4090",
    "task": "generate",
    "weight_dtype": "q4_k_m",
    "dtype": "fp16",
    "engine": "llama.cpp",
}


def rate(**fields: Any) -> float:
    found = ask(**fields).tokens_per_s
    assert found is not None
    return found.value


def test_what_does_not_fit_is_kept_by_the_host() -> None:
    short = memory(**LARGE)
    away = ask(**LARGE, offload="parameters")
    assert away.fits
    assert away.memory_bytes is not None
    assert away.host_memory_bytes == pytest.approx(short.total.value - away.memory_bytes.total.value)
    assert away.memory_bytes.total.value == pytest.approx(away.memory_bytes.capacity, rel=0.01)
    assert not ask(**LARGE).fits


def test_a_step_takes_as_long_as_the_processor_reads_its_part() -> None:
    """17 GiB of 60 GB/s: 2.7 tokens/s; over the link in every pass without a processor that computes."""
    away = ask(**LARGE, offload="parameters")
    assert away.tpot_s is not None
    read_s = (away.host_memory_bytes or 0) / 60e9
    assert read_s < away.tpot_s.mean.value < 1.3 * read_s
    streamed = rate(**LARGE | {"engine": "transformers"}, offload="parameters")
    assert streamed < rate(**LARGE, offload="parameters") / 2


def test_of_experts_only_those_of_a_token_are_read() -> None:
    fields = LARGE | {"model": "gpt-oss-120b", "weight_dtype": "mxfp4", "offload": "parameters"}
    away = ask(**fields)
    assert away.tpot_s is not None
    assert (away.host_memory_bytes or 0) / 60e9 > 10 * away.tpot_s.mean.value


def test_what_fits_anyway_stays_on_the_gpu() -> None:
    fields = LARGE | {"model": "llama-3.1-8b"}
    assert rate(**fields, offload="parameters") == rate(**fields)
    assert not ask(**fields, offload="parameters").host_memory_bytes


def test_its_seconds_are_among_the_operators() -> None:
    stated = {name: value for name, value in LARGE.items() if name != "gpu"}
    of = workload("llama-3.2-3b-offline", **stated, gpus_considered=["RTX 4090"], offload="parameters", max_gpus=1, batch=1)
    (row, *_) = session().plan(of, basis="spec").rows
    detail = session().time_detail(of, row, basis="spec")
    assert detail is not None
    named = [one for one in detail.operators if one.name == "weights in the host's memory"]
    assert {one.phase for one in named} == {"prefill", "decode"}
    assert sum(one.seconds for one in named) > 0.5 * sum(one.seconds for one in detail.operators)


@pytest.mark.parametrize(("task", "offload"), [("generate", "activations"), ("prefill", "optimizer"), ("serve", "parameters")])
def test_an_offload_without_effect_is_refused(task: str, offload: str) -> None:
    with pytest.raises(UserError, match=f"offload: '{offload}' is not accepted with '{task}'"):
        ask(model="llama-3.1-8b", gpu="RTX 4090", task=task, offload=offload)
