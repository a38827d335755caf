"""Towers that read pictures: parameters against `transformers`, and what they add to weights."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from engine_sample import ask
from tower_cases import COLUMNS, FLOWN, GOLDEN, ROWS, WRAPPERS

from planner.errors import UserError
from planner.paths import presets_folder
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.towers import BY_WRAPPER
from planner.workload.huggingface.vision import TOWERS, read_tower, tower_architecture
from planner.workload.models import ModelShelf
from planner.workload.weights import FORMATS

QWEN = ModelShelf(presets_folder() / "models").config("qwen2.5-7b")
PUBLISHED = {
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
    "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112, "temporal_patch_size": 2,
}  # fmt: skip
"""`vision_config` of Qwen/Qwen2.5-VL-7B-Instruct, beside the flat keys of its text."""


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_parameter_of_a_tower_is_counted(name: str) -> None:
    found = GOLDEN.values[name]
    tower = read_tower(found["config"], found["text_width"])
    assert tower is not None
    assert tower.parameters == found["parameters"]
    assert bool(tower.tokens) != bool(tower.pixels)


def test_every_tower_is_tried() -> None:
    tried = {GOLDEN.values[name]["config"]["vision_config"]["model_type"] for name in WRAPPERS}
    assert tried <= set(TOWERS) | {
        GOLDEN.values[name]["config"]["vision_config"]["model_type"] for name in BY_WRAPPER if name in WRAPPERS
    }
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"


def test_a_published_config_with_flat_text_keys() -> None:
    """The files of Qwen2.5-VL-7B-Instruct hold 8,292,166,656 parameters (model.safetensors.index.json: 16,584,333,312 bytes)."""
    config = QWEN | {"model_type": "qwen2_5_vl", "vision_config": PUBLISHED}
    a = read_architecture(config)
    assert (a.family, a.total, a.left_out) == ("qwen2", 8_292_166_656, ())
    assert a.active == a.total - a.towers == read_architecture(QWEN).total
    tower = read_tower(config, a.width)
    assert tower is not None
    assert tower.pixels == 28
    stored = FORMATS["awq"].stored(a).total_bytes - FORMATS["awq"].stored(read_architecture(QWEN)).total_bytes
    assert stored == 2 * a.towers, "a tower stays in 16 bits"


SMALL_PHI: dict[str, Any] = {
    "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 700, "num_hidden_layers": 3,
    "vision_config": {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 200, "num_hidden_layers": 3, "crop_size": 224},
    "audio_config": {"hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 96, "num_blocks": 2, "nemo_conv_channels": 64},
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("changed", [{}, SMALL_PHI], ids=["default", "small"])
def test_phi_4_has_a_tower_and_an_encoder_of_sound(torch: ModuleType, changed: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model("phi4_multimodal", **changed)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    beside = sum(one.numel() for path, one in model.named_parameters() if "embed_tokens_extend" in path)
    a = read_architecture(config.to_dict())
    assert (a.family, a.total, a.towers, a.left_out) == ("phi3", sum(one.numel() for one in model.parameters()), beside, ())
    assert a.picture_tokens == (64 if changed else 256)


def test_a_tower_that_is_not_known_is_named() -> None:
    a = read_architecture(
        QWEN | {"model_type": "llava", "text_config": QWEN, "vision_config": {"model_type": "novel"}, "audio_config": {}}
    )
    assert (a.towers, a.left_out) == (0, ("vision_config", "audio_config"))


@pytest.mark.parametrize("name", FLOWN)
def test_a_picture_takes_the_flops_of_the_code(name: str) -> None:
    """Products of the layers, of the patches' embedding and of the projection; attention too, where the counter sees it.

    A class token is not embedded and not projected, which is not told apart: three millionths.
    """
    found = GOLDEN.values[name]
    tower = read_tower(found["config"], found["text_width"])
    assert tower is not None
    assert tower.stack is not None
    a = tower_architecture(tower)
    assert a is not None
    patches = tower.stack.patches if tower.tokens else ROWS * COLUMNS
    counted = 2 * patches * a.active_matrix + 2 * patches * a.attended_all * patches * bool(tower.tokens)
    assert found["flop"] == pytest.approx(counted, rel=4e-6)


SEEING = QWEN | {"model_type": "qwen2_5_vl", "vision_config": PUBLISHED}


def looking(**fields: Any) -> Any:
    return ask(
        **{
            "model": SEEING,
            "gpu": "H100 SXM5 80GB",
            "task": "serve",
            "concurrency": 1,
            "input_tokens": 3000,
            "output_tokens": 50,
            **fields,
        }
    )


def test_pictures_come_before_the_first_token_and_not_before_the_others() -> None:
    """A picture of 1,296 tokens is 5,184 patches, each multiplied with 32 layers of 4·1,280² + 3·1,280·3,420, its embedding and a quarter of the merger.

    4 of the layers attend to the whole picture, 28 to windows of 64 patches. A GPU at its data sheet's peak needs so long at least.
    """
    blind, one, two = looking(), looking(images=1, image_tokens=1296), looking(images=2, image_tokens=1296)
    patches = 5184
    matrix = 32 * (4 * 1280**2 + 3 * 1280 * 3420) + 2 * 3 * 14**2 * 1280 + (5120 * 5120 + 5120 * 3584) / 4
    flop = patches * (2 * matrix + 4 * 1280 * (4 * patches + 28 * 64))
    first, second = (later.ttft_s.mean.value - sooner.ttft_s.mean.value for sooner, later in ((blind, one), (one, two)))
    assert flop == pytest.approx(7.26e12, rel=0.001)
    assert flop / 989.5e12 < first < 4 * flop / 989.5e12
    assert second == pytest.approx(first, rel=0.1)
    assert one.tpot_s.mean.value == pytest.approx(blind.tpot_s.mean.value, rel=0.01)
    assert one.memory_bytes == blind.memory_bytes


def test_pictures_take_their_time_in_a_simulated_service_too() -> None:
    load = {"concurrency": None, "request_rate_per_s": 0.05}
    alone = looking(images=2, image_tokens=1296).ttft_s.p50.value - looking().ttft_s.p50.value
    simulated = looking(**load, images=2, image_tokens=1296).ttft_s.p50.value - looking(**load).ttft_s.p50.value
    assert simulated == pytest.approx(alone, rel=0.05)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_ranks_divide_a_tower_and_its_work_or_hold_it_whole(engine: str) -> None:
    """Four ranks of an engine that divides towers hold a quarter of the weights and read a picture sooner, but for what they exchange."""
    fields = {"engine": engine, "task": "prefill", "batch": 1, "concurrency": None, "output_tokens": None}
    pictures = {"images": 2, "image_tokens": 1296}
    blind, seeing = ([looking(**fields, tp=tp, gpus=tp, **also) for tp in (1, 4)] for also in ({}, pictures))
    one, four = (all_of.prefill_s.value - text.prefill_s.value for text, all_of in zip(blind, seeing, strict=True))
    tower = 2 * read_architecture(SEEING).towers
    whole, part = (answer.memory_bytes.weights for answer in blind)
    if engine == "tensorrt-llm":
        assert part == pytest.approx((whole - tower) / 4 + tower, rel=1e-3)
        assert four == pytest.approx(one, rel=0.01)
    else:
        assert part == pytest.approx(whole / 4, rel=1e-3)
        assert one / 4 < four < 0.8 * one


def test_a_picture_whose_size_is_not_told_has_a_megapixel() -> None:
    assert looking(images=1).assumed["image_tokens"] == round((1024 / 28) ** 2)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"images": 3, "image_tokens": 1296}, "images: 3 of 1296 tokens each are more than the 3000 tokens of input_tokens"),
        ({"image_tokens": 1296}, "images: missing; image_tokens = 1,296"),
        ({"images": 1, "model": "qwen2.5-7b"}, "images: 1 is not accepted: no vision tower is known for this model"),
    ],
)
def test_pictures_that_cannot_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        looking(**fields)
    assert said in str(refused.value)
