"""What a GPU cannot run whatever its memory: formats and engines that need a newer compute capability."""

from __future__ import annotations

from planner.engine.job.job import Job
from planner.hardware.catalogue.gpus import Gpu

_STORED: dict[str, tuple[tuple[int, int], str]] = {
    "fp8": ((8, 0), "fp8 weights need compute capability 8.0 (Marlin kernels; 8.9 to compute in fp8)"),
    "nvfp4": ((10, 0), "nvfp4 weights need compute capability 10.0"),
    "nf4": ((7, 5), "bitsandbytes 4-bit weights need compute capability 7.5"),
    "nf4-dq": ((7, 5), "bitsandbytes 4-bit weights need compute capability 7.5"),
    "int8": ((7, 5), "bitsandbytes 8-bit weights need compute capability 7.5"),
    "awq": ((7, 5), "AWQ kernels need compute capability 7.5"),
}
_ENGINES: dict[str, tuple[tuple[int, int], str]] = {
    "vllm": ((7, 0), "vLLM needs compute capability 7.0"),
    "sglang": ((7, 5), "SGLang needs compute capability 7.5"),
    "tensorrt-llm": ((8, 0), "TensorRT-LLM needs compute capability 8.0"),
}
"""From the installation pages of the engines, and of bitsandbytes, as of 2026-08."""


def barred(gpu: Gpu, job: Job) -> str | None:
    """Why `gpu` cannot run `job`, or None. Only NVIDIA parts have a compute capability; others are not judged."""
    major, _, minor = (gpu.compute_capability or "").partition(".")
    if gpu.vendor != "NVIDIA" or not major.isdigit() or not minor.isdigit():
        return None
    has = (int(major), int(minor))
    engine = _ENGINES.get(job.engine.name) if "engine" not in job.assumed else None
    for needed, text in filter(None, (_STORED.get(job.stored), engine)):
        if has < needed:
            return f"{text}; it has {gpu.compute_capability}"
    return None
