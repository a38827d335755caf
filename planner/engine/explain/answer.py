"""One row of evaluated candidates as an `Answer`: its layout, memory, times and rates, each figure with its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import planner
from planner.engine.answers.answer import Answer, ParameterCounts
from planner.engine.answers.figure import Basis, Figure, Percentiles
from planner.engine.answers.layout import LayoutAnswer
from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.engine.columns import Floats
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.ranges import FIRST_TOKEN_SPREAD, MODEL_SPREAD, STREAM_SPREAD, formulas_share
from planner.engine.job.job import Job
from planner.engine.memory import MemoryColumns
from planner.engine.performance.operators.chip import Chip, measured_between
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.simulation.summary import Queue
from planner.units import bytes_text

CLASS_WORDS = {
    "attention": "attention",
    "elementwise": "bandwidth",
    "optimizer": "bandwidth",
    "communication": "link",
    "latency": "kernel latency",
    "launch": "host launches",
    "host": "engine overhead",
    "bubble": "pipeline bubble",
}
"""What seconds of a class are bound by; products are bound by compute or bandwidth."""


def answer_of(e: Evaluated, row: int) -> Answer:
    """The answer for one row."""
    job = e.candidates.jobs[int(e.candidates.job_index[row])]
    chip = e.candidates.chips[int(e.candidates.chip_index[row])]
    layout = layout_of(e, row, job)
    memory = _memory(e.memory, row, float(e.table.chip.capacity_bytes[row if e.table.chip.capacity_bytes.size > 1 else 0]))
    figures = _times(e, row, job, chip, layout) if e.step or e.serve else {}
    fits = bool(e.memory.fits[row])
    trainable = int(job.adapters) or job.architecture.total
    return Answer(
        fits=fits,
        reason=None if fits else shortfall(e, row),
        memory_bytes=memory,
        host_memory_bytes=float(e.memory.host[row]) or None,
        parameters=ParameterCounts(
            total=job.architecture.total,
            active=job.architecture.active,
            embedding=job.architecture.embedding,
            trainable=trainable if job.train else 0,
        ),
        assumed=job.assumed | _way_of_percentiles(e, row, job) | measured_between(chip, layout.nodes),
        layout=layout,
        version=planner.__version__,
        **figures,
    )


def _way_of_percentiles(e: Evaluated, row: int, job: Job) -> dict[str, str]:
    """How the percentiles of requests that come at a rate, or differ in length, were made."""
    if e.queue is not None and e.serve is not None and (e.queue.measured(row) or e.queue.endless(row)):
        return {"percentiles": e.queue.words(row, float(e.serve.requests_per_s[row] * _cell(e.table.layout.dp, row)))}
    return {"percentiles": "by formula"} if job.request_rate_per_s > 0 else {}


def shortfall(e: Evaluated, row: int) -> str:
    """Why a row does not fit, in words: what it needs and what most of that is, what there is, and what is missing."""
    needed, usable = _cell(e.memory.total, row), _cell(e.memory.usable, row)
    size, most = max((_cell(getattr(e.memory, name), row), name) for name in MEMORY_COMPONENTS)
    part = f"{most.replace('_', ' ').replace('kv', 'KV')} {bytes_text(size)}"
    return f"does not fit: {bytes_text(needed)} needed ({part}), {bytes_text(usable)} usable, {bytes_text(needed - usable)} short"


def _cell(column: Floats, row: int) -> float:
    return float(column[row] if column.size > 1 else column[0])


def layout_of(e: Evaluated, row: int, job: Job) -> LayoutAnswer:
    """The layout columns of a row as whole numbers."""
    s = e.table.layout
    number: dict[str, Any] = {
        name: round(_cell(getattr(s, name), row))
        for name in ("gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "virtual_stages")
    }
    number["ep"] = max(1, number["ep"] * number["tp"] if number["ep"] > 1 else 1)
    nodes = -(-number["gpus"] // max(1, number["gpus_per_node"]))
    if job.train:
        stage = round(_cell(s.zero, row))
        return LayoutAnswer(
            nodes=nodes,
            sharding=job.workload.sharding if job.workload.sharding == "hsdp" else ("none", "zero1", "zero2", "zero3")[stage],
            checkpointing=("none", "selective", "full")[round(_cell(s.checkpointing, row))],
            micro_batch=round(_cell(s.micro_batch, row)),
            **number,
        )
    pools = round(_cell(s.prefill, row)) if job.workload.disaggregated else 0
    return LayoutAnswer(nodes=nodes, batch=round(_cell(s.sequences, row)), prefill_replicas=pools, **number)


def _memory(m: MemoryColumns, row: int, capacity: float) -> MemoryBytes:
    total, spread = float(m.total[row]), float(m.spread[row])
    parts = {
        name: float(getattr(m, name)[row])
        for name in ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "buffers", "overhead")
    }
    known = parts["weights"] + parts["optimizer"] + parts["kv_cache"]
    least = max(known, total * float(np.exp(-spread)))
    figure = Figure(total, min(total, least), total * float(np.exp(spread)), "spec")
    return MemoryBytes(**parts, total=figure, capacity=capacity)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Makes figures of one row: same spread, same basis."""

    factor: float
    basis: Basis

    def __call__(self, value: float) -> Figure:
        return Figure(value, value / self.factor, value * self.factor, self.basis)


def _times(e: Evaluated, row: int, job: Job, chip: Chip, layout: LayoutAnswer) -> dict[str, Any]:
    figure = _Scale(float(np.exp(e.spread[row])), chip.basis)
    return _train_figures(e, row, chip, layout, figure) if e.step else _serve_figures(e, row, job, chip, layout, figure)


def longest_context(e: Evaluated, row: int, job: Job) -> int | None:
    """Tokens one sequence alone could have in the cache, at most what the model was made for; None for windowed caches."""
    m = e.memory
    per_sequence, tokens = float(m.kv_per_sequence[row]), job.input_tokens + job.output_tokens
    free = float(m.usable[row] if m.usable.size > 1 else m.usable[0]) - float(m.total[row] - m.kv_cache[row])
    if job.architecture.windowed_layers or per_sequence <= 0 or free <= 0:
        return None
    held = int(free / (per_sequence / tokens))
    return min(held, job.architecture.max_context) if job.architecture.max_context else held


def _bottleneck(by_class: dict[str, float], compute_bound: float) -> str:
    """What takes most of the time; products count as compute or bandwidth by what binds them."""
    words: dict[str, float] = {}
    products = by_class.get("matmul", 0.0) + by_class.get("head", 0.0)
    words["compute"] = min(compute_bound, products)
    words["bandwidth"] = products - words["compute"]
    for name, seconds in by_class.items():
        if name in CLASS_WORDS:
            words[CLASS_WORDS[name]] = words.get(CLASS_WORDS[name], 0.0) + seconds
    return max(words, key=words.__getitem__)


def _train_figures(e: Evaluated, row: int, chip: Chip, layout: LayoutAnswer, figure: _Scale) -> dict[str, Any]:
    step = e.step
    assert step is not None
    seconds, tokens, flop = float(step.step_s[row]), float(step.tokens[row]), float(step.model_flop[row])
    by_class = {name: float(value[row]) for name, value in step.by_class.items() if value[row] > 0}
    rate = tokens / seconds
    watts = chip.power_w * layout.gpus
    return {
        "bottleneck": _bottleneck(by_class, float(step.compute_bound[row])),
        "flop_per_token": flop / tokens,
        "step_s": figure(seconds),
        "tokens_per_s": figure(rate),
        "tokens_per_s_per_gpu": figure(rate / layout.gpus),
        "mfu": figure(flop / seconds / (chip.peak_flop_per_s * layout.gpus)).capped(1.0),
        "energy_j_per_token": _Scale(figure.factor * 1.3, "spec")(watts / rate) if np.isfinite(watts) else None,
        "seconds_by_class": by_class,
    }


def _percentiles(s: ServeColumns | Queue, latency: str, row: int, figure: _Scale) -> Percentiles:
    mean, p50, p95, p99 = (figure(float(getattr(s, f"{latency}{share}_s")[row])) for share in ("", "_p50", "_p95", "_p99"))
    return Percentiles(mean=mean, p50=p50, p95=p95, p99=p99)


def _serve_figures(e: Evaluated, row: int, job: Job, chip: Chip, layout: LayoutAnswer, figure: _Scale) -> dict[str, Any]:
    s = e.serve
    assert s is not None
    by_class = {name: float(value[row]) for name, value in s.by_class.items() if value[row] > 0}
    busy = layout.dp if job.task == "serve" else min(layout.dp, job.batch)  # a small fixed batch leaves replicas idle
    requests = float(s.requests_per_s[row]) * busy
    output = requests * job.output_tokens
    watts = chip.power_w * layout.gpus
    tokens = output if job.task != "prefill" else requests * job.input_tokens
    stream = figure
    if job.task == "generate":
        further = (STREAM_SPREAD**2 - MODEL_SPREAD["generate"] ** 2) * formulas_share(chip) ** 2
        stream = _Scale(float(np.exp(np.sqrt(np.log(figure.factor) ** 2 + further))), figure.basis)
    first = _Scale(figure.factor * float(np.exp(FIRST_TOKEN_SPREAD * (job.task == "serve"))), figure.basis)
    result: dict[str, Any] = {
        "bottleneck": _bottleneck(by_class, float(s.compute_bound[row])),
        "flop_per_token": float(s.flop_per_token[row]),
        "prefill_s": figure(float(s.prefill_s[row])),
        "ttft_s": _percentiles(s, "ttft", row, first),
        "requests_per_s": figure(requests),
        "energy_j_per_token": _Scale(figure.factor * 1.3, "spec")(watts / tokens) if np.isfinite(watts) and tokens else None,
        "seconds_by_class": by_class,
    }
    most = e.memory.max_sequences[row]
    if (longest := longest_context(e, row, job)) is not None:
        result["max_context"] = longest
    if np.isfinite(most):
        result["max_concurrency"] = int(min(most, 1e6)) * layout.dp
    if job.task == "prefill":
        return result | {"tokens_per_s": figure(tokens), "tokens_per_s_per_gpu": figure(tokens / layout.gpus)}
    tpot = float(s.tpot_s[row]) if job.output_tokens > 1 else 0.0
    endless = e.queue is not None and e.queue.endless(row)
    if endless:
        del result["ttft_s"]
    elif e.queue is not None and e.queue.measured(row):
        result["wait_s"] = _percentiles(e.queue, "wait", row, first)
        result["utilisation"] = figure(float(e.queue.utilisation[row])).capped(1.0)
    return result | {
        "tpot_s": _percentiles(s, "tpot", row, stream) if tpot > 0 else None,
        "request_s": None if endless else _percentiles(s, "request", row, figure),
        "decode_tokens_per_s": stream(1 / tpot) if tpot > 0 else None,
        "output_tokens_per_s": figure(output),
        "tokens_per_s": figure(output),
        "tokens_per_s_per_gpu": figure(output / layout.gpus),
    }
