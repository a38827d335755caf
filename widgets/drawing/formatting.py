"""How figures of a plan read on screen. No arithmetic beyond a figure's own relative range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from planner.units import UNKNOWN, bytes_text, count_text, digits, duration_text, is_known, percent_text, si_text, usd_text

if TYPE_CHECKING:
    from planner.engine.answers.answer import Answer
    from planner.engine.answers.figure import Basis, Figure
    from planner.engine.answers.plan import PlanRow

COMPONENT_NAMES: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "logits": "logits",
    "kv_cache": "KV cache",
    "buffers": "buffers",
    "overhead": "overhead",
}

VERDICT_WORDS = {
    "fits": "a solution",
    "misses-target": "fits, but misses a target",
    "does-not-fit": "does not fit",
    "not-supported": "not supported",
}
BASIS_WORDS: Mapping[Basis, str] = {
    "measured": "measured here",
    "transferred": "carried over from here",
    "public": "published measurement",
    "spec": "vendor figures",
}

SHORT_BASIS_WORDS: Mapping[Basis, str] = {
    "measured": "measured",
    "transferred": "carried over",
    "public": "published",
    "spec": "vendor",
}

NEARLY = 1 - 1e-9
"""Of the side below: a side above that is smaller was cut at what cannot be exceeded, as a share at 100 %."""
TRAINING = ("train", "finetune")


def spread_text(figure: Figure | None) -> str:
    """The wider side of a range: '±14%', or '×÷2.4' where a percentage would reach below zero; empty when exact or absent.

    Both sides where the top is cut at what cannot be exceeded, as a share at 100 %: '+4/-13%', '-13%'.
    """
    if figure is None or not figure.value or figure.low == figure.high:
        return ""
    above, below = figure.high / figure.value - 1, 1 - figure.low / figure.value
    if above < below * NEARLY:
        return f"{f'+{above * 100:.0f}/' if above >= 0.005 else ''}-{below * 100:.0f}%"
    wider = max(above, below)
    if wider < 0.995:
        return f"±{wider * 100:.0f}%"
    factor = max(figure.high / figure.value, figure.value / figure.low if figure.low > 0 else 1.0)
    return f"×÷{digits(factor, 2)}"


def figure_text(figure: Figure | None, text: Callable[[float | None], str] = si_text) -> str:
    """Value and range: '5,210 ±14%'."""
    if figure is None:
        return UNKNOWN
    return f"{text(figure.value)} {spread_text(figure)}".rstrip()


def throughput(task: str, answer: Answer) -> Figure | None:
    """The tokens/s a task is judged by: trained tokens, generated tokens, or tokens read."""
    if task in TRAINING:
        return answer.tokens_per_s
    return answer.output_tokens_per_s or answer.decode_tokens_per_s or answer.tokens_per_s


def throughput_label(task: str) -> str:
    """What `throughput` counts."""
    return {"train": "tokens/s", "finetune": "tokens/s", "prefill": "tokens/s"}.get(task, "output tokens/s")


def rate_text(value: float | None) -> str:
    """Tokens per second to three figures in at most six cells: '5,210', '41.8', '185 k', '1.24 M'."""
    if value is None or not is_known(value):
        return UNKNOWN
    if value >= 99_950 or 0 < value < 0.01:
        return si_text(value)
    return digits(value)


def money_text(value: float | None) -> str:
    """Dollars in at most seven cells: '0.0180', '22.41', '16,400', '1.24 M'."""
    if value is None or not is_known(value):
        return UNKNOWN
    if value >= 999_500:
        return count_text(value)
    if 0 < value < 0.0001:
        return "<0.0001"
    return digits(value, 2) if 0 < value < 0.01 else usd_text(value)


def memory_share(answer: Answer) -> float | None:
    """Fraction of the usable memory of the fullest GPU that is used."""
    memory = answer.memory_bytes
    if memory is None or memory.capacity <= 0:
        return None
    return memory.total.value / memory.capacity


def device_name(name: str) -> str:
    """A GPU's or processor's name without what marketing adds: 'Intel(R) Xeon(R) Processor' -> 'Intel Xeon'."""
    for noise in ("(R)", "(TM)", "(tm)", " Processor", " CPU"):
        name = name.replace(noise, "")
    return " ".join(name.split())


def tokens_text(lengths: Any) -> str:
    """Token lengths of a workload: 600, or {'mean': 600, 'p95': 1500} -> '600 (p95 1,500)'."""
    if isinstance(lengths, Mapping):
        tail = f" (p95 {lengths['p95']:,.0f})" if lengths.get("p95") else ""
        return f"{lengths['mean']:,.0f}{tail}"
    return f"{lengths:,.0f}"


def model_name(task: Mapping[str, Any]) -> str:
    """What to call the model of a workload."""
    model = task.get("model", "")
    if isinstance(model, Mapping):
        return str(model.get("_name_or_path") or model.get("model_type") or "own config")
    return str(model).rsplit("/", 1)[-1]


def load_summary(task: Mapping[str, Any]) -> list[str]:
    """The demand of a workload in short parts, most telling first: ['16.7 req/s', '600 → 200 tokens', 'p95 < 5 s']."""
    parts: list[str] = []
    if rate := task.get("request_rate_per_s"):
        parts.append(f"{rate:,.4g} req/s")
    elif concurrency := task.get("concurrency"):
        parts.append(f"{concurrency} at once")
    if sequence := task.get("sequence"):
        parts.append(f"{sequence:,} tokens a sequence")
    if batch := task.get("global_batch") or task.get("batch"):
        parts.append(f"batch {batch:,}")
    if task.get("input_tokens") is not None:
        out = task.get("output_tokens")
        parts.append(tokens_text(task["input_tokens"]) + (f" in, {tokens_text(out)} out" if out is not None else " tokens in"))
    if tokens := task.get("train_tokens"):
        parts.append(f"{si_text(tokens)} tokens".replace(" G tokens", " B tokens"))
    elif (epochs := task.get("epochs")) and (tokens := task.get("dataset_tokens")):
        parts.append(f"{epochs:g} epochs of {si_text(tokens)} tokens".replace(" G tokens", " B tokens"))
    targets = task.get("targets", {})
    labels = (("p95_request_s", "p95"), ("p95_ttft_s", "first token p95"), ("p95_tpot_s", "next token p95"))
    parts += [f"{label} < {targets[key]:g} s" for key, label in labels if targets.get(key)]
    if deadline := targets.get("deadline_h"):
        parts.append(f"within {duration_text(deadline * 3600)}")
    if budget := targets.get("budget_usd"):
        parts.append(f"≤ {usd_text(budget)} $")
    return parts


def row_text(row: PlanRow, task: str) -> str:
    """A row in one line of plain text, for the clipboard."""
    answer = row.answer
    layout = answer.layout
    parts = [
        f"#{row.rank}" if row.rank is not None else row.verdict,
        f"{layout.gpus if layout else 1} × {device_name(row.gpu)}",
        layout.text if layout else "",
        f"memory {percent_text(memory_share(answer))}",
        f"{figure_text(throughput(task, answer), rate_text)} {throughput_label(task)} ({BASIS_WORDS[row.basis]})",
    ]
    if answer.usd_per_million_tokens:
        parts.append(f"{figure_text(answer.usd_per_million_tokens, usd_text)} $/M tokens")
    if row.job_usd:
        parts.append(f"{figure_text(row.job_usd, usd_text)} $ for the job")
    if row.usd_per_h:
        parts.append(f"{usd_text(row.usd_per_h.value)} $/h")
    if row.offer:
        parts.append(f"{row.offer.provider} {row.offer.instance} ({row.offer.as_of})")
    parts.append(row.why)
    return " · ".join(part for part in parts if part)


def memory_heading(row: PlanRow) -> str:
    """'H200 SXM, fullest GPU · 109.1 of 139.8 GiB · 30.7 GiB free'."""
    memory = row.answer.memory_bytes
    if memory is None:
        return f"{device_name(row.gpu)} · {UNKNOWN}"
    free = memory.capacity - memory.total.value
    rest = f"{bytes_text(free)} free" if free >= 0 else f"{bytes_text(-free)} too much"
    count = row.answer.layout.gpus if row.answer.layout else 1
    which = f", fullest of {count}" if count > 1 else ""
    return f"{device_name(row.gpu)}{which} · {bytes_text(memory.total.value, unit=False)} of {bytes_text(memory.capacity)} · {rest}"
