"""Metrics and units of published values, as quantities of an answer in SI."""

from __future__ import annotations

import re
from typing import Literal

from planner.errors import Problem, UserError
from planner.units import GIB, MIB
from planner.workload.published.rules import NotPredicted, Row, whole
from planner.workload.tasks import Request

Quantity = Literal[
    "fits",
    "device_bytes",
    "used_bytes",
    "reserved_bytes",
    "allocated_bytes",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "step_s",
    "prefill_s",
    "decode_tokens_per_s",
    "ttft_s",
    "tpot_s",
    "request_s",
    "output_tokens_per_s",
    "requests_per_s",
]
"""Quantity of an answer that a value is compared with. Memory is counted by the device (including the context and libraries), as used in
NVML (with what the driver keeps for itself), or as reserved or allocated in PyTorch's allocator."""

METRICS: dict[str, Quantity] = {
    "oom": "fits",
    "peak_mem": "device_bytes",
    "peak_mem_nvml": "used_bytes",
    "peak_mem_reserved_max": "reserved_bytes",
    "peak_mem_allocated": "allocated_bytes",
    "tokens_per_s_total": "tokens_per_s",
    "samples_per_s_total": "tokens_per_s",
    "tokens_per_s_per_gpu": "tokens_per_s_per_gpu",
    "step_time_s": "step_s",
    "prefill_latency_s": "prefill_s",
    "prefill_tokens_per_s": "prefill_s",
    "decode_tokens_per_s": "decode_tokens_per_s",
    "decode_ms_per_token": "decode_tokens_per_s",
    "ttft_s": "ttft_s",
    "ttft_mean_s": "ttft_s",
    "tpot_s": "tpot_s",
    "tpot_mean_s": "tpot_s",
    "itl_mean_s": "tpot_s",
    "request_latency_s": "request_s",
    "throughput_out_tokens_per_s": "output_tokens_per_s",
    "throughput_out_tokens_per_s_per_gpu": "output_tokens_per_s",
    "requests_per_s": "requests_per_s",
}
"""Metrics that are compared; MFU and TFLOP/s are not, because sources count them differently."""
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
    metric, quantity, value, note = row["metric"], METRICS[row["metric"]], float(row["value"]), row["note"]
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
