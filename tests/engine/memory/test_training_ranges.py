"""Ranges of training memory by what a question says of its program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_sample import ask

from planner.engine.memory.total import MAY_DIVIDE
from planner.workload.published.spreads import ENGINE_OPEN, PROGRAM_OPEN, Spreads, published_spreads

SEVEN: dict[str, Any] = {
    "model": "llama-2-7b",
    "gpu": "A100 80GB SXM",
    "task": "train",
    "recipe": "mixed",
    "sequence": 4096,
    "micro_batch": 1,
    "global_batch": 64,
    "checkpointing": "full",
}


@pytest.mark.parametrize(
    ("engine", "engine_open", "program_open"),
    [(None, 1, 0), ("torch", 0, 1), ("transformers@4.46", 0, 1), ("unsloth", 0, 1), ("litgpt", 0, 0), ("megatron-bridge", 0, 0)],
)
def test_an_answer_tells_what_is_open_of_its_program(engine: str | None, engine_open: int, program_open: int) -> None:
    """Libraries and programs without published peaks are not known as well as those whose peaks were compared."""
    evidence = ask(**SEVEN | {"engine": engine}).evidence
    assert (evidence.get(ENGINE_OPEN, 0), evidence.get(PROGRAM_OPEN, 0)) == (engine_open, program_open)


def test_nothing_is_open_of_a_program_that_generates() -> None:
    evidence = ask(
        model="llama-2-7b", gpu="A100 80GB SXM", task="generate", batch=1, input_tokens=128, output_tokens=8, engine="torch"
    ).evidence
    assert not evidence.keys() & {PROGRAM_OPEN, MAY_DIVIDE}


def test_less_said_of_the_program_is_never_narrower() -> None:
    """With factors as the fit writes them: 1.5 for a library, 2.3 without any engine."""
    shipped = published_spreads()
    kind = shipped.kinds["training memory"]
    slopes = {PROGRAM_OPEN: math.log(1.5), ENGINE_OPEN: math.log(2.3)}
    fitted: Spreads = Spreads(
        source=shipped.source,
        retrieved=shipped.retrieved,
        method=shipped.method,
        kinds={"training memory": type(kind)(half_width=0.2, values=1, sources=1, engines=slopes)},
        wider={},
        quantiles=shipped.quantiles,
    )
    named, library, nothing = (
        fitted.half_width("training memory", {name: np.ones(1) for name in facts})[0]
        for facts in ((), (PROGRAM_OPEN,), (ENGINE_OPEN,))
    )
    assert (named, library, nothing) == pytest.approx((0.2, 0.3, 0.46))


def test_the_range_of_undivided_states_reaches_down_to_divided_ones() -> None:
    """12 B of states for each of 6.74 G parameters, of which seven eighths are other replicas' where states are divided: 70.8 GB."""
    away = 12 * 6.738e9 * 7 / 8
    whole, divided = (ask(**SEVEN, gpus=8, dp=8, sharding=sharding, engine=None) for sharding in ("none", "zero1"))
    assert whole.memory_bytes is not None
    assert divided.memory_bytes is not None
    total = whole.memory_bytes.total
    assert whole.evidence[MAY_DIVIDE] == pytest.approx(math.log(total.value / (total.value - away)), rel=0.01)
    assert total.low < divided.memory_bytes.total.value < total.value
    assert total.high / total.value == pytest.approx((total.value - away) / total.low, rel=0.01)
    assert MAY_DIVIDE not in divided.evidence
    assert not whole.fits


@pytest.mark.parametrize(
    "said", [{"engine": "litgpt"}, {"engine": None, "gpus": 1, "dp": 1}, {"engine": None, "offload": "optimizer"}]
)
def test_states_of_a_known_program_of_one_replica_or_of_the_host_stay_whole(said: dict[str, Any]) -> None:
    found = ask(**SEVEN | {"gpus": 8, "dp": 8, "sharding": "none"} | said)
    assert MAY_DIVIDE not in found.evidence
