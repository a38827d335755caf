"""What offloading takes of the host, and instances that have less."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import RunPlanner
from engine_sample import ask, candidate, chip

from planner.engine.memory import memory_of
from planner.errors import UserError
from planner.workload.tasks import Lora

PARAMETERS = 8_030_261_248
"""Of Llama 3.1 8B."""


def host(**fields: Any) -> float:
    """Bytes for each GPU of a full fine-tune of Llama 3.1 8B in mixed precision."""
    given: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "gpu": "A100 80GB SXM",
        "task": "finetune",
        "recipe": "mixed",
        "micro_batch": 1,
    }
    return ask(**(given | {"sequence": 1024} | fields)).host_memory_bytes or 0.0


def test_nothing_offloaded_takes_nothing() -> None:
    assert ask(model="llama-3.1-8b", gpu="A100 80GB SXM", task="finetune").host_memory_bytes is None


def test_states_on_the_host_by_hand() -> None:
    """ZeRO-Offload: FP32 weights and two moments, and 16-bit gradients: 14 bytes a parameter."""
    assert host(offload="optimizer") == pytest.approx(14 * PARAMETERS, rel=1e-6)


def test_parameters_go_with_their_states() -> None:
    assert host(offload="parameters") == pytest.approx(16 * PARAMETERS, rel=1e-6)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_share_what_zero_shards(ranks: int) -> None:
    shared = host(offload="optimizer", gpus=ranks, sharding="zero1")
    assert shared * ranks == pytest.approx(14 * PARAMETERS, rel=1e-6)


def test_adapters_take_little() -> None:
    assert 0 < host(offload="optimizer", lora=Lora(rank=8, targets="all-linear")) < 0.01 * host(offload="optimizer")


def test_activations_of_all_layers_but_two() -> None:
    one = candidate(
        chip("A100 80GB SXM"), model="llama-3.1-8b", task="finetune", offload="activations", micro_batch=1, sequence=1024
    )
    kept = one.jobs[0].kept
    layer = 1024 * (kept.norms + kept.attention + kept.scores + kept.mlp + kept.dropout)
    assert float(memory_of(one.table()).host[0]) == pytest.approx(30 * layer)


def test_an_instance_with_too_little_host_memory_is_no_solution(run_planner: RunPlanner) -> None:
    settings = (
        "model=llama-3.1-70b",
        "task=finetune",
        "offload=parameters",
        "sharding=none",
        "recipe=mixed",
        "sequence=512",
        "engine=torch",
    )
    done = run_planner("plan", "--json", "--gpu", "H100 SXM5 80GB", *(word for one in settings for word in ("--set", one)))
    rows = json.loads(done.stdout)["rows"]
    assert rows, done.stderr
    assert any("of host memory for each GPU, the instance has" in row["why"] for row in rows)
    assert all(row["rank"] is None for row in rows if "of host memory" in row["why"])


def test_engines_that_only_serve_do_not_train() -> None:
    with pytest.raises(UserError, match="'vllm' does not train; it has to be one of torch, transformers, megatron"):
        ask(model="llama-3.1-8b", gpu="A100 80GB SXM", task="train", engine="vllm")
