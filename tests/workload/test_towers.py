"""Towers that read pictures: parameters against `transformers`, and what they add to weights."""

from __future__ import annotations

import pytest
from tower_cases import GOLDEN, WRAPPERS

from planner.paths import presets_folder
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.vision import TOWERS, read_tower
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
    assert tried <= set(TOWERS)
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


def test_a_tower_that_is_not_known_is_named() -> None:
    a = read_architecture(
        QWEN | {"model_type": "llava", "text_config": QWEN, "vision_config": {"model_type": "novel"}, "audio_config": {}}
    )
    assert (a.towers, a.left_out) == (0, ("vision_config", "audio_config"))
