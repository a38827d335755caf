"""The fields of the workload form: which a task has, and what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from planner.engine.job.engines import ENGINES, GENERIC
from planner.workload import tasks
from widgets.panes.workload.field import FINETUNE, GENERATE, PREFILL, RUNS, SERVE, TRAIN, TRAINS, Field
from widgets.panes.workload.offer_fields import OFFERS
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
    "bf16",
    "fp16",
    "fp8",
    "int8",
    "int4",
    "awq",
    "gptq-int4",
    "nf4",
    "mxfp4",
    "nvfp4",
    "q8_0",
    "q6_k",
    "q5_k_m",
    "q4_k_m",
    "fp32",
)


TRAINERS = tuple(name for name, records in ENGINES.items() if records[0].trains)
SERVERS = tuple(name for name, records in ENGINES.items() if records[0].generates and name != GENERIC)


def _target(percentile: int, what: str, about: str) -> Field:
    return Field(
        key=f"targets.p{percentile}_{what}_s",
        unit="s",
        tasks=(SERVE,),
        empty="none",
        about=f"{percentile} of 100 {about}",
    )


def _targets(percentile: int) -> tuple[Field, ...]:
    return (
        _target(percentile, "request", "are answered within this"),
        _target(percentile, "ttft", "first tokens within this"),
        _target(percentile, "tpot", "gaps between tokens"),
    )


MODEL: tuple[Field, ...] = (
    Field(key="model", kind="choice", about="by name, hub id, or config.json"),
    Field(key="task", kind="choice", choices=get_args(tasks.TaskName), words=tuple(TASK_WORDS.values())),
    Field(key="weight_dtype", kind="choice", choices=WEIGHT_FORMATS, tasks=RUNS),
    Field(key="kv_dtype", kind="choice", choices=get_args(tasks.KvDtype), tasks=RUNS),
    Field(key="recipe", kind="choice", choices=get_args(tasks.Recipe), words=RECIPE_WORDS, tasks=TRAINS),
    Field(key="optimizer", kind="choice", choices=get_args(tasks.Optimizer), tasks=TRAINS),
    Field(
        key="lora.rank",
        kind="count",
        tasks=(FINETUNE,),
        empty="no LoRA",
        about="of adapters; empty: all is tuned",
    ),
    Field(
        key="lora.base",
        kind="choice",
        choices=("bf16", "fp16", "int8", "nf4", "nf4-dq"),
        tasks=(FINETUNE,),
        needs="lora",
    ),
)
LOAD: tuple[Field, ...] = (
    Field(
        key="input_tokens",
        kind="lengths",
        unit="tokens",
        tasks=RUNS,
        about="of a prompt; or mean/p95: 600/1500",
    ),
    Field(
        key="output_tokens",
        kind="lengths",
        unit="tokens",
        tasks=(GENERATE, SERVE),
        about="of an answer; or mean/p95: 200/700",
    ),
    Field(
        key="prefix_tokens",
        kind="count",
        unit="tokens",
        tasks=(SERVE,),
        empty="none",
        about="of a prompt, in the prefix cache",
    ),
    Field(key="batch", kind="count", unit="seqs", tasks=(GENERATE, PREFILL), about="texts worked on side by side"),
    Field(key="request_rate_per_s", unit="req/s", tasks=(SERVE,), empty="none", about="requests that come, on average"),
    Field(
        key="daily_users",
        unit="a day",
        tasks=(SERVE,),
        empty="none",
        about="people on one day, instead of load",
    ),
    Field(
        key="targets.burst",
        kind="percent",
        unit="%",
        tasks=(SERVE,),
        about="of the load, which peaks add to it",
    ),
    Field(
        key="concurrency",
        kind="crowd",
        unit="reqs",
        tasks=(SERVE,),
        about="in flight; max: all that fit",
    ),
    Field(
        key="requests",
        unit="in all",
        tasks=(GENERATE, SERVE),
        empty="no end",
        about="of a job: for hours and dollars",
    ),
    Field(key="sequence", kind="count", unit="tokens", tasks=TRAINS, about="of one training sequence"),
    Field(
        key="global_batch",
        kind="count",
        unit="seqs",
        tasks=TRAINS,
        about="sequences a step, over all GPUs",
    ),
    Field(key="micro_batch", kind="count", unit="seqs", tasks=TRAINS, about="sequences a GPU takes at a time"),
    Field(
        key="train_tokens",
        unit="tokens",
        tasks=TRAINS,
        empty="no end",
        about="of a job, 15T: for hours, dollars",
    ),
)
LIMITS: tuple[Field, ...] = (
    *_targets(95),
    Field(
        key="targets.deadline_h",
        unit="h",
        tasks=(*TRAINS, GENERATE, SERVE),
        empty="none",
        about="the job has to end within this",
    ),
    Field(key="targets.budget_usd", unit="$", empty="none", about="of a job; of a service, a month"),
)
SEARCH: tuple[Field, ...] = (
    Field(key="max_gpus", kind="count", unit="GPUs", about="the search ends there"),
    Field(key="market", kind="choice", choices=get_args(tasks.Market)),
    Field(key="objective", kind="choice", choices=get_args(tasks.Objective)),
)
FINE: tuple[Field, ...] = (
    Field(key="engine", kind="choice", choices=TRAINERS, tasks=TRAINS),
    Field(key="engine", kind="choice", choices=SERVERS, tasks=RUNS),
    Field(key="checkpointing", kind="choice", choices=get_args(tasks.Checkpointing), tasks=TRAINS),
    Field(key="sharding", kind="choice", choices=get_args(tasks.Sharding), tasks=TRAINS),
    Field(
        key="disaggregated",
        kind="switch",
        choices=(NO, YES),
        words=("every replica reads prompts and decodes", "disaggregated: some replicas read prompts, the others decode"),
        tasks=(SERVE,),
    ),
    Field(
        key="batch_window_s",
        unit="s",
        tasks=(SERVE,),
        empty="none",
        about="holds requests this long: 0.03",
    ),
    Field(
        key="arrival_variation",
        unit="σ/mean",
        tasks=(SERVE,),
        empty="1",
        about="of gaps; 1: Poisson, 3: bursts",
    ),
    Field(
        key="max_num_seqs",
        kind="count",
        unit="seqs",
        tasks=(SERVE,),
        about="most in flight on a replica",
    ),
    Field(
        key="max_num_batched_tokens",
        kind="count",
        unit="tokens",
        tasks=(SERVE,),
        about="most tokens of one iteration",
    ),
    Field(
        key="images",
        unit="each",
        tasks=RUNS,
        empty="none",
        about="of a prompt; 0.3: one in three",
    ),
    Field(
        key="image_tokens",
        kind="count",
        tasks=RUNS,
        about="of each picture, in the prompt",
        needs="images",
    ),
    Field(
        key="kv_offload",
        kind="switch",
        choices=(NO, YES),
        words=("the GPU's memory alone", "the host's memory, too: prefixes are read over PCIe"),
        tasks=(SERVE,),
    ),
    Field(
        key="warmup_requests",
        kind="count",
        tasks=(SERVE,),
        empty="none",
        about="at first, which are not measured",
        needs="requests",
    ),
    *_targets(99),
    Field(key="dtype", kind="choice", choices=get_args(tasks.Dtype)),
    Field(key="attention", kind="choice", choices=get_args(tasks.Attention), tasks=TRAINS),
    Field(key="loss", kind="choice", choices=get_args(tasks.Loss), tasks=TRAINS),
    Field(key="offload", kind="choice", choices=get_args(tasks.Offload), tasks=TRAINS),
    Field(key="compile", kind="switch", choices=(NO, YES), words=("eager", "torch.compile"), tasks=TRAINS),
    Field(key="dataset_tokens", unit="tokens", tasks=TRAINS, empty="none", about="with epochs, instead of train on"),
    Field(key="epochs", tasks=TRAINS, empty="none", about="passes over the data set"),
    Field(key="targets.headroom", kind="percent", unit="%", about="of the memory, for fragmentation"),
    Field(key="power_limit_w", unit="W", empty="none", about="of each GPU, as nvidia-smi -pl"),
)
GROUPS: Mapping[str, tuple[Field, ...]] = {
    "": MODEL,
    "load": LOAD,
    "limits": LIMITS,
    "search": SEARCH,
    "offers": OFFERS,
    "advanced": FINE,
}
"""Heading -> its fields; those without a heading stand on top."""
FOLDED = ("offers", "advanced")
"""Groups that few people need, folded until somebody opens them."""
FIELDS = tuple(replace(field, group=group) for group, fields in GROUPS.items() for field in fields)


def fields_for(workload: Mapping[str, Any]) -> list[Field]:
    """The fields that make sense for a workload, in the order they stand."""
    task = workload.get("task")
    return [field for field in FIELDS if task in field.tasks and (not field.needs or get(workload, field.needs) is not None)]
