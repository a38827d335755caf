"""What ways of training cost and save: checkpointing, sharding, offload, context parallelism, adapters, and a compiled loss."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import architecture, ask, memory

from planner.engine.records.chip import HOST_LINK_BYTES_PER_S, HOST_READ_BYTES_PER_S
from planner.workload.optimizers import OPTIMIZERS

TRAIN: dict[str, Any] = {"model": "llama-3.1-8b", "gpu": "H100-SXM-80GB", "task": "train", "micro_batch": 1, "sequence": 8192}
EIGHT = {"gpus": 8, "dp": 8, "sharding": "zero3"}


def step_s(**fields: Any) -> float:
    found = ask(**TRAIN | fields).step_s
    assert found is not None
    return found.value


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-0.6b", "gpt2", "qwen3-30b-a3b"])
@pytest.mark.parametrize("recipe", ["bf16", "mixed", "amp"])
def test_what_is_computed_again_is_not_kept_and_takes_time(model: str, recipe: str) -> None:
    fields = {"model": model, "recipe": recipe, "sequence": 1024, "micro_batch": 4}
    ways = ("full", "selective-op", "none")
    held = [memory(**TRAIN | fields, checkpointing=way).total.value for way in ways]
    assert held == sorted(held)
    times = [step_s(**fields, checkpointing=way) for way in ways]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_megatron_computes_modules_again_and_exchanges_no_token_twice(model: str, dtype: str) -> None:
    fields = {"model": model, "dtype": dtype, "engine": "megatron", "gpus": 16, "dp": 16, "sharding": "zero1", "sequence": 4096}
    fields |= {"llama-3.1-8b": {}, "qwen3-30b-a3b": {"ep": 16}, "deepseek-v3": {"gpus": 1024, "dp": 64, "pp": 16, "ep": 64}}[model]
    ways = {way: ask(**TRAIN | fields, checkpointing=way) for way in ("full", "selective-op", "none")}
    held = [one.memory_bytes.total.value for one in ways.values() if one.memory_bytes]
    assert held == sorted(held)
    assert len(set(held)) == 3
    exchanged = {way: one.seconds_by_class["communication"] for way, one in ways.items()}
    assert exchanged["selective-op"] <= exchanged["none"] * 1.001
    times = [one.step_s.value for one in ways.values() if one.step_s]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[2]


def test_products_in_fp8_keep_their_inputs_in_fp8_where_the_engine_does() -> None:
    """Transformer Engine saves what it rounded, PyTorch's float8 products the 16 bit they came from: torchtitan prints 0.2 GiB apart."""
    fields = {"checkpointing": "none", "sharding": "none", "compile": True}
    for engine, less in (("megatron", True), ("torch", False)):
        wide, narrow = (memory(**TRAIN | fields, engine=engine, dtype=dtype).activations for dtype in ("bf16", "fp8"))
        assert (0.75 * wide < narrow < 0.95 * wide) if less else narrow == wide


def test_selective_checkpointing_holds_what_torchtitan_prints() -> None:
    """Llama 3.1 8B, 8,192 tokens, FSDP2 on 8 H100: 47.65 GiB reserved (torchtitan 0.0.2, torch 2.7)."""
    found = memory(**TRAIN, **EIGHT, engine="torch", recipe="amp", checkpointing="selective-op", compile=True, loss="full")
    assert found.total.value / 2**30 == pytest.approx(47.65, rel=0.05)


@pytest.mark.parametrize("sharding", ["none", "zero1", "zero2"])
@pytest.mark.parametrize("model", ["qwen2.5-0.5b", "mistral-7b-v0.3"])
def test_the_next_stage_of_sharding_holds_no_more(model: str, sharding: str) -> None:
    after = {"none": "zero1", "zero1": "zero2", "zero2": "zero3"}[sharding]
    fields = TRAIN | {"model": model, "gpus": 16, "tp": 2, "dp": 8, "sequence": 448, "micro_batch": 7, "recipe": "bf16"}
    assert memory(**fields, sharding=after).total.value <= memory(**fields, sharding=sharding).total.value


def test_context_parallel_ranks_exchange_keys_and_values() -> None:
    fields = {"gpus": 4, "cp": 4, "dp": 1, "sequence": 32768, "sharding": "none", "checkpointing": "full"}
    slow, fast = (ask(**TRAIN | fields, link=rate).seconds_by_class["communication"] for rate in (4e8, 4e11))
    assert slow > 10 * fast > 0


def test_activations_on_the_host_take_time_to_get_there() -> None:
    plain, away = (ask(**TRAIN, offload=offload, checkpointing="full") for offload in ("none", "activations"))
    assert away.seconds_by_class["communication"] > plain.seconds_by_class.get("communication", 0.0)
    assert away.host_memory_bytes


def test_adapters_move_what_they_add_to_each_product() -> None:
    """Two bytes of 6 outputs and 1 input of every adapted matrix, in 32 layers: more than those of query and value alone."""
    times = []
    for targets in (["q", "v"], "all-linear"):
        answer = ask(**TRAIN | {"task": "finetune"}, lora={"rank": 8, "targets": targets}, engine="transformers")
        times.append(answer.seconds_by_class["elementwise"])
    assert times[1] > 1.5 * times[0]


def test_a_compiled_loss_leaves_the_logits() -> None:
    compiled, liger = (memory(**TRAIN, compile=True, loss="fused", engine=engine).logits for engine in ("torch", "transformers"))
    assert compiled == pytest.approx(8192 * 128_256 * 4, rel=0.01)
    assert liger < 0.5 * compiled


def test_gradients_nobody_keeps_whole_are_scattered_in_every_micro_batch() -> None:
    """ZeRO 2 over a slow network: with four times the micro batches four times the gradients, where ZeRO 1 exchanges them once."""
    fields = {"gpus": 16, "dp": 16, "gpus_per_node": 8, "fabric": 1e9, "sequence": 1024, "engine": "torch"}
    exchanged = {}
    for sharding in ("zero1", "zero2"):
        for count in (1, 4):
            found = ask(**TRAIN | fields, sharding=sharding, global_batch=16 * count).seconds_by_class["communication"]
            exchanged[sharding, count] = found
    assert exchanged["zero1", 4] == pytest.approx(exchanged["zero1", 1])
    assert exchanged["zero2", 1] == pytest.approx(exchanged["zero1", 1])
    assert 2 * exchanged["zero2", 1] < exchanged["zero2", 4] < 4 * exchanged["zero2", 1]


def test_states_in_host_memory_are_updated_by_the_processors_of_a_node() -> None:
    """Qwen3 0.6B: 0.596 G parameters, 8 B each over the link, then AdamW's traffic at 60 GB/s: by eight replicas for eight times as long."""
    fields: dict[str, Any] = {"model": "qwen3-0.6b", "gpu": "A100-SXM-80GB", "task": "train", "micro_batch": 1, "sequence": 1024}
    fields |= {"recipe": "mixed", "engine": "torch", "sharding": "none", "optimizer": "adamw-fused"}
    parameters, moved = 0.596e9, 8 / HOST_LINK_BYTES_PER_S
    took = {}
    for gpus in (1, 8):
        near, away = (step_s(**fields, gpus=gpus, dp=gpus, offload=offload) for offload in ("none", "optimizer"))
        took[gpus] = (away - near) / parameters - moved
    traffic = took[1] * HOST_READ_BYTES_PER_S
    assert 24 < traffic < 40, "two moments and the master weight read and written, a gradient read: 28 B and what is cast"
    assert took[8] / took[1] == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize(
    ("recipe", "optimizer", "bytes_moved"),
    [
        ("mixed", "adamw-fused", 4 * (2 * 3 + 1)),  # two moments and the weight read and written, a gradient read: 28 B
        ("mixed", "adamw", 4 * (2 + 3 + 2 + 3 + 2 + 2 + 2 + 4)),  # decay, lerp, mul, addcmul, sqrt, div, add, addcdiv: 80 B
        ("bf16", "adamw", 2 * 20),
        ("bf16", "sgd-momentum", 2 * (2 + 3 + 3)),
        ("bf16", "adafactor", 4 * 21 + 3 * 6),  # in FP32, of a gradient and a weight that are widened, and a weight rounded
        ("fp32", "adafactor", 4 * 21),
    ],
)
def test_an_optimizer_of_several_kernels_moves_what_each_of_them_moves(recipe: str, optimizer: str, bytes_moved: float) -> None:
    a = architecture("llama-3.1-8b")
    assert OPTIMIZERS[optimizer].step_traffic_bytes(2.0 if recipe == "bf16" else 4.0, a) == pytest.approx(bytes_moved)


@pytest.mark.parametrize(
    ("engine", "assumed"),
    [
        ("torch", "adamw"),
        ("transformers@4.49", "adamw"),
        ("transformers@5.3", "adamw-fused"),
        ("deepspeed", "adamw-fused"),
        ("megatron", "adamw-fused"),
        (None, "adamw-fused"),
    ],
)
def test_adamw_is_one_kernel_unless_a_library_has_several(engine: str | None, assumed: str) -> None:
    found = ask(model="llama-3.1-8b", gpu="H100 SXM5 80GB", task="train", micro_batch=1, sequence=1024, engine=engine)
    assert found.assumed["optimizer"] == assumed


def test_accelerate_scatters_gradients_once_a_step() -> None:
    """Four micro batches over a slow network: weights gathered twice in each, gradients scattered in the last, all in 16 bit: 4 · 2 + 1 for 4 · 3."""
    fields: dict[str, Any] = {
        "sequence": 256,
        "gpus": 16,
        "dp": 16,
        "sharding": "zero3",
        "recipe": "bf16",
        "fabric": 2e9,
        "global_batch": 64,
    }
    each, once = (step_s(**fields, engine=engine) for engine in ("openrlhf", "llama-factory"))
    assert once / each == pytest.approx((4 * 2 + 1) / (4 * 3), rel=0.03)
