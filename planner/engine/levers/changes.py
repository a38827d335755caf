"""Changes of a workload that reduce its memory, from the cheapest to the dearest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import LeverCost
from planner.engine.search.supply.node_types import most_gpus
from planner.engine.search.targets import LATENCY_WORDS
from planner.units import duration_text, percent_text
from planner.workload.tasks import LatencyLimit, Lengths, Lora, Sharding, Workload, trains

SIXTEEN_BIT = {None, "bf16", "fp16"}
LEAST_CONTEXT, LEAST_SEQUENCE = 256, 256
MOST_HALVINGS = 3
OFFLOADING_GPUS = 16
"""GPUs above which offloading is not offered: sharding over them leaves little to keep in host memory."""
MOST_GPUS = 16384
"""Number at which the search for more GPUs ends."""
WORKSTATION_GPUS = 2
"""GPUs up to which llama.cpp is offered in place of an engine for servers, which reserves more memory."""
LOOSER = 1.2
"""Factor by which a limit on latency, and a deadline, is loosened."""


class Change(msgspec.Struct, frozen=True):
    """One change of a workload."""

    keys: dict[str, Any]
    """Keys of the workload and their new values."""
    text: str
    costs: LeverCost
    worth: float
    """Slowdown that would be as bad as this change; a judgement, which only decides the order of levers."""

    @property
    def group(self) -> str:
        """Name of the setting that is changed; only the first change of a group that is enough is offered."""
        return "adapters" if "lora" in self.keys else next(iter(self.keys))


def combined(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    keys = {key: value for change in changes for key, value in change.keys.items()}
    kinds: tuple[LeverCost, ...] = get_args(LeverCost)
    dearest = max((change.costs for change in changes), key=kinds.index)
    return Change(keys, " + ".join(change.text for change in changes), dearest, sum(change.worth for change in changes))


def changes_of(workload: Workload, stored_as: str = "") -> list[Change]:
    """Every single change of `workload`, those of one group in growing strength. `stored_as`: format of the published model ('': 16 bit)."""
    found = _of_training(workload) if trains(workload.task) else _of_inference(workload, workload.weight_dtype or stored_as or None)
    return sorted([*found, *_of_both(workload)], key=lambda change: change.worth)


def _of_training(w: Workload) -> Iterator[Change]:
    if w.attention == "eager":
        yield Change({"attention": "flash"}, "flash attention", "time", 0.0)
    if w.loss in {None, "full"}:
        yield Change({"loss": "chunked"}, "chunked loss", "time", 0.0)
    for stage in _stages_above(w.sharding):
        yield Change({"sharding": stage}, f"ZeRO {stage[-1]}", "time", 0.0)
    for size in _halves(w.micro_batch, 1):
        yield Change({"micro_batch": size}, f"micro batch {size}", "time", 0.0)
    if w.checkpointing == "none" and w.attention == "eager":
        yield Change({"checkpointing": "selective"}, "recomputed attention scores", "time", 0.0)
    if w.checkpointing in {"none", "selective"}:
        yield Change({"checkpointing": "full"}, "recomputed activations (full checkpointing)", "time", 0.0)
    if w.optimizer in {None, "adamw", "adamw-fused"}:
        yield Change({"optimizer": "adamw-8bit"}, "8-bit AdamW", "precision", 0.1)
    few = most_gpus(w) <= OFFLOADING_GPUS
    if few and w.offload in {None, "none"} and w.optimizer != "none":
        yield Change({"offload": "optimizer"}, "optimizer states in host memory", "time", 0.2)
    if few and w.offload in {None, "none", "optimizer"}:
        yield Change({"offload": "parameters"}, "weights and optimizer states in host memory", "time", 0.3)
    if w.recipe != "bf16" and w.lora is None:
        yield Change({"recipe": "bf16"}, "all training state in 16 bit", "precision", 0.5)
    yield from _adapters(w)
    for length in list(_halves(w.sequence or 2048, LEAST_SEQUENCE))[:MOST_HALVINGS]:
        yield Change({"sequence": length}, f"sequences of {length:,} tokens", "job", 3.0)


def _stages_above(sharding: Sharding | None) -> tuple[Sharding, ...]:
    stages: tuple[Sharding, ...] = ("none", "zero1", "zero2", "zero3")
    return stages[stages.index(sharding) + 1 :] if sharding in stages else ()


def _adapters(w: Workload) -> Iterator[Change]:
    if w.lora is None:
        for base, text in (("bf16", "LoRA adapters"), ("nf4", "QLoRA: adapters on 4-bit weights")):
            keys = {"task": "finetune", "recipe": "bf16", "lora": Lora(rank=16, base=base)}
            yield Change(keys, text, "job", 2.0 if base == "bf16" else 2.5)
    elif w.lora.base in SIXTEEN_BIT | {"fp32"}:
        yield Change({"lora": msgspec.structs.replace(w.lora, base="nf4")}, "4-bit base weights (QLoRA)", "precision", 0.5)


def _of_inference(w: Workload, stored: str | None) -> Iterator[Change]:
    if w.kv_dtype in SIXTEEN_BIT:
        yield Change({"kv_dtype": "fp8"}, "8-bit KV cache", "precision", 0.05)
    full = stored in SIXTEEN_BIT | {"fp32", "tf32"}
    if full:
        yield Change({"weight_dtype": "fp8"}, "fp8 weights", "precision", 0.1)
    if full or stored in {"fp8", "int8"}:
        yield Change({"weight_dtype": "int4"}, "int4 weights", "precision", 0.5)
        if w.task != "prefill" and w.engine != "llama.cpp" and most_gpus(w) <= WORKSTATION_GPUS:
            yield Change({"weight_dtype": "q4_k_m", "engine": "llama.cpp"}, "4-bit weights (q4_k_m) in llama.cpp", "precision", 0.6)
    if isinstance(w.concurrency, int):
        for count in _halves(w.concurrency, 1):
            yield Change({"concurrency": count}, f"{count:,} at once instead of {w.concurrency:,}", "job", 3.0)
    for count in _halves(w.batch if w.task != "serve" else None, 1):
        yield Change({"batch": count}, f"batch of {count:,}", "time", 0.2)
    if w.task != "serve" and w.offload in {None, "none"}:
        yield Change({"offload": "parameters"}, "the weights that do not fit kept in host memory", "time", 0.65)
    for share, words in ((2, "half the context"), (4, "a quarter of the context"), (8, "an eighth of the context")):
        shorter = _shorter(w.input_tokens, share)
        if shorter is not None and (w.prefix_tokens or 0) < (shorter.mean if isinstance(shorter, Lengths) else shorter):
            yield Change({"input_tokens": shorter}, words, "job", 3.0)


def _shorter(tokens: int | Lengths | None, share: int) -> int | Lengths | None:
    """Input tokens ÷ `share`; None if that leaves too few to be the same work."""
    if isinstance(tokens, Lengths):
        whole = {"mean": tokens.mean, "p50": tokens.p50, "p95": tokens.p95}
        return Lengths(**{name: x / share for name, x in whole.items() if x}) if tokens.mean / share >= LEAST_CONTEXT else None
    return tokens // share if tokens is not None and tokens // share >= LEAST_CONTEXT else None


def _of_both(w: Workload) -> Iterator[Change]:
    if w.targets.headroom is None:
        yield Change(
            {"targets": msgspec.structs.replace(w.targets, headroom=0.02)}, f"headroom of {percent_text(0.02)}", "margin", 0.7
        )
    if most_gpus(w) < MOST_GPUS:
        yield Change({"max_gpus": MOST_GPUS}, f"up to {MOST_GPUS:,} GPUs", "hardware", 1.0)
    if w.gpus_considered:
        yield Change({"gpus_considered": []}, "any GPU of the catalogue", "hardware", 1.5)


def looser_limits(w: Workload, wanted: Mapping[LatencyLimit, float]) -> Change:
    """Limits on latencies changed to `wanted`, in seconds."""
    words = (
        f"{limit.share} {LATENCY_WORDS[limit.latency]}of {duration_text(seconds)} instead of {duration_text(limit.seconds)}"
        for limit, seconds in wanted.items()
    )
    targets = msgspec.structs.replace(w.targets, **{limit.name: seconds for limit, seconds in wanted.items()})
    return Change({"targets": targets}, " and ".join(words), "target", 1.0)


def met_by(w: Workload, answer: Answer) -> Change | None:
    """Limits on latencies that `answer` misses, loosened until it meets them; None if that needs more than a factor of `LOOSER`."""
    wanted = {}
    for limit in w.targets.latency_limits():
        latency = getattr(answer, f"{limit.latency}_s")
        figure = getattr(latency, limit.share) if latency is not None else None
        if figure is not None and figure.value > limit.seconds:
            unit = 10 ** (math.floor(math.log10(figure.value)) - 1)
            wanted[limit] = float(f"{math.ceil(figure.value / unit) * unit:.2g}")
    return looser_limits(w, wanted) if wanted and all(to <= LOOSER * limit.seconds for limit, to in wanted.items()) else None


def _halves(value: int | None, least: int) -> Iterator[int]:
    """Half of `value`, a quarter, … but not below `least`."""
    while value is not None and value // 2 >= least:
        value //= 2
        yield value
