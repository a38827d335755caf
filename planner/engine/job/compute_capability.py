"""Formats and engines that a GPU cannot run whatever its memory, and the compute dtype where the workload leaves it open."""

from __future__ import annotations

from functools import cache

from planner.engine.job.job import Job
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Architecture
from planner.workload.tasks import Dtype, Workload, trains

_COMPUTED_IN: dict[str, Dtype] = {"fp8": "fp8", "nvfp4": "fp4"}
"""Storage -> type in which engines compute its products on GPUs that have a rate for it (vLLM, SGLang, TensorRT-LLM); other GPUs unpack to 16 bit."""
_OF_RECIPE: dict[str, Dtype] = {"fp32": "fp32", "bf16": "bf16"}
"""Recipes that hold everything in one type."""
USUAL: tuple[Dtype, ...] = ("bf16", "fp16", "fp32")
"""Compute dtypes after that of the weights; the first for which a GPU has a rate is used: V100 and T4 have none for BF16."""

_STORED: dict[str, tuple[tuple[int, int], str]] = {
    "fp8": ((8, 0), "fp8 weights need 8.0 (Marlin kernels; 8.9 to compute in fp8)"),
    "nvfp4": ((10, 0), "nvfp4 weights need 10.0"),
    "nvfp4-a16": ((8, 0), "nvfp4 weights that are unpacked need 8.0 (Marlin kernels)"),
    "nf4": ((7, 5), "bitsandbytes 4-bit weights need 7.5"),
    "nf4-dq": ((7, 5), "bitsandbytes 4-bit weights need 7.5"),
    "int8": ((7, 5), "bitsandbytes 8-bit weights need 7.5"),
    "awq": ((7, 5), "AWQ kernels need 7.5"),
}
"""Storage format -> least compute capability, and the reason, from the documentation of each format as of 2026-08."""

_ALL_BUT_APPLE = ("NVIDIA", "AMD", "Intel")
_VENDORS = {
    "vllm": _ALL_BUT_APPLE, "sglang": _ALL_BUT_APPLE, "tensorrt-llm": ("NVIDIA",), "megatron": ("NVIDIA", "AMD"), "gpt-fast": _ALL_BUT_APPLE,
}  # fmt: skip
"""Engine -> vendors of the GPUs that it runs on, from its installation pages as of 2026-11; other engines run on all."""

_FUSED: dict[str | None, tuple[tuple[int, int], str]] = {
    "flash": ((7, 5), "flash attention needs 7.5 (8.0 since FlashAttention-2)"),
    "flash-2": ((8, 0), "FlashAttention 2 needs 8.0"),
    "flash-3": ((9, 0), "FlashAttention 3 needs 9.0"),
}


def dtypes_to_try(workload: Workload, architecture: Architecture) -> tuple[Dtype, ...]:
    """Compute dtypes in order of preference; a single one where `workload` states it, or its recipe implies it."""
    if workload.dtype is not None:
        return (workload.dtype,)
    if trains(workload.task) and workload.recipe in _OF_RECIPE:
        return (_OF_RECIPE[workload.recipe],)
    native = native_dtype(workload, architecture)
    return (native, *USUAL) if native else USUAL


def native_dtype(workload: Workload, architecture: Architecture) -> Dtype | None:
    """Format in which products of stored weights are computed where the GPU can; None if the dtype is given, or is 16 bit."""
    if workload.dtype is not None or trains(workload.task):
        return None
    return _COMPUTED_IN.get(workload.weight_dtype or architecture.stored_as)


def attention_kernel(gpu: Gpu, job: Job, usual: str) -> str:
    """Attention of `job` on `gpu` where no kernel is given: `usual`, or PyTorch's memory-efficient attention where flash does not run."""
    if usual not in _FUSED or not _flash_needed(job):
        return usual
    least, _ = _FUSED[usual]
    return "memory-efficient" if (_capability(gpu) or least) < least else usual


def unsupported_reason(gpu: Gpu, job: Job) -> str | None:
    """Reason why `gpu` cannot run `job`, or None. Only NVIDIA GPUs have a compute capability; for others only the engine decides."""
    if "engine" not in job.assumed and gpu.kind == "gpu" and gpu.vendor not in _VENDORS.get(job.engine.name, (gpu.vendor,)):
        makers = " and ".join(_VENDORS[job.engine.name])
        return f"{job.engine.label} runs on GPUs of {makers}; llama.cpp and PyTorch run on those of {gpu.vendor}"
    has = _capability(gpu)
    if has is None:
        return None
    needs = [_STORED[job.stored]] if job.stored in _STORED else []
    if job.workload.attention in _FUSED and _flash_needed(job):
        needs.append(_FUSED[job.workload.attention])
    if "engine" not in job.assumed:
        least = job.engine.compute_capability
        needs.append((least, f"{job.engine.label} needs {least[0]}.{least[1]}"))
    for least, text in needs:
        if has < least:
            return f"compute capability {gpu.compute_capability}, {text}"
    return None


def _flash_needed(job: Job) -> bool:
    """True if flash attention comes from the library: llama.cpp has its own kernels for every GPU (ggml-cuda/fattn-*.cu)."""
    return job.engine.name != "llama.cpp"


def _capability(gpu: Gpu) -> tuple[int, int] | None:
    return _numbers_of(gpu.compute_capability or "") if gpu.vendor == "NVIDIA" else None


@cache
def _numbers_of(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
