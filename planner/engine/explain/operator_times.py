"""Operators of one candidate: each with its shape, FLOPs, bytes and seconds, phase by phase.

The seconds are those of `training.step_of` and `generation.serve_of`: products that are timed together (`forward_pass.layer_products`)
share their time in proportion to the time of each alone, and the operators of a class in a phase add up to that class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.answers.time import Bound, Operator
from planner.engine.columns import Floats, Table, soft_maximum
from planner.engine.job.job import Job
from planner.engine.memory.total import weights_on_host
from planner.engine.performance.operators.attention import (
    append_s,
    attended_tokens,
    attention_time,
    cache_bytes,
    hidden_elements,
    latent_elements,
    latent_s,
    own_context,
    score_bytes,
    scored_columns,
    window_tokens,
)
from planner.engine.performance.operators.communication import (
    DIVIDED_PRODUCTS,
    context_exchange_s,
    divided_bytes,
    layer_collectives_s,
    routed_bytes,
    stage_handover_s,
)
from planner.engine.performance.operators.elementwise import ADAPTERS, ELEMENTWISE, elementwise_bytes, quantise_s
from planner.engine.performance.operators.experts import bias_gradients_s, distinct_experts, expert_split
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass
from planner.engine.performance.operators.host_memory import host_weights_s
from planner.engine.performance.operators.launches import kernel_latencies_s, launches_of_layer, products_of_layer
from planner.engine.performance.operators.matrix_products import BACKWARD, FUSED_ATTENTION_BACKWARD, Gemm, pass_products
from planner.engine.performance.operators.products import ends_s, head_share, layer_products, product_time
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.passes import tower_table
from planner.engine.performance.prefill_decode.speculative_decoding import drafting
from planner.engine.performance.sequences import sequences_of
from planner.engine.performance.training import StepColumns, autocast_copies, phase_factors
from planner.engine.records.job import BYTES_BY_KIND, STORED

LOSS_FORWARD = 10 / 24
"""Share of the loss's bytes that the forward pass moves: 16-bit logits read, FP32 copy and log-softmax written."""

ROLLOUT_BOUNDS: Mapping[str, Bound] = {"rollout": "bandwidth", "new weights": "link", "scoring": "compute"}
ROLLOUT_WORDS = {
    "rollout": "answers that are generated",
    "new weights": "new weights to the generating engine",
    "scoring": "passes of policy, reference, reward model and critic",
}


class _Part(msgspec.Struct, frozen=True):
    """An operator of one pass through one pipeline stage; `weight` is its share of the seconds, relative to other weights."""

    kind: str
    name: str
    weight: float
    bound: Bound
    count: float = 0.0
    gemm: Gemm | None = None
    flop: float = 0.0
    bytes: float = 0.0


class _Phase(msgspec.Struct, frozen=True):
    """One phase: its passes, and the seconds of each operator class."""

    name: str
    seconds: Mapping[str, float]
    passes: float
    times: Mapping[str, float]
    """Class -> how often its work is done in a pass, where that is not once."""


def number(column: Floats) -> float:
    """Value of a table of one row."""
    return float(np.ravel(column)[0])


def step_operators(t: Table, job: Job, step: StepColumns) -> list[Operator]:
    """Operators of one optimizer step; the table has one row."""
    factor, count = number(t.chip.train_factor), number(step.count)
    parts = [*_parts(t, job, step.mean), *_encoder_parts(t, job, step)]
    busy = {name: number(getattr(step.one, name)) * factor * count for name in DEVICE_CLASSES}
    exposed = number(step.by_class["launch"])
    factors = {
        name: {operator_class: number(value) for operator_class, value in by.items()} for name, by in phase_factors(t).items()
    }
    launches = sum(by["launch"] for by in factors.values())
    found: list[Operator] = []
    for name, by in factors.items():
        seconds = {operator_class: busy[operator_class] * by[operator_class] for operator_class in DEVICE_CLASSES} | {
            "launch": exposed * by["launch"] / launches
        }
        phase = _Phase(name, seconds, count, by | {"attention": _attention_work(name, by["attention"], job)})
        found += _operators(phase, parts, job)
        found += _loss(t, name, count, factor)
    found += [*_copies(t, count, factor), *_biases(t, count, factor)]
    found += _listed("exchange", "communication", step.exposed, "link")
    bounds: dict[str, Bound] = {
        "products of the update": "compute",
        "states, gradients and weights": "bandwidth",
        "states in host memory": "link",
        "launches": "launch",
    }
    for name, value in step.update.items():
        found += _listed("update", "optimizer", {name: value}, bounds[name])
    found += _listed("bubble", "bubble", {"waiting for other pipeline stages": step.by_class["bubble"]}, "bubble")
    for name, bound in ROLLOUT_BOUNDS.items():
        found += _listed("rollout", name, {ROLLOUT_WORDS[name]: step.by_class[name]} if step.rollout else {}, bound)
    return found


def _encoder_parts(t: Table, job: Job, step: StepColumns) -> Iterator[_Part]:
    """Operators of the encoder in a forward pass; none if there is no encoder."""
    source = job.architecture.source
    if source is not None and step.encoder is not None:
        for part in _parts(t.prompts, replace(job, architecture=source), step.encoder):
            yield replace(part, name=f"encoder: {part.name}")


def _attention_work(phase: str, time: float, job: Job) -> float:
    """Attention's FLOPs relative to the forward pass's, where its time is `time` times as long."""
    if phase != "backward":
        return time
    return BACKWARD if job.eager_attention else FUSED_ATTENTION_BACKWARD


def _loss(t: Table, phase: str, count: float, factor: float) -> Iterator[Operator]:
    """Softmax and loss over the vocabulary, which `step_of` adds to the kernels between products."""
    share = {"forward": LOSS_FORWARD, "backward": 1 - LOSS_FORWARD}.get(phase, 0.0)
    s, c = t.layout, t.chip
    entries = number(s.micro_batch * sequences_of(t).computed / s.cp * t.model.vocabulary * t.job.predicts_tokens / s.tp / s.pp)
    moved = entries * number(t.footprint.loss_traffic) * share * count
    if moved:
        seconds = moved * factor / number(c.bandwidth_bytes_per_s)
        yield Operator(phase=phase, kind="elementwise", name="softmax and loss", seconds=seconds, bound="bandwidth", bytes=moved)


def _copies(t: Table, count: float, factor: float) -> Iterator[Operator]:
    """Autocast's copies of weights and of their gradients, which `step_of` adds to the kernels between products."""
    moved, seconds = (number(value) * count for value in autocast_copies(t))
    if moved:
        name = "16-bit copies of weights, gradients widened"
        yield Operator(phase="backward", kind="elementwise", name=name, seconds=seconds * factor, bound="bandwidth", bytes=moved)


def _biases(t: Table, count: float, factor: float) -> Iterator[Operator]:
    """Gradients of experts' biases, which `step_of` adds to the kernels between products."""
    tokens = t.layout.micro_batch * sequences_of(t).computed / t.layout.cp
    if seconds := number(bias_gradients_s(t, tokens)) * count * factor:
        yield Operator(
            phase="backward", kind="elementwise", name="gradients of experts' biases", seconds=seconds, bound="bandwidth"
        )


def _listed(phase: str, kind: str, seconds: Mapping[str, Floats], bound: Bound) -> Iterator[Operator]:
    for name, value in seconds.items():
        if (taken := number(value)) > 0:
            yield Operator(phase=phase, kind=kind, name=name, seconds=taken, bound=bound)


def serve_operators(t: Table, job: Job, serve: ServeColumns) -> list[Operator]:
    """Operators of one request (of one batch, where it is fixed) in prefill and decode; the table has one row."""
    found: list[Operator] = []
    draft = drafting(t)
    for name, phase in serve.phases.items():
        table, table_job = t, job
        if draft is not None and job.draft is not None and name.startswith("draft"):
            d = job.draft
            table, table_job = (
                draft,
                replace(job, architecture=d.architecture, **{name: getattr(d, name) for name in BYTES_BY_KIND}),
            )
        if name == "encoder" and job.architecture.source:
            table, table_job = t.prompts, replace(job, architecture=job.architecture.source)
        if name == "pictures" and job.architecture.tower:
            table = tower_table(t)
            table_job = replace(job, architecture=job.architecture.tower, **dict.fromkeys(BYTES_BY_KIND, 2.0))
        seconds = {kind: number(value) for kind, value in phase.by_class.items()}
        passes = number(phase.count) * number(table.layout.pp)
        parts = [*_parts(table, table_job, phase.one), _Part("host", "engine between passes: scheduling, sampling", 1.0, "host")]
        found += _operators(_Phase(name, seconds, passes, {}), parts, table_job)
    return found


def _operators(phase: _Phase, parts: Iterable[_Part], job: Job) -> Iterator[Operator]:
    """`parts` in one phase, with their seconds by weight; none if the phase takes no time."""
    parts = [part for part in parts if part.weight > 0]
    whole: dict[str, float] = {}
    for part in parts:
        whole[part.kind] = whole.get(part.kind, 0.0) + part.weight
    for part in parts:
        seconds = phase.seconds.get(part.kind, 0.0) * part.weight / whole[part.kind]
        if seconds > 0:
            often = phase.passes * phase.times.get(part.kind, 1.0)
            dtype = "bf16" if part.kind == "head" and job.train and job.narrow_bytes else job.dtype
            shape = {"m": part.gemm.m, "n": part.gemm.n, "k": part.gemm.k, "dtype": dtype} if part.gemm else {}
            yield Operator(
                phase=phase.name,
                kind=part.kind,
                name=part.name,
                seconds=seconds,
                bound=part.bound,
                count=part.count * often,
                flop=part.flop * often,
                bytes=part.bytes * often,
                **shape,  # type: ignore[arg-type]  # three numbers and a name
            )


def _parts(t: Table, job: Job, one: Pass) -> Iterator[_Part]:
    """Operators of one forward pass through one pipeline stage."""
    yield from _products(t, job, one)
    yield from _between(t, one)
    yield from _latencies(t, one)
    yield from _collectives(t, one)
    layers = number(t.model.layers / t.layout.pp)
    mixed = t.engine.mixed_launches_per_layer * (one.shape[2] > 1)
    launches = number(np.maximum(launches_of_layer(t) * (one.host > 0), mixed)) * layers
    yield _Part("launch", "waiting for the host to launch kernels", 1.0, "launch", launches)


def _products(t: Table, job: Job, one: Pass) -> Iterator[_Part]:
    """Products; those timed together share their time."""
    rows, context, new, head_rows = one.shape
    s = t.layout
    touched = number(distinct_experts(t, rows)) if job.architecture.experts else None
    gemms = pass_products(
        job.architecture,
        number(rows),
        number(own_context(t, scored_columns(t, context, new)) * (1 + t.model.encoder)),
        head_rows=number(head_rows),
        source=number(t.job.input_tokens),
        new=max(1.0, number(new)),
        touched=touched,
        streams=number(s.expert_streams),
        tp=round(number(s.tp)),
        expert_tp=number(expert_split(t)),
        in_window=number(window_tokens(t, context, new)),
    )
    stage = {name: 1 / number(s.pp) for name in ("attention", "mlp", "shared", "scores")}
    stage |= {"experts": 1 / number(s.pp * s.ep), "head": number(head_share(t, head_rows))}
    attention = attention_time(t, rows, context, new)
    layers = number(t.model.layers / s.pp)
    for group, seconds in _group_seconds(t, rows, head_rows).items():
        members = [replace(gemm, count=gemm.count * stage[group]) for gemm in gemms if gemm.group == group]
        alone = [_alone(t, job, gemm) for gemm in members]
        whole = sum(weight for weight, _, _ in alone) or 1.0
        for gemm, (weight, bound, moved) in zip(members, alone, strict=True):
            kind = "head" if group == "head" else "matmul"
            yield _Part(kind, gemm.name, seconds * weight / whole, bound, gemm.count, gemm, gemm.flop, moved)
    scores = [replace(gemm, count=gemm.count * stage["scores"]) for gemm in gemms if gemm.group == "scores"]
    flop = sum(gemm.flop for gemm in scores)
    read = number(cache_bytes(t, rows, context, new)) * layers
    binds: Bound = "compute" if number(attention.flop_s) > number(attention.read_s) else "bandwidth"
    for gemm in scores:
        share = gemm.flop / flop if flop else 0.0
        seconds = number(attention.fused_s) * layers * share
        yield _Part("attention", gemm.name, seconds, binds, gemm.count, gemm, gemm.flop, read * share)
    columns = attended_tokens(t, scored_columns(t, context, new)) + hidden_elements(t, context, new) / (
        t.model.layers * t.model.attended
    )
    through = number(rows * columns * t.model.heads / s.tp) * layers * number(score_bytes(t))
    yield _Part(
        "attention", "attention scores through memory", number(attention.eager_s) * layers, "bandwidth", layers, bytes=through
    )
    made = number(rows * latent_elements(t, new)) * layers * number(t.job.activation_bytes)
    yield _Part("attention", "to the latent and back", number(latent_s(t, rows, new)) * layers, "bandwidth", layers, bytes=made)
    copied_s = number(append_s(t, rows, context, new)) / number(t.engine.device_factor) * layers
    yield _Part("attention", "copying the cache to append a token", copied_s, "bandwidth", layers, bytes=2 * read)


def _group_seconds(t: Table, rows: Floats, head_rows: Floats) -> dict[str, float]:
    """Seconds of the products timed together, over the layers of one stage."""
    moe = t.model.moe_layers / t.model.layers
    layers = {"attention": np.ones(1), "mlp": 1 - moe, "experts": moe, "shared": moe}
    products = layer_products(t, rows)
    found = {
        name: number(product_time(t, product).seconds * layers[name] * t.model.layers / t.layout.pp)
        for name, product in products.items()
    }
    return found | {"head": number(ends_s(t, rows, head_rows)[0])}


def _alone(t: Table, job: Job, gemm: Gemm) -> tuple[float, Bound, float]:
    """(seconds, limit, bytes) of products of weights by themselves."""
    c, stored = t.chip, getattr(job, STORED[gemm.group])
    weights, moved = gemm.n * gemm.k * gemm.count * stored, gemm.m * (gemm.n + gemm.k) * gemm.count * job.activation_bytes
    flop_s = gemm.flop / c.flop_per_s
    bytes_s = weights / c.weight_bandwidth_bytes_per_s + moved / c.bandwidth_bytes_per_s
    bound: Bound = "compute" if number(flop_s) > number(bytes_s) else "bandwidth"
    return number(soft_maximum(flop_s, bytes_s, c.knee)), bound, weights + moved


def _between(t: Table, one: Pass) -> Iterator[_Part]:
    """Elementwise kernels between the products."""
    rows, layers = one.shape[0], number(t.model.layers / t.layout.pp)
    for name in (*ELEMENTWISE, ADAPTERS):
        moved = number(elementwise_bytes(t, rows, name)) * layers
        yield _Part("elementwise", name, moved / number(t.chip.bandwidth_bytes_per_s), "bandwidth", layers, bytes=moved)
    rounding = number(quantise_s(t, rows)) * layers
    moved = rounding * number(t.chip.quantise_bytes_per_s)
    yield _Part("elementwise", "rounding what products read", rounding, "bandwidth", layers, bytes=moved)


def _latencies(t: Table, one: Pass) -> Iterator[_Part]:
    layers = number(t.model.layers / t.layout.pp)
    products = number(products_of_layer(t) + t.model.moe_share)
    small = max(0.0, number(t.engine.kernels_per_layer) - 5)
    names = {"starting and ending products": products, "starting and ending attention": 1.0, "small kernels": small}
    for (name, count), seconds in zip(names.items(), kernel_latencies_s(t, one.shape[2]), strict=True):
        yield _Part("latency", name, number(seconds) * layers, "latency", count * layers)


def _collectives(t: Table, one: Pass) -> Iterator[_Part]:
    m, s = t.model, t.layout
    layers = number(m.layers / s.pp)
    size = number(one.shape[0] * m.width * t.job.activation_bytes)
    reduce_s, exchange_s = layer_collectives_s(t, one.shape[0])
    reduced = 2 * 2 * number((s.tp - 1) / s.tp) * size * layers
    name, count = "all-reduce of activations", 2.0
    if number(t.engine.divided_product_s) > 0:
        name, count, reduced = "parts of divided products", DIVIDED_PRODUCTS, number(divided_bytes(t, one.shape[0])) * layers
    yield _Part("communication", name, number(reduce_s) * layers, "link", count * layers, bytes=reduced)
    stages = number((s.pp - 1) / s.pp)
    yield _Part(
        "communication",
        "hand-over to the next stage",
        number(stage_handover_s(t, one.shape[0])) * stages,
        "link",
        stages,
        bytes=size * stages / number(s.tp),
    )
    moe = number(m.moe_layers / m.layers)
    routed = moe * max(number(sent) for sent in routed_bytes(t, one.shape[0])) * layers
    yield _Part("communication", "exchange of routed tokens", number(exchange_s) * layers, "link", 2 * moe * layers, bytes=routed)
    shared_s = number(context_exchange_s(t, one.shape[0], one.shape[2], one.attention / layers))
    yield _Part("communication", "exchange of keys and values", shared_s * layers, "link", layers)
    away = number(weights_on_host(t))
    yield _Part("communication", "weights in the host's memory", number(host_weights_s(t, one.shape[0])), "link", 1.0, bytes=away)
