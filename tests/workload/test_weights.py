"""Storage formats against the sizes of published files, and by hand."""

from __future__ import annotations

import pytest

from planner.paths import presets_folder
from planner.workload.architecture import Architecture
from planner.workload.checkpoints import gguf
from planner.workload.huggingface.config import read_architecture
from planner.workload.matrices import matrices
from planner.workload.models import ModelShelf
from planner.workload.weights import FORMATS, StoredWeights

MODELS = ModelShelf(presets_folder() / "models")
exact = pytest.approx


def architecture(name: str) -> Architecture:
    return read_architecture(MODELS.config(name))


def stored(name: str, model: str) -> StoredWeights:
    return FORMATS[name].stored(architecture(model))


LLAMA_31_8B_BITS = {
    "iq1_s": 2.0042,
    "iq1_m": 2.146,
    "iq2_xxs": 2.3824,
    "iq2_xs": 2.5882,
    "iq2_s": 2.7403,
    "iq2_m": 2.9294,
    "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "iq4_xs": 4.4597,
    "iq4_nl": 4.6818,
    "q2_k_s": 2.9697,
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
}
"""bits/weight of tools/quantize/README.md of llama.cpp, where the whole file of Llama 3.1 8B is divided by its weights."""


@pytest.mark.parametrize("name", LLAMA_31_8B_BITS)
def test_gguf_mixes_have_the_bits_llama_cpp_publishes(name: str) -> None:
    a = architecture("llama-3.1-8b")
    assert round(8 * stored(name, "llama-3.1-8b").total_bytes / a.total, 4) == LLAMA_31_8B_BITS[name]


@pytest.mark.parametrize(
    ("name", "model", "file_bytes"),
    [
        # huggingface.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF, file list
        ("q5_k_m", "llama-3.1-8b", 5.73e9),
        ("q6_k", "llama-3.1-8b", 6.60e9),
        ("q6_k_l", "llama-3.1-8b", 6.85e9),
        ("q5_k_l", "llama-3.1-8b", 6.06e9),
        ("q4_k_l", "llama-3.1-8b", 5.31e9),
        ("q3_k_xl", "llama-3.1-8b", 4.78e9),
        ("q2_k_l", "llama-3.1-8b", 3.69e9),
        ("iq2_m", "llama-3.1-8b", 2.95e9),
        ("iq3_m", "llama-3.1-8b", 3.78e9),
        ("iq4_xs", "llama-3.1-8b", 4.45e9),
        # huggingface.co/itlwas/Mixtral-8x7B-Instruct-v0.1-Q4_K_M-GGUF
        ("q4_k_m", "mixtral-8x7b", 28.4e9),
        # huggingface.co/ThomasBaruzier/Llama-3.2-3B-Instruct-GGUF perplexity.md, in MiB: a tied head
        ("q2_k", "llama-3.2-3b", 1301 * 2**20),
        ("q3_k_m", "llama-3.2-3b", 1610 * 2**20),
        ("q4_0", "llama-3.2-3b", 1833 * 2**20),
        ("q4_1", "llama-3.2-3b", 1997 * 2**20),
        ("q4_k_s", "llama-3.2-3b", 1839 * 2**20),
        ("q4_k_m", "llama-3.2-3b", 1926 * 2**20),
        ("iq2_xs", "llama-3.2-3b", 1050 * 2**20),
        ("iq4_nl", "llama-3.2-3b", 1829 * 2**20),
        # github:ddifofeu/strix-halo-128gb-llm-guide, tables of llama-bench, in GiB
        ("iq3_xs", "qwen3-235b-a22b", 90.25 * 2**30),
        ("q4_k_m", "qwen3-next-80b-a3b", 45.09 * 2**30),
        # huggingface.co/openai/gpt-oss-20b, three files: 4.79 + 4.80 + 4.17 GB
        ("mxfp4", "gpt-oss-20b", 13.76e9),
        # huggingface.co/TheBloke/Llama-2-7B-32K-Instruct-AWQ and /Llama-2-7B-GPTQ, groups of 128 and 64
        ("awq", "llama-2-7b", 3.89e9),
        ("gptq-int4", "llama-2-7b", 3.90e9),
        ("gptq-int4-g64", "llama-2-7b", 4.02e9),
        # huggingface.co/TheBloke/Llama-2-13B-chat-GPTQ and /Llama-2-70B-AWQ
        ("gptq-int4", "llama-2-13b", 7.26e9),
        ("awq", "llama-2-70b", 36.61e9),
    ],
)
def test_formats_fill_the_files_that_are_published(name: str, model: str, file_bytes: float) -> None:
    """Within 1 %: a file holds a tokenizer too."""
    assert stored(name, model).total_bytes == exact(file_bytes, rel=0.01)


@pytest.mark.parametrize(
    ("name", "file_bytes"),
    [
        ("q2_k", 3_179_131_168),
        ("q3_k_s", 3_664_498_976),
        ("q3_k_m", 4_018_917_664),
        ("q3_k_l", 4_321_956_128),
        ("q4_k_s", 4_692_668_704),
        ("q4_k_m", 4_920_733_984),
    ],
)
def test_the_weights_of_a_file_to_the_byte(name: str, file_bytes: int) -> None:
    """sizes.txt of huggingface.co/ddh0/UnquantizedEmbeddingTesting: Meta-Llama-3-8B-Instruct, of the shape of 3.1.

    What is not weights (tokenizer, names, padding) is the same in every file: 7.8 MB, as in its 16-bit file.
    """
    rest = 16_068_890_912 - (2 * 8_030_261_248 + 2 * 65 * 4096)  # norms are in FP32
    assert file_bytes - stored(name, "llama-3.1-8b").total_bytes == exact(rest, abs=1000)


@pytest.mark.parametrize(("name", "file_bytes"), [("q4_k_m", 398e6), ("q4_k_s", 385e6), ("q3_k_m", 355e6)])
def test_rows_that_are_no_multiple_of_256_take_smaller_blocks(name: str, file_bytes: float) -> None:
    """huggingface.co/bartowski/Qwen2.5-0.5B-Instruct-GGUF: width 896; a tokenizer of 152,000 entries takes 6 MB of each."""
    assert stored(name, "qwen2.5-0.5b").total_bytes + 6e6 == exact(file_bytes, rel=3e-3)
    assert gguf.type_bits("q4_k", 896) == 5.5
    assert gguf.type_bits("q4_k", 1000) == 16


def test_layers_that_take_more_bits() -> None:
    """use_more_bits of llama.cpp: the first and the last eighth, and the last of every three between."""
    taken = [layer for layer in range(32) if gguf._taken("more", layer, 32)]
    assert taken == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


@pytest.mark.parametrize(("model", "bits"), [("llama-3.1-70b", 5.5), ("llama-3.1-8b", (2 * 5.5 + 30 * 4.5) / 32)])
def test_values_of_a_70b_that_eight_heads_share_are_never_below_q5_k(model: str, bits: float) -> None:
    a = architecture(model)
    (value,) = [matrix for matrix in matrices(a) if matrix.role == "v"]
    assert gguf.stored_bits(gguf.MIXES["q3_k_m"], value, a) == exact(bits * value.parameters)


def test_keys_values_and_outputs_of_eight_experts_have_more_bits() -> None:
    """llama_tensor_get_type: with eight experts attn_k and attn_v are Q8_0 and attn_output Q5_K, for a hundredth of the file."""
    a = architecture("mixtral-8x7b")
    bits = {
        matrix.role: gguf.stored_bits(gguf.MIXES["q4_k_m"], matrix, a) / matrix.parameters
        for matrix in matrices(a)
        if matrix.part == "attention"
    }
    assert bits == {"q": 4.5, "k": 8.5, "v": 8.5, "o": 5.5}


def test_the_head_of_a_falcon_is_q8_0() -> None:
    assert gguf.head_bits(gguf.MIXES["q4_k_m"], architecture("falcon-40b")) == 8.5
    assert gguf.head_bits(gguf.MIXES["q4_k_m"], architecture("llama-3.1-8b")) == 6.5625


def test_a_tied_embedding_is_stored_as_a_head() -> None:
    tied, untied = stored("q4_k_m", "llama-3.2-3b"), stored("q4_k_m", "llama-3.1-8b")
    assert (tied.head_bytes, 8 * tied.embedding, 8 * tied.head) == (0, 6.5625, 6.5625)
    assert (8 * untied.embedding, 8 * untied.head) == (4.5, 6.5625)


def test_what_stays_in_16_bit() -> None:
    a = architecture("llama-3.1-8b")
    for name in ("fp8", "int8", "nf4", "nf4-dq", "fp4", "int4", "awq", "gptq-int4", "gptq-int8", "mxfp4", "nvfp4"):
        found = FORMATS[name].stored(a)
        assert (found.embedding, found.head, found.other) == (2, 2, 2)
        assert found.linear < 1.03


def test_nf4_by_hand() -> None:
    """Every matrix of a layer: half a byte a weight and four bytes a block of 64; the norms in 16 bit."""
    linear = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert stored("nf4", "llama-3.1-8b").dense_bytes == linear * (0.5 + 4 / 64) + 64 * 4096 * 2
    assert stored("nf4-dq", "llama-3.1-8b").dense_bytes == linear * (0.5 + 1 / 64 + 4 / (64 * 256)) + 64 * 4096 * 2


def test_int8_keeps_a_scale_an_output_and_gptq_an_index_an_input() -> None:
    linear = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    outputs = 32 * (4096 + 1024 + 1024 + 4096 + 14336 + 14336 + 4096)
    inputs = 32 * (4096 * 6 + 14336)
    norms = 64 * 4096 * 2
    assert stored("int8", "llama-3.1-8b").dense_bytes == linear + 4 * outputs + norms
    groups = linear / 128
    assert stored("gptq-int4", "llama-3.1-8b").dense_bytes == linear / 2 + groups * (2 + 0.5) + 4 * inputs + norms
    assert stored("awq", "llama-3.1-8b").dense_bytes == linear / 2 + groups * (2 + 0.5) + norms


def test_every_expert_has_scales_of_its_own() -> None:
    a = architecture("mixtral-8x7b")
    assert stored("int8", "mixtral-8x7b").expert_bytes == 32 * 8 * (a.expert_matrix + 4 * (14336 + 14336 + 4096))


def test_mxfp4_is_of_the_experts_where_there_are_some() -> None:
    a = architecture("gpt-oss-20b")
    found = stored("mxfp4", "gpt-oss-20b")
    weights, biases = 24 * 32 * a.expert_matrix, 24 * 32 * a.expert_vector
    assert found.expert_bytes == weights * 4.25 / 8 + biases * 2
    assert found.dense == 2
    assert found.dense < 4 * found.expert
    assert 8 * stored("mxfp4", "qwen3-8b").dense == exact(4.25, rel=1e-3)
    assert stored("mxfp4", "qwen3-8b").expert == stored("mxfp4", "qwen3-8b").dense


def test_routers_are_not_quantised() -> None:
    a = architecture("mixtral-8x7b")
    matrix = 32 * a.attention_matrix * 4.5 / 8
    assert stored("nf4", "mixtral-8x7b").dense_bytes == matrix + 2 * 32 * (a.router_matrix + a.norm_vector)


def test_latent_attention_is_split_as_its_matrices_are() -> None:
    a = architecture("deepseek-v3")
    shapes = {matrix.role: (matrix.inputs, matrix.outputs) for matrix in matrices(a) if matrix.part == "attention"}
    assert shapes == {
        "q_a": (7168, 1536),
        "q_b": (1536, 128 * 192),
        "kv_a": (7168, 512 + 64),
        "kv_b": (512, 128 * 256),
        "o": (128 * 128, 7168),
    }


@pytest.mark.parametrize(
    "model", ["gpt2", "opt-6.7b", "bert-base", "falcon-7b", "qwen-7b", "deepseek-v3", "gemma-3-1b", "gpt-oss-20b"]
)
def test_every_format_stores_every_family(model: str) -> None:
    a = architecture(model)
    for item in FORMATS.values():
        found = item.stored(a)
        whole = found.linear * (a.layers_shared + a.experts_total) + found.other * (a.embedding + a.head + a.final_vector)
        assert whole == exact(found.total_bytes)
        assert found.dense * a.layers_shared + found.expert * a.experts_total == exact(found.dense_bytes + found.expert_bytes)
        assert 1.5625 <= 8 * found.total_bytes / a.total <= 32
    for name, size in (("fp32", 4), ("bf16", 2), ("fp16", 2)):
        assert FORMATS[name].stored(a).total_bytes == size * a.total


def test_formats_say_where_they_come_from() -> None:
    for name, item in FORMATS.items():
        assert item.name == name
        assert item.source or item.bits >= 16
        assert (item.mix is not None) == (name in gguf.MIXES)
        if name in LLAMA_31_8B_BITS:
            assert item.bits == exact(LLAMA_31_8B_BITS[name], rel=1e-3)
        elif item.mix is not None:
            assert item.bits == exact(8 * stored(name, "llama-3.1-8b").total_bytes / 8_030_261_248, rel=7e-3)
    assert set(gguf.MIXES) <= set(FORMATS)
