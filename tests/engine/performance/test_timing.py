"""Time: work counted by torch, bounds that physics sets, and what has to grow with what."""

from __future__ import annotations

import math
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from each_case import each_case
from engine_sample import architecture, ask, candidate, chip, evaluated, session
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from planner.engine.columns import soft_maximum
from planner.engine.evaluate.ranges import seconds_of
from planner.engine.job.engines import find_engine
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.operators.communication import collective_s
from planner.engine.performance.operators.forward_pass import forward
from planner.errors import UserError

H100 = "H100-SXM-80GB"
GPUS = ("H100-SXM-80GB", "A100-SXM-80GB", "L4", "RTX 4090", "B200 SXM", "MI300X")
DENSE = ("gpt2", "llama-3.2-1b", "qwen3-8b", "llama-3.1-8b", "gemma-2-9b", "phi-4", "mistral-7b-v0.3")
MODELS = (*DENSE, "mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b", "deepseek-v3")
exact = pytest.approx
quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)

JOBS: dict[str, dict[str, Any]] = {
    "training": {"task": "train", "micro_batch": 2, "sequence": 1024},
    "recomputing": {"task": "train", "micro_batch": 2, "sequence": 1024, "checkpointing": "full"},
    "decoding": {"task": "generate", "batch": 4, "input_tokens": 512, "output_tokens": 128},
    "prefilling": {"task": "prefill", "batch": 2, "input_tokens": 2048},
    "serving": {"task": "serve", "concurrency": 16, "input_tokens": 512, "output_tokens": 128},
}


def seconds(device: Chip, layout: dict[str, float] | None = None, **job: Any) -> float:
    """Seconds of one step, or of one request."""
    given_layout = dict(layout or {})
    if job["task"] == "serve":
        given_layout.setdefault("sequences", float(job["concurrency"]))
    if job.get("checkpointing") == "full":
        given_layout["checkpointing"] = 2.0
    e = evaluated(device, given_layout, **job)
    timed = e.step or e.serve
    assert timed is not None
    return float(seconds_of(timed)[0])


# --- work ---------------------------------------------------------------------------------------------------------------


def only_arithmetic() -> Chip:
    """A device of 1 FLOP/s on which nothing else takes time: seconds are FLOP."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("latency_s", "attention_latency_s", "decode_latency_s", "decode_head_s", "launch_s"), 0.0
    )
    endless: dict[str, Any] = dict.fromkeys(
        ("bandwidth_bytes_per_s", "weight_bandwidth_bytes_per_s", "decode_bandwidth_bytes_per_s", "quantise_bytes_per_s"), 1e30
    )
    return replace(chip(H100), flop_per_s=1.0, attention_flop_per_s=1.0, knee=8.0, **nothing, **endless)


def forward_flop(model: str | dict[str, Any], batch: int, sequence: int) -> float:
    """FLOPs of one pass over whole sequences, attention counted in full as torch does; the engine's factor on device time taken out."""
    table = candidate(only_arithmetic(), model=model, task="train", engine="megatron", micro_batch=batch, sequence=sequence).table()
    rows, length = np.array([float(batch * sequence)]), np.array([float(sequence)])
    one = forward(table, rows, length, length, head_rows=rows)
    return float(one.matmul[0] + one.attention[0] + one.head[0]) / find_engine("megatron").device_factor


@pytest.mark.parametrize(
    ("width", "depth", "heads", "kv_heads", "head_dim", "ffn", "vocabulary", "batch", "sequence"),
    [
        (256, 4, 2, 1, 128, 768, 32768, 4, 256),
        (1024, 5, 8, 4, 128, 3072, 151936, 2, 512),
        (512, 3, 8, 8, 96, 1000, 5000, 1, 2048),
        (320, 2, 10, 2, 32, 640, 1000, 3, 100),
    ],
)
def test_a_forward_pass_has_the_work_torch_counts(
    torch: ModuleType,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int,
    vocabulary: int,
    batch: int,
    sequence: int,
) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from bench.kinds.training import Qwen3
    from bench.kinds.transformer import Qwen3Shape

    shape = Qwen3Shape(
        name="test", width=width, depth=depth, heads=heads, kv_heads=kv_heads, head_dim=head_dim, ffn=ffn, vocabulary=vocabulary
    )
    with torch.device("meta"):
        model = Qwen3(shape)
        tokens = torch.zeros(batch, sequence, dtype=torch.long)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(tokens)
    config = {
        "model_type": "qwen3",
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": ffn,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
    }
    assert session().architecture(config).total == sum(parameter.numel() for parameter in model.parameters())
    assert forward_flop(config, batch, sequence) == exact(counter.get_total_flops(), rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_forward_pass_multiplies_each_active_matrix_once(model: str) -> None:
    a = architecture(model)
    tokens, length = 2 * 128, 128
    attention = 2 * (a.attended_all + a.attended_window) * length
    assert forward_flop(model, 2, 128) == exact(tokens * (2 * a.active_matrix + attention), rel=1e-9)


def test_model_flop_per_token_by_hand() -> None:
    """6 per parameter of a product (the input embedding and norms are none), and 6 · layers · query · sequence for causal attention."""
    answer = ask(model="llama-3.1-8b", gpu=H100, task="train", micro_batch=1, sequence=4096)
    products = 8_030_261_248 - 128256 * 4096 - (2 * 32 + 1) * 4096
    assert answer.flop_per_token == exact(6 * products + 6 * 32 * 4096 * 4096)
    assert answer.flop_per_token is not None
    assert answer.mfu is not None
    assert answer.tokens_per_s is not None
    assert answer.mfu.value == exact(answer.flop_per_token * answer.tokens_per_s.value / chip(H100).peak_flop_per_s)


# --- bounds -------------------------------------------------------------------------------------------------------------


@each_case("model, gpu", product(DENSE, GPUS))
def test_a_decoding_step_reads_the_weights_at_most_at_the_vendors_bandwidth(model: str, gpu: str) -> None:
    device = chip(gpu, "fp16")
    e = evaluated(device, model=model, task="generate", dtype="fp16", batch=1, input_tokens=16, output_tokens=16)
    assert e.serve is not None
    bandwidth = device.gpu.memory_bandwidth_bytes_per_s
    assert bandwidth is not None
    assert e.serve.step_s[0] > 2 * architecture(model).active_matrix / bandwidth


@pytest.mark.parametrize("stored", ["fp8", "int4", "q4_k_m"])
def test_narrow_weights_are_read_no_faster_than_they_are_large(stored: str) -> None:
    device = chip(H100, "bf16", stored)
    fields: dict[str, Any] = {"model": "llama-3.1-8b", "task": "generate", "batch": 1, "input_tokens": 16, "output_tokens": 16}
    e = evaluated(device, **fields, weight_dtype=stored)
    assert e.serve is not None
    assert device.gpu.memory_bandwidth_bytes_per_s is not None
    read = e.memory.weights[0] - 128256 * 4096 * float(e.table.job.other_bytes[0])
    assert e.serve.step_s[0] > read / device.gpu.memory_bandwidth_bytes_per_s


@pytest.mark.sweep
@each_case("model, gpu", product(MODELS, GPUS))
def test_training_stays_below_the_vendors_peak(model: str, gpu: str) -> None:
    for micro_batch, sequence in ((1, 512), (8, 2048), (32, 8192)):
        answer = ask(model=model, gpu=gpu, task="train", dtype="fp16", recipe="mixed", micro_batch=micro_batch, sequence=sequence)
        assert answer.mfu is not None
        assert 0 < answer.mfu.value < 1


@pytest.mark.sweep
@each_case("model, gpu", product(MODELS, GPUS))
def test_prefill_stays_below_the_vendors_peak(model: str, gpu: str) -> None:
    e = evaluated(chip(gpu, "fp16"), model=model, task="prefill", dtype="fp16", batch=8, input_tokens=4096)
    assert e.serve is not None
    least = 2 * (architecture(model).active_matrix - architecture(model).vocabulary * architecture(model).width) * 8 * 4096
    assert e.serve.prefill_s[0] > least / chip(gpu, "fp16").peak_flop_per_s


def test_a_request_is_its_prefill_and_its_steps() -> None:
    answer = ask(model="qwen3-8b", gpu=H100, task="generate", batch=4, input_tokens=700, output_tokens=33)
    assert answer.request_s is not None
    assert answer.prefill_s is not None
    assert answer.tpot_s is not None
    assert answer.requests_per_s is not None
    assert answer.output_tokens_per_s is not None
    assert answer.decode_tokens_per_s is not None
    request = answer.request_s.mean.value
    assert request == exact(answer.prefill_s.value + 32 * answer.tpot_s.mean.value)
    assert answer.requests_per_s.value == exact(4 / request)
    assert answer.output_tokens_per_s.value == exact(4 * 33 / request)
    assert answer.decode_tokens_per_s.value == exact(1 / answer.tpot_s.mean.value)
    assert sum(answer.seconds_by_class.values()) == exact(request, rel=1e-6)


@pytest.mark.parametrize("layout", [{}, {"gpus": 8, "sharding": "zero3"}, {"gpus": 8, "tp": 2, "pp": 2}])
def test_the_parts_of_a_step_are_the_step(layout: dict[str, Any]) -> None:
    answer = ask(model="llama-3.1-8b", gpu=H100, task="train", micro_batch=2, sequence=2048, global_batch=64, **layout)
    assert answer.step_s is not None
    assert answer.tokens_per_s is not None
    assert answer.layout is not None
    assert sum(answer.seconds_by_class.values()) == exact(answer.step_s.value, rel=1e-9)
    assert answer.tokens_per_s.value == exact(64 * 2048 / answer.step_s.value)


# --- what grows with what -----------------------------------------------------------------------------------------------

RATES = (
    "flop_per_s",
    "attention_flop_per_s",
    "bandwidth_bytes_per_s",
    "weight_bandwidth_bytes_per_s",
    "decode_bandwidth_bytes_per_s",
    "quantise_bytes_per_s",
)
LATENCIES = ("latency_s", "attention_latency_s", "decode_latency_s", "decode_head_s", "launch_s")


@pytest.mark.sweep
@quickly
@given(st.sampled_from(MODELS), st.sampled_from(list(JOBS)), st.sampled_from(RATES), st.floats(1.01, 20), st.sampled_from(GPUS[:4]))
def test_a_faster_device_is_never_slower(model: str, job: str, rate: str, factor: float, gpu: str) -> None:
    fields = {"model": model, "dtype": "fp16"} | JOBS[job]
    device = chip(gpu, "fp16")
    faster = replace(device, **{rate: getattr(device, rate) * factor})
    assert seconds(faster, **fields) <= seconds(device, **fields) * (1 + 1e-12)


@pytest.mark.sweep
@quickly
@given(st.sampled_from(MODELS), st.sampled_from(list(JOBS)), st.sampled_from(LATENCIES), st.floats(1.01, 20))
def test_more_latency_is_never_faster(model: str, job: str, latency: str, factor: float) -> None:
    device = chip(H100)
    slower = replace(device, **{latency: getattr(device, latency) * factor})
    fields = {"model": model} | JOBS[job]
    assert seconds(slower, **fields) >= seconds(device, **fields) * (1 - 1e-12)


GROWING = {
    "training": ("micro_batch", "sequence"),
    "recomputing": ("micro_batch", "sequence"),
    "decoding": ("batch", "input_tokens", "output_tokens"),
    "prefilling": ("batch", "input_tokens"),
    "serving": ("concurrency", "input_tokens", "output_tokens"),
}


@pytest.mark.sweep
@settings(quickly, max_examples=120)
@given(st.sampled_from(MODELS), st.sampled_from([(job, name) for job, names in GROWING.items() for name in names]), st.data())
def test_more_work_is_never_faster(model: str, grown: tuple[str, str], data: st.DataObject) -> None:
    job, name = grown
    small = data.draw(st.integers(1, 64) if "batch" in name or name == "concurrency" else st.integers(32, 8192))
    more = small + data.draw(st.integers(1, 64))
    fields = {"model": model} | JOBS[job]
    assert seconds(chip(H100), **fields | {name: more}) >= seconds(chip(H100), **fields | {name: small}) * (1 - 1e-9)


def test_recomputing_takes_time() -> None:
    for model in MODELS:
        fields: dict[str, Any] = {"model": model, "task": "train", "micro_batch": 4, "sequence": 2048}
        plain, again = seconds(chip(H100), **fields), seconds(chip(H100), **fields, checkpointing="full")
        assert 1.1 * plain < again < 1.5 * plain


def test_a_cached_prefix_saves_prefill() -> None:
    fields = {"model": "qwen3-8b", "gpu": H100, "task": "prefill", "input_tokens": 4000}
    whole, rest = ask(**fields).prefill_s, ask(**fields, prefix_tokens=3000).prefill_s
    assert whole is not None
    assert rest is not None
    assert 0.2 * whole.value < rest.value < 0.6 * whole.value


@pytest.mark.parametrize("task", ["train", "generate"])
def test_more_gpus_do_more(task: str) -> None:
    degree = "dp" if task == "train" else "tp"
    fields = {"model": "llama-3.1-70b", "gpu": H100, "task": task}
    rates = [ask(**fields, gpus=gpus, **{degree: gpus}).tokens_per_s for gpus in (1, 2, 4, 8)]
    values = [rate.value for rate in rates if rate is not None]
    assert len(values) == 4
    assert values == sorted(values)
    assert values[3] < 8 * values[0]


def test_a_slower_link_is_never_faster() -> None:
    for fields in (
        {"task": "train", "sharding": "zero3", "gpus": 8},
        {"task": "train", "gpus": 8, "tp": 8},
        {"task": "generate", "gpus": 8},
    ):
        by_link = [ask(model="llama-3.1-70b", gpu=H100, link=link, **fields).tokens_per_s for link in (10e9, 50e9, 450e9)]
        values = [rate.value for rate in by_link if rate is not None]
        assert values == sorted(values)
        assert values[0] < values[2]


# --- the formulas alone -------------------------------------------------------------------------------------------------

TIMES = st.floats(1e-9, 1e6)


@quickly
@given(TIMES, TIMES, st.floats(1, 16))
def test_the_soft_maximum_lies_between_the_larger_and_the_sum(a: float, b: float, knee: float) -> None:
    both = float(soft_maximum(np.array([a]), np.array([b]), knee)[0])
    assert max(a, b) * (1 - 1e-12) <= both <= (a + b) * (1 + 1e-12)
    assert both == exact(float(soft_maximum(np.array([b]), np.array([a]), knee)[0]), rel=1e-12)
    assert both == exact(1000 * float(soft_maximum(np.array([a / 1000]), np.array([b / 1000]), knee)[0]), rel=1e-9)


def test_the_soft_maximum_at_its_ends() -> None:
    a, b = np.array([0.0, 3.0, 3.0, 3.0]), np.array([0.0, 0.0, 4.0, 1e300])
    assert soft_maximum(a, b, 1.0).tolist() == [0.0, 3.0, 7.0, exact(1e300)]
    assert soft_maximum(a, b, 2.0).tolist() == [0.0, 3.0, exact(5.0), exact(1e300)]


def collective(ranks: float, volume: float, *, per_node: float = 8.0, **layout: float) -> float:
    table = candidate(chip(H100), layout, model="gpt2", task="generate").table()
    return float(np.broadcast_to(collective_s(table, np.array([ranks]), np.array([volume]), per_node=np.array([per_node])), 1)[0])


def test_nobody_talks_to_himself() -> None:
    assert collective(1, 1e9) == 0
    assert collective(1, 1e9, per_node=1) == 0


@quickly
@given(st.sampled_from([2, 3, 4, 8, 16, 64]), st.floats(1, 1e11), st.floats(1.01, 10))
def test_collectives_grow_with_volume_and_distance(ranks: int, volume: float, factor: float) -> None:
    assert collective(ranks, volume * factor) > collective(ranks, volume) > 0
    assert collective(ranks, volume, per_node=1) >= collective(ranks, volume, per_node=ranks)
    assert collective(ranks, volume) > volume / (2 * 450e9)  # a switch that reduces halves what a rank sends
    assert collective(ranks, volume, nvlink=0.0, link_bytes_per_s=32e9) > volume / 32e9


def test_norms_over_all_heads_are_a_third_collective_of_ranks_that_share_them() -> None:
    sizes = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 100352,
    }
    asked = {"gpu": "H100 SXM5 80GB", "task": "generate", "batch": 1, "input_tokens": 100, "output_tokens": 100}
    times = {
        (family, tp): ask(model={"model_type": family, **sizes}, tp=tp, gpus=tp, **asked).seconds_by_class
        for family in ("llama", "olmo2")
        for tp in (1, 2)
    }
    assert times["olmo2", 1] == times["llama", 1]
    assert 1.3 < times["olmo2", 2]["communication"] / times["llama", 2]["communication"] < 1.5
    per_head = architecture("qwen3-8b")
    assert (per_head.qk_norm, per_head.norms_all_heads) == (True, False)


def test_a_device_without_a_rate_for_the_dtype_cannot_be_timed() -> None:
    answer = ask(model="qwen3-8b", gpu="V100-SXM2-16GB", task="generate", dtype="bf16")
    assert not answer.fits
    assert answer.reason is not None
    assert "fp16" in answer.reason
    assert answer.tokens_per_s is None
    with pytest.raises(UserError, match="not a known GPU"):
        ask(model="qwen3-8b", gpu="V100-SXM9", task="generate")


@pytest.mark.sweep
@each_case("model, job", product(MODELS, JOBS))
def test_every_range_holds_its_value(model: str, job: str) -> None:
    answer = ask(model=model, gpu=H100, **JOBS[job])
    figures = [answer.step_s, answer.tokens_per_s, answer.prefill_s, answer.requests_per_s, answer.energy_j_per_token]
    known = [figure for figure in figures if figure is not None]
    assert known
    for figure in known:
        assert 0 < figure.low < figure.value < figure.high < math.inf
