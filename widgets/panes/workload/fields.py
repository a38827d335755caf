"""The fields of the workload form: which a task has, and what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from planner.engine.job.engines import ENGINES, GENERIC
from planner.workload import tasks
from widgets.panes.workload.field import FINETUNE, GENERATE, PREFILL, RUNS, SERVE, SERVES, TRAIN, TRAINS, Field
from widgets.panes.workload.values import NO, YES, get

TASK_WORDS = {
    TRAIN: "train from scratch",
    FINETUNE: "tune a trained model",
    GENERATE: "a fixed batch of texts",
    SERVE: "many users at once",
    PREFILL: "read prompts only",
}
RECIPE_WORDS = (
    "everything in 32 bits",
    "32-bit parameters, autocast to 16 bits",
    "16-bit parameters; 32-bit master copy, gradients and moments",
    "everything in 16 bits",
)
WEIGHT_FORMATS = (
    *("bf16", "fp16", "fp8", "int8", "int4", "awq", "gptq-int4", "nf4", "mxfp4", "nvfp4"),
    *("q8_0", "q6_k", "q5_k_m", "q4_k_m", "fp32"),
)
TRAINERS = tuple(name for name, records in ENGINES.items() if records[0].trains)
SERVERS = tuple(name for name, records in ENGINES.items() if records[0].generates and name != GENERIC)


def _targets(percentile: int) -> list[Field]:
    limits = {"request": "are answered within this", "ttft": "first tokens within this", "tpot": "token gaps are within this"}
    return [
        Field(f"targets.p{percentile}_{what}_s", about=f"{percentile} of 100 {words}", unit="s", tasks=SERVES, empty="none")
        for what, words in limits.items()
    ]


GROUPS: Mapping[str, tuple[Field, ...]] = {
    "": (
        Field("model", "choice", about="by name, hub id, or config.json"),
        Field("task", "choice", choices=get_args(tasks.TaskName), words=tuple(TASK_WORDS.values())),
        Field("weight_dtype", "choice", choices=WEIGHT_FORMATS, tasks=RUNS),
        Field("kv_dtype", "choice", choices=get_args(tasks.KvDtype), tasks=RUNS),
        Field("recipe", "choice", choices=get_args(tasks.Recipe), words=RECIPE_WORDS, tasks=TRAINS),
        Field("optimizer", "choice", choices=get_args(tasks.Optimizer), tasks=TRAINS),
        Field("lora.rank", "count", "of adapters; empty: all is tuned", tasks=(FINETUNE,), empty="no LoRA"),
        Field("lora.base", "choice", choices=("bf16", "fp16", "int8", "nf4", "nf4-dq"), tasks=(FINETUNE,), needs="lora"),
    ),
    "load": (
        Field("input_tokens", "lengths", "of a prompt; or mean/p95: 600/1500", unit="tokens", tasks=RUNS),
        Field("output_tokens", "lengths", "of an answer; or mean/p95: 200/700", unit="tokens", tasks=(GENERATE, SERVE)),
        Field("prefix_tokens", "count", "of a prompt, in the prefix cache", unit="tokens", tasks=SERVES, empty="none"),
        Field("batch", "count", "texts processed in parallel", unit="seqs", tasks=(GENERATE, PREFILL)),
        Field("request_rate_per_s", "number", "requests that come, on average", unit="req/s", tasks=SERVES, empty="none"),
        Field("daily_users", "number", "people on one day, instead of load", unit="a day", tasks=SERVES, empty="none"),
        Field("targets.burst", "percent", "of the load, which peaks add to it", unit="%", tasks=SERVES),
        Field("concurrency", "crowd", "in flight; max: all that fit", unit="reqs", tasks=SERVES),
        Field("requests", "number", "of a job: for hours and dollars", unit="in all", tasks=(GENERATE, SERVE), empty="no end"),
        Field("sequence", "count", "of one training sequence", unit="tokens", tasks=TRAINS),
        Field("global_batch", "count", "sequences a step, over all GPUs", unit="seqs", tasks=TRAINS),
        Field("micro_batch", "count", "sequences a GPU takes at a time", unit="seqs", tasks=TRAINS),
        Field("train_tokens", "number", "of a job, 15T: for hours, dollars", unit="tokens", tasks=TRAINS, empty="no end"),
    ),
    "limits": (
        *_targets(95),
        Field(
            "targets.deadline_h",
            "number",
            "the job must end within this",
            unit="h",
            tasks=(*TRAINS, GENERATE, SERVE),
            empty="none",
        ),
        Field("targets.budget_usd", "number", "of a job; of a service, a month", unit="$", empty="none"),
    ),
    "search": (
        Field("max_gpus", "count", "the search ends there", unit="GPUs"),
        Field("market", "choice", choices=get_args(tasks.Market)),
        Field("objective", "choice", choices=get_args(tasks.Objective)),
    ),
    "offers": (
        Field("gpus_considered", "names", "of these alone: H100, L4", empty="all"),
        Field("providers", "names", "from these alone: runpod, aws", empty="all"),
        Field("kinds", "names", "of provider: gpu-cloud, marketplace", empty="all"),
        Field("regions", "names", "these alone; * matches: us-east*", empty="all"),
        Field("countries", "names", "there alone: DE, FR, or EU", empty="all"),
        Field("certifications", "names", "holds all of them: ISO 27001", empty="any"),
        Field("exclude", "names", "providers, kinds, GPUs, instances", empty="none"),
        Field(
            "fabric",
            "choice",
            choices=("infiniband", "ethernet", "none"),
            words=("between nodes", "between nodes", "one node alone"),
        ),
        Field("price_usd_per_gpu_h", "prices", "of a GPU, not offers: 1.8; L40S 0.9", unit="$/h", empty="offers"),
        Field("max_nodes", "count", "most that can be had at once", unit="nodes"),
        Field("confidence", "percent", "least probability to fit", unit="%"),
    ),
    "advanced": (
        Field("engine", "choice", choices=TRAINERS, tasks=TRAINS),
        Field("engine", "choice", choices=SERVERS, tasks=RUNS),
        Field("checkpointing", "choice", choices=get_args(tasks.Checkpointing), tasks=TRAINS),
        Field("sharding", "choice", choices=get_args(tasks.Sharding), tasks=TRAINS),
        Field(
            "disaggregated",
            "switch",
            choices=(NO, YES),
            words=("every replica does prefill and decode", "disaggregated: separate replicas for prefill and decode"),
            tasks=SERVES,
        ),
        Field("batch_window_s", "number", "holds requests this long: 0.03", unit="s", tasks=SERVES, empty="none"),
        Field("arrival_variation", "number", "of gaps; 1: Poisson, 3: bursts", unit="σ/mean", tasks=SERVES, empty="1"),
        Field("max_num_seqs", "count", "most in flight on a replica", unit="seqs", tasks=SERVES),
        Field("max_num_batched_tokens", "count", "most tokens of one iteration", unit="tokens", tasks=SERVES),
        Field(
            "cuda_graphs",
            "switch",
            choices=(NO, YES),
            words=("eager: the host launches every kernel", "of decoding steps, where the engine has them"),
            tasks=RUNS,
        ),
        Field("images", "number", "of a prompt; 0.3: one in three", unit="each", tasks=RUNS, empty="none"),
        Field("image_tokens", "count", "of each picture, in the prompt", tasks=RUNS, needs="images"),
        Field(
            "kv_offload",
            "switch",
            choices=(NO, YES),
            words=("the GPU's memory alone", "the host's memory, too: prefixes are read over PCIe"),
            tasks=SERVES,
        ),
        Field("warmup_requests", "count", "at first, which are not measured", tasks=SERVES, empty="none", needs="requests"),
        *_targets(99),
        Field("dtype", "choice", choices=get_args(tasks.Dtype)),
        Field("attention", "choice", choices=get_args(tasks.Attention), tasks=TRAINS),
        Field("loss", "choice", choices=get_args(tasks.Loss), tasks=TRAINS),
        Field("offload", "choice", choices=get_args(tasks.Offload), tasks=TRAINS),
        Field("compile", "switch", choices=(NO, YES), words=("eager", "torch.compile"), tasks=TRAINS),
        Field("dataset_tokens", "number", "with epochs, instead of train on", unit="tokens", tasks=TRAINS, empty="none"),
        Field("epochs", "number", "passes over the data set", tasks=TRAINS, empty="none"),
        Field("targets.headroom", "percent", "of the memory, for fragmentation", unit="%"),
        Field("power_limit_w", "number", "of each GPU, as nvidia-smi -pl", unit="W", empty="none"),
    ),
}
"""Heading -> its fields; those without a heading stand on top."""
FOLDED = ("offers", "advanced")
"""Groups that few people need, folded until somebody opens them."""
FIELDS = tuple(replace(field, group=group) for group, fields in GROUPS.items() for field in fields)


def fields_for(workload: Mapping[str, Any]) -> list[Field]:
    """The fields that make sense for a workload, in the order they stand."""
    task = workload.get("task")
    return [field for field in FIELDS if task in field.tasks and (not field.needs or get(workload, field.needs) is not None)]
