"""llama.cpp's own server, on this processor, with a small model of random weights; run as a program, it prints its port.

    python llama_cpp_server.py FILE.gguf

The model is written to FILE where there is none: a Llama of 4 layers in FP16, with a vocabulary of the bytes and the words that
`bench --suite serve` sends. Needs the packages `gguf` and `xllamacpp`, which holds llama.cpp and its server.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

WIDTH, DEPTH, HEADS, KV_HEADS, FFN, CONTEXT = 512, 4, 8, 4, 1536, 2048
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Types of tokens, as GGUF numbers them."""


def vocabulary(words: tuple[str, ...]) -> list[tuple[str, float, int]]:
    """(token, score, type): what a SentencePiece model by byte pairs would hold. Every word is one token, made of its beginnings."""
    found = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    found += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    pieces = {"▁", *map(chr, range(ord("!"), ord("~") + 1))}
    pieces |= {f"▁{word}"[:length] for word in words for length in range(2, len(word) + 2)}
    return found + [(piece, float(len(piece)), NORMAL) for piece in sorted(pieces, key=lambda piece: (len(piece), piece))]


def write_model(path: Path, words: tuple[str, ...]) -> None:
    """A model of random weights, the same every time."""
    import gguf
    import numpy as np

    tokens = vocabulary(words)
    chance = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random weights")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(DEPTH)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    kv = WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd": (len(tokens), WIDTH), "output": (len(tokens), WIDTH)}
    for layer in range(DEPTH):
        of_layer = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (kv, WIDTH),
            "attn_v": (kv, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (FFN, WIDTH),
            "ffn_up": (FFN, WIDTH),
            "ffn_down": (WIDTH, FFN),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in of_layer.items()}
    for name, shape in shapes.items():
        matrix = (0.02 * chance.standard_normal(shape)).astype(np.float16)
        if name == "output":
            matrix[[kind != NORMAL for _, _, kind in tokens]] = 0  # a byte alone is no text, which a server holds back
        writer.add_tensor(f"{name}.weight", matrix)
    norms = ["output_norm", *(f"blk.{layer}.{name}" for layer in range(DEPTH) for name in ("attn_norm", "ffn_norm"))]
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(path: Path) -> None:
    """Serve until the process is ended."""
    import xllamacpp  # type: ignore[import-not-found,unused-ignore]  # few have it

    sys.path.insert(0, str(Path(__file__).parents[3]))
    from planner.observe.serving.client import WORDS

    if not path.exists():
        write_model(path, tuple(WORDS))
    options = xllamacpp.CommonParams()
    options.model.path = str(path)
    options.model_alias = {path.stem}
    options.n_ctx, options.n_parallel = CONTEXT * 4, 4
    options.endpoint_metrics = True
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = (
        1  # several wait for each other in loops, which others' work makes long
    )
    options.hostnames, options.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(options)
    print(server.listening_address.rpartition(":")[2], flush=True)  # noqa: T201  # whoever started it reads the port
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
