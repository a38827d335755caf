"""Fits `device_factor` of eager engines: measured ÷ predicted time where the device, not the host or a network, sets the pace.

    scripts/calibration/fit_engines.py FOLDER

FOLDER holds published measurements. Of `transformers` before 4.45: prompts and LoRA steps in 16 bit, of at least 1,024 tokens a pass;
since then: full fine-tuning of packed sequences. Of `torch`: pre-training on up to eight GPUs with code of its own. Of `megatron`: steps of dense
models, of all programs that build on it. They are predicted with the shipped figures; the factor is the
geometric mean of the sources' own geometric means, times the factor that is shipped. Printed: each source's mean, and the
factor without it.

And `pipelined_prompt` of llama.cpp: the median, over prompts of more than a chunk on n GPUs that were also run on one, of the
share of the overlap there could be that their speed-up tells; and `int8_per_cycle`: what is left of published prompts of dense
models in 8 bit after all but the products' FLOPs.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitting import config_of, experiments_of, options_of, plain_session, rows

from planner.engine.answers.answer import Answer
from planner.engine.job.engines import ENGINES, find_engine
from planner.session import Session
from planner.workload.tasks import Lora, Request, trains

LEAST_TOKENS = 1024
NOT_16_BIT = ("awq", "gptq", "bnb")
Experiment = tuple[str, dict[str, Any], float]
"""(source, request, measured seconds)."""


def of_transformers(folder: Path) -> Iterator[Experiment]:
    """Prompts and LoRA steps in 16 bit."""
    for task, framework in (("prefill", "transformers"), ("finetune_lora", "HF Trainer")):
        for row in rows(folder, task, framework):
            tokens = int(row["micro_batch"] or 0) * int(row["isl"] or row["seq_len"] or 0)
            config = config_of(folder, row["model"])
            quantised = row["weight_quant"] or any(name in row["model"].lower() for name in NOT_16_BIT)
            if config is None or quantised or tokens < LEAST_TOKENS:
                continue
            common = {"model": config, "gpu": row["gpu"], "dtype": "fp16", "engine": "transformers@4.40"}
            if row["metric"] == "prefill_latency_s":
                asked = {"task": "prefill", "batch": int(row["micro_batch"]), "input_tokens": int(row["isl"])}
                yield row["file"], common | asked, float(row["value"])
            elif row["metric"] == "tokens_per_s_total" and "LoRA r=8" in row["note"]:
                sizes = {"micro_batch": int(row["micro_batch"]), "sequence": int(row["seq_len"])}
                asked = {"task": "finetune", **sizes, "lora": Lora(rank=8, targets=["q", "v"])}
                yield row["file"], common | asked, tokens / float(row["value"])


def of_transformers_now(folder: Path) -> Iterator[Experiment]:
    """Full fine-tuning by releases since 4.45, with checkpointing, on one GPU."""
    for row in rows(folder, "finetune_full", r"transformers 4\.4[5-9]"):
        config, sizes = config_of(folder, row["model"]), {"micro_batch": int(row["micro_batch"]), "sequence": int(row["seq_len"])}
        if config is None or row["metric"] != "tokens_per_s_per_gpu" or row["n_gpus"] != "1":
            continue
        asked = {"model": config, "gpu": row["gpu"], "task": "finetune", "recipe": "bf16", "checkpointing": "full", **sizes}
        seconds = sizes["micro_batch"] * sizes["sequence"] / float(row["value"])
        yield f"{row['file']}, {row['note'].split(';')[0]}", asked | {"engine": "transformers@4.45"}, seconds


def of_torch(folder: Path) -> Iterator[Experiment]:
    """Steps of frameworks other than Megatron and the trainer of transformers."""
    for row in rows(folder, "pretrain", r"foundry|[Ii]ntern|fms"):
        config = config_of(folder, row["model"])
        gpus = int(row["n_gpus"] or 0)
        if config is None or row["metric"] != "tokens_per_s_per_gpu" or not 0 < gpus <= 8 or int(row["tp"] or 1) > 1:
            continue
        sizes = {"micro_batch": int(row["micro_batch"] or 1), "sequence": int(row["seq_len"])}
        shard = "zero3" if "FULL" in row["sharding"] else "zero1"
        checkpointing = "full" if row["checkpointing"].startswith("full") else "none"
        asked = {"model": config, "gpu": row["gpu"], "gpus": gpus, "task": "train", "recipe": "mixed", "sharding": shard}
        batch = int(row["global_batch"] or sizes["micro_batch"] * gpus)
        seconds = batch * sizes["sequence"] / gpus / float(row["value"])
        yield row["file"], asked | sizes | {"checkpointing": checkpointing, "engine": "torch", "global_batch": batch}, seconds


def of_megatron(folder: Path) -> Iterator[Experiment]:
    """Steps of dense models by Megatron and programs based on it."""
    for one in experiments_of(plain_session(), folder).experiments:
        request = one.request
        if not trains(request.task) or request.ep or find_engine(request.engine or "torch").name != "megatron":
            continue
        asked = {name: value for name in request.__struct_fields__ if (value := getattr(request, name)) is not None}
        tokens = (request.global_batch or 0) * (request.sequence or 0)
        for value in one.values:
            if value.quantity == "step_s":
                yield one.source, asked, value.value
            elif value.quantity == "tokens_per_s_per_gpu" and tokens:
                yield one.source, asked, tokens / value.value / (request.gpus or 1)


def report(session: Session, engine: str, asked: list[Experiment]) -> None:
    """Print the factor of one engine."""
    answers = session.estimate([Request(**request) for _, request, _ in asked], basis="spec")
    by_source = defaultdict(list)
    for (source, _, measured), answer in zip(asked, answers, strict=True):
        figure = answer.prefill_s or answer.step_s if isinstance(answer, Answer) else None
        if figure is not None:
            by_source[source].append(math.log(measured / figure.value))
    shipped = find_engine(engine).device_factor
    means = {source: statistics.mean(logs) for source, logs in by_source.items()}
    print(f"{engine}: device_factor {shipped * math.exp(statistics.mean(means.values())):.2f} (shipped {shipped})")
    for source, mean in sorted(means.items()):
        rest = [other for name, other in means.items() if name != source] or [0.0]
        count = f"{len(by_source[source]):4} experiments, measured ÷ predicted {math.exp(mean):.2f}"
        print(f"  {source:32} {count}; without it {shipped * math.exp(statistics.mean(rest)):.2f}")


def overlap(folder: Path) -> None:
    """Print the share of overlapped chunks: n GPUs take n + share·(1 + (n - 1) ÷ chunks - n) of a stage's time."""
    chunk = ENGINES["llama.cpp"][0].prefill_chunk
    rates: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    for row in rows(folder, "prefill", r"llama\.cpp"):
        if row["metric"] == "prefill_tokens_per_s":
            same = (row["gpu"], row["model"], row["weight_quant"], row["isl"])
            rates[same][int(row["n_gpus"])] = float(row["value"])
    shares = []
    for run, by_count in rates.items():
        chunks = int(run[-1]) / chunk
        for count, rate in by_count.items():
            if count > 1 and chunks > 1 and 1 in by_count:
                shares.append((count - count * by_count[1] / rate) / (count - 1 - (count - 1) / chunks))
    if shares:
        low, middle, high = statistics.quantiles(shares, n=4)
        shipped = ENGINES["llama.cpp"][0].pipelined_prompt
        print(
            f"llama.cpp: pipelined_prompt {middle:.2f}, half of {len(shares)} prompts {low:.2f} to {high:.2f} (shipped {shipped})"
        )


def int8_products(session: Session, folder: Path) -> None:
    """Print FLOP per cycle and multiprocessor of INT8 products."""
    found = []
    for row in (row for task in ("prefill", "inference_batch") for row in rows(folder, task, r"llama\.cpp b\d")):
        config, tokens = config_of(folder, row["model"]), int(row["micro_batch"] or 1) * int(row["isl"] or 0)
        if config is None or row["metric"] != "prefill_tokens_per_s" or row["weight_quant"].lower() != "q8_0":
            continue
        asked: dict[str, Any] = {"model": config, "gpu": row["gpu"], "task": "prefill", "batch": int(row["micro_batch"] or 1)}
        asked |= {"dtype": "fp16", "weight_dtype": "q8_0", "engine": "llama.cpp@b6918"}
        request = Request(**asked, input_tokens=int(row["isl"]))
        (answer,) = session.estimate([request], basis="spec")
        if not isinstance(answer, Answer) or answer.prefill_s is None or answer.parameters is None:
            continue
        gpu, shipped = session.gpus.find(row["gpu"]), find_engine("llama.cpp").int8_per_cycle
        flop = 2 * (answer.parameters.total - answer.parameters.embedding) * tokens
        cycles_per_s = (gpu.sm_count or 0) * (gpu.boost_clock_hz or 0.0)
        left = tokens / float(row["value"]) - answer.prefill_s.value + flop / (shipped * cycles_per_s)
        found.append(flop / cycles_per_s / left)
    if found:
        print(f"llama.cpp: int8_per_cycle {statistics.median(found):.0f} by {len(found)} prompts (shipped {shipped:.0f})")


def main() -> None:
    """Print the factors."""
    folder: Path = options_of(__doc__).parse_args().folder
    session = plain_session()
    every = (
        ("transformers@4.40", of_transformers),
        ("transformers@4.45", of_transformers_now),
        ("torch", of_torch),
        ("megatron", of_megatron),
    )
    for engine, experiments in every:
        asked = list(experiments(folder))
        if not asked:
            sys.exit(f"no experiment of {engine} that can be used")
        report(session, engine, asked)
    overlap(folder)
    int8_products(session, folder)


if __name__ == "__main__":
    main()
