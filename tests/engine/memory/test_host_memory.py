"""What offloading takes of the host, and instances that have less."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_sample import ask, candidate, chip, session, workload
from repository import RunPlanner

from planner.engine.memory import memory_of
from planner.errors import UserError
from planner.workload.tasks import Lora

PARAMETERS = 8_030_261_248
"""Parameters of Llama 3.1 8B."""


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
    kept = one.jobs[0].footprint
    layer = 1024 * (kept.norms + kept.attention + kept.scores + kept.mlp + kept.dropout)
    assert float(memory_of(one.table()).host[0]) == pytest.approx(30 * layer)


def planned(run_planner: RunPlanner, *settings: str) -> list[dict[str, Any]]:
    """Rows for Llama 3.1 8B on one L40S, its weights and states on the host: 128 GB of its memory."""
    given = ("model=llama-3.1-8b", "task=finetune", "recipe=mixed", "sequence=512", "max_gpus=1", "offload=parameters", *settings)
    words = [word for one in given for word in ("--set", one)]
    done = run_planner("plan", "--json", "--gpu", "L40S", *words)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return [row for row in rows if row["gpu"] == "L40S"]


def test_the_cheapest_instance_whose_host_has_the_memory(run_planner: RunPlanner) -> None:
    (row,) = planned(run_planner, 'providers=["aws"]')
    assert row["offer"]["instance"] == "g6e.8xlarge"  # the smaller ones have 32, 64 and 128 GiB, not all of it to be had
    assert row["answer"]["host_memory_bytes"] == pytest.approx(16 * PARAMETERS, rel=1e-6)


def test_an_instance_with_too_little_host_memory_is_no_solution(run_planner: RunPlanner) -> None:
    (row,) = planned(run_planner, 'providers=["runpod"]')  # 94 GiB beside the largest of one
    assert row["why"].startswith("does not fit the host's memory: 119.7 GiB needed for each GPU, the instance has 84.6 GiB")
    assert row["rank"] is None


def test_a_lever_tells_the_hosts_memory_from_the_gpus() -> None:
    of = workload(
        "llama-3.1-8b-full-finetune", recipe="mixed", sequence=512, max_gpus=1, gpus_considered=["L40S"], providers=["runpod"]
    )
    told = [lever.text for lever in session().plan(of, basis="spec").levers if "host's" in lever.text]
    assert told
    for text in told:
        assert "then the memory of 1 × L40S is enough, but it does not fit the host's memory: " in text
        assert "misses" not in text.partition(";")[0]


def test_engines_that_only_serve_do_not_train() -> None:
    with pytest.raises(UserError, match="'vllm' does not train; it has to be one of torch, transformers, megatron"):
        ask(model="llama-3.1-8b", gpu="A100 80GB SXM", task="train", engine="vllm")
