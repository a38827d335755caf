"""Rules that convert a row of published measurements to a request, each a table or one short function.

A row that does not state enough for a request is left out with the reason (`NotPredicted`). Values that a source leaves open and that
hardly matter are filled in as described at the rule. Names are looked up exactly, in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from planner.workload.published.names import model_key, named_format, published_names
from planner.workload.tasks import LORA_TARGETS, Dtype, KvDtype
from planner.workload.traffic.lengths import as_conversations

Row = Mapping[str, str]

NODE_GPUS = 8
"""GPUs above which a layout has to be stated: inside one node it is tensor or data parallelism, whichever the engine uses."""
UNSTATED_PROMPT_TOKENS, UNSTATED_OUTPUT_TOKENS = 1, 128
"""Tokens for 'short prompt' and 'near-empty context', and output tokens of a single stream where the source does not state them."""
BLOOM_FABRIC_BYTES_PER_S = 4 * 12.5e9 / NODE_GPUS
PAGE_MONTHS = {"fms-fsdp": "2024-03"}
"""Framework without a release -> month of the first publication of its numbers (pytorch.org/blog/maximizing-training)."""
TRANSFORMERS_MONTHS = {"4.45": "2024-09", "4.48": "2025-01"}
"""Release of transformers that a program using it names -> its month (PyPI)."""
QUEUED = {(1024, 1024): 3000, (8192, 1024): 1500, (1024, 8192): 1500, (32768, 1024): 1000, (1024, 32768): 1000}
"""(tokens in, out) -> requests that `trtllm-bench throughput` queues at once (TensorRT-LLM 1.1, perf-overview, "Preparing a Dataset")."""
GRAPH_STEP = 64
"""Multiple of --max_num_tokens in InferenceX's scripts, and the number added before rounding up."""
PADDED_GPT_VOCABULARY = 51200
"""Megatron's GPT-2 vocabulary, padded for tensor parallelism."""


class NotPredicted(Exception):  # noqa: N818  # an expected outcome: the source states too little, or something that is not modelled
    """The reason why no request can be made from a row."""


def request_fields(row: Row, config_of: Callable[[str], Any]) -> dict[str, Any]:
    """Request fields for the experiment in `row`; raises `NotPredicted`. `config_of`: a model's config or name, by its key."""
    task = published_names().tasks.get(row["task"])
    if task is None:
        raise NotPredicted(f"task {row['task']}")
    fields = {"model": _model(row, config_of), "gpu": row["gpu"], "task": task, "gpus": whole(row, "n_gpus") or 1}
    fields |= _layout(row, fields["gpus"]) | _precision(row) | _engine(row)
    fields |= _inferencex(row, fields)
    if row["kv_precision"]:
        fields["kv_dtype"] = row["kv_precision"].lower()
        if fields["kv_dtype"] not in get_args(KvDtype):
            raise NotPredicted(f"cache of {row['kv_precision']} not modelled")
    return fields | {"generate": _lengths, "prefill": _lengths, "serve": _service}.get(task, _training)(row, fields)


def whole(row: Row, column: str) -> int | None:
    """A whole number, None if the cell is empty."""
    return int(float(row[column])) if row[column] else None


def _model(row: Row, config_of: Callable[[str], Any]) -> Any:
    """The model by its key; GPT and BLOOM by stated sizes (GPT-2's shape: learned positions, plain MLP of 4 widths, tied head)."""
    key = model_key(row["model"])
    found = config_of(key)
    layers, width, heads = (whole(row, column) for column in ("n_layers", "d_model", "n_heads"))
    if found is not None:
        return found
    if re.match(r"gpt|bloom", key) and layers and width and heads:
        sizes = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": whole(row, "seq_len") or 2048}
        return {"model_type": "gpt2", "vocab_size": whole(row, "vocab") or PADDED_GPT_VOCABULARY, **sizes}
    raise NotPredicted(f"architecture of {row['model']} not known")


def _layout(row: Row, gpus: int) -> dict[str, Any]:
    """Degrees as stated.

    A layer split means pipeline stages, the only layout of early ExLlama; 'PCIe not NVLink' in the note overrides the catalogue's link.
    BLOOM's nodes of eight GPUs had four links of 100 Gb/s (arXiv:2211.05100 §3.4).
    """
    degrees = {"tp": "tp", "pp": "pp", "dp": "dp", "cp": "cp", "ep": "ep", "virtual_stages": "vp"}
    stated = {ours: count for ours, theirs in degrees.items() if (count := whole(row, theirs))}
    split = row["sharding"].strip().lower() == "layer split" or row["framework"].lower().startswith("exllama")
    if split and gpus > 1:
        stated |= {"pp": gpus, "tp": 1}
    slower = {"fabric": BLOOM_FABRIC_BYTES_PER_S} if row["framework"].startswith("Megatron-DeepSpeed") and gpus > NODE_GPUS else {}
    return stated | slower | ({"link": "pcie"} if "PCIe not NVLink" in row["note"] and gpus > 1 else {})


def _inferencex(row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in InferenceX's scripts that aiconfigurator's table of its runs leaves out (SemiAnalysisAI/InferenceX, benchmarks, 2025-12).

    A run uses the GPUs of one node, with one rank of experts or as many as of tensors or replicas (--tp_size=$TP --ep_size=$TP). The table
    counts some ranks of experts twice. Ids have the original numbers (tp8_ep8 for 64 ranks); older ids do not, and 64 ranks with 8 of
    experts mean 8. TensorRT-LLM computes one prompt in an iteration (--max_num_tokens of a prompt and the sequences, in multiples of 64).
    """
    if "InferenceX run" not in row["note"]:
        return {}
    tp, dp, ep = (fields.get(name, 1) for name in ("tp", "dp", "ep"))
    layout: dict[str, Any] = {}
    named = re.search(r"_tp(\d+)(?:_0)?_ep(\d+)_", row["note"])
    if ep > 1 and named and tp * dp != int(named[1]):
        layout = {"tp": int(named[1]), "dp": None, "ep": int(named[2]), "gpus": int(named[1])}
    elif ep > 1 and not named and tp * dp == ep**2:
        layout = {"tp" if tp > 1 else "dp": ep, "gpus": ep}
    inputs, clients = whole(row, "isl"), whole(row, "concurrency")
    if row["framework"].startswith("TensorRT-LLM") and inputs and clients:
        replicas = layout.get("dp", dp) or 1
        layout["max_num_batched_tokens"] = (clients // replicas + inputs + 2 * GRAPH_STEP - 1) // GRAPH_STEP * GRAPH_STEP
    return layout


def _precision(row: Row) -> dict[str, Any]:
    """Compute dtype, and the stored weights from the column or else from the model's name."""
    names = published_names()
    word = re.split(r"[-\s]", row["precision"].lower())[0]
    dtype = {"dtype": names.dtypes.get(word, word)} if word else {}
    if dtype and dtype["dtype"] not in get_args(Dtype):
        raise NotPredicted(f"precision {row['precision']} not modelled")
    given = row["weight_quant"].strip().lower() or named_format(row["model"])
    return dtype | ({"weight_dtype": names.weights.get(given, given)} if given else {})


def _engine(row: Row) -> dict[str, Any]:
    """The engine, with its release where the framework column gives the engine's own; its attention kernels where the note states them.

    The rows that fms-acceleration compares itself with are TRL's own way of QLoRA. llm-perf-bench runs llama.cpp's `main` of 2023: renamed
    in 2024-06, and without the split by layers that came in 2024-01 (ggml-org/llama.cpp#4766).
    """
    framework = row["framework"].strip().lower()
    if row["note"].startswith("baseline-peft-bnb"):
        return {"engine": "trl"} | _attention(row)
    if framework == "llama.cpp" and "/llm-perf-bench@" in row["source"]:
        return {"engine": "llama.cpp@2023-08"} | _attention(row)
    for known in published_names().engines:
        if framework.startswith(known.begins):
            rest = framework[len(known.begins) :].split()
            release = rest[0] if known.numbered and rest and re.match(r"[vb]?\d|[a-z]{3}-20\d\d", rest[0]) else ""
            return {"engine": f"{known.engine}@{release}" if release else known.engine} | _attention(row)
    return _attention(row)


def with_release(fields: dict[str, Any], row: Row) -> dict[str, Any]:
    """`fields` with the release of PyTorch that the framework column states, or else the month of the program or of its page.

    A program on transformers ran the release of it that is stated with it.
    """
    framework = row["framework"].strip().lower()
    below = re.search(r"\btransformers (\d+\.\d+)", framework)
    if fields.get("engine") == "fms-acceleration" and below and below[1] in TRANSFORMERS_MONTHS:
        return fields | {"engine": f"fms-acceleration@{TRANSFORMERS_MONTHS[below[1]]}"}
    of_torch = any(framework.startswith(known.begins) for known in published_names().engines if known.engine == "torch")
    if fields.get("engine") != "torch" or not of_torch:
        return fields
    named = re.search(r"\btorch (\d+\.\d+(?:\.\d+\.dev\d+)?)", framework) or re.search(r"\b(20\d\d-\d\d)\b", framework)
    release = named[1] if named else PAGE_MONTHS.get(framework)
    return fields | {"engine": f"torch@{release}"} if release else fields


def _attention(row: Row) -> dict[str, Any]:
    """Kind of attention: 'attention=fa2' and similar in the note.

    Eager before FlashAttention (2022): Megatron and its fork with DeepSpeed (BLOOM, arXiv:2211.05100), and the BERT of NVIDIA's DeepLearningExamples.
    """
    said = re.search(r"\battention=(\w+)", row["note"])
    if said and said[1] in {"fa2", "bettertransformer", "sdpa", "flash"}:
        return {"attention": "flash"}
    old = re.search(r"\(SC21\)|2205\.05198|^Megatron-DeepSpeed|DeepLearningExamples", row["framework"])
    return {"attention": "eager"} if old or (said and said[1] == "eager") else {}


def _lengths(row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    batch = whole(row, "micro_batch") or whole(row, "concurrency") or 1
    output = 1 if fields["task"] == "prefill" else UNSTATED_OUTPUT_TOKENS
    prompt = whole(row, "isl") or UNSTATED_PROMPT_TOKENS
    passes = re.search(r"\bn_ubatch (\d+)", row["note"])
    chunk = {"max_num_batched_tokens": int(passes[1])} if passes else {}
    return {"batch": batch, "input_tokens": prompt, "output_tokens": whole(row, "osl") or output} | chunk


def _service(row: Row, _fields: Mapping[str, Any]) -> dict[str, Any]:
    """Lengths, and the load: concurrency, else a rate, else as many as fit; the number of requests if the note has it."""
    if not (row["isl"] and row["osl"]):
        raise NotPredicted("token lengths not stated")
    load: dict[str, Any] = {"concurrency": whole(row, "concurrency") or "max"}
    if row["request_rate"] and not row["concurrency"]:
        load = {"request_rate_per_s": float(row["request_rate"])}
    if counted := re.search(r"\b(\d+) (?:requests|prompts)\b", row["note"]):
        load["requests"] = int(counted[1])
    inputs, outputs = whole(row, "isl") or 0, whole(row, "osl") or 0
    if re.search(r"offline maximum throughput, all requests queued, fixed lengths", row["note"]):
        return {"input_tokens": inputs, "output_tokens": {"mean": outputs, "p50": outputs}, **load, **_queued(inputs, outputs)}
    if "ShareGPT" in row["note"]:
        spread = {"input_tokens": as_conversations(inputs), "output_tokens": as_conversations(outputs)}
        return {name: {"mean": lengths.mean, "p50": lengths.p50} for name, lengths in spread.items()} | load
    return {"input_tokens": inputs, "output_tokens": outputs, **load}


def _queued(inputs: int, outputs: int) -> dict[str, int]:
    """Number of requests that the page states for lengths in powers of two; 1,000 tokens count as 1,024."""
    count = QUEUED.get((1024 if inputs == 1000 else inputs, 1024 if outputs == 1000 else outputs))
    return {"requests": count} if count else {}


def _training(row: Row, fields: dict[str, Any]) -> dict[str, Any]:
    if not row["seq_len"] or not row["micro_batch"]:
        raise NotPredicted("sequence length or micro batch not stated")
    sharding = re.split(r"=| \(", row["sharding"].strip().lower())[0]
    if fields["gpus"] > NODE_GPUS and not sharding and not any(name in fields for name in ("tp", "pp", "dp")):
        raise NotPredicted("layout of more than one node not stated")
    optimizer, checkpointing = row["optimizer"].strip().lower(), row["checkpointing"].strip().lower().partition(":")[0]
    names = published_names()
    for given, known, what in (
        (optimizer, names.optimizers, "optimizer"),
        (sharding, names.shardings, "sharding"),
        (checkpointing, names.checkpointing, "checkpointing"),
    ):
        if given and given not in known:
            raise NotPredicted(f"{what} {given} not modelled")
    found = {
        "sequence": whole(row, "seq_len"),
        "micro_batch": whole(row, "micro_batch"),
        "global_batch": whole(row, "global_batch"),
        "sharding": names.shardings[
            sharding or ("zero1" if re.match(r"nemo|megatron-bridge", row["framework"].lower()) else "none")
        ],
        "checkpointing": _checkpointing(row, names.checkpointing.get(checkpointing, "none")),
        "optimizer": names.optimizers.get(optimizer),
        "recipe": _recipe(row),
        "compile": True if re.search(r"torch\.compile|fused kernels", row["note"]) else None,
        "loss": "chunked" if row["framework"].lower().startswith("litgpt") else None,  # its fine-tuning scripts: 128 tokens a chunk
    } | _torchtune(row)
    if row["task"] in {"finetune_lora", "finetune_qlora"}:
        stored = fields.pop("weight_dtype", None) or ("nf4" if row["task"] == "finetune_qlora" else "bf16")
        found["lora"] = _adapters(row) | {"base": stored}
    return {name: value for name, value in found.items() if value is not None}


def _checkpointing(row: Row, named: str) -> str:
    """Checkpointing as named; torchtitan's "selective" is by operators, fms-fsdp's of whole blocks (all of them by default)."""
    framework = row["framework"].lower()
    if named == "selective" and framework.startswith(("torchtitan", "fms-fsdp")):
        return "selective-op" if framework.startswith("torchtitan") else "full"
    return named


def _recipe(row: Row) -> str:
    """Format of the training state: FP32 as named, autocast for '-mixed', else 16-bit parameters with FP32 master weights.

    All 16-bit where the precision is 'true', or a fine-tuning states nothing else. Adapters are FP32 where the note states it.
    """
    precision = row["precision"].lower()
    if precision in {"fp32", "float32", "32-true", "tf32", "tf32/fp32"}:
        return "fp32"
    if precision.endswith("-mixed"):
        return "amp"
    if precision.endswith(" amp"):
        return "mixed" if "DeepLearningExamples" in row["framework"] else "amp"  # apex, opt_level O2: weights in 16 bit
    if precision in {"bf16-true", "16-true"}:
        return "bf16"
    if row["task"] == "pretrain" or re.match(r"nemo|megatron|.*deepspeed", row["framework"].lower()):
        return "mixed"
    return "mixed" if "adapter weights fp32" in row["note"] and row["task"] != "finetune_full" else "bf16"


def _adapters(row: Row) -> dict[str, Any]:
    """Rank and targets as stated; unstated: rank 8 (the libraries' default) on all linear layers, NeMo's 32 on query, key and value.

    NeMo: megatron_gpt_finetuning_config.yaml, adapter_dim and target_modules.
    """
    note = row["note"]
    method = re.search(r"\bmethod=(\w+)", note)
    if (method and method[1] != "LORA") or re.match(r"litgpt adapter", row["framework"]):
        raise NotPredicted("an adapter that is not LoRA")
    rank = re.search(r"\b(?:lora_)?r=(\d+)", note)
    usual, targets = (32, ["q", "k", "v"]) if row["framework"].lower().startswith("nemo") else (8, "all-linear")
    listed = re.search(r"\btarget=\[([^\]]*)\]", note)
    if listed:
        targets = [name for name in LORA_TARGETS if f"'{name}_proj'" in listed[1]]
        if len(targets) != listed[1].count("'") // 2:
            raise NotPredicted(f"adapters on {listed[1]}")
    elif "q,v only" in note or "default targets" in note:
        targets = ["q", "v"]
    return {"rank": int(rank[1]) if rank else usual, "targets": targets}


def _torchtune(row: Row) -> dict[str, Any]:
    """Settings of torchtune's page on memory, which turns switches on one after the other ('step 3: +chunked CE'); other tables name no recipe."""
    if not row["framework"].lower().startswith("torchtune"):
        return {}
    step = re.search(r"\bstep (\d+):", row["note"])
    if not step or step[1] == "0":
        raise NotPredicted("torchtune recipe or padding not stated")
    number = int(step[1])
    return {
        "compile": number >= 2,
        "optimizer": "adamw-8bit" if number == 7 else "adamw-fused",  # `fused: True` in its configs
        "loss": "chunked" if number >= 3 else "full",
        "checkpointing": "full" if number >= 4 else "none",
        "optimizer_in_backward": True if 5 <= number <= 7 else None,
        "offload": "activations" if number >= 6 else None,
    }
