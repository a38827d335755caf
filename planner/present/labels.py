"""Labels of the form for the keys of a workload, and messages that name both."""

from __future__ import annotations

import re

from planner.errors import Problem
from planner.workload.tasks import Request

LABELS = {
    "model": "model",
    "task": "task",
    "weight_dtype": "weights",
    "kv_dtype": "KV cache",
    "recipe": "recipe",
    "optimizer": "optimizer",
    "lora.rank": "LoRA rank",
    "lora.base": "LoRA base",
    "input_tokens": "input",
    "output_tokens": "output",
    "prefix_tokens": "cached",
    "batch": "batch",
    "request_rate_per_s": "load",
    "daily_users": "users",
    "targets.burst": "burst",
    "concurrency": "at once",
    "requests": "requests",
    "sequence": "sequence",
    "global_batch": "batch",
    "micro_batch": "micro",
    "train_tokens": "train on",
    "targets.deadline_h": "deadline",
    "targets.budget_usd": "budget",
    "max_gpus": "at most",
    "market": "market",
    "objective": "objective",
    "gpus_considered": "GPUs",
    "providers": "providers",
    "kinds": "kinds",
    "regions": "regions",
    "countries": "countries",
    "certifications": "certified",
    "exclude": "without",
    "fabric": "network",
    "price_usd_per_gpu_h": "my price",
    "max_nodes": "nodes",
    "confidence": "sure",
    "engine": "engine",
    "checkpointing": "recompute",
    "sharding": "sharding",
    "disaggregated": "split P:D",
    "batch_window_s": "gather",
    "arrival_variation": "uneven",
    "max_num_seqs": "slots",
    "max_num_batched_tokens": "iteration",
    "cuda_graphs": "graphs",
    "images": "pictures",
    "image_tokens": "of tokens",
    "kv_offload": "cache in",
    "warmup_requests": "warm-up",
    "dtype": "compute",
    "attention": "attention",
    "loss": "loss",
    "offload": "offload",
    "compile": "compile",
    "dataset_tokens": "data set",
    "epochs": "epochs",
    "targets.headroom": "keep free",
    "power_limit_w": "power cap",
    **{
        f"targets.p{percentile}_{what}_s": f"p{percentile} {label}"
        for percentile in (95, 99)
        for what, label in (("request", "total"), ("ttft", "TTFT"), ("tpot", "TPOT"))
    },
}
"""Key -> its label."""
LENGTHS = ("a table of mean, p50, p95", "mean/p95, such as 600/1500")
"""Forms of lengths that vary: in a file, and as they are typed."""
IN_PERCENT = {"targets.burst", "targets.headroom", "confidence"}
"""Keys that hold a share, which the form shows and takes as a percentage."""
_KEYS = {label.casefold(): key for key, label in LABELS.items()}
_PLAIN_KEYS = sorted((key for key in LABELS if re.search(r"[._]|concurrency", key)), key=len, reverse=True)
_NO_WORDS = re.compile(rf"\b(?:{'|'.join(map(re.escape, _PLAIN_KEYS))})\b")
"""Keys that a message holds as keys alone; `batch` may be a word of it."""


def key_of(label: str) -> str:
    """The key of a label that is no key itself; '' for any other text."""
    return "" if label in Request.__struct_fields__ else _KEYS.get(label.casefold(), "")


TOTALS = {"p95": "targets.p95_request_s", "p99": "targets.p99_request_s"}
"""A percentile that is said alone -> the key of the whole request's, as in the box of the screen."""


def with_key(setting: str) -> str:
    """`setting`, 'LABEL=VALUE', with the key of its label; as it is where the label is a key, unknown, or takes another number than the key."""
    label, equals, value = setting.partition("=")
    key = TOTALS.get(label.strip().casefold()) or key_of(label.strip())
    return f"{key}{equals}{value}" if key and key not in IN_PERCENT else setting


def labelled(key: str) -> str:
    """A key behind its label: 'load (request_rate_per_s)'."""
    label = LABELS.get(key, key)
    return key if label == key else f"{label} ({key})"


def with_labels(message: str) -> str:
    """`message` with the label before each key in it, and lengths as the form takes them."""
    return _NO_WORDS.sub(lambda found: labelled(found[0]), message.replace(*LENGTHS))


def problem_text(problem: Problem) -> str:
    """The key and the message of `problem`, with the labels of keys."""
    message = with_labels(problem.message)
    return f"{labelled(problem.key)}: {message}" if problem.key else message
