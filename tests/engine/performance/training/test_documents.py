"""Documents in training sequences: padding is computed and not counted, packing leaves none, attention stays inside documents or does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_sample import ask, ask_together
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UserError
from planner.workload.tasks import Lengths
from planner.workload.traffic.lengths import documents_of

TUNE: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "gpu": "H100 SXM5 80GB",
    "task": "finetune",
    "engine": "torch",
    "checkpointing": "full",
}
TUNE |= {"sequence": 4096, "micro_batch": 2, "gpus": 8, "dp": 8, "sharding": "zero3"}
WAYS = ("separate", "joined", "longest", "padded")
LENGTHS = st.builds(lambda mean, share: {"mean": mean, "p50": share * mean}, st.integers(16, 6000), st.floats(0.3, 1.0))


def tokens_per_s(**fields: Any) -> float:
    found = ask(**TUNE | fields).tokens_per_s
    assert found is not None
    return found.value


def test_a_quarter_of_each_sequence_is_a_quarter_of_the_speed() -> None:
    """Documents of 1,024 tokens, padded to 4,096: a step takes as long as one of whole sequences and trains on a quarter."""
    whole, padded = ask(**TUNE), ask(**TUNE, document_tokens=1024, packing="padded")
    assert whole.step_s == padded.step_s
    assert tokens_per_s(document_tokens=1024, packing="padded") == pytest.approx(tokens_per_s() / 4, rel=1e-9)
    assert padded.assumed["padding"].startswith("75 %")
    assert tokens_per_s(document_tokens=1024, packing="joined") == tokens_per_s()


def test_documents_that_are_alike_need_no_padding_to_the_longest() -> None:
    short = tokens_per_s(sequence=1024)
    assert tokens_per_s(document_tokens=1024, packing="longest") == pytest.approx(short, rel=1e-9)
    assert tokens_per_s(document_tokens=1024, packing="longest", sharding="zero1") == pytest.approx(
        tokens_per_s(sequence=1024, sharding="zero1"), rel=1e-9
    )


def test_attention_inside_documents_is_that_of_short_sequences() -> None:
    """Per token and layer 4 · 4,096 · context FLOP forward and twice that backward, contexts of 512 and 2,048 in 32 layers."""
    of = {way: ask(**TUNE, document_tokens=1024, packing=way).flop_per_token for way in WAYS}
    assert of["separate"] == of["padded"] == of["longest"]
    assert of["joined"] is not None
    assert of["separate"] is not None
    assert of["joined"] - of["separate"] == pytest.approx(3 * 4 * 4096 * 32 * (2048 - 512), rel=1e-9)
    eager = TUNE | {"attention": "eager", "document_tokens": 1024, "checkpointing": "selective"}
    assert ask(**eager, packing="separate").step_s == ask(**eager, packing="joined").step_s


def test_the_longest_of_a_micro_batch_is_that_of_as_many_draws() -> None:
    """Two sequences on one GPU: the time is that of sequences as long as the larger of two draws, here by simulation."""
    spread = math.sqrt(2 * math.log(800 / 600))
    draws = np.minimum(np.random.default_rng(0).lognormal(math.log(600), spread, (400_000, 2)), 4096)
    alone = TUNE | {"gpus": 1, "dp": 1, "sharding": "none", "document_tokens": {"mean": 800, "p50": 600}, "packing": "longest"}
    padding = 1 - draws.mean() / draws.max(axis=1).mean()
    said = float(ask(**alone).assumed["padding"].split(" %")[0]) / 100
    assert said == pytest.approx(padding, abs=0.01)
    many = float(ask(**alone | {"gpus": 8, "dp": 8, "sharding": "zero3"}).assumed["padding"].split(" %")[0]) / 100
    added_up = {"gpus": 8, "dp": 8, "sharding": "none", "global_batch": 16 * 64}
    assert many > said < float(ask(**alone | added_up).assumed["padding"].split(" %")[0]) / 100 < many


def test_documents_have_the_moments_of_their_draws() -> None:
    spread = math.sqrt(2 * math.log(800 / 600))
    kept = np.minimum(np.random.default_rng(1).lognormal(math.log(600), spread, 1_000_000), 1500)
    found = documents_of(Lengths(mean=800, p50=600), 1500)
    assert found.mean == pytest.approx(kept.mean(), rel=0.005)
    assert found.context == pytest.approx((kept**2).mean() / kept.mean() / 2, rel=0.005)
    uncut = documents_of(Lengths(mean=800, p50=600), 10**8)
    assert uncut.mean == pytest.approx(800)
    assert uncut.context == pytest.approx(800 * math.exp(spread**2) / 2)
    assert documents_of(5000, 4096).mean == 4096


@pytest.mark.sweep
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(LENGTHS, st.sampled_from([512, 2048, 8192]), st.integers(1, 8), st.sampled_from(["none", "zero3"]))
def test_packing_does_no_more_work_and_padding_is_never_faster(
    lengths: dict[str, float], sequence: int, micro: int, sharding: str
) -> None:
    """A token of a document costs the same FLOPs however it is padded, and the more padding the more time."""
    fields = {"document_tokens": lengths, "sequence": sequence, "micro_batch": micro, "sharding": sharding}
    found = ask_together(*(TUNE | fields | {"packing": way} for way in WAYS))
    answers = dict(zip(WAYS, found, strict=True))
    flop = {way: answer.flop_per_token or 0.0 for way, answer in answers.items()}
    assert flop["separate"] == pytest.approx(flop["padded"], rel=1e-9) == pytest.approx(flop["longest"], rel=1e-9)
    assert flop["separate"] <= flop["joined"] * (1 + 1e-9)
    speed = {way: answer.tokens_per_s.value for way, answer in answers.items() if answer.tokens_per_s}
    slack = 1 + 1e-9
    assert speed["separate"] * slack >= speed["joined"]
    assert speed["separate"] * slack >= speed["longest"] * 0.999
    assert speed["longest"] * slack >= speed["padded"] * 0.999
    assert speed["joined"] * slack >= speed["padded"]
    held = {answer.memory_bytes.total for answer in answers.values() if answer.memory_bytes}
    assert len(held) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"packing": "joined"}, "missing; packing = 'joined' needs to know how long documents are."),
        ({"document_tokens": 100, "task": "generate", "input_tokens": 10}, "documents are of a training set"),
    ],
)
def test_documents_are_of_a_training_set(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(**{"model": "gpt2", "gpu": "L4", "task": "train"} | fields)
    assert [problem.key for problem in caught.value.problems] == ["document_tokens"]
    assert words in caught.value.problems[0].message


def test_fine_tuning_pads_to_the_longest_and_pretraining_joins() -> None:
    assert ask(**TUNE, document_tokens=500).assumed["packing"] == "longest"
    assert ask(**TUNE | {"task": "train"}, document_tokens=500).assumed["packing"] == "joined"
