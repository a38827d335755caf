"""GGUF files: the config of the model in one, and the type and bytes of every tensor, by the library `gguf` (extra `gguf`).

Metadata are named as in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (read 2026-11-22); each is the key of a config.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.reading import open_file
from planner.workload.checkpoints.gguf import CATALOGUE
from planner.workload.checkpoints.tensors import StoredTensor
from planner.workload.huggingface.keys import STORED_AS

INSTALL = "pip install 'gpu-planner[gguf]'"

_UNCOUNTED = ("rope_freqs", "rope_factors")
"""Tables that llama.cpp adds to a file and that are no parameters of the model."""


class GgufFile(msgspec.Struct, frozen=True):
    """Config and tensors of one file."""

    config: dict[str, Any]
    """Config as a config.json would have it."""
    tensors: tuple[StoredTensor, ...]

    @property
    def parameters(self) -> int:
        """Elements of all tensors of the model."""
        return sum(one.elements for one in self.tensors if not one.name.startswith(_UNCOUNTED))


def read_gguf(path: Path) -> GgufFile:
    """File at `path`; raises `UserError` if it cannot be read, or the library is not installed."""
    with open_file(path, "model") as file:
        if file.read(4) != b"GGUF":
            raise UserError(Problem(str(path), "model", "is not a GGUF file: it does not begin with 'GGUF'."))
    try:
        from gguf import GGUFReader, LlamaFileType
    except ImportError:
        raise UserError(Problem(str(path), "model", f"is a GGUF file, and reading it requires a library: {INSTALL}.")) from None
    try:
        reader = GGUFReader(path)
        mixes = {int(one): one.name.removeprefix("MOSTLY_").removeprefix("ALL_").lower() for one in LlamaFileType}
        fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
        tensors = tuple(
            StoredTensor(one.name, one.tensor_type.name, tuple(int(side) for side in one.shape), int(one.n_bytes))
            for one in reader.tensors
        )
    except Exception as error:  # any exception of the library for a broken file
        fault = "is cut off, damaged, or of a version that the library gguf does not read."
        raise UserError(Problem(str(path), "model", f"is a GGUF file that {fault}")) from error
    stored = CATALOGUE.file_types.get(mix := mixes.get(fields.get("general.file_type", -1), ""), mix)
    return GgufFile({**_config(path, fields, tensors), STORED_AS: stored}, tensors)


def _config(path: Path, fields: dict[str, Any], tensors: tuple[StoredTensor, ...]) -> dict[str, Any]:
    """Metadata as the keys of a config.json; missing ones follow from the tensors."""
    kind = fields.get("general.architecture")
    if not isinstance(kind, str):
        raise UserError(Problem(str(path), "model", "has no general.architecture."))
    shapes = {one.name: one.shape for one in tensors}
    said = {name.removeprefix(f"{kind}."): value for name, value in fields.items() if name.startswith(f"{kind}.")}
    config: dict[str, Any] = {}
    for name, keys in CATALOGUE.keys.items():
        if (value := said.get(name)) is not None:
            config |= dict.fromkeys(keys, value)
    config["num_hidden_layers"] = config.get("num_hidden_layers", 0) - said.get("nextn_predict_layers", 0)
    config["vocab_size"] = shapes.get("token_embd.weight", (0, 0))[-1]
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config["attention_bias"] = "blk.0.attn_q.bias" in shapes
    config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes
    family = CATALOGUE.families.get(kind, kind.replace("-", "_"))
    if kind == "llama" and said.get("expert_count"):
        family = "mixtral"
    if kind == "deepseek2":
        family = "deepseek_v3" if any("exp_probs_b" in name for name in shapes) else "deepseek_v2"
        rotary = said.get("rope.dimension_count", 64)
        config["qk_rope_head_dim"] = rotary
        config["qk_nope_head_dim"] = said.get("attention.key_length_mla", said.get("attention.key_length", 192)) - rotary
        config["v_head_dim"] = said.get("attention.value_length_mla", said.get("attention.value_length", 128))
        config.setdefault("q_lora_rank", None)
        config["num_key_value_heads"] = config.get("num_attention_heads")
    return {"model_type": family, **config}
