"""The two phases of generating, for the model and for the draft beside it: passes over prompts, and decoding steps.

Symbols: B sequences in flight on one replica · o output tokens of a request · n passes of prompts that begin with a decoding step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.performance.operators.forward_pass import Pass, forward
from planner.engine.performance.prefill_decode.speculative_decoding import drafting, tokens_per_round, verification


@dataclass(frozen=True)
class Passes:
    """One phase of generating, shape [rows]."""

    one: Pass
    """Through one stage of the pipeline."""
    count: Floats
    """How many of them every stage sees."""
    by_class: dict[str, Floats]
    """Seconds of all of them through all stages."""


@dataclass(frozen=True)
class Load:
    """What one replica has in flight, shape [rows]."""

    sequences: Floats
    prompts: Floats
    """Those that share a pass."""
    each: Floats
    """Requests that a phase is told of one of: 1 for the prompts of a whole batch, else those that share a pass."""
    fresh: Floats
    """Tokens of a prompt that no prefix holds."""
    context: Floats
    """Tokens a sequence attends to while it decodes, the mean."""
    steps: Floats
    """Tokens of a request after its first."""
    slower: Floats
    """Device time of prompts over that of prompts alone: they share iterations with running sequences."""


def load_of(t: Table, *, continuous: bool) -> Load:
    """`continuous`: finished sequences are replaced at once, so that prompts come beside running sequences."""
    j = t.job
    batch = np.maximum(t.layout.sequences, 1.0)
    fresh = j.input_tokens - j.prefix_tokens
    together = np.clip(np.floor(t.engine.prefill_chunk / fresh), 1.0, batch) * j.uniform_loop + (1 - j.uniform_loop)
    return Load(
        sequences=batch,
        prompts=together if continuous else batch,
        each=together if continuous else np.ones(1),
        fresh=fresh,
        context=j.input_tokens + j.output_tokens / 2,
        steps=np.maximum(j.output_tokens - 1, 0.0),
        slower=np.where(batch > 1, t.engine.mixed_factor, 1.0) if continuous else np.ones(1),
    )


@dataclass(frozen=True)
class Model:
    """What one of the models does, shape [rows]; every `Pass` is through one stage of the pipeline."""

    table: Table
    prompt: Pass
    """Of the prompts that share a pass, in `passes` chunks."""
    passes: Floats
    single: Pass
    """Of a prompt alone, in `chunks`."""
    chunks: Floats
    step: Pass
    often: Floats
    """Steps for one token that comes out."""

    @property
    def stages(self) -> Floats:
        """Times of one stage in which a pass gets through all of them; chunks that follow each other may overlap."""
        pp = self.table.layout.pp
        return pp + self.table.engine.pipelined_prompt * (1 + (pp - 1) / np.maximum(self.passes, 1.0) - pp)

    @property
    def prompt_s(self) -> Floats:
        """Of the prompts that share a pass."""
        return self.prompt.total * self.passes * self.stages

    @property
    def alone_s(self) -> Floats:
        """Of a prompt alone."""
        return self.single.total * self.chunks * self.table.layout.pp

    @property
    def token_s(self) -> Floats:
        """For one token that comes out."""
        return self.step.total * self.table.layout.pp * self.often

    def compute_bound_s(self, steps: Floats) -> Floats:
        """Of prompts and `steps` tokens, where FLOPs took longer than bytes."""
        decoding = self.step.compute_bound * self.often * steps * self.table.layout.pp
        return self.prompt.compute_bound * self.passes * self.stages + decoding

    def prefill(self, load: Load, host_s: Floats | float) -> Passes:
        """Of one request, or of the whole batch; `host_s` of the engine around it."""
        times = self.passes * self.stages / self.table.layout.pp / load.each
        return Passes(self.prompt, self.passes / load.each, _classes(self.table, self.prompt, times, host_s))

    def decode(self, load: Load, host_s: Floats | float) -> Passes:
        """Of one request after its first token; `host_s` of the engine around a step."""
        count = self.often * load.steps
        return Passes(self.step, count, _classes(self.table, self.step, count, host_s * count))


def model_of(t: Table, load: Load) -> Model:
    """The model itself, which checks what a draft proposed where there is one."""
    one = np.ones_like(load.sequences)
    step = forward(t, load.sequences, load.context, one, head_rows=load.sequences)
    often = np.ones(1)
    if drafting(t) is not None:
        often, step = (
            1 / tokens_per_round(t.job.draft_tokens, t.job.acceptance),
            verification(t, load.sequences, load.context, step),
        )
    return Model(t, *_reading(t, load.prompts, load, load.slower), *_reading(t, one, load, load.slower), step, often)


def draft_of(t: Table, load: Load) -> Model | None:
    """None where no candidate has a draft that is timed; of those without one among others it takes no time."""
    d = drafting(t)
    if d is None:
        return None
    proposed, one = t.job.draft_tokens, np.ones_like(load.sequences)
    there = (proposed > 0) * 1.0
    (prompt, passes), (single, chunks) = _reading(d, load.prompts, load), _reading(d, one, load)
    step = forward(d, load.sequences, load.context, one, head_rows=load.sequences)
    often = proposed / tokens_per_round(proposed, t.job.acceptance)
    return Model(d, prompt, passes * there, single, chunks * there, step, often)


def _reading(t: Table, prompts: Floats, load: Load, slower: Floats | float = 1.0) -> tuple[Pass, Floats]:
    """(one pass, how many) of `prompts` in chunks; each sees half of all tokens before it, on average."""
    j, fresh = t.job, load.fresh
    rows = prompts * fresh / t.layout.cp
    chunk = np.where(t.engine.prefill_chunk > 0, t.engine.prefill_chunk, rows)
    passes = np.maximum(1.0, rows / chunk)
    context = (j.input_tokens + j.prefix_tokens) / 2
    return forward(t, rows / passes, context, np.minimum(fresh, rows / passes), head_rows=prompts / passes).slowed(slower), passes


def mixed_wait_s(model: Model, load: Load) -> Floats:
    """Seconds that the iterations of a prompt wait for the host, where those with running sequences are launched operator by operator.

    n = B·chunks/o passes of prompts begin with each decoding step of a closed loop, by chance, so that those there are come
    n/(1 - exp(-n)) at a time. An iteration lasts as long as its prompts and the step take on the device, or as the host needs to
    launch it.
    """
    t = model.table
    launch_s = t.model.layers / t.layout.pp * t.engine.mixed_launches_per_layer * t.chip.launch_s
    together = at_a_time(load.sequences * model.chunks / np.maximum(t.job.output_tokens, 1.0))
    wait_s = np.maximum(0.0, np.maximum(0.0, launch_s - model.step.device) / together - model.single.device)
    result: Floats = wait_s * model.chunks * t.layout.pp * (t.engine.mixed_launches_per_layer > 0) * (load.sequences > 1)
    return result


def at_a_time(begin: Floats) -> Floats:
    """n/(1 - exp(-n)): how many begin with a step in which any do, where n begin with a step on average."""
    few = np.maximum(begin, 1e-9)
    found: Floats = few / -np.expm1(-few)
    return found


def _classes(t: Table, one: Pass, times: Floats, host_s: Floats | float) -> dict[str, Floats]:
    """Seconds by class of `times` passes over all pipeline stages, and `host_s` of the engine around them."""
    scale = times * t.layout.pp
    device = one.device
    return {
        "matmul": one.matmul * scale,
        "attention": one.attention * scale,
        "elementwise": one.elementwise * scale,
        "head": one.head * scale,
        "communication": one.communication * scale,
        "latency": one.latency * scale,
        "launch": np.maximum(0.0, one.host - device) * scale,
        "host": host_s * np.ones(1),
    }
