"""Storage of an inference job, and the tokens it reads and generates."""

from __future__ import annotations

from planner.engine.job.defaults import Defaults
from planner.engine.job.weight_storage import UNPACKED_BYTES, weight_numbers
from planner.engine.records.chip import HOST_RATES, PCIE_SHARE
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lengths, Workload, varies
from planner.workload.traffic.lengths import drawn_outputs, in_step
from planner.workload.weights import DTYPE_BYTES, FORMATS

PREFIXES_AWAY = f"prefixes come from the host's memory, at {PCIE_SHARE:.0%} of what PCIe carries in a direction"
NOTHING_AWAY = "without prefix_tokens nothing is read back from the host's memory"
CACHE_DTYPES = {"fp32": "fp32", "tf32": "fp32", "fp16": "fp16"}
"""Compute dtype -> dtype of keys and values; bf16 for any other."""


def inference_numbers(
    architecture: Architecture, defaults: Defaults, problems: Problems, dtype: str, *, fp8_cache: bool
) -> dict[str, float]:
    """Storage of weights and cache. `fp8_cache`: the engine keeps the cache of a model computed in FP8 or FP4 in FP8."""
    stored = defaults.given_or("weight_dtype", _usual_weights(architecture, dtype))
    weights = weight_numbers(stored, "weight_dtype", architecture, problems)
    usual = "fp8" if fp8_cache and dtype in {"fp8", "fp4"} else CACHE_DTYPES.get(dtype, "bf16")
    kv_dtype = defaults.given_or("kv_dtype", usual)
    return weights | {"unpacked_bytes": UNPACKED_BYTES, "kv_bytes": DTYPE_BYTES[kv_dtype]}


def _usual_weights(architecture: Architecture, dtype: str) -> str:
    """Format that the model is published in, where products in `dtype` can read it; else that of the products.

    Products in FP4 cannot read a checkpoint in FP8: a workload with such products has a checkpoint in FP4.
    """
    published = FORMATS.get(architecture.stored_as)
    if published is not None and published.bits < 2 * 8 * DTYPE_BYTES[dtype]:
        return published.name
    return "fp32" if dtype == "tf32" else dtype


USUAL_PICTURE = 1024
"""Pixels on a side of a picture of unknown size."""


def picture_numbers(workload: Workload, architecture: Architecture, defaults: Defaults, problems: Problems) -> dict[str, float]:
    """Pictures of a prompt and patches of each; nothing if it has none. What cannot be is added to `problems`."""
    if workload.images is None:
        if workload.image_tokens is not None:
            problems.add("images", f"missing; image_tokens = {workload.image_tokens:,} says how long each of them is.")
        return {}
    if architecture.tower is None:
        problems.add(
            "images",
            f"{workload.images:g} is not accepted: no vision tower is known for this model (gpu-planner models show).",
        )
        return {}
    usual = architecture.picture_tokens or round((USUAL_PICTURE / architecture.pixels_per_token) ** 2)
    tokens = float(defaults.given_or("image_tokens", usual))
    mean = _mean(workload.input_tokens) or 512.0
    if workload.images * tokens > mean:
        text = f"{workload.images:g} of {tokens:g} tokens each are more than the {mean:g} tokens of input_tokens, which they are part of."
        problems.add("images", text)
    return {"pictures": workload.images, "picture_patches": tokens * architecture.token_patches}


def request_numbers(workload: Workload, defaults: Defaults, source_tokens: int = 0) -> dict[str, float]:
    """Tokens, batch, concurrency and rate of requests; `source_tokens`: of every prompt, where its encoder always reads as many."""
    input_tokens = _mean(workload.input_tokens)
    output_tokens = _mean(workload.output_tokens)
    if input_tokens is None:
        input_tokens = defaults.assumed["input_tokens"] = float(source_tokens or 512)
    if offloads := workload.offload == "parameters":
        defaults.assumed["host_memory"] = HOST_RATES
    if workload.task == "prefill":
        output_tokens = output_tokens or 1.0
    elif output_tokens is None:
        output_tokens = defaults.assumed["output_tokens"] = 128.0
    prefixes = float(workload.prefixes or 0)
    away = bool(workload.kv_offload)
    if away:
        defaults.assumed["kv_offload"] = PREFIXES_AWAY if workload.prefix_tokens else NOTHING_AWAY
    numbers = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "prefix_tokens": max(0.0, min(workload.prefix_tokens or 0, input_tokens - 1)),
        "prefixes": 0.0 if away else prefixes,
        "kv_offload": float(away),
        "host_prefixes": prefixes if away else 0.0,
        "request_rate_per_s": float(workload.request_rate_per_s or 0.0),
        "offload_parameters": float(offloads),
    }
    if workload.task != "serve":
        chunk = float(workload.max_num_batched_tokens or 0)
        return numbers | {"batch": float(defaults.given_or("batch", 1)), "max_num_batched_tokens": chunk}
    if workload.concurrency is None and workload.request_rate_per_s is None:
        defaults.assumed["concurrency"] = "max"
    whole = workload.concurrency == "max" or "concurrency" in defaults.assumed
    if varies(drawn_outputs(workload)) and not varies(workload.output_tokens):
        alike = "the same number as p50 and mean says that all are alike"
        defaults.assumed["output_lengths"] = f"{output_tokens:g} is the mean of lengths that spread as in conversations; {alike}"
    concurrency = float("inf") if whole else float(workload.concurrency or 0)
    uniform = in_step(workload) * (concurrency > 0 and not workload.disaggregated)
    limits = {name: float(getattr(workload, name) or 0) for name in ("max_num_seqs", "max_num_batched_tokens")}
    return numbers | limits | {"serves": 1.0, "concurrency": concurrency, "uniform_loop": uniform}


def _mean(tokens: int | Lengths | None) -> float | None:
    """Mean of a length; None if it is absent."""
    return tokens.mean if isinstance(tokens, Lengths) else None if tokens is None else float(tokens)
