"""What runs the model: how each engine launches kernels, keeps its cache and takes memory, as records with sources."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Problem, UserError, nearest_names
from planner.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One inference or training engine."""

    name: str
    launches_per_layer: float
    """Operators the host launches for one layer of one forward pass; 0: replayed as a CUDA graph."""
    kernels_per_layer: float
    """Kernels the device runs for one layer of one forward pass."""
    host_step_s: float
    """Host time of one decoding step outside the model: scheduling, sampling, detokenising."""
    context_bytes: float
    """CUDA context, libraries, captured graphs."""
    communicator_bytes: float
    """What two or more GPUs add: NCCL buffers and other memory outside PyTorch's pool."""
    slack: float
    """Fraction the caching allocator reserves above what is allocated, of everything that comes and goes."""
    pool_fraction: float | None
    """Share of the GPU's memory it claims at start; None: it grows as needed."""
    prefill_chunk: int
    """Most prompt tokens in one forward pass; 0: the whole prompt of the whole batch."""
    fused_elementwise: bool
    """Norms, rotary embedding and activation are fused kernels."""
    source: str


_ATEN = "64 forward ATen operators a Qwen3 layer outside views, counted with PyTorch 2.13; one host launch each"
_CONTEXT = "CUDA context 0.3-0.6 GB (driver 535 and later)"

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            name="torch",
            launches_per_layer=64,
            kernels_per_layer=64,
            host_step_s=0,
            context_bytes=0.5 * GIB,
            communicator_bytes=1.0 * GIB,
            slack=0.06,
            pool_fraction=None,
            prefill_chunk=0,
            fused_elementwise=False,
            source=f"{_ATEN}; {_CONTEXT}; allocator slack: simulated median 6 %",
        ),
        Engine(
            name="transformers",
            launches_per_layer=185,
            kernels_per_layer=64,
            host_step_s=1.5e-3,
            context_bytes=0.5 * GIB,
            communicator_bytes=0.5 * GIB,
            slack=0.06,
            pool_fraction=None,
            prefill_chunk=0,
            fused_elementwise=False,
            source=f"70 operators a layer, each about 2.6 times a bare launch for the Python around it (published eager rates of Qwen2 and Llama 2 on A100); {_CONTEXT}",
        ),
        Engine(
            name="gpt-fast",
            launches_per_layer=0,
            kernels_per_layer=9,
            host_step_s=0.1e-3,
            context_bytes=0.6 * GIB,
            communicator_bytes=0.8 * GIB,
            slack=0.03,
            pool_fraction=None,
            prefill_chunk=0,
            fused_elementwise=True,
            source="torch.compile with CUDA graphs: four products, attention and fused remainders a layer",
        ),
        Engine(
            name="llama.cpp",
            launches_per_layer=0,
            kernels_per_layer=22,
            host_step_s=0.2e-3,
            context_bytes=0.5 * GIB,
            communicator_bytes=0.2 * GIB,
            slack=0.0,
            pool_fraction=None,
            prefill_chunk=512,
            fused_elementwise=True,
            source="ggml CUDA graphs since 2024-05; n_ubatch defaults to 512",
        ),
        Engine(
            name="vllm",
            launches_per_layer=0,
            kernels_per_layer=11,
            host_step_s=2.0e-3,
            context_bytes=1.4 * GIB,
            communicator_bytes=2.1 * GIB,
            slack=0.02,
            pool_fraction=0.9,
            prefill_chunk=8192,
            fused_elementwise=True,
            source="gpu_memory_utilization 0.9 and max_num_batched_tokens 8192 are vLLM V1's defaults; 0.27 GiB outside "
            "torch at TP 1, 2.1 GiB at TP >= 2 with vLLM 0.19 (llm-d planner accuracy report)",
        ),
        Engine(
            name="sglang",
            launches_per_layer=0,
            kernels_per_layer=11,
            host_step_s=1.5e-3,
            context_bytes=1.4 * GIB,
            communicator_bytes=2.1 * GIB,
            slack=0.02,
            pool_fraction=0.88,
            prefill_chunk=8192,
            fused_elementwise=True,
            source="mem_fraction_static 0.88, chunked_prefill_size 8192: SGLang's defaults on 80 GB parts",
        ),
        Engine(
            name="tensorrt-llm",
            launches_per_layer=0,
            kernels_per_layer=9,
            host_step_s=1.0e-3,
            context_bytes=1.4 * GIB,
            communicator_bytes=1.5 * GIB,
            slack=0.0,
            pool_fraction=0.9,
            prefill_chunk=8192,
            fused_elementwise=True,
            source="free_gpu_memory_fraction 0.9, max_num_tokens 8192: TensorRT-LLM's defaults",
        ),
        Engine(
            name="megatron",
            launches_per_layer=40,
            kernels_per_layer=40,
            host_step_s=0,
            context_bytes=0.6 * GIB,
            communicator_bytes=1.5 * GIB,
            slack=0.06,
            pool_fraction=None,
            prefill_chunk=0,
            fused_elementwise=True,
            source="fused softmax, norms and bias-activation kernels",
        ),
    )
}
"""Name -> record. The figures are rules for the engine, not for one version of it; the ranges allow for that."""


def find_engine(name: str, where: str = "") -> Engine:
    """The engine called `name` (an '@version' is accepted and reported back); raises `UserError` with the nearest names."""
    plain = name.partition("@")[0]
    if plain not in ENGINES:
        problem = Problem(
            where, "engine", f"{name!r} is not accepted; it has to be one of {', '.join(ENGINES)}.", nearest_names(plain, ENGINES)
        )
        raise UserError(problem)
    return ENGINES[plain]
