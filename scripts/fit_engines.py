"""Fits `device_factor` of eager `transformers`: measured ÷ predicted time where the device, not the host, sets the pace.

    scripts/fit_engines.py FOLDER

FOLDER holds published measurements. Prompts and LoRA steps in 16 bit, of at least 1,024 tokens a pass, are predicted with the
shipped figures; the factor is the geometric mean of the sources' own geometric means, times the factor that is shipped.
Printed: each source and GPU's mean, and the factor without it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from published import config_of, rows

from planner.engine.answers import Answer
from planner.engine.engines import ENGINES
from planner.session import Session
from planner.workload.tasks import Lora, Request

LEAST_TOKENS = 1024
NOT_16_BIT = ("awq", "gptq", "bnb")


def experiments(folder: Path) -> list[tuple[str, dict[str, Any], float]]:
    """(source and GPU, request, measured seconds)."""
    found = []
    for task, framework in (("prefill", "transformers"), ("finetune_lora", "HF Trainer")):
        for row in rows(folder, task, framework):
            tokens = int(row["micro_batch"] or 0) * int(row["isl"] or row["seq_len"] or 0)
            config = config_of(folder, row["model"])
            quantised = row["weight_quant"] or any(name in row["model"].lower() for name in NOT_16_BIT)
            if config is None or quantised or tokens < LEAST_TOKENS:
                continue
            common = {"model": config, "gpu": row["gpu"], "dtype": "fp16", "engine": "transformers"}
            if row["metric"] == "prefill_latency_s":
                asked = {"task": "prefill", "batch": int(row["micro_batch"]), "input_tokens": int(row["isl"])}
                found.append((f"{row['file']} {row['gpu']}", common | asked, float(row["value"])))
            elif row["metric"] == "tokens_per_s_total" and "LoRA r=8" in row["note"]:
                sizes = {"micro_batch": int(row["micro_batch"]), "sequence": int(row["seq_len"])}
                asked = {"task": "finetune", **sizes, "lora": Lora(rank=8, targets=["q", "v"])}
                found.append((f"{row['file']} {row['gpu']}", common | asked, tokens / float(row["value"])))
    return found


def seconds(answer: Answer) -> float:
    """Of one prompt batch or one step."""
    figure = answer.prefill_s or answer.step_s
    return figure.value if figure else math.nan


def main() -> None:
    """Print the factor."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    asked = experiments(options.parse_args().folder)
    if not asked:
        sys.exit("no experiment that can be used")
    session = Session.open(state=Path("/nonexistent"), config=Path("/nonexistent"))
    answers = session.estimate([Request(**request) for _, request, _ in asked], basis="spec")
    by_source = defaultdict(list)
    for (source, _, measured), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Answer):
            by_source[source].append(math.log(measured / seconds(answer)))
    shipped = ENGINES["transformers"][0].device_factor
    means = {source: statistics.mean(logs) for source, logs in by_source.items()}
    print(f"device_factor {shipped * math.exp(statistics.mean(means.values())):.2f} (shipped {shipped})")
    for source, mean in sorted(means.items()):
        rest = [other for name, other in means.items() if name != source] or [0.0]
        print(
            f"  {source:44} {len(by_source[source]):4} experiments, measured ÷ predicted {math.exp(mean):.2f}; "
            f"without it {shipped * math.exp(statistics.mean(rest)):.2f}"
        )


if __name__ == "__main__":
    main()
