"""What a forward pass is made of: bytes between products against PyTorch, and what engines do differently."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engine_sample import ask, candidate, chip, session

from planner.engine.answers.answer import Answer
from planner.engine.job.weight_storage import GPTQ_UNPACKED_BYTES
from planner.engine.memory.total import terms_of
from planner.engine.performance.operators.communication import layer_collectives_s
from planner.engine.performance.operators.elementwise import elementwise_bytes
from planner.engine.records.layout import CHECKPOINTING
from planner.workload.tasks import Lora


@pytest.mark.parametrize(("width", "ffn", "heads", "kv_heads"), [(1024, 4096, 8, 8), (2048, 5632, 16, 16), (512, 2048, 8, 8)])
def test_bytes_between_products_are_those_of_pytorch(torch: ModuleType, width: int, ffn: int, heads: int, kv_heads: int) -> None:
    from operator_oracle import bytes_between_products

    tokens = 96
    sizes: dict[str, Any] = {
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
    }
    built = {**sizes, "vocab_size": 1000, "head_dim": width // heads}
    counted = bytes_between_products(built, 3, tokens) - bytes_between_products(built, 2, tokens)
    described = {"model_type": "llama", **sizes, "vocab_size": 1000, "num_hidden_layers": 2}
    one = candidate(chip("A100 80GB SXM"), model=described, task="prefill", engine="transformers")
    assert float(elementwise_bytes(one.table(), np.array([float(tokens)]))[0]) == pytest.approx(counted, rel=0.03)


def prefill_s(**fields: Any) -> float:
    answer = ask(**({"model": "llama-3.1-8b", "task": "prefill", "dtype": "fp16", "gpu": "RTX 4090"} | fields))
    assert answer.prefill_s is not None
    return answer.prefill_s.value


def test_geforce_adds_up_in_fp16_at_more_than_the_fp32_rate() -> None:
    fields = {"weight_dtype": "q4_k_m", "input_tokens": 4096, "engine": "llama.cpp@2024-05"}
    assert prefill_s(**fields, dtype="fp16") < prefill_s(**fields, dtype="bf16") / 1.1
    same = {"gpu": "A100 80GB SXM", **fields}
    assert prefill_s(**same, dtype="fp16") == pytest.approx(prefill_s(**same, dtype="bf16"))


def test_packed_weights_are_unpacked_for_prompts_and_not_for_single_tokens() -> None:
    """A GPU of its own class of kernels: 8-bit weights, the same bandwidth, so that only the unpacking differs."""
    fields = {"model": "llama-2-7b", "gpu": "A100 80GB SXM", "dtype": "fp16", "engine": "transformers@4.40"}
    long, short = ({**fields, "input_tokens": tokens} for tokens in (4096, 16))
    assert prefill_s(**long, weight_dtype="gptq-int4") > prefill_s(**long)
    assert prefill_s(**short, weight_dtype="gptq-int4") <= prefill_s(**short)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_bitsandbytes_unpacks_in_every_engine_from_the_second_row_on(engine: str) -> None:
    """`bitsandbytes.matmul_4bit` reads packed weights for a single vector (gemv_4bit) and multiplies with dequantized ones otherwise.

    Of 32 layers with 4 · 4,096² + 3 · 4,096 · 11,008 weights each 2 B are written and read again.
    """
    fields = {
        "model": "llama-2-7b",
        "gpu": "A100 80GB SXM",
        "engine": engine,
        "task": "generate",
        "dtype": "bf16",
        "input_tokens": 8,
    }

    def product_s(weights: str, batch: int, kind: str = "matmul") -> float:
        answer = ask(**fields, output_tokens=256, weight_dtype=weights, batch=batch)
        return answer.seconds_by_class[kind] / 256

    unpacking = 32 * (4 * 4096**2 + 3 * 4096 * 11008) * 4 / 2.039e12
    assert product_s("nf4", 1) < 0.5 * product_s("bf16", 1)
    assert unpacking < product_s("nf4", 2) - product_s("nf4", 1) < 2 * unpacking
    assert product_s("nf4", 2, "head") == pytest.approx(product_s("bf16", 2, "head"))  # which is not packed


DIVIDED: dict[str, Any] = {
    "model": "llama-2-70b",
    "task": "generate",
    "dtype": "fp16",
    "gpu": "A10G",
    "gpus": 8,
    "input_tokens": 1,
    "output_tokens": 256,
}


def test_llama_cpp_hands_the_inputs_of_every_product_to_every_gpu() -> None:
    """One token of Llama 2 70B on 8 GPUs: 7 products · 15 µs · (8 + 2), and 4 B · 7 · (77,824 inputs + 83,968 outputs / 8) over PCIe."""
    link = {"tp": 8.0, "nvlink": 0.0, "link_bytes_per_s": 32e9}
    asked = {key: value for key, value in DIVIDED.items() if key not in {"gpu", "gpus"}}
    t = candidate(chip("A10G", "fp16"), link, **asked, engine="llama.cpp@2023-08").table()
    moved_s = 4 * 7 * (77_824 + 83_968 / 8) / (32e9 * t.chip.pcie_efficiency_2[0])
    found, _ = layer_collectives_s(t, np.ones(1))
    assert float(found[0]) == pytest.approx(7 * 15e-6 * 10 + moved_s, rel=1e-3)
    newer = candidate(chip("A10G", "fp16"), link, **asked, engine="llama.cpp@2026-05").table()
    assert layer_collectives_s(newer, np.ones(1))[0] < found / 4, "collectives"


@pytest.mark.parametrize(("weights", "published"), [("fp16", 6.91), ("q4_0", 8.01)])
def test_gpus_without_a_layout_may_hold_layers_or_parts_of_every_matrix(weights: str, published: float) -> None:
    """Eight A10G, llama.cpp of 2023 (mlc-ai/llm-perf-bench): 16-bit weights are read faster than one GPU after the other reads them, those of 4 bit more slowly."""
    asked = {**DIVIDED, "weight_dtype": weights}
    old, open_ = (ask(**asked, engine=engine).decode_tokens_per_s for engine in ("llama.cpp@2023-08", "llama.cpp"))
    stated = ask(**asked, pp=8, engine="llama.cpp").decode_tokens_per_s
    assert old is not None
    assert open_ is not None
    assert stated is not None
    assert old.value == pytest.approx(published, rel=0.25)
    assert open_.value == stated.value
    assert open_.low < published < open_.high
    assert not stated.low < published < stated.high


def test_exllama_writes_weights_in_fp16_before_it_multiplies_a_prompt() -> None:
    """Of 32 layers with 4 · 4,096² + 3 · 4,096 · 11,008 weights each 0.520 B are read, and 2 B written and read again; tinygemm's kernel unpacks as it multiplies."""
    fields = {"model": "llama-2-7b", "gpu": "A100 80GB SXM", "dtype": "fp16", "weight_dtype": "gptq-int4", "input_tokens": 4096}
    bytes_of_layers = 32 * (4 * 4096**2 + 3 * 4096 * 11008) * (0.520 + 2 + 2)
    reached = chip("A100 80GB SXM").bandwidth_bytes_per_s
    more_s = prefill_s(**fields, engine="exllamav3") - prefill_s(**fields, engine="gpt-fast")
    assert more_s == pytest.approx(bytes_of_layers / reached, rel=1e-3)


def test_gptq_layers_that_train_unpack_by_these_operators(torch: ModuleType) -> None:
    """An INT32 holds eight weights of 4 bit; bytes go in and out of each operator, a tensor read at the size it is stored in."""
    inner, outer, group = 256, 512, 128
    packed = torch.zeros(inner // 8, outer, dtype=torch.int32, device="meta")
    zeros, scales = (torch.zeros(inner // group, 1, outer, dtype=of, device="meta") for of in (torch.int8, torch.float16))
    stored: dict[int, int] = {}

    def moved(*tensors: Any) -> int:
        for tensor in tensors:
            stored[id(tensor)] = min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        return sum(stored[id(tensor)] for tensor in tensors)

    spread = packed.unsqueeze(1).expand(-1, 8, -1)
    shifted = torch.bitwise_right_shift(spread, torch.zeros(1, 8, 1, dtype=torch.int32, device="meta"))
    narrow = shifted.to(torch.int8)
    masked = torch.bitwise_and(narrow, 15)
    grouped = masked.reshape(-1, group, outer)
    centred = grouped - zeros
    weights = scales * centred
    steps = (
        (shifted, spread),
        (narrow, shifted),
        (masked, narrow),
        (centred, grouped, zeros),
        (weights, centred, scales),
        (weights,),
    )
    forward = sum(moved(*step) for step in steps) - moved(packed) - 2 * moved(zeros)  # the packed ones are counted as stored
    backward = moved(weights)
    assert (forward + backward) / 2 / (inner * outer) == pytest.approx(GPTQ_UNPACKED_BYTES, rel=0.01)


def test_gptq_layers_that_train_keep_what_they_unpacked() -> None:
    """All layers' weights in 16 bit without checkpointing, one layer's at most with it."""

    def unpacked(checkpointing: str) -> float:
        rows = candidate(
            chip("A100 80GB SXM"),
            {"checkpointing": CHECKPOINTING[checkpointing]},
            model="llama-2-7b",
            task="finetune",
            lora=Lora(rank=8, targets=["q", "v"], base="gptq-int4"),
        ).table()
        return sum(float(np.max(term.bytes)) for term in terms_of(rows) if term.name == "weights unpacked to 16 bit")

    layers = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert unpacked("none") == pytest.approx(2 * layers, rel=1e-3)
    assert unpacked("full") <= 2 * layers / 32


def test_chunks_of_a_prompt_overlap_on_gpus_that_hold_layers() -> None:
    fields = {"weight_dtype": "q4_k_m", "engine": "llama.cpp"}
    whole = {tokens: prefill_s(**fields, input_tokens=tokens) for tokens in (512, 4096)}
    dealt = {tokens: prefill_s(**fields, input_tokens=tokens, gpus=4) for tokens in (512, 4096)}
    assert dealt[512] == pytest.approx(whole[512], rel=0.05)
    assert dealt[4096] < 0.75 * whole[4096]


def request_s(answer: Answer) -> float:
    assert answer.request_s is not None
    return answer.request_s.mean.value


def test_transformers_copies_its_cache_at_every_step() -> None:
    fields: dict[str, Any] = {"gpu": "A100-SXM-80GB", "task": "generate", "input_tokens": 512, "output_tokens": 512}

    def more_s(model: str, engine: str) -> float:
        """Seconds a request of a batch of 64 takes longer than one of 32."""
        fewer, more = (request_s(ask(**fields, model=model, engine=engine, batch=batch)) for batch in (32, 64))
        return more - fewer

    old, since_5, room = (more_s("llama-2-7b", engine) for engine in ("transformers@4.35", "transformers@5.0", "gpt-fast"))
    cached = 32 * 768 * 32 * 2 * 4096 * 2 * 511
    """Bytes of keys and values of 32 sequences of 768 tokens in 32 layers, at each step but the first."""
    assert old - room > 4 * cached / 2.039e12, "four passes at less than the vendor's bandwidth"
    assert 2 * cached / 2.039e12 < since_5 - room < 0.75 * (old - room)
    grouped = more_s("mistral-7b-v0.3", "transformers@4.35") / more_s("mistral-7b-v0.3", "gpt-fast")
    assert grouped > 1.5 * old / room, "keys and values that four heads share are copied for each"


def test_kernels_for_gptq_read_the_weights_for_every_eight_rows() -> None:
    fields: dict[str, Any] = {"gpu": "A100-SXM-80GB", "task": "generate", "input_tokens": 64, "output_tokens": 129}
    fields |= {"model": "llama-3.1-70b", "engine": "transformers@4.35", "dtype": "fp16"}

    def step_s(weights: str, batch: int) -> float:
        return request_s(ask(**fields, weight_dtype=weights, batch=batch)) / 129

    packed = 68e9 / 2
    """Bytes of the weights in layers."""
    sixth_block = step_s("gptq-int4", 41) - step_s("gptq-int4", 40)
    assert sixth_block > packed / 2.039e12
    assert step_s("gptq-int4", 40) - step_s("gptq-int4", 33) < sixth_block, "seven sequences more in a block"
    assert step_s("awq", 41) - step_s("awq", 40) < 0.5 * packed / 2.039e12


def test_every_expert_costs_a_launch_in_the_loop_of_transformers() -> None:
    fields: dict[str, Any] = {"gpu": "H200 SXM", "task": "generate", "input_tokens": 8, "output_tokens": 64}
    moe, dense = (request_s(ask(**fields, model=model, engine="transformers@4.57")) for model in ("qwen3-30b-a3b", "qwen3-4b"))
    assert moe > 10 * dense
    assert request_s(ask(**fields, model="qwen3-30b-a3b", engine="transformers")) < moe / 4, "grouped since 5.0"
    fused = request_s(ask(**fields, model="qwen3-30b-a3b", engine="vllm"))
    assert moe > 20 * fused


@pytest.mark.parametrize(
    ("fields", "engine"),
    [
        ({"task": "generate"}, "generic"),
        ({"task": "generate", "weight_dtype": "nf4"}, "transformers"),
        ({"task": "serve"}, "vllm"),
        ({"task": "train"}, "torch"),
        ({"task": "finetune"}, "transformers"),
        ({"task": "finetune", "lora": Lora()}, "transformers"),
    ],
)
def test_the_engine_that_is_usual(fields: dict[str, Any], engine: str) -> None:
    answer = ask(model="llama-3.2-1b", gpu="H100-SXM-80GB", **fields)
    assert answer.assumed["engine"] == engine


def test_every_engine_has_a_source() -> None:
    from planner.engine.job.engines import ENGINES

    assert all(record.source for records in ENGINES.values() for record in records)
    assert session().gpus.find("RTX 4090").form_factor == "GeForce"


def test_fp8_training_runs_in_transformer_engine_with_adapters_too() -> None:
    fields: dict[str, Any] = {
        "model": "llama-2-7b",
        "task": "finetune",
        "gpu": "H100 SXM5 80GB",
        "lora": Lora(rank=8, targets="all-linear"),
    }
    assert ask(**fields, dtype="fp8").assumed["engine"] == "megatron"
    assert ask(**fields, dtype="bf16").assumed["engine"] == "transformers"


@pytest.mark.parametrize(
    ("gpus", "batch", "published"), [(1, 1, 0.56), (1, 16, 0.748), (2, 16, 0.51), (4, 1, 0.248), (8, 1, 0.212), (8, 16, 0.272)]
)
def test_all_reduces_of_fastertransformer(gpus: int, batch: int, published: float) -> None:
    """GPT 20B, 60 tokens of prompt and 20 of answer on A100 (FasterTransformer, docs/gpt_guide.md)."""
    shape = {"model_type": "gpt2", "n_embd": 6144, "n_layer": 44, "n_head": 48, "vocab_size": 51200, "n_positions": 2048}
    run: dict[str, Any] = {
        "model": shape,
        "task": "generate",
        "gpu": "A100 80GB SXM",
        "dtype": "fp16",
        "input_tokens": 60,
        "output_tokens": 20,
    }
    named, usual = (ask(**run, batch=batch, gpus=gpus, tp=gpus, engine=engine) for engine in ("fastertransformer", "generic"))
    assert named.request_s is not None
    assert named.request_s.mean.value == pytest.approx(published, rel=0.12)
    shares = [one.seconds_by_class.get("communication", 0.0) for one in (named, usual)]
    assert shares[0] == pytest.approx(2.2 * shares[1])
