"""Rows of published measurements, and a folder of them read."""

from __future__ import annotations

import csv
from pathlib import Path

from planner.workload.published.experiments import COLUMNS, Experiment, PublishedSet, read_published

GPUS = frozenset({"a100-sxm-80gb", "h100-sxm-80gb"})


SERVED = {
    "config_id": "s-1",
    "task": "serving",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "model": "Llama-2-7B",
    "framework": "vllm 0.6.3",
    "precision": "fp16",
    "concurrency": "16",
    "isl": "512",
    "osl": "128",
    "metric": "tpot_s",
    "value": "0.02",
    "unit": "s",
}


QUEUED = {
    "concurrency": "",
    "osl": "1024",
    "note": "offline maximum throughput, all requests queued, fixed lengths; output tokens per GPU",
}
"""Cells of a run of TensorRT-LLM's perf-overview."""

TRAINED = {
    "config_id": "t-1",
    "task": "pretrain",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "8",
    "model": "Llama-2-7B",
    "framework": "torch 2.4",
    "precision": "bf16",
    "micro_batch": "2",
    "global_batch": "64",
    "seq_len": "2048",
    "sharding": "FULL_SHARD",
    "checkpointing": "full",
    "metric": "tokens_per_s_per_gpu",
    "value": "3000",
    "unit": "tok/s/GPU",
}


GENERATED = SERVED | {"config_id": "g-1", "task": "inference_batch", "concurrency": "", "micro_batch": "4"}


def write(folder: Path, *rows: dict[str, str], name: str = "somebody.csv") -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def read(folder: Path, *rows: dict[str, str]) -> PublishedSet:
    return read_published(write(folder, *rows), GPUS, lambda key: {"key": key} if key != "unheard-of-7b" else None)


def asked(folder: Path, row: dict[str, str]) -> Experiment:
    (experiment,) = read(folder, row).experiments
    return experiment


def left_out(folder: Path, row: dict[str, str]) -> str:
    found = read(folder, row)
    assert not found.experiments or not found.experiments[0].values
    (reason,) = found.left_out
    return reason
