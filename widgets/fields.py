"""The fields of the workload form: which a task has, how a value is typed, and where it goes in the workload."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from planner.units import is_known
from planner.workload import tasks

AUTO = ""
"""What an empty field means: choose for me."""

_SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}

TRAIN, FINETUNE, GENERATE, SERVE, PREFILL = "train", "finetune", "generate", "serve", "prefill"
TRAINS = (TRAIN, FINETUNE)
RUNS = (GENERATE, SERVE, PREFILL)
ALL = (*TRAINS, *RUNS)

TASK_WORDS = {
    TRAIN: "train from scratch",
    FINETUNE: "tune a trained model",
    GENERATE: "a fixed batch of texts",
    SERVE: "many users at once",
    PREFILL: "read prompts only",
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One line of the form."""

    key: str
    """Dotted name in the workload."""
    label: str
    kind: Literal["choice", "count", "number", "percent", "lengths", "crowd", "text"] = "number"
    unit: str = ""
    choices: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ALL
    accepts: str = ""
    """What may be typed, in words."""
    needs: str = ""
    """Only shown while this other key has a value."""


FIELDS: tuple[Field, ...] = (
    Field(key="model", label="model", kind="choice"),
    Field(key="task", label="task", kind="choice", choices=get_args(tasks.TaskName)),
    Field(key="weight_dtype", label="weights", kind="choice", choices=WEIGHT_FORMATS, tasks=RUNS),
    Field(key="kv_dtype", label="KV cache", kind="choice", choices=get_args(tasks.KvDtype), tasks=RUNS),
    Field(key="input_tokens", label="input", kind="lengths", unit="tokens", tasks=RUNS),
    Field(key="output_tokens", label="output", kind="lengths", unit="tokens", tasks=(GENERATE, SERVE)),
    Field(key="prefix_tokens", label="cached", kind="count", unit="tokens", tasks=(SERVE,)),
    Field(key="batch", label="batch", kind="count", unit="seqs", tasks=(GENERATE, PREFILL)),
    Field(key="request_rate_per_s", label="load", unit="req/s", tasks=(SERVE,)),
    Field(key="targets.burst", label="burst", kind="percent", unit="%", tasks=(SERVE,)),
    Field(key="targets.p95_request_s", label="p95 whole", unit="s", tasks=(SERVE,)),
    Field(key="targets.p95_ttft_s", label="p95 first", unit="s", tasks=(SERVE,)),
    Field(key="targets.p95_tpot_s", label="p95 next", unit="s", tasks=(SERVE,)),
    Field(key="targets.p99_request_s", label="p99 whole", unit="s", tasks=(SERVE,), needs="targets.p99_request_s"),
    Field(key="targets.p99_ttft_s", label="p99 first", unit="s", tasks=(SERVE,), needs="targets.p99_ttft_s"),
    Field(key="targets.p99_tpot_s", label="p99 next", unit="s", tasks=(SERVE,), needs="targets.p99_tpot_s"),
    Field(key="batch_window_s", label="gather", unit="s", tasks=(SERVE,), needs="batch_window_s"),
    Field(key="arrival_variation", label="uneven", unit="σ/mean", tasks=(SERVE,), needs="arrival_variation"),
    Field(key="concurrency", label="at once", kind="crowd", unit="users", tasks=(SERVE,)),
    Field(key="requests", label="requests", unit="in all", tasks=(GENERATE, SERVE)),
    Field(key="recipe", label="recipe", kind="choice", choices=get_args(tasks.Recipe), tasks=TRAINS),
    Field(key="optimizer", label="optimizer", kind="choice", choices=get_args(tasks.Optimizer), tasks=TRAINS),
    Field(key="lora.rank", label="LoRA rank", kind="count", unit="or full", tasks=(FINETUNE,)),
    Field(
        key="lora.base",
        label="LoRA base",
        kind="choice",
        choices=("bf16", "fp16", "int8", "nf4", "nf4-dq"),
        tasks=(FINETUNE,),
        needs="lora",
    ),
    Field(key="sequence", label="sequence", kind="count", unit="tokens", tasks=TRAINS),
    Field(key="global_batch", label="batch", kind="count", unit="seqs", tasks=TRAINS),
    Field(key="micro_batch", label="micro", kind="count", unit="seqs", tasks=TRAINS),
    Field(key="checkpointing", label="checkpoint", kind="choice", choices=get_args(tasks.Checkpointing), tasks=TRAINS),
    Field(key="sharding", label="sharding", kind="choice", choices=get_args(tasks.Sharding), tasks=TRAINS),
    Field(key="train_tokens", label="train on", unit="tokens", tasks=TRAINS),
    Field(key="targets.deadline_h", label="deadline", unit="h", tasks=(*TRAINS, GENERATE, SERVE)),
    Field(key="targets.budget_usd", label="budget", unit="$"),
    Field(key="max_gpus", label="at most", kind="count", unit="GPUs"),
    Field(key="market", label="market", kind="choice", choices=get_args(tasks.Market)),
    Field(key="objective", label="objective", kind="choice", choices=get_args(tasks.Objective)),
)


def fields_for(workload: Mapping[str, Any]) -> list[Field]:
    """The fields that make sense for a workload, in the order they stand."""
    task = workload.get("task")
    return [field for field in FIELDS if task in field.tasks and (not field.needs or get(workload, field.needs) is not None)]


def get(workload: Mapping[str, Any], dotted: str) -> Any:
    """The value at a dotted key, or None."""
    value: Any = workload
    for name in dotted.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def turned_to(workload: Mapping[str, Any], task: str) -> dict[str, Any]:
    """A copy for another task; an engine that was named stays only where both train, or neither does."""
    changed = put(workload, "task", task)
    if tasks.trains(task) != tasks.trains(get(workload, "task")):
        changed.pop("engine", None)
    return changed


def put(workload: Mapping[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    """A copy with `value` at a dotted key; None takes the key out, and a table left empty with it."""
    changed: dict[str, Any] = copy.deepcopy(dict(workload))
    *tables, last = dotted.split(".")
    table = changed
    for name in tables:
        inner = table.get(name)
        if not isinstance(inner, dict):
            inner = table[name] = {}
        table = inner
    if value is None:
        table.pop(last, None)
        if tables and (not table or dotted == "lora.rank"):
            changed.pop(tables[0], None)
    else:
        table[last] = value
    return changed


def parse(field: Field, text: str) -> Any:
    """The value typed, or None for an empty field; raises ValueError with what is accepted."""
    text = text.strip()
    if text == AUTO:
        return None
    if field.kind in {"choice", "text"}:
        return text
    if field.kind == "lengths":
        return _parse_lengths(text)
    if field.kind == "crowd" and text.casefold() == "max":
        return "max"
    number = parse_number(text)
    if field.kind in {"count", "crowd"}:
        if number != int(number) or number < 0:
            such = "512, 4k or max" if field.kind == "crowd" else "512 or 4k"
            raise ValueError(f"{text!r} is no whole number, such as {such}.")
        return int(number)
    if number < 0:
        raise ValueError(f"{text!r} is below 0.")
    if field.kind == "percent":
        return number / 100
    return int(number) if number == int(number) else number


def _parse_lengths(text: str) -> Any:
    """'600' -> 600; '600/1500' -> mean and p95."""
    mean, slash, p95 = text.partition("/")
    numbers = [parse_number(part) for part in ((mean, p95) if slash else (mean,))]
    if slash:
        return {"mean": numbers[0], "p95": numbers[1]}
    if numbers[0] != int(numbers[0]):
        return {"mean": numbers[0]}
    return int(numbers[0])


def parse_number(text: str) -> float:
    """'1,000', '4k', '1.5B', '15T', '3e9'; raises ValueError with what is accepted."""
    plain = text.strip().replace(",", "").replace("_", "").replace(" ", "")
    scale = _SUFFIXES.get(plain[-1:].casefold(), 1.0)
    try:
        number = float(plain[:-1] if scale != 1.0 else plain) * scale
    except ValueError:
        raise ValueError(f"{text!r} is no number; 1,000, 4k, 1.5B and 3e9 are.") from None
    if not is_known(number):
        raise ValueError(f"{text!r} is no number; 1,000, 4k, 1.5B and 3e9 are.")
    return float(f"{number:.15g}")


def show(field: Field, value: Any) -> str:
    """A value as the form types it; the opposite of `parse`."""
    if value is None:
        return AUTO
    if field.kind == "lengths" and isinstance(value, Mapping):
        mean, p95 = value.get("mean"), value.get("p95")
        return number_text(mean) + (f"/{number_text(p95)}" if p95 else "")
    if isinstance(value, Mapping):
        return str(value.get("_name_or_path") or value.get("model_type") or "own config")
    if field.kind == "percent":
        return number_text(float(f"{value * 100:.12g}"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return str(value)


def number_text(value: float | None) -> str:
    """A number the way people type it: 15000000000000 -> '15T', 16.7 -> '16.7', 8192 -> '8192'."""
    if value is None:
        return AUTO
    for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= scale and round(value / scale, 4) == value / scale:
            return f"{value / scale:.12g}{suffix}"
    return f"{int(value)}" if value == int(value) else f"{value:.6g}"
