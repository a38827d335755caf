"""The type that products compute in where the workload leaves it open and its weights are stored narrower than 16 bit."""

from __future__ import annotations

from planner.workload.architecture import Architecture
from planner.workload.tasks import Dtype, Workload, trains

_COMPUTED_IN: dict[str, Dtype] = {"fp8": "fp8", "nvfp4": "fp4"}
"""Storage -> what engines compute its products in on parts that have a rate for it (vLLM, SGLang, TensorRT-LLM); other parts unpack to 16 bit."""


def native_dtype(workload: Workload, architecture: Architecture) -> Dtype | None:
    """Format in which products of stored weights compute where the part can; None where the dtype is given, or is 16 bit."""
    if workload.dtype is not None or trains(workload.task):
        return None
    return _COMPUTED_IN.get(workload.weight_dtype or architecture.stored_as)
