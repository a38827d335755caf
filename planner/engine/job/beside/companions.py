"""Memory of further models and adapters on the same GPUs beside the model that is run."""

from __future__ import annotations

from planner.errors import Problems, nearest_names
from planner.workload.architecture import Architecture, Models
from planner.workload.matrices import adapter_parameters
from planner.workload.tasks import Companion, Workload, trains
from planner.workload.weights import FORMATS

SERVED_ADAPTER_BYTES = 2.0
"""Bytes of one adapter parameter while serving: adapters are kept in 16 bit."""


def companion_numbers(workload: Workload, models: Models, problems: Problems) -> dict[str, float]:
    """Totals over all companions before they are divided among GPUs, by the names of `JobNumbers`.

    Every companion or adapter that cannot be is added to `problems`.
    """
    frozen_bytes = trained = cached = 0.0
    for number, (companion, other) in enumerate(zip(workload.companions, models.companions, strict=True)):
        _check(companion, f"companions[{number}]", problems, train=trains(workload.task))
        if companion.role == "critic":
            trained += other.total
        elif companion.weight_dtype in FORMATS:
            frozen_bytes += FORMATS[companion.weight_dtype].stored(other).total_bytes
        if companion.role == "draft":
            cached += other.cached_all + other.cached_window
    return {
        "frozen_bytes": frozen_bytes,
        "trained_beside": trained,
        "draft_cached": cached,
        "adapter_bytes": _adapter_bytes(workload, models.main, problems),
        "served_adapters": 0.0 if workload.lora is None or trains(workload.task) else float(workload.adapters or 1),
    }


def _check(companion: Companion, key: str, problems: Problems, *, train: bool) -> None:
    if (companion.role == "draft") == train:
        with_it = "generating and serving" if companion.role == "draft" else "training"
        problems.add(f"{key}.role", f"{companion.role!r} is only held while {with_it}.")
    if companion.weight_dtype not in FORMATS:
        near = nearest_names(companion.weight_dtype, FORMATS)
        problems.add(
            f"{key}.weight_dtype", f"{companion.weight_dtype!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", near
        )


def _adapter_bytes(workload: Workload, architecture: Architecture, problems: Problems) -> float:
    """Bytes of the adapters that are loaded while generating or serving."""
    if workload.adapters is not None:
        if trains(workload.task):
            problems.add("adapters", "counts adapters loaded while generating or serving; `lora` alone says what is trained.")
        elif workload.lora is None:
            problems.add("adapters", f"{workload.adapters} adapters of which size? `lora` has to say rank and targets.")
    if workload.lora is None or trains(workload.task):
        return 0.0
    one = adapter_parameters(architecture, workload.lora.rank, workload.lora.adapted)
    return (workload.adapters or 1) * one * SERVED_ADAPTER_BYTES
