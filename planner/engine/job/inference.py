"""What an inference job stores, and the tokens it takes and makes."""

from __future__ import annotations

from planner.engine.job.defaults import Chooser
from planner.engine.job.weight_storage import UNPACK_HOST_S, UNPACKED_BYTES, stored_bytes
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lengths, Workload
from planner.workload.weights import DTYPE_BYTES

CACHES = {"fp32": "fp32", "tf32": "fp32", "fp16": "fp16"}
"""What keys and values are kept in, by what is computed in; else bf16."""


def inference_numbers(
    architecture: Architecture, choose: Chooser, problems: Problems, dtype: str, *, fp8_cache: bool
) -> dict[str, float]:
    """Storage of weights and cache; what only training has is 0. `fp8_cache`: the engine keeps an FP8 model's cache in FP8."""
    stored = choose("weight_dtype", dtype if dtype != "tf32" else "fp32")
    linear, other, packed = stored_bytes(stored, "weight_dtype", architecture, problems)
    kv = choose("kv_dtype", "fp8" if fp8_cache and dtype in {"fp8", "fp4"} else CACHES.get(dtype, "bf16"))
    nothing = dict.fromkeys(
        (
            "adapters",
            "gradient_bytes",
            "master_bytes",
            "cast_bytes",
            "state_bytes",
            "state_traffic",
            "autocast",
            "in_backward",
            "offload_optimizer",
            "offload_parameters",
            "offload_activations",
        ),
        0.0,
    )
    return nothing | {
        "linear_bytes": linear,
        "other_bytes": other,
        "weight_bits_packed": packed,
        "unpacked_bytes": UNPACKED_BYTES,
        "keeps_unpacked": 0.0,
        "unpack_host_s": UNPACK_HOST_S.get(stored, 0.0),
        "gptq": float(stored.startswith("gptq")),
        "kv_bytes": DTYPE_BYTES[kv],
    }


def _tokens(value: int | Lengths | None, name: str, problems: Problems) -> float | None:
    if value is None:
        return None
    mean = value.mean if isinstance(value, Lengths) else float(value)
    if mean <= 0:
        problems.add(name, f"{mean} is not accepted; it has to be above 0.")
    return mean


def lengths_of(workload: Workload, choose: Chooser, problems: Problems, *, train: bool) -> dict[str, float]:
    """Tokens, batches and rates; 0 where the task has none."""
    empty = dict.fromkeys(
        (
            "sequence",
            "global_batch",
            "micro_batch",
            "batch",
            "input_tokens",
            "output_tokens",
            "prefix_tokens",
            "lockstep",
            "request_rate_per_s",
            "concurrency",
        ),
        0.0,
    )
    if train:
        return empty | {
            "sequence": float(choose("sequence", 2048)),
            "global_batch": float(workload.global_batch or 0),
            "micro_batch": float(workload.micro_batch or 0),
        }
    given = _tokens(workload.input_tokens, "input_tokens", problems)
    wanted = _tokens(workload.output_tokens, "output_tokens", problems)
    if given is None:
        given = choose.assumed["input_tokens"] = 512.0
    if workload.task == "prefill":
        wanted = wanted or 1.0
    elif wanted is None:
        wanted = choose.assumed["output_tokens"] = 128.0
    concurrency = 0.0
    if workload.task == "serve":
        if workload.concurrency is None and workload.request_rate_per_s is None:
            choose.assumed["concurrency"] = "max"
        concurrency = (
            float("inf") if workload.concurrency == "max" or "concurrency" in choose.assumed else float(workload.concurrency or 0)
        )
    return empty | {
        "batch": float(choose("batch", 1)) if workload.task != "serve" else 0.0,
        "input_tokens": given,
        "output_tokens": wanted,
        "lockstep": float(
            concurrency > 0
            and not workload.disaggregated
            and not isinstance(workload.input_tokens, Lengths)
            and not isinstance(workload.output_tokens, Lengths)
        ),
        "prefix_tokens": float(min(workload.prefix_tokens or 0, given - 1)),
        "request_rate_per_s": float(workload.request_rate_per_s or 0.0),
        "concurrency": concurrency,
    }
