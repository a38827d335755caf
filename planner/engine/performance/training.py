"""Seconds of one optimizer step: micro batches through the pipeline, exchange of gradients, the update.

Symbols: M micro batches a step · v virtual stages.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, Table, added, distinct
from planner.engine.memory.host import offloaded_activations
from planner.engine.memory.stages import (
    Stage,
    all_layers,
    micro_batches,
    stage_adapters,
    stage_parameters,
    trained_ranks,
)
from planner.engine.performance.operators.attention import attention_flop, backward_factor
from planner.engine.performance.operators.communication import expert_exchange_s, peer_bytes_per_s
from planner.engine.performance.operators.experts import bias_gradients_s
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass, forward
from planner.engine.performance.operators.launches import COMPILED_LAUNCHES
from planner.engine.performance.rank_exchange import OVERLAP, exchange_s
from planner.engine.performance.rollouts import RolloutColumns, rollout_of
from planner.engine.performance.sequences import Sequences, sequences_of
from planner.engine.records.chip import HOST_LINK_BYTES_PER_S, HOST_READ_BYTES_PER_S
from planner.engine.records.layout import CHECKPOINTING

BACKWARD_LAUNCHES = 113 / 64
"""ATen operators of a Qwen3 layer, backward ÷ forward, counted with PyTorch 2.13."""
EAGER_BACKWARD = 1.5
"""Backward over forward of attention that stores its scores: four products for two, and scores that go through memory as often as forward (softmax reads
its output and its gradient and writes one, as scaling and dropout do forward)."""
COPY_BYTES = 6.0
"""Autocast's 16-bit copy of a weight, made anew in each micro batch (FP32 read, 16 bit written), or the gradient of that copy widened (16 bit read,
FP32 written)."""
WIDENING = 2.2
"""Time of widening ÷ that of moving its bytes: 1.8 TB/s on an H200, 102 kernels in a step of a decoder of 2.0 B parameters (torch 2.11,
docs/evidence/h200.md)."""


class StepColumns(msgspec.Struct, frozen=True):
    """Seconds of a step by class, which add up to `step_s`; shape [rows]."""

    step_s: Floats
    tokens: Floats
    """Tokens of the whole job in a step, without padding."""
    by_class: dict[str, Floats]
    compute_bound: Floats
    model_flop: Floats
    """6·N·tokens + causal attention, N the parameters of the products (`matrix_products.flop_per_token`); 4·N where
    they are frozen and get no gradients. Products of adapters, padding and what is recomputed do not count."""
    mean: Pass
    """Forward pass of one micro batch through the mean stage of a pipeline."""
    encoder: Pass | None
    """Forward pass over what encoders read for one micro batch, which takes no time in rows without one; None if no row has one."""
    one: Pass
    """Forward pass of one micro batch through the fullest stage, including the encoder, computation only."""
    count: Floats
    """Micro batches."""
    host_s: Floats
    """Seconds in which the host launches the step, most of them in parallel with the device's work."""
    exposed: dict[str, Floats]
    """Communication outside forward and backward passes, by its purpose."""
    update: dict[str, Floats]
    """The optimizer's update, by its parts."""
    padding: Floats
    """Share of the computed or awaited tokens that belong to no document."""
    rollout: RolloutColumns | None = None
    """Generation and scoring of what is trained on; None if no row has a rollout."""


def step_of(t: Table, alike: Rows | None = None) -> StepColumns:
    """Time of one optimizer step of every candidate.

    `alike`: rows with the same number do not differ in anything that a forward pass of one micro batch depends on.
    """
    m, j, s, c = t.model, t.job, t.layout, t.chip
    sequences = sequences_of(t)
    tokens = s.micro_batch * sequences.computed / s.cp
    mean = _pass(t, sequences) if alike is None or np.any(j.to_longest) else _pass_once(t, alike, _pass)
    one = _of_fullest_stage(t, tokens, mean)
    encoder = None
    if t.source is not None:
        encoder = _encoder_pass(t) if alike is None else _pass_once(t, alike, _encoder_pass)
        one = one.followed_by(encoder)
    factors = phase_factors(t)
    passes = {name: added(phase[name] for phase in factors.values()) for name in factors["forward"]}
    losses = tokens * m.vocabulary * j.predicts_tokens / s.tp * t.footprint.loss_traffic / c.bandwidth_bytes_per_s / s.pp
    device = {name: getattr(one, name) * passes[name] for name in DEVICE_CLASSES}
    device["elementwise"] = device["elementwise"] + losses + autocast_copies(t)[1] + bias_gradients_s(t, tokens)
    device = {name: np.broadcast_to(value * c.train_factor, (t.rows,)) for name, value in device.items()}
    busy = added(device.values())
    host = one.host * passes["launch"] + t.engine.step_launches * c.launch_s * np.where(j.compiled > 0, COMPILED_LAUNCHES, 1.0)
    exposed_host = np.maximum(0.0, host - busy)
    count = micro_batches(t)
    per_micro = busy + exposed_host
    waited = _wait_for_last_stage(t, busy, device["head"] + losses * c.train_factor, per_micro)
    bubble = _idle(s.pp, np.maximum(s.virtual_stages, 1.0), count) * (per_micro + waited) + waited * count
    by_class = {name: value * count for name, value in device.items()}
    stage = stage_parameters(t)
    trained = _trained(t, stage)
    fetched = (stage.linear * j.linear_bytes + stage.other * j.other_bytes) * 2 / HOST_LINK_BYTES_PER_S * j.offload_parameters
    exposed = {
        "weights from host memory": fetched * count,
        "gradients and weights between ranks": exchange_s(t, stage, trained, count, per_micro * count),
        "activations to host memory and back": _offloaded_s(t, per_micro) * count,
        "activations between stages": _stage_traffic(t, tokens) * count,
    }
    by_class["communication"] = by_class["communication"] + added(exposed.values())
    update = update_s(t, trained)
    by_class |= {"launch": exposed_host * count, "optimizer": added(update.values()), "bubble": bubble}
    rollout = rollout_of(t, one, per_micro)
    if rollout is not None:
        by_class |= rollout.beside(t, added(by_class.values()))
    by_class = {name: np.broadcast_to(value, (t.rows,)) for name, value in by_class.items()}
    step = added(by_class.values())
    total = s.micro_batch * sequences.useful * s.dp * count
    bound = one.compute_bound * np.broadcast_to(passes["matmul"], (t.rows,)) * count
    return StepColumns(
        step_s=step,
        tokens=np.broadcast_to(total, (t.rows,)),
        by_class=by_class,
        compute_bound=bound,
        model_flop=total * _flop_per_token(t, sequences),
        mean=mean,
        encoder=encoder,
        one=one,
        count=count,
        host_s=host * count,
        exposed=exposed,
        update=update,
        padding=1 - sequences.useful / sequences.computed,
        rollout=rollout,
    )


def autocast_copies(t: Table) -> tuple[Floats, Floats]:
    """(Bytes, seconds) of one micro batch in which autocast copies the weights of its products to 16 bit and widens their gradients.

    Layers that are recomputed in the backward pass copy theirs again.
    """
    s = t.layout
    again = (s.checkpointing > 1) * 1.0
    layers = stage_parameters(t).linear
    head = (t.model.token_matrix + t.model.output_matrix) / s.tp / s.pp * t.job.predicts_tokens
    copied, widened = layers * (1 + again) + head, layers + head
    casts = COPY_BYTES * (t.job.cast_bytes > 0)
    return (copied + widened) * casts, (copied + widened * WIDENING) * casts / t.chip.bandwidth_bytes_per_s


def _of_fullest_stage(t: Table, tokens: Floats, mean: Pass) -> Pass:
    """The pass through the stage that all wait for, which has whole layers, without the exchange of tokens that computation hides.

    Tokens travel to experts in other nodes in parallel with the computation of another micro batch (DualPipe, arXiv:2412.19437, 3.2.1;
    Megatron's overlap of the exchange): over the network, which then takes no less than links would; the time of links is not hidden.
    """
    m, s = t.model, t.layout
    over_links, exchange = (m.layers / s.pp * m.moe_share * seconds for seconds in expert_exchange_s(t, tokens))
    hidden = np.minimum(exchange - over_links, OVERLAP * (mean.device - mean.communication))
    fullest = np.ceil(m.layers / s.pp) * s.pp / m.layers
    return replace(mean, communication=mean.communication - hidden, host=mean.host * fullest).slowed(fullest)


def _wait_for_last_stage(t: Table, busy: Floats, ends: Floats, per_micro: Floats) -> Floats:
    """Seconds that stages wait in each micro batch for the last one, which has no more layers than any other, and head and loss in addition.

    `busy`: device time of the fullest stage, including `ends`, its equal share of head and loss; `per_micro`: the same with the host's
    launches that it waits for.
    """
    stages, layers = t.layout.pp, t.model.layers / t.layout.pp
    last = (busy - ends) * np.floor(layers) / np.ceil(layers) + ends * stages
    return np.where(stages > 1, np.maximum(0.0, last - per_micro), 0.0)


def _idle(stages: Floats, virtual: Floats, count: Floats) -> Floats:
    """Micro batches that a stage could compute while it waits: (p - 1)/v of p stages, and one for each that is missing to p in every round."""
    return np.maximum(count, stages) * (1 - 1 / virtual) + (count + stages - 1) / virtual - count


def _flop_per_token(t: Table, sequences: Sequences) -> Floats:
    """Model FLOPs of one token of a document, including those of the tokens that an encoder reads for it."""
    m, j = t.model, t.job
    products = np.where(j.adapters > 0, 2.0, 3.0) * 2
    active = m.active_matrix - (m.token_matrix + m.output_matrix) * (1 - j.predicts_tokens)
    own = products * active + 3 * attention_flop(t, _context(t, sequences.own_context))
    if t.source is None:
        return own
    e = t.prompts
    read = products * e.model.active_matrix + 3 * attention_flop(e, j.input_tokens / 2)
    return own + read * m.reads_source * j.input_tokens / sequences.useful


def _context(t: Table, own: Floats) -> Floats:
    """Mean number of tokens that a token attends to: `own`, of its sequence, and all that an encoder has read."""
    return own + t.job.input_tokens * t.model.reads_source


def _pass(t: Table, sequences: Sequences | None = None) -> Pass:
    sequences = sequences or sequences_of(t)
    tokens = t.layout.micro_batch * sequences.computed / t.layout.cp
    return forward(t, tokens, _context(t, sequences.context), sequences.computed, head_rows=tokens * t.job.predicts_tokens)


def _encoder_pass(t: Table) -> Pass:
    """Encoders of one micro batch; an encoder also attends to what follows a token."""
    j, encodes = t.job, t.model.reads_source
    read = np.maximum(j.input_tokens, 2.0)
    return forward(t.prompts, t.layout.micro_batch * read, read / 2, read, head_rows=np.zeros(1)).times(encodes)


def _pass_once(t: Table, alike: Rows, passed: Callable[[Table], Pass]) -> Pass:
    """`passed` computed once for all rows with the same number in `alike`."""
    row, place = distinct(alike)
    return passed(t.take(row)).at(0, place)


def phase_factors(t: Table) -> dict[str, dict[str, Floats]]:
    """Phase -> operator class -> its time ÷ that of a forward pass; "launch": the host's launches.

    Full checkpointing runs the layers again, checkpointing by operators all but attention and the products and exchange it keeps, selective
    checkpointing the attention's scores. Frozen weights under adapters get no gradients.
    """
    again, by_operators = (t.layout.checkpointing > 1) * 1.0, t.layout.checkpointing == CHECKPOINTING["selective-op"]
    products = np.where(t.job.adapters > 0, 1.0, 2.0)
    one, two, none = np.ones(1), np.full(1, 2.0), np.zeros(1)
    classes = ("matmul", "attention", "elementwise", "head", "communication", "latency", "launch")
    recompute = dict.fromkeys(classes, again) | {
        "matmul": np.where(by_operators, t.footprint.recomputed_products, again),
        "attention": again * ~by_operators + 0.5 * (t.layout.checkpointing == CHECKPOINTING["selective"]),
        "communication": np.where(by_operators, t.footprint.recomputed_exchange, again),
        "head": none,
    }
    launches = np.full(1, BACKWARD_LAUNCHES)
    backward = {
        "matmul": products,
        "attention": np.where(t.job.eager_attention > 0, EAGER_BACKWARD, backward_factor(t)),
        "elementwise": two,
        "head": products,
        "communication": one,
        "latency": launches,
        "launch": launches,
    }
    return {"forward": dict.fromkeys(classes, one), "recompute": recompute, "backward": backward}


def _trained(t: Table, stage: Stage) -> Floats:
    """Parameters that one GPU trains, before ZeRO."""
    return np.where(t.job.adapters > 0, stage_adapters(t), stage.linear + stage.other)


def update_s(t: Table, trained: Floats) -> dict[str, Floats]:
    """Seconds of the update by its parts: states, gradients and weights are moved once, divided among the ranks that share states.

    Products in 16 bit are divided among all ranks of data parallelism, as in Muon's own code (github.com/KellerJordan/Muon).

    States in host memory are updated there, for all GPUs of a node at the rate of one memory (ZeRO-Offload, arXiv:2101.06840 §4).
    """
    j, s, c = t.job, t.layout, t.chip
    parameters = trained / trained_ranks(t, 1)
    moved = parameters * j.state_traffic
    carried_s = parameters * 8 / HOST_LINK_BYTES_PER_S
    updated_s = parameters * np.minimum(s.gpus, s.gpus_per_node) * j.state_traffic / HOST_READ_BYTES_PER_S
    tensors = np.where(j.adapters > 0, 14.0, 11.0) * all_layers(t) / s.pp
    launches = tensors * 2 * c.launch_s * (j.state_traffic > 0)
    return {
        "products of the update": trained / trained_ranks(t, 0) * j.state_flop / c.wide_flop_per_s,
        "states, gradients and weights": moved / c.bandwidth_bytes_per_s,
        "states in host memory": np.where(j.offload_optimizer > 0, carried_s + updated_s, 0.0),
        "launches": launches,
    }


def _offloaded_s(t: Table, compute_s: Floats) -> Floats:
    """Exposed seconds of moving a micro batch's activations to the host and back in parallel with `compute_s` of work."""
    in_flight = np.where(t.layout.pp > 1, np.minimum(t.layout.pp, micro_batches(t)), 1.0)
    moved_s = 2 * offloaded_activations(t) / in_flight / HOST_LINK_BYTES_PER_S
    return np.maximum(0.1 * moved_s, moved_s - OVERLAP * compute_s)


def _stage_traffic(t: Table, tokens: Floats) -> Floats:
    """Seconds of sending activations to the next pipeline stage and gradients back, for one micro batch."""
    s = t.layout
    size = 2 * tokens * t.model.width * 2 / s.tp
    bandwidth = peer_bytes_per_s(t, s.tp * s.pp > s.gpus_per_node)
    return np.where(s.pp > 1, size / np.where(bandwidth > 0, bandwidth, np.inf), 0.0)
