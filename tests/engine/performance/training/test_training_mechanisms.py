"""Times of training, worked by hand: what traffic takes from computation, sequence parallelism, heads, encoders, stored scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import ask, candidate, chip, evaluated

from planner.engine.columns import Table
from planner.engine.explain.details import detail_of
from planner.engine.performance.operators.attention import attention_flop, attention_time
from planner.engine.performance.operators.elementwise import elementwise_bytes, quantise_s
from planner.engine.performance.operators.expert_kernels import ANY
from planner.engine.performance.operators.experts import BIAS_GRADIENT_S, bias_gradients_s, routed_traffic_bytes
from planner.engine.performance.operators.launches import launches_of_layer
from planner.engine.performance.rank_exchange import CONTENTION, OVERLAP
from planner.engine.performance.training import EAGER_BACKWARD, step_of
from planner.hardware.catalogue.interconnects import FABRIC_EFFICIENCY

TRAIN: dict[str, Any] = {"task": "train", "micro_batch": 1, "sequence": 8192, "model": "llama-3.1-8b"}
ONE = np.ones(1)


def table(layout: dict[str, float] | None = None, gpu: str = "H100-SXM-80GB", **workload: Any) -> Table:
    dtype = workload.get("dtype", "bf16")
    return candidate(chip(gpu, dtype), layout, **TRAIN | {"engine": "torch"} | workload).table()


def test_hidden_traffic_takes_a_share_of_itself_from_computation() -> None:
    """FSDP over eight GPUs: weights twice and gradients once, 7/8 of 2 · 2 + 4 B a parameter over a link that takes a tenth of the time of the work."""
    parameters = 8.03e9
    layout = {"gpus": 8.0, "dp": 8.0, "shard": 8.0, "zero": 3.0, "link_bytes_per_s": 4e12}
    moved = 7 / 8 * 8 * parameters
    work, found = (step_of(table(one, recipe="mixed")) for one in (None, layout))
    seconds = found.by_class["communication"][0]
    rate = moved / seconds
    assert 0.1 * work.step_s[0] > seconds
    for times in (2, 4):
        slower = step_of(table(layout | {"link_bytes_per_s": 4e12 / times}, recipe="mixed")).by_class["communication"][0]
        assert slower == pytest.approx(times * seconds, rel=0.1)
    alone = 0.1 + CONTENTION * (1 - 0.1)
    link = chip("H100-SXM-80GB").nvlink_efficiency_8 * 4e12
    assert rate == pytest.approx(link / alone, rel=0.1)


def test_hybrid_sharding_sends_what_no_node_needs_of_another_over_links() -> None:
    """Four nodes of eight: weights twice and gradients once inside a node, an eighth of the gradients twice between nodes.

    FSDP2's HSDP: reduce-scatter over the ranks that share weights, then an all-reduce over the copies on a stream of its own.
    """
    parameters, one_step = 8.03e9, 1e9
    fabric = one_step * FABRIC_EFFICIENCY
    layout = {"gpus": 32.0, "dp": 32.0, "gpus_per_node": 8.0, "zero": 3.0, "link_bytes_per_s": 4e12, "fabric_bytes_per_s": one_step}
    everywhere, hybrid = (step_of(table(layout | {"shard": shard}, recipe="bf16")) for shard in (32.0, 8.0))
    between_nodes = 2 * 3 / 4 * parameters / 8 * 2
    exposed = hybrid.exposed["gradients and weights between ranks"][0]
    hidden = OVERLAP * (hybrid.step_s - hybrid.by_class["communication"] - hybrid.by_class["optimizer"])[0]
    took = between_nodes / fabric
    assert exposed == pytest.approx(took - hidden + CONTENTION * hidden, rel=0.1)
    assert everywhere.exposed["gradients and weights between ranks"][0] > 1.5 * exposed
    alone = {"gpus": 8.0, "dp": 8.0, "shard": 8.0, "gpus_per_node": 8.0}
    single = step_of(table(layout | alone, recipe="bf16"))
    quick = step_of(table(layout | {"shard": 8.0, "fabric_bytes_per_s": 1e13}, recipe="bf16"))
    assert quick.exposed["gradients and weights between ranks"] == pytest.approx(
        single.exposed["gradients and weights between ranks"]
    )


@pytest.mark.parametrize("asked", [{"loss": "fused"}, {"compile": True}])
def test_kernels_that_fuse_the_loss_move_a_third_of_its_bytes(asked: dict[str, Any]) -> None:
    """8,192 tokens and 128,256 logits each: 24 B of each operator by operator, 8 B fused, beside what else torch.compile fuses."""
    plain, fused = (table(recipe="mixed", **of) for of in ({}, asked))
    saved = (step_of(plain).by_class["elementwise"] - step_of(fused).by_class["elementwise"])[0]
    between = [elementwise_bytes(t, 8192 * ONE)[0] * 32 * 3 for t in (plain, fused)]
    c = chip("H100-SXM-80GB")
    factor = plain.engine.device_factor[0]
    expected = ((24 - 8) * 8192 * 128256 + (between[0] - between[1]) * factor) / c.bandwidth_bytes_per_s * c.train_factor
    assert saved == pytest.approx(expected, rel=1e-6)


def test_weights_in_fp32_are_gathered_in_16_bit() -> None:
    layout = {"gpus": 8.0, "dp": 8.0, "shard": 8.0, "zero": 3.0, "link_bytes_per_s": 4e9}
    amp, mixed = (step_of(table(layout, recipe=recipe)).by_class["communication"][0] for recipe in ("amp", "mixed"))
    assert amp == pytest.approx(mixed, rel=0.01)


@pytest.mark.parametrize(("engine", "shared"), [("megatron", 8), ("megatron-deepspeed", 1)])
def test_sequence_parallelism_divides_what_lies_between_products(engine: str, shared: int) -> None:
    layout = {"gpus": 8.0, "tp": 8.0}
    whole, split = (table(one, engine=engine) for one in (None, layout))
    for kind in ("norms", "residual sums"):
        assert elementwise_bytes(whole, ONE, kind) / elementwise_bytes(split, ONE, kind) == pytest.approx(shared)
    kind = "activation of the MLP"
    assert elementwise_bytes(whole, ONE, kind) / elementwise_bytes(split, ONE, kind) == pytest.approx(8)
    narrow, divided = (table(one, engine=engine, dtype="fp8") for one in (None, layout))
    h, f = 4096, 14336
    assert quantise_s(divided, ONE) / quantise_s(narrow, ONE) == pytest.approx((3 * h / shared + f / 8) / (3 * h + f))


def test_training_in_fp8_leaves_the_head_in_16_bit() -> None:
    wide, narrow = (step_of(table(engine="megatron", dtype=dtype)) for dtype in ("bf16", "fp8"))
    assert narrow.by_class["head"][0] == pytest.approx(wide.by_class["head"][0], rel=0.2)
    assert narrow.by_class["matmul"][0] < 0.7 * wide.by_class["matmul"][0]


def test_an_encoder_attends_to_both_sides() -> None:
    """BERT large: 24 layers of 1,024, four FLOP an element and token attended to, all of the 384 where a decoder sees half."""
    t = table(model="bert-large", task="finetune", sequence=384)
    assert attention_flop(t, np.full(1, 192.0))[0] == pytest.approx(4 * 24 * 1024 * 384)
    decoder = table()
    assert attention_flop(decoder, np.full(1, 192.0))[0] == pytest.approx(4 * 32 * 4096 * 192)


def test_tuning_an_encoder_has_no_head_over_the_vocabulary() -> None:
    fields: dict[str, Any] = {"model": "bert-large", "gpu": "A100 80GB SXM", "sequence": 384, "micro_batch": 112}
    tuned, trained = (
        ask(**fields, task=task, engine="torch", recipe="mixed", attention="eager", dtype="fp16") for task in ("finetune", "train")
    )
    assert "small" in tuned.assumed["head"]
    assert tuned.seconds_by_class.get("head", 0.0) == 0 < trained.seconds_by_class["head"]
    assert tuned.memory_bytes is not None
    assert tuned.memory_bytes.logits == 0


@pytest.mark.parametrize("task", ["finetune", "train"])
def test_the_operators_of_an_encoder_add_up(task: str) -> None:
    """FLOPs of both products of attention: 4 · 24 layers · 1,024 · 384² a sequence forward, whatever the head."""
    e = evaluated(chip("A100 80GB SXM"), model="bert-large", task=task, sequence=384, micro_batch=2, engine="torch", recipe="bf16")
    told = detail_of(e)
    assert e.step is not None
    assert told.total_s == pytest.approx(e.step.step_s[0])
    scores = sum(one.flop for one in told.operators if one.kind == "attention" and one.phase == "forward")
    assert scores == pytest.approx(2 * 4 * 24 * 1024 * 384**2)
    assert any(one.kind == "head" for one in told.operators) == (task == "train")


def test_the_head_of_training_in_fp8_says_its_type() -> None:
    told = detail_of(evaluated(chip("H100-SXM-80GB", "fp8"), **TRAIN, dtype="fp8", engine="megatron"))
    assert {(one.kind, one.dtype) for one in told.operators if one.kind in ("head", "matmul")} == {
        ("head", "bf16"),
        ("matmul", "fp8"),
    }


def test_stored_scores_go_through_memory_as_often_backward_as_forward() -> None:
    passes = {}
    for attention in ("eager", "flash"):
        step = step_of(table(attention=attention, sequence=2048))
        passes[attention] = step.by_class["attention"][0] / step.one.attention[0]
    assert passes["eager"] == pytest.approx(1 + EAGER_BACKWARD)
    assert passes["flash"] > 4


def test_stored_scores_are_those_of_the_whole_square() -> None:
    """Llama 3.1 8B, 2,048 tokens, one layer: 32 heads · 2,048² scores of 28 B, and twice the FLOPs of a causal kernel: 4 · 4,096 for each of 2,048 tokens."""
    eager, fused = (table(attention=attention, sequence=2048) for attention in ("eager", "flash"))
    rows, context = 2048 * ONE, 1024 * ONE
    c = chip("H100-SXM-80GB")
    scores_s = attention_time(eager, rows, context, rows).eager_s[0]
    assert scores_s == pytest.approx(32 * 2048**2 * 28 / c.bandwidth_bytes_per_s)
    whole_s, half_s = (attention_time(t, rows, context, rows).flop_s[0] for t in (eager, fused))
    assert whole_s == pytest.approx(2048 * 4 * 4096 * 2048 / c.attention_flop_per_s)
    assert half_s <= whole_s  # FlashAttention 2 does half of them, at a lower rate
    chunk_s = attention_time(eager, 512 * ONE, context, 512 * ONE).eager_s[0]
    assert chunk_s == pytest.approx(32 * 512 * (1024 + 256) * 28 / c.bandwidth_bytes_per_s)
    decoding_s = attention_time(eager, ONE, context, ONE).eager_s[0]
    assert decoding_s == pytest.approx(32 * 1024 * 28 / c.bandwidth_bytes_per_s)


@pytest.mark.parametrize(
    ("gpu", "dtype", "engine", "fewer"),
    [
        ("B200", "fp8", "megatron@26.06", ANY["8 bit"].own),
        ("B200", "fp8", "nemo", ANY["8 bit"].own),
        ("B200", "fp8", "megatron@26.04", 1.0),
        ("B200", "bf16", "megatron@26.06", 1.0),
        ("H100-SXM-80GB", "fp8", "megatron@26.06", 1.0),
    ],
)
def test_fused_grouped_products_move_what_they_activate_and_round_once(gpu: str, dtype: str, engine: str, fewer: float) -> None:
    """Since NeMo 26.06, on Blackwell, in 8 bit: 8 tokens of an expert read and written in two widths and three inner ones."""
    before, now = (table(gpu=gpu, dtype=dtype, model="qwen3-30b-a3b", engine=one) for one in ("megatron@26.02", engine))
    assert routed_traffic_bytes(before, ONE) / routed_traffic_bytes(now, ONE) == pytest.approx(fewer)
    if fewer > 1:
        assert routed_traffic_bytes(now, ONE) == pytest.approx(8 * (2 * 2048 + 3 * 768) * 2)


@pytest.mark.parametrize("layers", [32, 30])
def test_stages_wait_for_the_one_with_head_and_loss(layers: int) -> None:
    """Of 32 layers the last of 4 stages has 8, and head and loss beside them; of 30 it has 7 where others have 8."""
    described = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": layers, "num_attention_heads": 32}
    described |= {"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}
    asked = table({"gpus": 4.0, "pp": 4.0, "link_bytes_per_s": 450e9}, recipe="mixed", model=described, global_batch=400)
    found, c = step_of(asked), chip("H100-SXM-80GB")
    of = {name: float(seconds[0]) for name, seconds in found.by_class.items()}
    busy = sum(of[name] for name in ("matmul", "attention", "elementwise", "head", "latency")) / 400
    share = of["head"] / 400 + 24 * 8192 * 128256 / 4 / c.bandwidth_bytes_per_s * c.train_factor
    waited = 3 * share - (busy - share) / 8 * (layers == 30)
    assert 0 < waited == pytest.approx((of["bubble"] - 3 * busy) / (400 + 3), rel=0.01)


def test_muon_makes_updates_orthogonal_by_products() -> None:
    """Five times 4·m²·n + 2·m³ for each matrix of 32 layers; each of eight ranks makes an eighth of them, in 16 bit beside FP8, too."""
    sides = {(4096, 4096): 2, (1024, 4096): 2, (4096, 14336): 3}
    flop = 32 * 5 * sum(count * (4 * m * m * n + 2 * m**3) for (m, n), count in sides.items())
    shared = {"gpus": 8.0, "dp": 8.0, "shard": 8.0, "link_bytes_per_s": 450e9}
    part = "products of the update"
    rate = chip("H100-SXM-80GB", "bf16").flop_per_s
    for dtype in ("bf16", "fp8"):
        alone, divided = (step_of(table(of, dtype=dtype, optimizer="muon")) for of in (None, shared))
        assert alone.update[part][0] == pytest.approx(flop / rate, rel=0.01)
        assert divided.update[part][0] == pytest.approx(alone.update[part][0] / 8, rel=1e-9)
    assert step_of(table(optimizer="adamw")).update[part][0] == 0
    assert step_of(table(optimizer="muon", lora={"rank": 8}, task="finetune")).update[part][0] == 0


@pytest.mark.parametrize(
    ("optimizer", "state"),
    [
        ("lion", 4),
        ("lion-8bit", 1 + 4 / 256),
        ("adamw-4bit", 2 * (0.5 + 4 / 128)),
        ("ademamix", 12),
        ("ademamix-8bit", 3 * (1 + 4 / 256)),
    ],
)
def test_states_of_optimizers_by_the_parameter(optimizer: str, state: float) -> None:
    found = ask(**TRAIN | {"gpu": "H100-SXM-80GB", "recipe": "amp", "optimizer": optimizer})
    assert found.memory_bytes is not None
    assert found.parameters is not None
    assert found.memory_bytes.optimizer / found.parameters.total == pytest.approx(state, rel=1e-6)


@pytest.mark.parametrize(
    ("engine", "targets", "launches"),
    [
        ("torch", "all-linear", (64 + 7 * 6) * 1.5),  # q, k, v, o, gate, up, down: cast, two products, scaled, added, cast
        ("torch", ["q", "v"], (64 + 2 * 6) * 1.5),
        ("unsloth", "all-linear", 60 * (1 + 7 * 2 / 64)),  # two products
        ("torch", None, 64 * 1.5),
    ],
)
def test_the_host_launches_what_an_adapter_adds(engine: str, targets: Any, launches: float) -> None:
    lora: dict[str, Any] = {"lora": {"rank": 16, "targets": targets, "base": "bf16"}, "task": "finetune"} if targets else {}
    assert launches_of_layer(table(engine=engine, recipe="bf16", **lora))[0] == pytest.approx(launches)


OSS: dict[str, Any] = {"model": "gpt-oss-20b", "recipe": "bf16", "attention": "flash-2", "sequence": 4096}


def test_gradients_of_experts_biases_by_hand() -> None:
    """gpt-oss 20B, 4,096 tokens: four experts in 24 layers have biases of 2 · 2,880 and 2,880 values; 3.4e9 of them at 1e-10 s take 0.34 s, once."""
    t = table(engine="transformers@5.3", **OSS)
    seconds = bias_gradients_s(t, 4096 * ONE)[0]
    assert seconds == pytest.approx(4096 * 4 * 24 * 3 * 2880 * BIAS_GRADIENT_S)
    assert seconds == pytest.approx(0.34, rel=0.01)
    without = evaluated(chip("H100-SXM-80GB"), **TRAIN | OSS, engine="transformers@5.3", checkpointing="none")
    told = detail_of(without)
    (listed,) = (one for one in told.operators if one.name == "gradients of experts' biases")
    assert without.step is not None
    assert listed.seconds == pytest.approx(seconds * without.table.chip.train_factor[0])
    assert told.total_s == pytest.approx(without.step.step_s[0])
    halves = table({"gpus": 2.0, "pp": 2.0}, engine="transformers@5.3", **OSS)
    assert bias_gradients_s(halves, 4096 * ONE)[0] == pytest.approx(seconds / 2)


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "transformers@4.57"},  # a loop over the experts adds each bias to its own tokens
        {"engine": "unsloth"},
        {"engine": "megatron"},
        {"engine": "transformers@5.3", "model": "qwen3-30b-a3b"},  # no biases
        {"engine": "transformers@5.3", "lora": {"rank": 8, "targets": "all-linear"}},  # no gradients of theirs
    ],
)
def test_biases_that_are_not_gathered_or_not_trained_cost_nothing(other: dict[str, Any]) -> None:
    assert bias_gradients_s(table(**OSS | other), 4096 * ONE)[0] == 0
