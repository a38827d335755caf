"""Mixtures of experts: what expert parallelism divides and what it does not, what tokens routed to experts take, and who waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import ask, ask_together, candidate, chip, parts, session
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.answers.answer import Answer, LayoutAnswer
from planner.engine.columns import Table
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.resolve import resolve
from planner.engine.memory import memory_of, terms_of
from planner.engine.performance.operators.attention import latent_elements
from planner.engine.performance.operators.communication import gathers, routed_bytes
from planner.engine.performance.operators.expert_kernels import (
    ANY,
    PERMUTED,
    PERMUTED_ON_BLACKWELL,
    added_bytes,
    added_rows,
    expert_kernels,
    filled_rows,
)
from planner.engine.performance.operators.experts import experts_latency_s, routed_traffic_bytes
from planner.engine.performance.operators.forward_pass import attention_pass_s
from planner.engine.performance.operators.products import layer_products, product_time
from planner.errors import UserError
from planner.workload.architecture import Models
from planner.workload.presets import read_workload
from planner.workload.tasks import Lora

MIXTRAL: dict[str, Any] = {"model": "mixtral-8x7b", "gpu": "H100", "task": "train", "gpus": 8, "dp": 8, "tp": 1, "sequence": 4096}
MIXTRAL |= {"sharding": "zero1", "checkpointing": "full", "micro_batch": 4}
DEEPSEEK: dict[str, Any] = {"model": "deepseek-v3", "gpu": "H200", "gpus": 8, "dtype": "fp8", "task": "serve", "concurrency": 256}
DEEPSEEK |= {"input_tokens": 1024, "output_tokens": 1024, "engine": "tensorrt-llm@1.1"}
SERVICE: dict[str, Any] = {
    "model": "deepseek-v3",
    "task": "serve",
    "input_tokens": 1000,
    "output_tokens": 1000,
    "concurrency": 64,
    "engine": "vllm",
}
SERVED: dict[str, Any] = {"model": "llama-3.1-8b", "gpu": "H100", "task": "serve", "concurrency": 32}


def values(**fields: Any) -> dict[str, float]:
    return values_of(ask(**fields))


def values_of(answer: Answer) -> dict[str, float]:
    """Figures of an answer by name, with the total of each part of its memory."""
    assert answer.memory_bytes is not None
    timed = answer.step_s or (answer.request_s.mean if answer.request_s else answer.prefill_s)
    assert timed is not None
    seconds = timed.value
    return {"seconds": seconds, **parts(answer.memory_bytes), **answer.seconds_by_class}


@pytest.mark.sweep
@given(st.sampled_from([1, 2, 4, 8, 16, 64]), st.sampled_from([1, 2, 4]), st.sampled_from(["zero1", "zero2", "zero3"]))
@settings(max_examples=25, deadline=None)
def test_expert_parallelism_takes_no_flops_and_no_states_away(ep: int, tp: int, sharding: str) -> None:
    layout = MIXTRAL | {"model": "qwen3-30b-a3b", "gpus": 64, "dp": 64 // tp, "tp": tp, "sharding": sharding}
    *_, answer = found = ask_together(layout, {**layout, "ep": ep})
    alone, shared = map(values_of, found)
    states = "weights" if sharding == "zero3" else "optimizer"
    assert shared[states] == pytest.approx(alone[states], rel=0.02)
    assert shared["matmul"] > 0.4 * alone["matmul"]
    assert answer.mfu is not None
    assert 0 < answer.mfu.value < answer.mfu.high <= 1


def test_experts_are_divided_with_tensor_parallelism_and_beyond_it() -> None:
    by_ep = {ep: values(**MIXTRAL | {"dp": 4, "tp": 2}, ep=ep)["weights"] for ep in (1, 2, 8)}
    assert by_ep[1] == by_ep[2] > 3.2 * by_ep[8]


@pytest.mark.parametrize(
    ("plain", "change", "slower"),
    [
        pytest.param(MIXTRAL | {"ep": 8}, {"link": 5e9}, ">", id="tokens sent to experts over a slow link"),
        pytest.param(
            MIXTRAL | {"gpus": 64, "dp": 64, "ep": 8}, {"gpus_per_node": 4, "fabric": "ethernet"}, ">", id="experts in other nodes"
        ),
        pytest.param(
            {"model": "llama-3.1-70b", "gpu": "H100", "task": "prefill", "input_tokens": 100_000, "gpus": 8, "tp": 1, "cp": 8},
            {"link": 4e8},
            ">",
            id="keys and values of a prompt over a slow link",
        ),
        pytest.param(
            MIXTRAL | {"model": "llama-3.1-8b", "cp": 4, "dp": 2, "sequence": 65536, "micro_batch": 1, "link": 1e9},
            {"cp": 1, "dp": 8},
            "<",
            id="keys and values in training",
        ),
        pytest.param(
            MIXTRAL | {"model": "llama-3.1-8b", "gpus": 64, "dp": 64, "sharding": "zero2", "fabric": "ethernet"},
            {"sharding": "zero3"},
            ">",
            id="ZeRO 3 sends more than ZeRO 2",
        ),
        pytest.param(
            SERVED | {"lora": Lora(rank=16), "adapters": 1}, {"adapters": 50}, ">", id="adapters of many requests are read"
        ),
        pytest.param(SERVED, {"lora": Lora(rank=16), "adapters": 1}, ">", id="an adapter is multiplied with"),
        pytest.param(
            {"model": "olmo-2-13b", "gpu": "H200 NVL", "task": "finetune", "dtype": "fp16", "tp": 8, "gpus": 512},
            {"gpu": "P100 SXM2"},
            ">",
            id="old boards have slower networks",
        ),
        pytest.param(DEEPSEEK | {"dp": 8, "ep": 8}, {"expert_imbalance": 4}, ">", id="the busiest rank is waited for"),
        pytest.param(DEEPSEEK | {"dp": 8, "ep": 8}, {"expert_imbalance": 1}, "<", id="balanced experts"),
        pytest.param(
            {
                "model": "llama-3.1-405b",
                "gpu": "H100",
                "task": "train",
                "gpus": 2048,
                "tp": 8,
                "pp": 16,
                "dp": 16,
                "global_batch": 16,
            },
            {"virtual_stages": 4, "global_batch": 256},
            ">",
            id="virtual stages do not help a single micro batch",
        ),
    ],
)
def test_what_takes_longer(plain: dict[str, Any], change: dict[str, Any], slower: str) -> None:
    before, after = values(**plain)["seconds"], values(**plain | change)["seconds"]
    assert after > before * 1.001 if slower == ">" else after < before * 0.999


def test_an_imbalance_that_is_not_stated_is_told() -> None:
    assert ask(**DEEPSEEK, dp=8, ep=8).assumed["expert_imbalance"] == pytest.approx(8**0.25, abs=0.01)
    assert "expert_imbalance" not in ask(**DEEPSEEK, dp=8, ep=8, expert_imbalance=1.2).assumed
    assert ask(**MIXTRAL, ep=8).assumed["expert_imbalance"] == 1
    with pytest.raises(UserError, match="from 1 to"):
        ask(**DEEPSEEK, expert_imbalance=0.5)


def test_attention_of_a_latent_is_the_same_cache_on_every_rank() -> None:
    """Tensor parallelism divides its heads, not its cache: attention over long contexts gains little from it."""
    long = DEEPSEEK | {"input_tokens": 60_000, "concurrency": 16}
    few, many = (values(**long, tp=tp, dp=8 // tp)["attention"] for tp in (4, 8))
    assert many > 0.7 * few


ONE = np.ones(1)
LAYER_US = [
    *[(32, 1, 1024, 141), (256, 1, 1024, 330), (1024, 1, 1024, 1186), (1024, 1, 2048, 1618), (1024, 1, 8192, 3856)],
    *[(1, 1024, 0, 686), (8, 1024, 0, 4599), (4, 2048, 0, 4874)],
]
"""(sequences, new tokens of each, tokens before them, µs) of the attention of a layer of DeepSeek V3, all 128 heads on an H200: TensorRT-LLM 1.3.0rc20, weights
and cache in FP8 (mla_generation_module_perf and mla_context_module_perf of aiconfigurator-core 0.12.0, Apache-2.0)."""


def served(gpu: str = "H200 SXM", dtype: str = "fp8", stored: str = "fp8", **fields: Any) -> Table:
    """A service on a layout as a table; `fields` of both."""
    layout = LayoutAnswer(gpus_per_node=8, **{name: fields.pop(name) for name in ("gpus", "tp", "dp", "ep") if name in fields})
    asked = read_workload(SERVICE | {"dtype": dtype, "weight_dtype": stored} | fields, "test")
    job = resolve(asked, Models(session().architecture(asked.model)))
    return candidate_of(job, chip(gpu, dtype, stored), layout).table()


@pytest.mark.parametrize(("sequences", "new", "before", "measured_us"), LAYER_US)
def test_attention_of_a_latent_takes_what_was_measured(sequences: int, new: int, before: int, measured_us: float) -> None:
    t, rows = served(dp=8, ep=8, gpus=8, kv_dtype="fp8"), ONE * sequences * new
    products_us = 1e6 * product_time(t, layer_products(t, rows)["attention"]).seconds[0]
    attention_us = 1e6 * attention_pass_s(t, rows, ONE * (before + new / 2), ONE * new)[0] / t.model.layers[0]
    starting_us = (
        45.0  # kernels one after the other, which the planner counts with the rest of a layer, as it does norms and rounding
    )
    assert products_us + attention_us + starting_us == pytest.approx(measured_us, rel=0.3)


def test_a_latent_is_made_by_heads_that_ranks_divide() -> None:
    """128 heads: queries of 576 and outputs of 512 elements while decoding; keys of 192 and values of 128 of a prompt."""
    for tp in (1, 8):
        t = served(tp=tp, dp=8 // tp, ep=8, gpus=8)
        assert latent_elements(t, ONE)[0] == 128 * (576 + 512) / tp
        assert latent_elements(t, ONE * 100)[0] == 128 * (192 + 128) / tp
    assert latent_elements(served(model="mixtral-8x7b", gpus=1), ONE)[0] == 0


def test_ranks_of_a_node_gather_tokens_and_those_of_several_send_them() -> None:
    """Everything goes to 7 other ranks in 16 bit and back, in FP4 as products read it; over two nodes a copy for each GPU with a chosen expert."""
    fp8, fp4 = served(dp=8, ep=8, gpus=8), served(gpu="B200 SXM", dp=4, ep=4, gpus=4, dtype="fp4", stored="nvfp4")
    assert [routed_bytes(t, ONE * 100)[0][0] for t in (fp8, fp4)] == [100 * 7168 * 7 * (2 + 2), 100 * 7168 * 3 * (0.5 + 2)]
    apart = served(dp=16, ep=16, gpus=16)
    assert not gathers(apart).any()
    assert 0 < routed_bytes(apart, ONE * 100)[0][0] < 100 * 7168 * 15 * (1 + 2)
    assert not gathers(served(tp=8, ep=8, gpus=8)).any(), "ranks of tensor parallelism have the same tokens"


@pytest.mark.parametrize(
    ("engine", "gpu", "dtype", "stored", "family", "kind"),
    [
        ("vllm", "H200 SXM", "fp8", "fp8", ANY, "8 bit blocks"),
        ("sglang", "A100 80GB SXM", "bf16", "fp8", ANY, "packed"),
        ("tensorrt-llm", "B200 SXM", "fp4", "nvfp4", PERMUTED_ON_BLACKWELL, "4 bit"),
        ("tensorrt-llm", "H200 SXM", "bf16", "awq", PERMUTED, "packed"),
        ("tensorrt-llm@0.17", "H200 SXM", "fp8", "fp8", ANY, "8 bit blocks"),
    ],
)
def test_kernels_of_experts_are_those_of_engine_part_and_weights(
    engine: str, gpu: str, dtype: str, stored: str, family: dict[str, Any], kind: str
) -> None:
    t = served(model="qwen3-30b-a3b", engine=engine, gpu=gpu, dtype=dtype, stored=stored, gpus=1)
    own = family[kind]
    assert [float(np.ravel(number)[0]) for number in expert_kernels(t)] == list(own)
    moved = (own.own + own.every) * 8 * (2 * 2048 + own.inner * 768) * 2
    assert routed_traffic_bytes(t, ONE)[0] == pytest.approx(moved)


EXPERTS_US = [
    ("qwen3-235b-a22b", "tensorrt-llm", "H200 SXM", "fp8", "fp8", 4, 4, {64: 174, 256: 193, 4096: 674}),
    ("deepseek-v3", "tensorrt-llm", "H200 SXM", "fp8", "fp8", 8, 8, {64: 361, 256: 376, 4096: 726}),
    ("qwen3-30b-a3b", "tensorrt-llm", "RTX PRO 6000 Blackwell Server", "fp4", "nvfp4", 1, 1, {64: 308, 256: 326, 4096: 649}),
]
"""Model, engine, GPU, dtype, storage, tp, ep, tokens -> µs of the routed experts of a layer, balanced: TensorRT-LLM 1.3rc20 (moe_perf of aiconfigurator-core 0.12.0,
Apache-2.0)."""


@pytest.mark.parametrize(("model", "engine", "gpu", "dtype", "stored", "tp", "ep", "measured_us"), EXPERTS_US)
def test_experts_take_what_was_measured(
    model: str, engine: str, gpu: str, dtype: str, stored: str, tp: int, ep: int, measured_us: dict[int, float]
) -> None:
    t = served(model=model, engine=engine, gpu=gpu, dtype=dtype, stored=stored, tp=tp, ep=ep, gpus=tp, expert_imbalance=1)
    for tokens, measured in measured_us.items():
        products = product_time(t, layer_products(t, ONE * tokens)["experts"]).seconds
        assert 1e6 * float((products + experts_latency_s(t))[0]) == pytest.approx(measured, rel=0.35)


def test_llama_cpp_fills_a_tile_for_every_expert() -> None:
    """128 experts, 8 of them for a token: 512 tokens bring 32 to an expert, for which a tile of 128 is computed; 4,096 bring 256, two tiles and a half of one on
    average; 64 bring 4, in tiles of 64; 8 are multiplied without tiles. Before b6325 every expert had products of its own."""
    t, before = (
        candidate(
            chip("RTX PRO 6000 Blackwell Workstation"), model="qwen3-30b-a3b", task="prefill", engine=f"llama.cpp@{build}", weight_dtype="q4_k_m", batch=1, input_tokens=512,
        ).table()
        for build in ("b6413", "b6000")
    )  # fmt: skip
    for tokens, each, filled in ((512, 32, 128), (4096, 256, 320), (64, 4, 64), (8, 0.5, 0.5)):
        assert float(filled_rows(t, ONE * tokens, ONE * each)[0]) == pytest.approx(filled)
        assert float(filled_rows(before, ONE * tokens, ONE * each)[0]) == each


def test_llama_cpp_fills_narrower_tiles_on_other_vendors_parts() -> None:
    """32 tokens for an expert: a tile of 64 by Vulkan on an AMD part. 32 tokens in all: tiles of 32 on either."""
    t = candidate(
        chip("Ryzen AI Max+ 395"), model="qwen3-30b-a3b", task="prefill", engine="llama.cpp@b11149", weight_dtype="q4_k_m", batch=1, input_tokens=512,
    ).table()  # fmt: skip
    for tokens, each, filled in ((512, 32, 64), (4096, 256, 288), (32, 2, 32)):
        assert float(filled_rows(t, ONE * tokens, ONE * each)[0]) == pytest.approx(filled)


def test_vllm_fills_a_block_for_every_expert() -> None:
    """128 experts of 4,096 by 1,536, halved by tensor parallelism of 2: 128·127 = 16,256 rows beside the tokens', whose inputs (4,096 bytes), outputs
    (2·4,096), gate and up (2·2·1,536, written and read) and rounded product (2·768) are 19,968 bytes a row."""
    asked: dict[str, Any] = {"model": "qwen3-235b-a22b", "gpu": "H200", "gpus": 2, "tp": 2, "dtype": "fp8"}
    t = served(**asked, engine="vllm@0.12")
    assert float(added_rows(t)[0]) == 128 * 127
    assert float(added_bytes(t)[0]) == 128 * 127 * 19_968
    shared = served(**asked, engine="vllm@0.12", ep=2)
    assert float(added_rows(shared)[0]) == 128 * 127
    assert float(added_bytes(shared)[0]) == 64 * 127 * (3 * 4096 + 10 * 1536)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"engine": "vllm@0.11.0"}, id="the release before"),
        pytest.param({"engine": "vllm@0.14"}, id="a release after"),
        pytest.param({"engine": "sglang@0.5.6"}, id="another engine"),
        pytest.param({"dtype": "bf16"}, id="16 bit"),
        pytest.param({"gpus": 8, "tp": 8}, id="8 ranks"),
        pytest.param({"gpu": "L40S", "gpus": 8, "tp": 4}, id="a part without DeepGEMM"),
    ],
)
def test_no_block_is_filled_elsewhere(changed: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "qwen3-235b-a22b", "gpu": "H200", "gpus": 4, "tp": 4, "dtype": "fp8", "engine": "vllm@0.12"}
    assert float(added_rows(served(**asked))[0]) > 0
    assert float(added_rows(served(**asked | changed))[0]) == 0


def test_decoding_in_blocks_takes_twice_as_long() -> None:
    """MiniMax M2 on four H100, ten clients: 32.2 ms a token with DeepGEMM's experts, 16.4 without (vllm-project/recipes#112, after 0.11.0)."""
    asked: dict[str, Any] = {
        "model": "minimax-m2",
        "gpu": "H100",
        "gpus": 4,
        "tp": 4,
        "dtype": "fp8",
        "task": "serve",
        "concurrency": 10,
    }
    asked |= {"requests": 100, "input_tokens": 2048, "output_tokens": 942}
    filled, plain = (ask(**asked, engine=f"vllm@{release}").tpot_s for release in ("0.11.1", "0.11.0"))
    assert filled is not None
    assert plain is not None
    assert filled.mean.value / plain.mean.value == pytest.approx(32.2 / 16.4, rel=0.2)


def test_layers_with_experts_took_longer_before_vllm_0_17() -> None:
    """45 µs for each of the 48 layers of Qwen3 30B, whose steps are replayed as CUDA graphs; none on RTX Blackwell, and none without attention beside experts."""
    one = {"task": "generate", "input_tokens": 1000, "output_tokens": 100, "batch": 1}

    def longer(model: str, gpu: str) -> float:
        before, since = (
            ask(**one, model=model, gpu=gpu, engine=f"vllm@{release}").seconds_by_class for release in ("0.16", "0.17")
        )
        return sum(before.values()) - sum(since.values())

    assert longer("qwen3-30b-a3b", "H100 SXM5 80GB") == pytest.approx(100 * 48 * 45e-6, rel=0.15)
    assert longer("qwen3-30b-a3b", "RTX PRO 6000") == pytest.approx(0, abs=1e-3)
    assert longer("llama-3.1-8b", "H100 SXM5 80GB") == pytest.approx(0, abs=1e-3)
    assert longer("nemotron-3-nano-30b-a3b", "H100 SXM5 80GB") == pytest.approx(0, abs=1e-3)  # its layers are experts or attention


def test_a_longer_pass_fills_tiles_better() -> None:
    """gpt-oss 20B on GB10, 2,048 tokens: 541 ms in passes of 2,048 (ggml-org/llama.cpp, benches/dgx-spark.md)."""
    asked = {
        "model": "gpt-oss-20b",
        "gpu": "GB10",
        "task": "prefill",
        "engine": "llama.cpp@b6918",
        "weight_dtype": "mxfp4",
        "batch": 1,
        "input_tokens": 2048,
    }
    usual, whole = (ask(**asked, **said).prefill_s for said in ({}, {"max_num_batched_tokens": 2048}))
    assert usual is not None
    assert whole is not None
    assert usual.value > 1.2 * whole.value
    assert whole.value == pytest.approx(0.541, rel=0.1)


@pytest.mark.parametrize(
    ("gpu", "gpus", "per_node"),
    [
        ("GB200", 64, 64),
        ("GB200", 256, 64),
        ("GB300", 72, 72),
        ("VR200", 144, 72),
        ("MI455X", 72, 72),
        ("H100", 64, 8),
        ("L40S", 4, 4),
    ],
)
def test_a_node_is_as_large_as_its_form(gpu: str, gpus: int, per_node: int) -> None:
    layout = ask(model="llama-3.1-8b", gpu=gpu, task="train", gpus=gpus).layout
    assert layout is not None
    assert layout.gpus_per_node == per_node


def test_no_range_is_above_the_data_sheet() -> None:
    """FLOPs at the upper end of the rate are at most those of the data sheet."""
    answer = ask(
        model="llama-3.1-8b", gpu="H100", task="finetune", gpus=1, micro_batch=4, sequence=2048, compile=True, engine="megatron"
    )
    assert answer.tokens_per_s is not None
    assert answer.flop_per_token is not None
    assert answer.tokens_per_s.high * answer.flop_per_token <= 989.5e12


def test_tensorrt_llms_cache_takes_a_share_of_what_is_free() -> None:
    """All but the cache does not count for its fraction, as it does in vLLM; kernels that bring tokens together have a copy for each expert of a token."""
    for engine, of_free in (("tensorrt-llm@1.1", 1), ("tensorrt-llm@0.17", 1), ("vllm", 0)):
        t = served(engine=engine, dp=8, ep=8, gpus=8, input_tokens=10_000)
        found, job = memory_of(t), t.job
        taken = found.total - found.kv_cache
        whole = t.chip.capacity_bytes * job.memory_fraction * (1 - job.headroom)
        assert found.usable == pytest.approx(whole + of_free * (1 - job.memory_fraction) * (1 - job.headroom) * taken)
        copies = next(term for term in terms_of(t) if term.name == "tokens brought together for their experts").bytes
        expected = 8192 * 8 * 8 * ((1 + 2) * 7168 + (4 + 1) * 2048) if engine != "vllm" else 0
        assert float(np.ravel(copies)[0]) == expected
