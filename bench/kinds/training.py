"""A Qwen3 decoder in plain torch and one training step of it: AdamW, bf16 autocast over fp32 weights, random tokens."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses
from torch import nn

from bench.kinds.transformer import Qwen3Shape
from bench.points import Bench, rate_result
from bench.products.matmul import FLOAT_TYPES, refuse_unsupported
from bench.protocol import Point, Result
from bench.timing import CpuTimer, Timing

ROPE_BASE = 1e6
NORM_EPSILON = 1e-6


class RmsNorm(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Root-mean-square norm over the last dimension, with a learned scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        """Same shape and dtype as `x`; the scale follows its dtype so that the fused kernel applies."""
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), NORM_EPSILON)


class Layer(nn.Module):  # type: ignore[misc]  # see RmsNorm
    """Grouped-query attention with normalised heads and rotary positions, then SwiGLU."""

    def __init__(self, shape: Qwen3Shape) -> None:
        super().__init__()
        self.shape = shape
        inner, key_inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.attention_norm, self.ffn_norm = RmsNorm(shape.width), RmsNorm(shape.width)
        self.query_norm, self.key_norm = RmsNorm(shape.head_dim), RmsNorm(shape.head_dim)
        self.query = nn.Linear(shape.width, inner, bias=False)
        self.key = nn.Linear(shape.width, key_inner, bias=False)
        self.value = nn.Linear(shape.width, key_inner, bias=False)
        self.out = nn.Linear(inner, shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.ffn, bias=False)
        self.up = nn.Linear(shape.width, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.width, bias=False)

    def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
        """Residual stream after the layer, (batch, sequence, width)."""
        q, k, v = self.projected(x, cosine, sine)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shape.heads != self.shape.kv_heads)
        return self.finished(x, mixed)

    def projected(self, x: Any, cosine: Any, sine: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values, (batch, heads, sequence, head width)."""

        def heads(projected: Any, count: int) -> Any:
            return projected.view(*x.shape[:2], count, self.shape.head_dim)

        normed = self.attention_norm(x)
        q = rotated(self.query_norm(heads(self.query(normed), self.shape.heads)).transpose(1, 2), cosine, sine)
        k = rotated(self.key_norm(heads(self.key(normed), self.shape.kv_heads)).transpose(1, 2), cosine, sine)
        return q, k, heads(self.value(normed), self.shape.kv_heads).transpose(1, 2)

    def finished(self, x: Any, mixed: Any) -> Any:
        """Residual stream after the attention `mixed` and the feed-forward."""
        x = x + self.out(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))
        normed = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Qwen3(nn.Module):  # type: ignore[misc]  # see RmsNorm
    """Decoder from token ids to logits."""

    def __init__(self, shape: Qwen3Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.depth))
        self.norm = RmsNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        if shape.tied:
            self.head.weight = self.embedding.weight
        self.head_dim = shape.head_dim

    def forward(self, tokens: Any) -> Any:
        """Logits of shape (batch, sequence, vocabulary)."""
        x = self.embedding(tokens)
        cosine, sine = rotary(tokens.shape[1], self.head_dim, x.device)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        return self.head(self.norm(x))


def rotary(sequence: int, head_dim: int, device: Any) -> tuple[Any, Any]:
    """Cosines and sines of the rotary positions, (sequence, head_dim)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    angle = torch.arange(sequence, device=device, dtype=torch.float32)[:, None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def rotated(x: Any, cosine: Any, sine: Any) -> Any:
    """`x` rotated by its position, with halves paired."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine.to(x.dtype) + torch.cat((-second, first), dim=-1) * sine.to(x.dtype)


def training_step(
    shape: Qwen3Shape, device: str, batch: int, sequence: int, dtype: str, *, prepare: Callable[[Any], Any] = lambda model: model
) -> Callable[[], None]:
    """A function that runs one step: forward, loss in FP32, backward, AdamW. `prepare` adds adapters to the model, or compiles it.

    With `dtype` 'bf16' or 'fp16' matrix products run under autocast, and weights and optimizer stay in FP32.
    """
    with torch.device(device):  # created on the device: on a host, large weights take half a minute and their size in memory
        model = prepare(Qwen3(shape))
    optimizer = _adamw(model)
    tokens = torch.randint(shape.vocabulary, (batch, sequence), device=device)
    targets = torch.randint(shape.vocabulary, (batch, sequence), device=device)

    def step() -> None:
        with autocast(device, dtype):
            logits = model(tokens)
        loss = F.cross_entropy(logits.float().view(-1, shape.vocabulary), targets.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def autocast(device: str, dtype: str) -> AbstractContextManager[Any]:
    """A context that computes matrix products in `dtype`, 'bf16' or 'fp16', and leaves weights unchanged; empty for 'fp32'."""
    if dtype == "fp32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=FLOAT_TYPES[dtype])  # type: ignore[no-any-return]  # see RmsNorm


def _adamw(model: Any) -> Any:
    """AdamW over the trained parameters: fused where this torch has it for the device, else its default."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        return torch.optim.AdamW(trained, lr=1e-4, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(trained, lr=1e-4)


def measure_step(bench: Bench, point: Point, shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> Result:
    """Model FLOP/s of whole steps by the wall clock, host time included. Raises `UnsupportedError`, `TooSlowError`."""
    device = bench.device
    refuse_unsupported(device, dtype)
    flop = shape.step_flop(batch, sequence)
    bench.refuse_if_slow(flop, dtype, point.cap_s, efficiency=0.25)
    bench.refuse_if_slow(flop, f"train/{dtype}", point.cap_s)
    step = finished(training_step(shape, device.torch_name, batch, sequence, dtype), device.torch_name)
    timed = bench.time(step, point.cap_s, whole=False, timer=CpuTimer())
    bench.best_flop_per_s[f"train/{dtype}"] = max(flop / timed.call_s, bench.best_flop_per_s.get(f"train/{dtype}", 0.0))
    parameters = {
        **step_parameters(shape, dtype, batch, sequence),
        "tokens_per_s": batch * sequence / timed.call_s,
        "causal_flop": shape.causal_step_flop(batch, sequence),
        "six_n_d_flop": 6.0 * shape.parameters * batch * sequence,
    }
    return flop_result(bench, point, timed, flop, dtype, parameters)


def finished(step: Callable[[], None], device: str) -> Callable[[], None]:
    """`step`, changed to return when the device has finished it."""

    def whole() -> None:
        step()
        if device != "cpu":
            torch.cuda.synchronize(device)

    return whole


def step_parameters(shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> dict[str, Any]:
    """Parameters that identify a training step, enough to predict its time."""
    return {
        **shape.facts,
        "embedding_parameters": shape.embedding_parameters,
        "batch": batch,
        "sequence": sequence,
        "tokens": batch * sequence,
        "recipe": "fp32" if dtype == "fp32" else "amp",
        "optimizer": "adamw",
    }


def flop_result(bench: Bench, point: Point, timed: Timing, flop: float, dtype: str, parameters: dict[str, Any]) -> Result:
    """FLOP/s of a whole pass or step of `flop`, with the highest memory use."""
    peak = peak_memory_bytes(bench.device.torch_name)
    return rate_result(point, timed, flop, "FLOP/s", dtype, parameters, flop=flop, peak_memory_bytes=peak)


def peak_memory_bytes(device: str) -> float:
    """Highest memory use: allocated on a GPU, resident in the whole process on a CPU."""
    if device != "cpu":
        return float(torch.cuda.max_memory_allocated(device))
    kilobyte = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobyte)
