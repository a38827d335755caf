"""Metrics and units of published values, as quantities of an answer in SI."""

from __future__ import annotations

import re

from planner.errors import Problem, UserError
from planner.units import GIB, MIB
from planner.workload.published.names import Quantity, published_names
from planner.workload.published.rules import NotPredicted, Row, whole
from planner.workload.tasks import Request

BYTES = {"bytes": 1.0, "MB": 1e6, "MiB": float(MIB), "GB": 1e9, "GiB": float(GIB)}
SECONDS = {"s": 1.0, "ms": 1e-3}
RATES = {"tok/s": 1.0, "tok/s/GPU": 1.0, "seq/s": 1.0, "req/s": 1.0}
ALLOCATED_SOURCES = ("github:Lightning-AI/litgpt", "github:QwenLM/Qwen3", "github:NVIDIA-NeMo/Megatron-Bridge")
"""Sources whose `peak_mem` is torch.cuda.max_memory_allocated, by the scripts they publish with the figures."""
TRAINING_RATES = frozenset({"tokens_per_s", "tokens_per_s_per_gpu", "step_s"})
SHORTER_IN_FACT = re.compile(r"dynamic padding|mean length is far shorter")
SUMMED = re.compile(r"(SUM over|summed over) GPUs")


def quantity_of(row: Row, request: Request, where: str) -> tuple[Quantity, float]:
    """(quantity, value in SI) of a row; raises `NotPredicted` for another quantity, `UserError` for an unknown unit."""
    metric, quantity, value, note = row["metric"], published_names().metrics[row["metric"]], float(row["value"]), row["note"]
    if quantity == "fits":
        return quantity, float(not value)
    accepted = BYTES if quantity.endswith("_bytes") else SECONDS if metric.endswith("_s") and row["unit"] in SECONDS else RATES
    if metric == "decode_ms_per_token":
        accepted = {"ms": 1.0}
    if row["unit"] not in accepted or value <= 0:
        text = f"{row['value']} {row['unit']!r} of {metric} is not accepted; it has to be above 0, in one of {', '.join(accepted)}."
        raise UserError(Problem(where, "unit" if value > 0 else "value", text))
    value *= accepted[row["unit"]]
    gpus = request.gpus or 1
    if quantity in TRAINING_RATES:
        if request.task not in {"train", "finetune"}:
            raise NotPredicted(f"{metric} of {row['task']}")
        if SHORTER_IN_FACT.search(note):
            raise NotPredicted("sequences shorter than stated")
        return quantity, value * (request.sequence or 1) if metric == "samples_per_s_total" else value
    shared_by = gpus if SUMMED.search(note) else 1
    if quantity == "device_bytes":
        counted: Quantity = (
            "allocated_bytes"
            if metric == "peak_mem" and ("ACTIVE" in row["note"] or row["source"].startswith(ALLOCATED_SOURCES))
            else quantity
        )
        return counted, value / shared_by
    if quantity in {"allocated_bytes", "used_bytes"}:
        return quantity, value / shared_by
    if metric == "decode_ms_per_token":
        return quantity, 1000 / value
    if metric == "prefill_tokens_per_s":
        return quantity, (request.batch or 1) * (whole(row, "isl") or 1) / value
    return quantity, value * gpus if metric == "throughput_out_tokens_per_s_per_gpu" else value
