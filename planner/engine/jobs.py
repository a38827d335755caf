"""A workload with every choice made that does not depend on hardware: what the formulas read, and what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from planner.engine.companions import Held, held
from planner.engine.engines import Engine, find_engine
from planner.engine.memory.activations import Manner
from planner.engine.memory.footprint import NOTHING, Footprint, footprint
from planner.errors import Problems, nearest_names
from planner.workload.architecture import Architecture
from planner.workload.tasks import LATENCY_TARGETS, LORA_TARGETS, Lengths, Workload
from planner.workload.weights import DTYPE_BYTES, FORMATS, WeightFormat

RECIPES: dict[str, tuple[float, float, float, float]] = {
    # name: bytes per parameter of weights, gradients, master copy, and of autocast's cast copies of linear weights
    "fp32": (4, 4, 0, 0),
    "amp": (4, 4, 0, 2),
    "mixed": (2, 4, 4, 0),
    "bf16": (2, 2, 0, 0),
}
UNPACK_HOST_S = {"nf4": 70e-6, "fp4": 70e-6, "nf4-dq": 105e-6, "int8": 300e-6}
"""Host time that bitsandbytes adds to one product in eager mode: published rates of Llama 2 7B and 13B, Falcon 7B and phi-1.5 against
16 bit on one A100 (litgpt's table; 40 to 140, 90 to 140, 440 us)."""
EIGHT_BIT_STATE = 1 + 4 / 256
"""bitsandbytes block-wise states: one byte, and an FP32 absmax a block of 256."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Numbers of one resolved workload. Lengths in tokens, sizes in bytes, flags as 0 or 1 so that they can be columns."""

    task: str
    train: float
    adapters: float
    """Parameters of the LoRA adapters; 0: every parameter is trained."""
    dtype: str
    stored: str
    """Storage format of the linear weights."""
    linear_bytes: float
    """Bytes per stored parameter of linear layers."""
    other_bytes: float
    """Bytes per stored parameter of embedding, norms and head."""
    weight_bits_packed: float
    """1 when linear weights are unpacked on the fly to the compute dtype."""
    unpack_host_s: float
    """Host time one product of packed weights adds in eager mode."""
    frozen_bytes: float = 0.0
    """Weights of further models, as the next three: see `companions.Held`."""
    trained_beside: float = 0.0
    draft_cached: float = 0.0
    adapter_bytes: float = 0.0
    gptq: float
    """1 when linear weights are in GPTQ's format."""
    kv_bytes: float
    activation_bytes: float
    narrow_bytes: float
    """Bytes of an element the products compute in when that is below 16 bit; else 0."""
    gradient_bytes: float
    master_bytes: float
    cast_bytes: float
    state_bytes: float
    """Optimizer states per trained parameter."""
    state_traffic: float
    """Bytes an optimizer step moves per trained parameter."""
    autocast: float
    eager_attention: float
    logits_saved: float
    """Bytes per token and vocabulary entry that live when backward starts."""
    in_backward: float
    """The optimizer steps inside backward, layer by layer."""
    offload_optimizer: float
    offload_parameters: float
    offload_activations: float
    compiled: float

    sequence: float
    global_batch: float
    """Sequences per optimizer step; 0: one micro batch a rank."""
    micro_batch: float
    """0: to be searched."""
    batch: float
    input_tokens: float
    output_tokens: float
    prefix_tokens: float
    lockstep: float
    """Requests of one length at a fixed concurrency, which start and end together."""
    request_rate_per_s: float
    """0: not given."""
    concurrency: float
    """Concurrent requests of the whole deployment; 0: not given; inf: as many as fit."""
    memory_fraction: float
    """Share of the GPU the engine may take; 1: all of it."""
    headroom: float

    engine: Engine
    workload: Workload
    architecture: Architecture
    kept: Footprint = NOTHING
    assumed: dict[str, Any] = field(default_factory=dict)


class _Chooser:
    """Takes what was given, or a default that is then reported."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.assumed: dict[str, Any] = {}

    def __call__(self, name: str, default: Any) -> Any:
        given = getattr(self._workload, name)
        if given is None:
            self.assumed[name] = default
            return default
        return given


def resolve(workload: Workload, architecture: Architecture, where: str = "", *, headroom: float = 0.0) -> Job:
    """Fill in every default. Raises `UserError` naming each value that is missing, out of range or contradictory."""
    problems = Problems(where)
    choose = _Chooser(workload)
    train = workload.task in {"train", "finetune"}
    _check_numbers(workload, problems)
    if architecture.encoder and workload.task in {"generate", "serve"}:
        name = architecture.family
        problems.add(
            "task",
            f"{workload.task!r} is not possible: {name} is an encoder and generates nothing; use train, finetune or prefill.",
        )
    engine = find_engine(choose("engine", _usual_engine(workload)), where)
    if engine.release and "@" not in (workload.engine or ""):
        choose.assumed["engine_release"] = engine.release
    dtype = choose("dtype", "fp32" if train and workload.recipe == "fp32" else "bf16")
    parts = _training(workload, architecture, choose, problems) if train else _inference(architecture, choose, problems, dtype)
    lengths = _lengths(workload, choose, problems, train=train)
    beside = held(workload, architecture, problems)
    problems.raise_if_any()
    fraction = workload.memory_fraction if workload.memory_fraction is not None else engine.pool_fraction
    if not train and fraction is not None and workload.memory_fraction is None:
        choose.assumed["memory_fraction"] = fraction
    asked = workload.targets.headroom
    eager = choose("attention", "eager" if engine.eager_attention else "flash") == "eager"
    return Job(
        task=workload.task,
        train=float(train),
        dtype=dtype,
        activation_bytes=DTYPE_BYTES[dtype] if dtype in {"fp32", "tf32"} else 2.0,
        narrow_bytes=DTYPE_BYTES[dtype] if dtype in {"fp8", "int8", "fp4"} else 0.0,
        eager_attention=float(eager),
        compiled=float(choose("compile", default=False)) if train else float(bool(workload.compile)),
        memory_fraction=1.0 if train or fraction is None else fraction,
        headroom=headroom if asked is None else asked,
        engine=engine,
        workload=workload,
        architecture=architecture,
        kept=_footprint(workload, architecture, choose, engine, parts | {"eager": eager}) if train else NOTHING,
        assumed=choose.assumed,
        stored=workload.lora.base
        if train and workload.lora
        else "bf16"
        if train
        else workload.weight_dtype or choose.assumed["weight_dtype"],
        **_beside(beside),
        **parts,
        **lengths,
    )


_POSITIVE = (
    "micro_batch",
    "global_batch",
    "sequence",
    "train_tokens",
    "batch",
    "requests",
    "request_rate_per_s",
    "max_gpus",
    "price_usd_per_gpu_h",
)


def _check_numbers(workload: Workload, problems: Problems) -> None:
    for name in _POSITIVE:
        value = getattr(workload, name)
        if value is not None and value <= 0:
            problems.add(name, f"{value} is not accepted; it has to be above 0.")
    for name, most in (("arrival_variation", 10.0), ("batch_window_s", 60.0)):
        value = getattr(workload, name)
        if value is not None and not 0 <= value <= most:
            problems.add(name, f"{value} is not accepted; it has to be from 0 to {most:g}.")
        elif value and workload.request_rate_per_s is None:
            problems.add("request_rate_per_s", f"missing; {name} = {value:g} says how requests arrive.")
    if workload.memory_fraction is not None and not 0 < workload.memory_fraction <= 1:
        problems.add("memory_fraction", f"{workload.memory_fraction} is not accepted; it has to be above 0 and at most 1.")
    if isinstance(workload.concurrency, int) and workload.concurrency <= 0:
        problems.add("concurrency", f"{workload.concurrency} is not accepted; it has to be above 0, or 'max'.")
    if workload.prefix_tokens is not None:
        given = workload.input_tokens.mean if isinstance(workload.input_tokens, Lengths) else workload.input_tokens
        if workload.prefix_tokens < 0 or (given is not None and workload.prefix_tokens >= given):
            problems.add(
                "prefix_tokens", f"{workload.prefix_tokens} is not accepted; it has to be at least 0 and below input_tokens."
            )
    amount = workload.train_tokens if workload.task in {"train", "finetune"} else workload.requests
    if workload.targets.deadline_h is not None and amount is None:
        key = "train_tokens" if workload.task in {"train", "finetune"} else "requests"
        problems.add(key, f"missing; a deadline of {workload.targets.deadline_h:g} h needs to know how much there is to do.")
    if workload.targets.headroom is not None and not 0 <= workload.targets.headroom < 1:
        problems.add("targets.headroom", f"{workload.targets.headroom} is not accepted; it has to be at least 0 and below 1.")
    if workload.targets.burst < 0:
        problems.add("targets.burst", f"{workload.targets.burst} is not accepted; it has to be at least 0.")
    for name in ("deadline_h", "budget_usd", *LATENCY_TARGETS):
        value = getattr(workload.targets, name)
        if value is not None and value <= 0:
            problems.add(f"targets.{name}", f"{value} is not accepted; it has to be above 0.")


def _beside(found: Held) -> dict[str, float]:
    return {
        "frozen_bytes": found.frozen_bytes,
        "trained_beside": found.trained,
        "draft_cached": found.cached_per_token,
        "adapter_bytes": found.adapter_bytes,
    }


def _usual_engine(workload: Workload) -> str:
    """What runs a workload that does not say.

    PEFT on transformers tunes adapters and runs bitsandbytes' formats, Transformer Engine (in Megatron) trains in FP8, vLLM serves.
    """
    if workload.task in {"train", "finetune"}:
        return "transformers" if workload.lora else "megatron" if workload.dtype == "fp8" else "torch"
    if workload.weight_dtype in UNPACK_HOST_S:
        return "transformers"
    return "vllm" if workload.task == "serve" else "generic"


def _format(name: str, key: str, architecture: Architecture, problems: Problems) -> tuple[float, float, float]:
    """(mean bytes per parameter of the layers, of all else, packed) of a storage format."""
    found = FORMATS.get(name)
    if found is None:
        problems.add(key, f"{name!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", nearest_names(name, FORMATS))
        return 2.0, 2.0, 0.0
    linear, other = _stored(found, architecture)
    return linear, other, float(found.bits < 16 and name not in {"fp8", "nvfp4"})


@lru_cache(maxsize=256)
def _stored(stored: WeightFormat, architecture: Architecture) -> tuple[float, float]:
    found = stored.stored(architecture)
    return found.linear, found.other


def _training(workload: Workload, architecture: Architecture, choose: _Chooser, problems: Problems) -> dict[str, float]:
    recipe = choose("recipe", "bf16" if workload.lora or workload.task == "finetune" else "mixed")
    optimizer = choose("optimizer", "adamw")
    weight, gradient, master, cast = RECIPES[recipe]
    linear = other = weight
    packed, adapters = 0.0, 0.0
    if workload.lora is not None:
        if workload.lora.rank <= 0:
            problems.add("lora.rank", f"{workload.lora.rank} is not accepted; it has to be above 0.")
        targets = LORA_TARGETS if workload.lora.targets == "all-linear" else tuple(workload.lora.targets)
        adapters = float(architecture.lora_parameters(workload.lora.rank, targets))
        linear, other, packed = _format(workload.lora.base, "lora.base", architecture, problems)
        sixteen = recipe == "bf16" and workload.lora.base not in {"nf4", "nf4-dq", "fp4", "int8"}
        gradient, cast = (2.0 if sixteen else 4.0), 0.0
        master = gradient  # the adapters' own weights, which stand beside the frozen base
    width = 2.0 if recipe == "bf16" and workload.lora is None else 4.0
    states, traffic = _optimizer(optimizer, width, architecture)
    if optimizer == "none":
        gradient, master, cast = 0.0, 0.0, 0.0
    loss = choose("loss", "full")
    half = recipe != "fp32"
    return {
        "adapters": adapters,
        "linear_bytes": linear,
        "other_bytes": other,
        "weight_bits_packed": packed,
        "unpack_host_s": UNPACK_HOST_S.get(workload.lora.base, 0.0) if workload.lora else 0.0,
        "gptq": 0.0,
        "kv_bytes": 0.0,
        "gradient_bytes": gradient,
        "master_bytes": master,
        "cast_bytes": cast,
        "state_bytes": states,
        "state_traffic": traffic,
        "autocast": float(recipe == "amp"),
        "logits_saved": {"full": 14.0 if half else 12.0, "chunked": 14.0 / 8, "fused": 0.25}[loss],
        "in_backward": float(bool(workload.optimizer_in_backward)),
        "offload_optimizer": float(choose("offload", "none") in {"optimizer", "parameters"}),
        "offload_parameters": float(workload.offload == "parameters"),
        "offload_activations": float(workload.offload == "activations"),
    }


def _footprint(
    workload: Workload, architecture: Architecture, choose: _Chooser, engine: Engine, parts: dict[str, float]
) -> Footprint:
    """What the job keeps; adapters on a packed base are FP32 and multiplied under autocast, as `peft` prepares them."""
    recipe, lora = choose("recipe", choose.assumed.get("recipe")), workload.lora
    packed = parts["weight_bits_packed"] > 0
    manner = Manner(
        wide=4.0 if recipe == "fp32" else 2.0,
        residual=4.0 if recipe == "fp32" or (recipe == "amp" and lora is None) else 2.0,
        autocast=recipe == "amp" or packed,
        fused=engine.fused_elementwise or bool(workload.compile),
        eager=bool(parts["eager"]),
        sequence=float(choose("sequence", 2048)),
        adapted=None if lora is None else frozenset(LORA_TARGETS if lora.targets == "all-linear" else lora.targets),
        rank=float(lora.rank if lora else 0),
        adapter_bytes=parts["gradient_bytes"] if lora else 2.0,
    )
    optimizer, loss = (choose(name, choose.assumed.get(name)) for name in ("optimizer", "loss"))
    return footprint(architecture, manner, recipe=recipe, optimizer=optimizer, loss=loss)


def _optimizer(name: str, width: float, architecture: Architecture) -> tuple[float, float]:
    """(state bytes, bytes moved by one step) per trained parameter; `width`: bytes of a full state.

    Muon keeps a momentum of the layers' matrices and leaves embedding and head to AdamW.
    """
    factored = width * (1 / architecture.width + 1 / max(1, architecture.ffn))
    states = {
        "adamw": 2 * width,
        "adamw-8bit": 2 * EIGHT_BIT_STATE,
        "paged-adamw-8bit": 2 * EIGHT_BIT_STATE,
        "adafactor": factored,
        "sgd": 0.0,
        "sgd-momentum": width,
        "muon": width * (1 + (architecture.embedding + architecture.head) / architecture.total),
        "none": 0.0,
    }[name]
    return states, 0.0 if name == "none" else 2 * states + 3 * width


def _inference(architecture: Architecture, choose: _Chooser, problems: Problems, dtype: str) -> dict[str, float]:
    stored = choose("weight_dtype", dtype if dtype != "tf32" else "fp32")
    linear, other, packed = _format(stored, "weight_dtype", architecture, problems)
    kv = choose("kv_dtype", "bf16" if dtype in {"bf16", "fp8", "fp4", "int8"} else "fp32" if dtype in {"fp32", "tf32"} else "fp16")
    nothing = dict.fromkeys(
        (
            "adapters",
            "gradient_bytes",
            "master_bytes",
            "cast_bytes",
            "state_bytes",
            "state_traffic",
            "autocast",
            "logits_saved",
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


def _lengths(workload: Workload, choose: _Chooser, problems: Problems, *, train: bool) -> dict[str, float]:
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
            concurrency > 0 and not isinstance(workload.input_tokens, Lengths) and not isinstance(workload.output_tokens, Lengths)
        ),
        "prefix_tokens": float(min(workload.prefix_tokens or 0, given - 1)),
        "request_rate_per_s": float(workload.request_rate_per_s or 0.0),
        "concurrency": concurrency,
    }
