"""Ranges of generating where the release of the engine is left open: they reach to what an older release would take, of a service one that is in use."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.chosen_rows import names_of
from planner.engine.job.engines import ENGINES, find_engine, oldest_in_use

SERVED: dict[str, Any] = {"task": "serve", "model": "llama-3.2-1b", "gpu": "H100 SXM5 80GB", "concurrency": 8}
ALONE: dict[str, Any] = {"task": "generate", "model": "llama-2-7b", "gpu": "A100 80GB SXM", "batch": 32}
LENGTHS = {"input_tokens": 1000, "output_tokens": 200}


def between_tokens(answer: Answer) -> float:
    assert answer.tpot_s is not None
    return answer.tpot_s.mean.value


@pytest.mark.parametrize(
    ("asked", "engine", "older", "today", "kind"),
    [
        (SERVED, "vllm", "vllm@0.8", "vllm@0.30", "time per output token"),
        (ALONE, "transformers", "transformers@4.35", "transformers@5.1", "decode"),
    ],
)
def test_a_release_that_is_not_named_may_be_an_older_one(
    asked: dict[str, Any], engine: str, older: str, today: str, kind: str
) -> None:
    open_, old, new = (ask(**asked, **LENGTHS, engine=name) for name in (engine, older, today))
    slower = between_tokens(old) / between_tokens(new)
    assert slower > 1.2
    assert between_tokens(open_) == between_tokens(new)
    assert open_.evidence[names_of(kind)[1]] == pytest.approx(math.log(slower), abs=1e-3)
    assert not any("older release" in name for name in {**old.evidence, **new.evidence})
    assert open_.tpot_s is not None
    assert open_.decode_tokens_per_s is not None
    assert old.tpot_s is not None
    assert open_.tpot_s.mean.high > old.tpot_s.mean.value
    upwards, down = (figure.high / figure.value for figure in (open_.tpot_s.mean, open_.decode_tokens_per_s))
    assert upwards == pytest.approx(down * slower, rel=1e-3), "one end alone"


@pytest.mark.parametrize(
    ("engine", "older"), [(None, True), ("vllm", True), ("gpt-fast", False), ("vllm@latest", False), ("tgi", False)]
)
def test_an_engine_has_older_releases_unless_it_has_one_or_names_it(engine: str | None, *, older: bool) -> None:
    """One that is not named is taken to be vLLM."""
    assert older == any("older release" in name for name in ask(**SERVED, **LENGTHS, engine=engine).evidence)


@pytest.mark.parametrize(
    ("engine", "older"), [("vllm", "vllm@0.8"), ("tensorrt-llm", "tensorrt-llm@0.21"), ("llama.cpp", "llama.cpp@b3200")]
)
def test_the_oldest_release_in_use_was_todays_a_year_before_the_newest(engine: str, older: str) -> None:
    assert oldest_in_use(engine) is find_engine(older)
    assert oldest_in_use(engine).released < ENGINES[engine][-1].released


@pytest.mark.parametrize("engine", ["generic", "gpt-fast"])
def test_an_engine_of_one_record_has_its_own(engine: str) -> None:
    assert oldest_in_use(engine) is ENGINES[engine][-1]
