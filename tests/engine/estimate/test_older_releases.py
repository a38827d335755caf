"""Ranges of generating where the release of the engine is left open: they reach to what its oldest release would take."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.chosen_rows import names_of

SERVED: dict[str, Any] = {"task": "serve", "model": "llama-3.2-1b", "gpu": "H100 SXM5 80GB", "concurrency": 8}
ALONE: dict[str, Any] = {"task": "generate", "model": "llama-2-7b", "gpu": "A100 80GB SXM", "batch": 32}
LENGTHS = {"input_tokens": 1000, "output_tokens": 200}


def between_tokens(answer: Answer) -> float:
    assert answer.tpot_s is not None
    return answer.tpot_s.mean.value


@pytest.mark.parametrize(
    ("asked", "engine", "oldest", "today", "kind"),
    [
        (SERVED, "vllm", "vllm@0.7", "vllm@0.30", "time per output token"),
        (ALONE, "transformers", "transformers@4.35", "transformers@5.1", "decode"),
    ],
)
def test_a_release_that_is_not_named_may_be_the_oldest(
    asked: dict[str, Any], engine: str, oldest: str, today: str, kind: str
) -> None:
    open_, old, new = (ask(**asked, **LENGTHS, engine=name) for name in (engine, oldest, today))
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
