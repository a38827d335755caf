"""The type that products compute in where the workload leaves it open: that of its weights, or the first that the part has a rate for."""

from __future__ import annotations

from planner.workload.architecture import Architecture
from planner.workload.tasks import Dtype, Workload, trains

_COMPUTED_IN: dict[str, Dtype] = {"fp8": "fp8", "nvfp4": "fp4"}
"""Storage -> what engines compute its products in on parts that have a rate for it (vLLM, SGLang, TensorRT-LLM); other parts unpack to 16 bit."""
_OF_RECIPE: dict[str, Dtype] = {"fp32": "fp32", "bf16": "bf16"}
"""Recipes that hold everything in one type."""
USUAL: tuple[Dtype, ...] = ("bf16", "fp16", "fp32")
"""Compute dtypes after that of the weights; the first that a part has a rate for counts: V100 and T4 have none for BF16."""


def dtypes_to_try(workload: Workload, architecture: Architecture) -> tuple[Dtype, ...]:
    """Compute dtypes in order of preference; one alone where `workload` gives it, or a recipe whose name it is."""
    if workload.dtype is not None:
        return (workload.dtype,)
    if trains(workload.task) and workload.recipe in _OF_RECIPE:
        return (_OF_RECIPE[workload.recipe],)
    native = native_dtype(workload, architecture)
    return (native, *USUAL) if native else USUAL


def native_dtype(workload: Workload, architecture: Architecture) -> Dtype | None:
    """Format in which products of stored weights compute where the part can; None where the dtype is given, or is 16 bit."""
    if workload.dtype is not None or trains(workload.task):
        return None
    return _COMPUTED_IN.get(workload.weight_dtype or architecture.stored_as)
