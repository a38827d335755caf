"""Models of an encoder and a decoder: parameters, FLOPs and cache against `transformers`, and what they take in generating and serving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import ask, candidate, chip, evaluated
from msgspec.structs import replace
from parameter_cases import components
from two_stack_cases import GOLDEN, NAMES

from planner.engine.columns import LayoutColumns
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import evaluate
from planner.engine.explain.details import detail_of
from planner.errors import UserError
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.two_stacks_parts import TWO_STACKS
from planner.workload.weights import FORMATS

FLAN_XL = {
    "model_type": "t5", "vocab_size": 32128, "d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_heads": 32,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
}  # fmt: skip
"""google/flan-t5-xl."""
WHISPER = {
    "model_type": "whisper", "vocab_size": 51866, "d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "decoder_layers": 32, "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
}  # fmt: skip
"""openai/whisper-large-v3."""


BLOCKS = {"bigbird_pegasus", "led", "pegasus_x"}
"""Families whose first and last blocks of a prompt take other FLOPs than those between, up to a thousandth here."""


def traced(name: str) -> tuple[Architecture, dict[str, Any]]:
    """Sizes of the model that was run, and what it took."""
    found = GOLDEN.values[name]
    a = read_architecture(found.get("small") or found["config"])
    if name == "nllb-moe":  # its code passes every token as often as there are experts
        assert a.source is not None
        a = replace(a, experts_per_token=a.experts, source=replace(a.source, experts_per_token=a.source.experts))
    return a, found


def test_every_family_of_two_stacks_is_tried() -> None:
    assert set(NAMES) == set(TWO_STACKS) == set(GOLDEN.values)
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_the_library_builds(name: str) -> None:
    found = GOLDEN.values[name]
    a = read_architecture(found["config"])
    assert a.total == found["parameters"] == sum(components(a).values())
    assert FORMATS["bf16"].stored(a).total_bytes == 2 * a.total


@pytest.mark.parametrize("name", NAMES)
def test_passes_take_the_flops_of_the_code(name: str) -> None:
    """The prompt: the encoder, the projections of its output, and one token of the decoder. Then one token that attends to two of its own."""
    a, found = traced(name)
    s, n = a.source, found["prompt_tokens"]
    assert s is not None
    read = 2 * n * (s.active_matrix + (s.attended_all + s.attended_window) * n) + n * s.scan_flop
    if name == "whisper":
        read += 2 * n * 3 * 80 * s.width  # its first convolution runs once a frame, twice a token
    first, step = (2 * (a.active_matrix + (a.attended_all + a.attended_window) * own + a.attended_source * n) for own in (1, 2))
    assert read + first == pytest.approx(found["prompt_flop"], rel=1e-3 if name in BLOCKS else 0)
    assert step == found["step_flop"]


@pytest.mark.parametrize("name", NAMES)
def test_the_cache_is_that_of_the_code(name: str) -> None:
    a, found = traced(name)
    assert (2 * (a.cached_all + a.cached_window), found["prompt_tokens"] * a.cached_source) == (
        found["own_cache"],
        found["prompt_cache"],
    )


@pytest.mark.parametrize("name", ["led", "longt5", "nllb-moe", "switch_transformers", "t5gemma2", "seamless_m4t_v2"])
def test_they_generate_and_serve(name: str) -> None:
    """A prompt of 8,000 tokens takes less than four times one of 2,000 where attention stays within blocks."""
    config = GOLDEN.values[name]["config"]
    took = [ask(model=config, gpu="L40S", task="generate", input_tokens=tokens, output_tokens=4) for tokens in (2000, 8000)]
    short, long = (one.ttft_s.mean.value for one in took if one.ttft_s)
    assert short < long
    if name in {"led", "longt5"}:
        assert long < 4.1 * short
    served = ask(model=config, gpu="L40S", task="serve", input_tokens=500, output_tokens=50, concurrency=8)
    assert served.memory_bytes
    assert served.memory_bytes.weights == 2 * read_architecture(config).total


def test_published_counts() -> None:
    """Parameters that the hub states of both checkpoints; T5 1.1 has a head of its own."""
    assert read_architecture(FLAN_XL).total == 2_849_757_184
    assert read_architecture(WHISPER).total == 1_543_490_560


def asked_of(**fields: Any) -> Any:
    return ask(model=FLAN_XL, gpu="H100 SXM5 80GB", **fields)


def generating(**fields: Any) -> Any:
    return asked_of(task="generate", engine="transformers", **fields)


def test_the_cache_of_the_prompt_is_fixed_and_that_of_the_answer_grows() -> None:
    """24 layers, 32 heads of 64: 2 · 2,048 elements of 2 bytes a token and layer, for each of 500 tokens read and 100 written."""
    cache = generating(input_tokens=500, output_tokens=100, batch=3).memory_bytes.kv_cache
    assert cache == 3 * 24 * (500 + 100) * 2 * 2048 * 2


def test_an_answer_is_read_by_the_decoder_alone() -> None:
    """A longer prompt takes longer to read, and each token of the answer reads its keys and values, but no further weights."""
    short, long = (generating(input_tokens=of, output_tokens=64, batch=1) for of in (512, 8192))
    assert short.flop_per_token == 2 * (
        2048 * 32128 + 24 * (4 * 2048 * 2048 + 2 * 2048 * 2048 + 3 * 2048 * 5120)
    ) + 2 * 24 * 4096 * (512 + 32)
    assert long.ttft_s.mean.value > 1.5 * short.ttft_s.mean.value
    assert long.flop_per_token - short.flop_per_token == 2 * 24 * 4096 * (8192 - 512)


def test_the_prompt_passes_the_encoder_once_and_the_decoder_with_one_token() -> None:
    e = evaluated(chip("H100 SXM5 80GB"), model=FLAN_XL, task="generate", input_tokens=700, output_tokens=50, engine="transformers")
    assert e.serve is not None
    assert list(e.serve.phases) == ["encoder", "prefill", "decode"]
    rows = {name: float(np.ravel(phase.one.shape[0])[0]) for name, phase in e.serve.phases.items()}
    assert rows == {"encoder": 700, "prefill": 1, "decode": 1}
    whole = sum(float(np.ravel(seconds)[0]) for seconds in e.serve.by_class.values())
    assert whole == pytest.approx(float(e.serve.request_s.mean[0]))


def test_a_row_without_an_encoder_is_the_same_beside_one_with() -> None:
    """Jobs of both kinds share a table without a change to the bit."""
    asked = {"task": "serve", "input_tokens": 300, "output_tokens": 40, "concurrency": 4, "engine": "tensorrt-llm"}
    one, other = (
        candidate(chip("H100 SXM5 80GB"), {"sequences": 4.0}, model=model, **asked) for model in ("llama-3.2-1b", FLAN_XL)
    )
    both = Candidates(
        [*one.jobs, *other.jobs],
        np.array([0, 1]),
        [*one.chips, *other.chips],
        np.array([0, 1]),
        LayoutColumns(**{name: np.repeat(getattr(one.layout, name), 2) for name in one.layout.__struct_fields__}),
    )
    apart, together = [evaluate(each) for each in (one, other)], evaluate(both)
    assert together.serve is not None
    for number, alone in enumerate(apart):
        assert alone.serve is not None
        assert float(together.serve.ttft_s.mean[number]) == float(alone.serve.ttft_s.mean[0])
        assert float(together.serve.step_s[number]) == float(alone.serve.step_s[0])
        assert float(together.memory.total[number]) == float(alone.memory.total[0])


def test_a_simulated_service_reads_prompts_with_the_encoder() -> None:
    """At a rate that leaves every request alone, the first token takes what a prompt alone takes, without the half step a loop waits.

    The host of this release launches prompts in no time that counts.
    """
    asked = {"task": "serve", "input_tokens": 2000, "output_tokens": 20, "engine": "tensorrt-llm@0.21"}
    rare, alone = asked_of(**asked, request_rate_per_s=0.01), asked_of(**asked, concurrency=1)
    waited = alone.ttft_s.p50.value - alone.tpot_s.mean.value / 2
    assert rare.ttft_s.p50.value == pytest.approx(waited, rel=0.02)
    assert rare.tpot_s.mean.value == pytest.approx(alone.tpot_s.mean.value, rel=0.05)
    assert asked_of(task="serve", input_tokens=2000, output_tokens=20, concurrency=1).assumed["engine"] == "tensorrt-llm"


def test_sound_is_always_half_a_minute() -> None:
    found = ask(model=WHISPER, gpu="L4", task="serve", output_tokens=100, concurrency=8)
    assert found.assumed["input_tokens"] == 1500
    with pytest.raises(UserError, match=r"input_tokens: 700 .* has to be 1,500"):
        ask(model=WHISPER, gpu="L4", task="serve", input_tokens=700, output_tokens=100, concurrency=8)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"task": "serve", "input_tokens": 900, "prefix_tokens": 100}, "prefix_tokens: 100 is not accepted"),
        ({"task": "serve", "disaggregated": True, "dp": 2}, "disaggregated: True is not accepted"),
        ({"task": "generate", "cp": 2, "gpus": 2}, "cp: 2 is not accepted"),
        ({"task": "generate", "companions": [{"role": "draft", "model": FLAN_XL}]}, "a draft is not accepted"),
    ],
)
def test_what_no_encoder_can(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        ask(model=FLAN_XL, gpu="H100 SXM5 80GB", **fields)
    assert said in str(refused.value)


def test_an_engine_without_such_models_is_told() -> None:
    asked = {"gpu": "H100 SXM5 80GB", "task": "serve", "concurrency": 4, "engine": "vllm", "output_tokens": 20}
    assert "Whisper alone" in ask(model=FLAN_XL, **asked).assumed["engine_models"]
    assert "engine_models" not in ask(model=WHISPER, **asked).assumed


def test_operators_of_both_stacks_add_up() -> None:
    """What `--explain` lists is what is timed, and its FLOPs are those of the code."""
    found = GOLDEN.values["bart"]
    e = evaluated(
        chip("H100 SXM5 80GB"),
        model=found["config"],
        task="generate",
        input_tokens=found["prompt_tokens"],
        output_tokens=2,
        batch=1,
        engine="transformers",
    )
    told = detail_of(e)
    assert e.serve is not None
    read = sum(one.flop for one in told.operators if one.phase in {"encoder", "prefill"})
    assert read == pytest.approx(found["prompt_flop"], rel=1e-12)
    assert told.total_s == pytest.approx(sum(float(np.ravel(one)[0]) for one in e.serve.by_class.values()))


@pytest.mark.parametrize("tokens", [500, 2000])
def test_requests_in_flight_by_littles_law_are_those_of_the_simulation(tokens: int) -> None:
    """Rows are screened without a simulation, by the times of the encoder, too."""
    found = asked_of(task="serve", input_tokens=tokens, output_tokens=30, request_rate_per_s=20.0)
    assert found.layout.batch == pytest.approx(20 * found.request_s.mean.value, rel=0.2, abs=1)
