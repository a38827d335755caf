"""Sequences beyond the positions a model has: refused by a plan, told of by an estimate."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, session, workload

from planner.engine.answers.plan import Plan
from planner.errors import UserError
from planner.workload.tasks import Lengths


def planned(preset: str = "qwen3-8b-single-user-chat", **changes: Any) -> Plan:
    return session().plan(workload(preset, **{"gpus_considered": ["H200 SXM"]} | changes), basis="spec", levers=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_tokens": 960, "output_tokens": 40001},
         "output_tokens: 40,001 is not accepted; it has to be at most 40,000 after 960 of input_tokens: the model's positions end at"),
        ({"input_tokens": 960, "output_tokens": 512_000_000}, "output_tokens: 512,000,000 is not accepted; it has to be at most 40,000 "),
        ({"input_tokens": 40961}, "input_tokens: 40,961 is not accepted; it has to be at most 40,960: "),
        ({"input_tokens": Lengths(mean=3000.0, p95=50_000.0)}, "input_tokens: 50,000 is not accepted; "),
        ({"output_tokens": Lengths(mean=3000.0, p95=50_000.0)}, "output_tokens: 50,000 is not accepted; "),
    ],
)  # fmt: skip
def test_a_plan_refuses_requests_beyond_the_models_positions(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        planned(**changes)
    (problem,) = raised.value.problems
    assert str(problem).startswith(said)
    assert str(problem).endswith("with more max_position_embeddings as the model.")


def test_what_just_fits_the_positions_is_planned() -> None:
    found = planned(input_tokens=960, output_tokens=40000)
    assert any(row.rank for row in found.rows)
    assert "positions" not in found.rows[0].answer.assumed
    assert planned("llama-3.2-3b-offline", task="prefill", model="qwen3-8b", input_tokens=40960).rows


def test_training_extends_rotary_positions_but_not_learned_ones() -> None:
    found = planned("llama-3.1-8b-lora", model="qwen3-8b", sequence=49152, max_gpus=8)
    told = "49,152 tokens, though the model's own end at 40,960"
    assert next(row for row in found.rows if row.rank).answer.assumed["positions"] == told
    gpt = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 100, "n_positions": 1024}
    with pytest.raises(UserError, match="sequence: 2,048 is not accepted; it has to be at most 1,024: "):
        planned("llama-3.1-8b-full-finetune", model=gpt, sequence=2048)


def test_an_estimate_beyond_the_positions_is_answered_and_says_so() -> None:
    given: dict[str, Any] = {"model": "qwen3-8b", "gpu": "H200 SXM", "task": "generate", "input_tokens": 40000}
    assert "positions" not in ask(**given, output_tokens=960).assumed
    beyond = ask(**given, output_tokens=961)
    assert beyond.fits
    assert beyond.assumed["positions"] == "40,961 tokens, though the model's own end at 40,960"
