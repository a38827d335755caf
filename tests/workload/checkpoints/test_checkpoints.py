"""Models of unknown families by the headers of their checkpoints, and models in GGUF files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from description_cases import CASES, GOLDEN, key
from repository import RunPlanner

from planner.errors import UserError
from planner.workload.checkpoints.gguf_file import read_gguf
from planner.workload.checkpoints.headers import folder_tensors
from planner.workload.checkpoints.shapes import description_by_shapes
from planner.workload.checkpoints.tensors import StoredTensor, by_dtype
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.described import described_architecture

SAID, UNSAID = ("olmo3", "glm4_moe"), ("qwen3_next", "gemma4_text", "glm_moe_dsa", "gemma3n_text")
"""Families whose whole description is kept: those that shapes say in full, and those with parts that they do not."""


def tensors_of(name: str) -> list[StoredTensor]:
    found = GOLDEN.values[key(name)]
    return [StoredTensor(tensor, "BF16", tuple(shape), 0) for tensor, _, shape in found["tensors"]]


def checkpoint(folder: Path, name: str, **changes: Any) -> Path:
    """A folder with the config of a family that nobody knows, and the headers of its tensors."""
    entries, end = {}, 0
    for one in tensors_of(name):
        entries[one.name] = {"dtype": "BF16", "shape": one.shape, "data_offsets": [end, end + 2 * one.elements]}
        end += 2 * one.elements
    header = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / "config.json").write_text(json.dumps(CASES[name] | {"model_type": "unheard_of"} | changes))
    return folder


@pytest.mark.parametrize("name", SAID)
def test_shapes_say_what_the_family_says(name: str) -> None:
    family = read_architecture(CASES[name])
    found = described_architecture(description_by_shapes(CASES[name], tensors_of(name), ""))
    corrections = family.router_vector * family.moe_layers  # a buffer in the library, a tensor in checkpoints
    assert found.total == family.total - corrections
    for measured in ("layers", "width", "vocabulary", "tied", "active_matrix", "cached_all", "cached_window", "attended_all"):
        assert getattr(found, measured) == getattr(family, measured), measured


@pytest.mark.parametrize("name", UNSAID)
def test_what_shapes_do_not_say_is_refused_with_the_command_that_does(name: str) -> None:
    with pytest.raises(UserError, match="models show PATH --exact"):
        description_by_shapes(CASES[name], tensors_of(name), "")


def test_a_window_of_unknown_layers_is_refused() -> None:
    config = {key_: value for key_, value in CASES["olmo3"].items() if key_ != "layer_types"}
    with pytest.raises(UserError, match="in which layers"):
        description_by_shapes(config, tensors_of("olmo3"), "")
    assert description_by_shapes(config | {"use_sliding_window": False}, tensors_of("olmo3"), "")["caches"]


def test_packed_weights_are_not_taken_for_shapes() -> None:
    packed = [StoredTensor("model.layers.0.mlp.up_proj.qweight", "I32", (512, 1408), 0)]
    with pytest.raises(UserError, match="packed"):
        description_by_shapes(CASES["olmo3"], [*tensors_of("olmo3"), *packed], "")


def test_an_unknown_family_is_planned_by_the_folder_of_its_checkpoint(tmp_path: Path, run_planner: RunPlanner) -> None:
    folder = checkpoint(tmp_path, "olmo3")
    shown = json.loads(run_planner("models", "show", str(folder), "--json").stdout)
    family = read_architecture(CASES["olmo3"])
    assert shown["parameters"]["total"] == family.total
    assert shown["stored"] == [
        {"dtype": "BF16", "tensors": len(tensors_of("olmo3")), "elements": family.total, "bytes": 2 * family.total}
    ]
    request = {"model": str(folder), "gpu": "H100 SXM", "task": "prefill", "input_tokens": 64}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(request) + "\n")
    answer = json.loads(run_planner("estimate", str(lines)).stdout)
    assert answer["memory_bytes"]["weights"] == 2 * family.total


def test_an_index_says_which_files_count(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "olmo3")
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert len(folder_tensors(folder)) == len(tensors_of("olmo3"))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model.safetensors", "b": "lost.safetensors"}})
    )
    with pytest.raises(UserError, match=r"lost\.safetensors"):
        folder_tensors(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff" * 16, "would have"),
        ((2).to_bytes(8, "little") + b"[]", "not a safetensors"),
        ((5).to_bytes(8, "little") + b'{"a":', "JSON"),
    ],
)
def test_a_broken_header_is_one_problem_that_names_the_file(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=says) as refused:
        folder_tensors(tmp_path)
    assert refused.value.problems[0].where.endswith("model.safetensors")


def test_bytes_are_summed_by_dtype() -> None:
    stored = by_dtype([StoredTensor("a", "F32", (2,), 8), StoredTensor("b", "Q4_K", (256,), 144), StoredTensor("c", "F32", (), 4)])
    assert [(one.dtype, one.tensors, one.elements, one.bytes) for one in stored] == [("Q4_K", 1, 256, 144), ("F32", 2, 3, 12)]


def test_a_gguf_file_without_its_library_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\3\0\0\0")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"gpu-planner\[gguf\]"):
        read_gguf(path)
    path.write_bytes(b"PK\3\4")
    with pytest.raises(UserError, match="not a GGUF file"):
        read_gguf(path)


def test_a_damaged_gguf_file_is_told_in_words(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\3\0\0\0xx")
    with pytest.raises(UserError, match="cut off, damaged") as refused:
        read_gguf(path)
    assert "Error" not in str(refused.value)


def test_a_preset_is_no_model(tmp_path: Path, run_planner: RunPlanner) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('model = "qwen3-8b"\n')
    done = run_planner("models", "show", str(path))
    assert done.returncode == 2
    assert f"is a preset, not a model. To open it: gpu-planner {path}" in " ".join(done.stderr.split())


def test_a_gguf_file_is_planned_as_its_family(tmp_path: Path, run_planner: RunPlanner) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "tiny.gguf"
    write_gguf(gguf, path, mlp=128)
    shown = json.loads(run_planner("models", "show", str(path), "--json").stdout)
    assert shown["parameters"]["total"] == 500 * 64 + 64 + 2 * (2 * 128 * 64 + 2 * 64 * 64 + 3 * 128 * 64 + 2 * 64 + 2 * 32)
    assert {one["dtype"]: one["bytes"] for one in shown["stored"]}["F32"] == 4 * (64 + 2 * (2 * 64 + 2 * 32))
    request = {"model": str(path), "gpu": "H100 SXM", "task": "generate", "input_tokens": 64}
    (lines := tmp_path / "lines.jsonl").write_text(json.dumps(request) + "\n")
    answer = json.loads(run_planner("estimate", str(lines)).stdout)
    assert answer["assumed"]["weight_dtype"] == "q8_0"
    assert answer["memory_bytes"]["weights"] == pytest.approx(sum(one["bytes"] for one in shown["stored"]), rel=0.01)
    write_gguf(gguf, other := tmp_path / "other.gguf", mlp=96)
    assert "holds" in run_planner("models", "show", str(other)).stderr


def write_gguf(gguf: Any, path: Path, *, mlp: int) -> None:
    """Qwen3 with two layers, whose metadata say an MLP of 128 whatever its tensors have."""
    numpy = pytest.importorskip("numpy")
    file, q8 = gguf.GGUFWriter(path, "qwen3"), gguf.GGMLQuantizationType.Q8_0
    for name, value in {
        "block_count": 2, "embedding_length": 64, "feed_forward_length": 128, "head_count": 4, "head_count_kv": 2, "key_length": 32,
    }.items():  # fmt: skip
        getattr(file, f"add_{name}")(value)
    file.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (500, 64), "output_norm": (64,)}
    for layer in ("blk.0", "blk.1"):
        shapes |= {f"{layer}.attn_q": (128, 64), f"{layer}.attn_k": (64, 64), f"{layer}.attn_v": (64, 64)}
        shapes |= {f"{layer}.attn_output": (64, 128), f"{layer}.ffn_gate": (mlp, 64), f"{layer}.ffn_up": (mlp, 64)}
        shapes |= {f"{layer}.ffn_down": (64, mlp), f"{layer}.attn_norm": (64,), f"{layer}.ffn_norm": (64,)}
        shapes |= {f"{layer}.attn_q_norm": (32,), f"{layer}.attn_k_norm": (32,)}
    for name, shape in shapes.items():
        values = numpy.zeros(shape, dtype=numpy.float32)
        if len(shape) > 1:
            file.add_tensor(f"{name}.weight", gguf.quants.quantize(values, q8), raw_dtype=q8)
        else:
            file.add_tensor(f"{name}.weight", values)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
