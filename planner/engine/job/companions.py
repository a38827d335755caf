"""Further models and adapters on the same GPUs: what they hold beside the model that is run."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Problems, nearest_names
from planner.workload.architecture import Architecture
from planner.workload.matrices import adapter_parameters
from planner.workload.tasks import Companion, Workload
from planner.workload.weights import FORMATS

ADAPTER_BYTES = 2.0
"""Of one adapter parameter while serving: they are kept in 16 bit."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Totals over all companions, before they are divided among GPUs."""

    frozen_bytes: float = 0.0
    """Weights of reference, reward and draft models."""
    trained: float = 0.0
    """Parameters of critics."""
    cached_per_token: float = 0.0
    """KV elements of draft models, all their layers."""
    adapter_bytes: float = 0.0
    """Adapters loaded for serving."""


def held(workload: Workload, architecture: Architecture, problems: Problems) -> Held:
    """What `workload` holds beside its model; every companion or adapter that cannot be is added to `problems`."""
    train = workload.task in {"train", "finetune"}
    frozen = trained = cached = 0.0
    for number, (companion, other) in enumerate(zip(workload.companions, architecture.companions, strict=True)):
        _check(companion, f"companions[{number}]", problems, train=train)
        if companion.role == "critic":
            trained += other.total
        elif companion.weight_dtype in FORMATS:
            frozen += FORMATS[companion.weight_dtype].stored(other).total_bytes
        if companion.role == "draft":
            cached += other.layers * other.cached_per_token
    return Held(
        frozen_bytes=frozen, trained=trained, cached_per_token=cached, adapter_bytes=_adapters(workload, architecture, problems)
    )


def _check(companion: Companion, key: str, problems: Problems, *, train: bool) -> None:
    if (companion.role == "draft") == train:
        with_it = "generating and serving" if companion.role == "draft" else "training"
        problems.add(f"{key}.role", f"{companion.role!r} is only held while {with_it}.")
    if companion.weight_dtype not in FORMATS:
        near = nearest_names(companion.weight_dtype, FORMATS)
        problems.add(
            f"{key}.weight_dtype", f"{companion.weight_dtype!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", near
        )


def _adapters(workload: Workload, architecture: Architecture, problems: Problems) -> float:
    """Bytes of the adapters that are loaded while generating or serving."""
    if workload.adapters is not None:
        if workload.task in {"train", "finetune"}:
            problems.add("adapters", "counts adapters loaded while generating or serving; `lora` alone says what is trained.")
        elif workload.lora is None:
            problems.add("adapters", f"{workload.adapters} adapters of which size? `lora` has to say rank and targets.")
        elif workload.adapters < 1:
            problems.add("adapters", f"{workload.adapters} is not accepted; it has to be at least 1.")
    if workload.lora is None or workload.task in {"train", "finetune"}:
        return 0.0
    return (workload.adapters or 1) * adapter_parameters(architecture, workload.lora.rank, workload.lora.adapted) * ADAPTER_BYTES
