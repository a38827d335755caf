"""Generation with the decoder of `training`: the prompt in one pass, then one token at a time with a cache of fixed size.

A token is chosen on the device and never read by the host; on a GPU the whole step is replayed as one graph, as in serving engines. Weights
are random, which does not affect a dense model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses

from bench.kinds.training import Layer, Qwen3, flop_result, peak_memory_bytes, rotary
from bench.kinds.transformer import Qwen3Shape
from bench.points import Bench, rate_result
from bench.products.matmul import FLOAT_TYPES, operand_bytes, refuse_unsupported
from bench.protocol import Point, Result

WARM_CALLS = 3
"""Calls before a graph is recorded."""


def serving_model(shape: Qwen3Shape, device: str, dtype: str) -> Any:
    """A decoder of `shape` with weights of `dtype`, for inference."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(FLOAT_TYPES[dtype])
    try:
        with torch.device(device):
            model = Qwen3(shape)
    finally:
        torch.set_default_dtype(previous)
    return model.eval().requires_grad_(requires_grad=False)


def measure_prefill(bench: Bench, point: Point, shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> Result:
    """Model FLOP/s of a prompt, with full attention and one token's logits. Raises `UnsupportedError`, `TooSlowError`."""
    refuse_unsupported(bench.device, dtype)
    head = 2.0 * shape.vocabulary * shape.width
    flop = shape.forward_flop(batch, sequence) - head * batch * (sequence - 1)
    bench.refuse_if_slow(flop, dtype, point.cap_s, efficiency=0.25)
    model = serving_model(shape, bench.device.torch_name, dtype)
    tokens = torch.randint(shape.vocabulary, (batch, sequence), device=bench.device.torch_name)
    with torch.inference_mode():
        timed = bench.time(lambda: prompt_pass(model, tokens), point.cap_s, whole=False)
    parameters = shape.facts | {"weight_dtype": dtype, "batch": batch, "input_tokens": sequence}
    parameters["tokens_per_s"] = batch * sequence / timed.call_s
    return flop_result(bench, point, timed, flop, dtype, parameters)


def measure_decode(bench: Bench, point: Point, shape: Qwen3Shape, dtype: str, batch: int, context: int) -> Result:
    """Tokens per second, all sequences together, with `context` tokens in the cache. Raises `UnsupportedError`."""
    refuse_unsupported(bench.device, dtype)
    device = bench.device
    model = serving_model(shape, device.torch_name, dtype)
    with torch.inference_mode():
        step: Callable[[], Any] = decode_step(model, shape, batch, context, FLOAT_TYPES[dtype])
        graph = None
        if not device.is_cpu:
            graph = _recorded(step)
            step = graph.replay
        timed = bench.time(step, point.cap_s, whole=False)
    matrices = shape.depth * shape.layer_matrix_parameters + shape.vocabulary * shape.width
    cache = 2 * batch * context * shape.depth * shape.kv_heads * shape.head_dim
    moved = float(operand_bytes(dtype) * (matrices + cache))
    flop = batch * (2.0 * matrices + 4.0 * shape.heads * shape.head_dim * context * shape.depth)
    parameters = shape.facts | {"weight_dtype": dtype, "batch": batch, "context": context}
    parameters |= {"graph": graph is not None, "bytes_per_s": moved / timed.call_s, "step_bytes": moved}
    peak = peak_memory_bytes(device.torch_name)
    return rate_result(
        point, timed, float(batch), "token/s", dtype, parameters, flop=flop / batch, bytes=moved / batch, peak_memory_bytes=peak
    )


def prompt_pass(model: Any, tokens: Any) -> Any:
    """Token that follows each prompt."""
    x = model.embedding(tokens)
    cosine, sine = (part.to(x.dtype) for part in rotary(tokens.shape[1], model.head_dim, x.device))
    for layer in model.layers:
        x = layer(x, cosine, sine)
    return model.head(model.norm(x[:, -1:])).argmax(dim=-1)


def decode_step(model: Any, shape: Qwen3Shape, batch: int, context: int, kind: Any) -> Callable[[], Any]:
    """A call that generates one token for `batch` sequences whose cache holds `context` tokens, including the new one."""
    device = model.embedding.weight.device
    size = (shape.depth, batch, shape.kv_heads, context, shape.head_dim)
    keys, values = torch.randn(size, device=device, dtype=kind), torch.randn(size, device=device, dtype=kind)
    token = torch.randint(shape.vocabulary, (batch, 1), device=device)
    place = torch.tensor([context - 1], device=device)
    cosine, sine = rotary(context, shape.head_dim, device)
    cosine, sine = cosine[-1:].to(kind), sine[-1:].to(kind)

    def step() -> Any:
        x = model.embedding(token)
        for number, layer in enumerate(model.layers):
            x = _decode_layer(layer, x, cosine, sine, keys[number], values[number], place)
        token.copy_(model.head(model.norm(x)).argmax(dim=-1))
        return token

    return step


def _decode_layer(layer: Layer, x: Any, cosine: Any, sine: Any, keys: Any, values: Any, place: Any) -> Any:
    """`Layer.forward` for one new token, with its key and value written at `place` of the cache."""
    q, k, v = layer.projected(x, cosine, sine)
    keys.index_copy_(2, place, k)
    values.index_copy_(2, place, v)
    grouped = layer.shape.heads != layer.shape.kv_heads
    return layer.finished(x, F.scaled_dot_product_attention(q, keys, values, enable_gqa=grouped))


def _recorded(step: Callable[[], Any]) -> Any:
    """The whole step, recorded as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_CALLS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
