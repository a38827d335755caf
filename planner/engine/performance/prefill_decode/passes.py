"""Passes over prompts and decoding steps of a model, and of its draft.

Symbols: B sequences in flight on one replica · o output tokens of a request · n passes of prompts that begin with a decoding step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, Table, distinct
from planner.engine.columns.limits import chunk_tokens
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass, Shape, forward, forward_each, forward_grouped
from planner.engine.performance.prefill_decode.engine_limits import graph_rows
from planner.engine.performance.prefill_decode.speculative_decoding import drafting, tokens_per_round, verification
from planner.engine.records.job import BYTES_BY_KIND


class Passes(msgspec.Struct, frozen=True):
    """Passes of one phase of generating, shape [rows]."""

    one: Pass
    """One pass through one stage of the pipeline."""
    count: Floats
    """Passes through every stage."""
    by_class: dict[str, Floats]
    """Seconds of all passes through all stages."""


class Batch(msgspec.Struct, frozen=True):
    """Work that one replica has in flight, shape [rows]."""

    sequences: Floats
    prompts: Floats
    """Prompts that share a pass."""
    requests: Floats
    """Requests that share the times of a phase: 1 if these are of a whole batch, else those whose prompts share a pass."""
    fresh: Floats
    """Tokens of a prompt that are not in the prefix cache."""
    context: Floats
    """Mean number of tokens that a sequence attends to while it decodes."""
    steps: Floats
    """Tokens of a request after its first."""
    mixed_factor: Floats
    """Device time of prompts that share iterations with running sequences ÷ that of prompts alone."""
    streams: Floats
    """Micro batches that the stages of a pipeline work on at once (`micro_batches`)."""

    @property
    def alone(self) -> bool:
        """True if no prompt of any row shares a pass with another."""
        return bool((self.prompts == 1).all())


def batch_of(t: Table, *, continuous: bool) -> Batch:
    """Batch of every candidate; `continuous`: finished sequences are replaced at once, so that prompts meet running sequences."""
    j = t.job
    sequences = np.maximum(t.layout.sequences, 1.0)
    fresh = j.input_tokens - j.prefix_tokens
    fitting = np.clip(np.floor(chunk_tokens(t) / fresh), 1.0, sequences)
    together = fitting * j.uniform_loop + (1 - j.uniform_loop)
    return Batch(
        sequences=sequences,
        prompts=together if continuous else sequences,
        requests=together if continuous else np.ones(1),
        fresh=fresh,
        context=j.input_tokens + j.output_tokens / 2,
        steps=np.maximum(j.output_tokens - 1, 0.0),
        mixed_factor=np.where(sequences > 1, t.engine.mixed_factor, 1.0) if continuous else np.ones(1),
        streams=np.minimum(micro_batches(t), sequences) if continuous else np.ones(1),
    )


def micro_batches(t: Table) -> Floats:
    """Micro batches of a service that are in the stages of a pipeline at once, where enough sequences run. Shape [rows].

    As many as there are stages: vLLM's batch queue, SGLang's and TensorRT-LLM's micro batches of pp ranks.
    """
    return np.where(t.engine.interleaves_stages > 0, t.layout.pp, 1.0)


class Chunks(NamedTuple):
    """Equal chunks in which prompts are read, shape [rows]."""

    one: Pass
    number: Floats

    @property
    def total_s(self) -> Floats:
        """Seconds of all chunks, one after the other, in one stage of the pipeline."""
        return self.one.total * self.number


class ModelPasses(msgspec.Struct, frozen=True):
    """Passes of the model or of its draft, shape [rows]."""

    table: Table
    prompts: Chunks
    """Chunks of the prompts that share a pass."""
    single: Chunks
    """Chunks of a prompt alone."""
    step: Pass
    steps_per_token: Floats
    """Steps per generated token."""
    streams: Floats
    """See `Batch`."""

    @property
    def stage_times(self) -> Floats:
        """Number of stage times for which a chunk keeps a stage from other work; successive chunks, and micro batches, overlap."""
        pp = self.table.layout.pp
        overlapped = self.table.engine.pipelined_prompt * (1 + (pp - 1) / np.maximum(self.prompts.number, 1.0) - pp)
        return (pp + overlapped) / self.streams

    @property
    def prompts_s(self) -> Floats:
        """Seconds of the prompts that share a pass."""
        return self.prompts.total_s * self.stage_times

    @property
    def single_s(self) -> Floats:
        """Seconds of a prompt alone."""
        return self.single.total_s * self.table.layout.pp

    @property
    def token_s(self) -> Floats:
        """Seconds per generated token."""
        return self.step.total * self.table.layout.pp * self.steps_per_token

    def compute_bound_s(self, steps: Floats) -> Floats:
        """Part of the prompts and of `steps` tokens in which FLOPs take longer than bytes."""
        decoding = self.step.compute_bound * self.steps_per_token * steps * self.table.layout.pp
        return self.prompts.one.compute_bound * self.prompts.number * self.stage_times + decoding

    def prefill(self, batch: Batch, host_s: Floats | float) -> Passes:
        """Prompts of one request, or of the whole batch; `host_s`: the engine's time for them."""
        chunk, number = self.prompts
        passes = number * self.stage_times / self.table.layout.pp / batch.requests
        return Passes(chunk, number / batch.requests, _by_class(self.table, chunk, passes, host_s))

    def decode(self, batch: Batch, host_s: Floats | float) -> Passes:
        """One request after its first token; `host_s`: the engine's time per step."""
        count = self.steps_per_token * batch.steps
        return Passes(self.step, count, _by_class(self.table, self.step, count, host_s * count))


def model_passes(t: Table, batch: Batch, alike: Rows | None = None) -> ModelPasses:
    """Passes of the model itself, which checks the proposals of a draft where there is one.

    `alike`: rows with the same number do not differ in anything that a prompt alone depends on, unless weights are in the host's memory.
    """
    running = batch.sequences / batch.streams
    padded = graph_rows(t, running)
    sizes = [running] if np.all(padded == running) else [running, padded]
    once = alike if batch.alone and not np.any(t.job.offload_parameters) else None
    steps, prompts, single = _passes(t, batch, sizes, once)
    step = steps[0] if len(steps) == 1 else _by_chance(t, batch, *steps)
    steps_per_token = np.ones(1)
    if drafting(t) is not None:
        steps_per_token = 1 / tokens_per_round(t.job.draft_tokens, t.job.acceptance)
        step = verification(t, running, batch.context, step)
    prompts, single = (Chunks(chunk.slowed(batch.mixed_factor), number) for chunk, number in (prompts, single))
    return ModelPasses(t, prompts, single, step, steps_per_token, batch.streams)


def _by_chance(t: Table, batch: Batch, step: Pass, padded: Pass) -> Pass:
    """The `step` with CUDA graphs: steps that happen to have no prompts compute the rows of the next larger graph.

    Padded rows attend to nothing.
    """
    chunk = chunk_tokens(t)
    chunks = np.where(chunk > 0, np.maximum(batch.fresh / np.maximum(chunk, 1.0), 1.0), 1.0)
    alone = np.exp(-step.shape[0] * chunks / np.maximum(batch.steps, 1.0))
    changed = [name for name in (*DEVICE_CLASSES, "compute_bound") if name != "attention"]
    return replace(step, **{name: getattr(step, name) + alone * (getattr(padded, name) - getattr(step, name)) for name in changed})


def draft_passes(t: Table, batch: Batch) -> ModelPasses | None:
    """Passes of the draft, which take no time in rows without one; None if no row has one that is timed."""
    d = drafting(t)
    if d is None:
        return None
    proposed = t.job.draft_tokens
    drafts = (proposed > 0) * 1.0
    (step,), *read = _passes(d, batch, [batch.sequences / batch.streams])
    prompts, single = (Chunks(chunk, number * drafts) for chunk, number in read)
    steps_per_token = proposed / tokens_per_round(proposed, t.job.acceptance)
    return ModelPasses(d, prompts, single, step, steps_per_token, batch.streams)


def encoder_passes(t: Table, batch: Batch) -> ModelPasses | None:
    """Passes of prompts through encoders, which take no time in rows without one; None if no row has one.

    An encoder reads whole prompts, and its output is multiplied once with the projections to the decoder's keys and values.
    """
    if t.source is None:
        return None
    e, encodes, one = t.prompts, t.model.reads_source, np.ones_like(batch.sequences)

    def chunks_of(prompts: Floats) -> Chunks:
        rows = prompts * batch.fresh
        together = np.maximum(batch.fresh, np.where(chunk_tokens(t) > 0, chunk_tokens(t), rows))
        chunks = np.maximum(1.0, rows / together)
        passed = forward(e, rows / chunks, t.job.input_tokens / 2, np.maximum(batch.fresh, 2.0), head_rows=np.zeros(1))
        return Chunks(passed.slowed(batch.mixed_factor), chunks * encodes)

    step = forward(e, one, one, one, head_rows=np.zeros(1))
    return ModelPasses(e, chunks_of(batch.prompts), chunks_of(one), step, np.zeros(1), batch.streams)


def tower_table(t: Table) -> Table:
    """Candidates with the towers of their pictures as their model, in 16 bit and whole on every rank, unless the engine divides them."""
    if t.tower is None:
        return t
    one, sixteen, nothing = np.ones(1), np.full(1, 2.0), np.zeros(1)
    ranks = np.where(t.engine.divides_towers > 0, t.layout.tp, one)
    layout = replace(t.layout, tp=ranks, pp=one, cp=one, ep=one)
    plain = ("narrow_bytes", "weight_bits_packed", "gptq", "bitsandbytes", "unpack_host_s", "served_adapters", "offload_parameters")
    job = replace(t.job, **dict.fromkeys(BYTES_BY_KIND, sixteen), **dict.fromkeys(plain, nothing))
    return replace(t, model=t.tower, job=job, layout=layout, tower=None, source=None, draft=None, draft_model=None)


def tower_passes(t: Table, batch: Batch) -> ModelPasses | None:
    """Passes of the pictures of prompts through towers; None if no prompt has a picture.

    Each patch attends to those of its own picture. Pictures of prompts that share a pass also share one.
    """
    if t.tower is None:
        return None
    whole, one, none = tower_table(t), np.ones_like(batch.sequences), np.zeros(1)
    patches = np.maximum(t.job.picture_patches, 1.0)

    def passed(prompts: Floats) -> Chunks:
        rows = np.maximum(prompts * t.job.pictures, 1e-9) * patches
        shown = (t.job.pictures > 0) * np.ones_like(prompts)
        return Chunks(forward(whole, rows, patches / 2, np.maximum(patches, 2.0), head_rows=none), shown)

    step = forward(whole, one, one, one, head_rows=none)
    return ModelPasses(whole, passed(batch.prompts), passed(one), step, none, streams=np.ones(1))


def _passes(t: Table, batch: Batch, steps: Sequence[Floats], alike: Rows | None = None) -> tuple[list[Pass], Chunks, Chunks]:
    """Decoding steps of `steps` sequences, the prompts that share a pass, and a prompt alone.

    All are computed in one call of the formulas; `alike`: rows with the same number are one row of the table, and have one prompt.
    """
    one = np.ones_like(batch.sequences)
    decoding: list[Shape] = [(running, batch.context, one, running) for running in steps]
    if alike is None:
        prompts = [_chunk(t, together) for together in ([one] if batch.alone else [batch.prompts, one])]
        passes = forward_each(t, [*decoding, *(shape for shape, _ in prompts)])
    else:
        row, place = distinct(alike)
        few = t.take(row)
        shape, chunks = _chunk(few, batch.prompts[row])
        prompts = [(shape, chunks[place])]
        if row.size > 1:
            passes = forward_grouped(few, decoding, shape, place)
        else:
            passes = [*forward_each(t, decoding), forward(few, *shape).at(0, place)]
    found = [Chunks(chunk, number) for chunk, (_, number) in zip(passes[len(steps) :], prompts, strict=True)]
    return passes[: len(steps)], found[0], found[-1]


def _chunk(t: Table, prompts: Floats) -> tuple[Shape, Floats]:
    """(shape of one chunk, chunks) of `prompts`, whoever waits for them; a token attends to half of all preceding tokens on average.

    A decoder whose prompt an encoder reads begins with one token.
    """
    j, starts = t.job, t.model.reads_source > 0
    fresh = np.where(starts, 1.0, j.input_tokens - j.prefix_tokens)
    rows = prompts * fresh / t.layout.cp
    most = chunk_tokens(t)
    chunk = np.where(most > 0, most, rows)
    chunks = np.maximum(1.0, rows / chunk)
    context = np.where(starts, j.input_tokens + 1, (j.input_tokens + j.prefix_tokens) / 2)
    return (rows / chunks, context, np.minimum(fresh, rows / chunks), prompts / chunks), chunks


def launch_wait_s(model: ModelPasses, batch: Batch) -> Floats:
    """Seconds for which the iterations of a prompt wait for the host, where those with running sequences are launched operator by operator.

    n = B·chunks/(steps·micro batches) passes of prompts begin with each decoding step of a closed loop, at random. An iteration lasts as
    long as its prompts and the step take on the device, or as the host needs to launch it, so a loop never takes longer than if all its
    steps were launched.
    """
    t = model.table
    launch_s = t.model.layers / t.layout.pp * t.engine.mixed_launches_per_layer * t.chip.launch_s
    chunks = model.single.number
    together = mean_if_any(batch.sequences / batch.streams * chunks / np.maximum(batch.steps, 1.0))
    prompt = model.prompts.total_s / batch.requests / chunks
    wait_s = np.maximum(0.0, np.maximum(0.0, launch_s - model.step.device) / together - prompt)
    meeting = (t.engine.mixed_launches_per_layer > 0) & (batch.sequences > 1) & (batch.steps > 0)
    return wait_s * chunks * t.layout.pp / batch.streams * meeting


def mean_if_any(mean: Floats) -> Floats:
    """n/(1 - exp(-n)): mean of a Poisson count of mean n where it is not 0."""
    n = np.maximum(mean, 1e-9)
    return n / -np.expm1(-n)


def _by_class(t: Table, one: Pass, passes: Floats, host_s: Floats | float) -> dict[str, Floats]:
    """Seconds by class of `passes` through all pipeline stages, including `host_s` of the engine."""
    scale = passes * t.layout.pp
    return {name: getattr(one, name) * scale for name in DEVICE_CLASSES} | {
        "launch": np.maximum(0.0, one.host - one.device) * scale,
        "host": host_s * np.ones(1),
    }
