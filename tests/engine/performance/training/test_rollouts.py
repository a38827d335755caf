"""Training on answers that the model generates: generation, scoring and update add up, engines sleep, keep a pool, or stand apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import architecture, ask, ask_together, memory, session
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.answers.answer import Answer
from planner.engine.job.engines import find_engine
from planner.engine.performance.sequences import longest_of
from planner.errors import UserError
from planner.schema import read_struct
from planner.workload.tasks import Request, Workload

ANSWERS: dict[str, Any] = {"prompt_tokens": 512, "answer_tokens": 1000, "tp": 1}
GRPO: dict[str, Any] = {"model": "qwen3-8b", "gpu": "H100 SXM5 80GB", "task": "finetune", "recipe": "mixed", "engine": "torch"}
GRPO |= {"gpus": 8, "dp": 8, "sharding": "zero3", "checkpointing": "full", "micro_batch": 2, "global_batch": 256}
REFERENCE = {"companions": [{"role": "reference"}]}


def asked_of(rollout: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return GRPO | {"rollout": ANSWERS | rollout} | fields


def seconds(rollout: dict[str, Any] | None = None, **fields: Any) -> dict[str, float]:
    return ask(**asked_of(rollout or {}, **fields)).seconds_by_class


def test_a_step_is_generation_scoring_and_the_update_of_plain_training() -> None:
    """The update is that of sequences of 1,512 tokens; the classes add up to the step."""
    plain, found = ask(**GRPO, sequence=1512), ask(**GRPO, rollout=ANSWERS)
    beside = {"rollout", "new weights", "scoring"}
    update = {name: value for name, value in found.seconds_by_class.items() if name not in beside}
    assert update == pytest.approx(plain.seconds_by_class, rel=1e-9)
    assert found.step_s is not None
    assert found.step_s.value == pytest.approx(sum(found.seconds_by_class.values()), rel=1e-9)
    assert found.assumed["sequence"] == 1512
    assert found.flop_per_token == plain.flop_per_token


def test_generation_takes_a_step_for_each_token_of_the_longest_answer() -> None:
    """256 answers on 8 copies are 32 at once for 1,000 tokens: a request of a service with 32 in flight takes as long, less its prompt."""
    served = ask(
        model="qwen3-8b", gpu="H100 SXM5 80GB", task="serve", engine="vllm", concurrency=32, input_tokens=512, output_tokens=1000
    )
    assert served.seconds_by_class is not None
    decoding = sum(served.seconds_by_class.values()) - (served.prefill_s.value if served.prefill_s else 0.0)
    assert seconds()["rollout"] == pytest.approx(decoding, rel=0.1)


def test_the_longest_answer_keeps_the_others_waiting() -> None:
    """Answers of mean 1,000 and median 700: 32 of them run for as many steps as the longest has tokens."""
    spread = np.sqrt(2 * np.log(1000 / 700))
    draws = np.minimum(np.random.default_rng(0).lognormal(np.log(700), spread, (100_000, 32)), 5000).max(axis=1).mean()
    found = longest_of(np.full(1, 32.0), np.log(np.full(1, 700.0)), np.full(1, spread), np.full(1, 5000.0))[0]
    assert found[0] == pytest.approx(draws, rel=0.02)
    alike, differing = (seconds({"answer_tokens": of}, sequence=5512)["rollout"] for of in (1000, {"mean": 1000, "p50": 700}))
    assert 0.7 * draws / 1000 < differing / alike < draws / 1000


def test_scoring_is_a_forward_pass_for_each_model_that_reads_the_answers() -> None:
    """Policy alone, with a reference of its size, with a reward model too; a critic is updated beside."""
    alone, two, three = (
        seconds(companions=[{"role": role} for role in roles])["scoring"] for roles in ((), ("reference",), ("reference", "reward"))
    )
    assert two == pytest.approx(2 * alone)
    assert three == pytest.approx(3 * alone)
    small = seconds(companions=[{"role": "reward", "model": "qwen3-0.6b"}])["scoring"]
    assert alone < small < 1.15 * alone
    update = sum(value for name, value in seconds().items() if name in {"matmul", "attention", "elementwise", "head", "latency"})
    critic = seconds(companions=[{"role": "critic"}])["scoring"]
    assert critic > two + 0.9 * update


def test_an_engine_that_sleeps_takes_nothing_and_one_that_keeps_its_pool_takes_that() -> None:
    """Updates of eight sequences need more than the copy of 16.4 GB that generates between them."""
    plain, sleeping, kept = (
        memory(**GRPO | REFERENCE | {"micro_batch": 8} | fields)
        for fields in ({"sequence": 1512}, {"rollout": ANSWERS}, {"rollout": ANSWERS | {"memory_share": 0.3}})
    )
    assert sleeping.total.value == plain.total.value
    assert kept.total.value - plain.total.value == pytest.approx(0.3 * kept.capacity, rel=1e-9)
    assert memory(**GRPO, rollout={**ANSWERS, "gpus": 4}).kv_cache == 0


def test_a_copy_that_is_more_than_the_update_needs_is_the_peak() -> None:
    """SGD in 16 bit on one GPU: 8.19 G parameters at 2 B train, and as many generate, with 1,512 tokens · 36 layers · 2 · 1,024 · 2 B of cache."""
    fields = GRPO | {"gpus": 1, "dp": 1, "sharding": "none", "optimizer": "sgd", "recipe": "bf16"}
    found = memory(**fields | {"micro_batch": 1, "global_batch": 1, "optimizer": "none", "rollout": ANSWERS})
    weights = 2 * architecture("qwen3-8b").total
    cache = 1520 * 36 * 2 * 1024 * 2  # whole blocks of 16 tokens
    contexts = sum(find_engine(name).context_bytes for name in ("torch", "vllm"))
    assert found.total.value == pytest.approx(2 * weights + cache + contexts, rel=1e-3)


def test_gpus_that_generate_apart_count_where_they_are_slower_than_the_update() -> None:
    """Many hide behind the update before; few are waited for; all of them are in the rate of a GPU."""
    few, many = (ask(**GRPO, rollout={**ANSWERS, "gpus": gpus}) for gpus in (1, 64))
    assert few.seconds_by_class["rollout"] > 0
    assert "rollout" not in many.seconds_by_class
    assert few.tokens_per_s is not None
    assert few.tokens_per_s_per_gpu is not None
    assert few.tokens_per_s_per_gpu.value == pytest.approx(few.tokens_per_s.value / 9)
    with pytest.raises(UserError, match="plan the training alone"):
        session().plan(read_struct(Workload, {"model": "qwen3-8b", "task": "finetune", "rollout": {**ANSWERS, "gpus": 4}}, ""))


def test_candidates_with_and_without_a_rollout_do_not_touch_each_other() -> None:
    fields = ({"sequence": 1512}, {"rollout": ANSWERS})
    together = session().estimate([read_struct(Request, GRPO | of, "") for of in fields], basis="spec")
    assert [answer.step_s for answer in together if isinstance(answer, Answer)] == [ask(**GRPO | of).step_s for of in fields]


@pytest.mark.sweep
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.integers(64, 4000), st.integers(16, 4000), st.sampled_from([64, 256, 1024]), st.integers(1, 4))
def test_more_answers_and_longer_ones_never_take_less(prompt: int, answer: int, batch: int, steps: int) -> None:
    asked = {"prompt_tokens": prompt, "answer_tokens": answer, "steps": steps}
    fields = {"global_batch": batch, "sequence": 8192}
    found = ask_together(
        asked_of(asked, **fields),
        asked_of(asked | {"answer_tokens": 2 * answer}, **fields),
        asked_of(asked, **fields | {"global_batch": 2 * batch}),
        asked_of(asked | {"steps": 2 * steps}, **fields),
    )
    usual, longer, wider, more_steps = (one.seconds_by_class["rollout"] for one in found)
    assert usual <= longer * (1 + 1e-9)
    assert usual <= wider * (1 + 1e-9)
    assert usual >= more_steps * (1 - 1e-9)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"task": "serve", "input_tokens": 10, "output_tokens": 10}, "rollout"),
        ({"sequence": 512}, "rollout.prompt_tokens"),
        ({"rollout": ANSWERS | {"gpus": 2, "memory_share": 0.3}}, "rollout.memory_share"),
        ({"rollout": ANSWERS | {"gpus": 2, "tp": 4}}, "rollout.tp"),
    ],
)
def test_rollouts_that_cannot_be_are_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(**{"model": "qwen3-8b", "gpu": "H100 SXM5 80GB", "task": "finetune", "rollout": ANSWERS} | fields)
    assert key in [problem.key for problem in caught.value.problems]
