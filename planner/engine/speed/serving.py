"""Seconds of generating: the prompt's pass, a decoding step, and a replica that always has its sequences in flight.

Symbols: B sequences in flight on one replica · i, o input and output tokens of a request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.speed.operators import Pass, attended_tokens, forward
from planner.engine.speed.speculation import drafting, tokens_per_round, verification

ROUNDS = 10.0
"""Requests that a load generator sends for each of its concurrent clients, all of which start together; ten is the usual setting."""
NORMAL_TAILS = (1.645, 2.326)
"""Standard deviations to the 95th and the 99th percentile."""


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
class ServeColumns:
    """Shape [rows]; a replica is one tp·pp group, the deployment has dp of them."""

    prefill_s: Floats
    """The prompts of the batch (generate, prefill) or of one request (serve)."""
    step_s: Floats
    """One decoding step of B sequences, between-token time without prefills."""
    ttft_s: Floats
    """Mean, as the two below; then the percentiles of each."""
    ttft_p50_s: Floats
    ttft_p95_s: Floats
    ttft_p99_s: Floats
    tpot_s: Floats
    tpot_p50_s: Floats
    tpot_p95_s: Floats
    tpot_p99_s: Floats
    request_s: Floats
    request_p50_s: Floats
    request_p95_s: Floats
    request_p99_s: Floats
    requests_per_s: Floats
    """Of one replica."""
    by_class: dict[str, Floats]
    compute_bound: Floats
    flop_per_token: Floats
    phases: dict[str, Passes]
    """"prefill" of the batch, or of one request of those served; and "decode". With a draft model, "draft prefill" and "draft"."""


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


def serve_of(t: Table, *, continuous: bool) -> ServeColumns:
    """Times of every candidate; `continuous`: finished sequences are replaced at once (serve), else one fixed batch."""
    j, s, m = t.job, t.layout, t.model
    batch = np.maximum(s.sequences, 1.0)
    fresh = j.input_tokens - j.prefix_tokens
    together = np.clip(np.floor(t.engine.prefill_chunk / fresh), 1.0, batch) * j.lockstep + (1 - j.lockstep)
    prompts = together if continuous else batch
    slower = np.where(batch > 1, t.engine.mixed_factor, 1.0) if continuous else np.ones(1)
    passes, prefill = _prompt(t, prompts, fresh, slower)
    stages = s.pp + t.engine.pipelined_prompt * (1 + (s.pp - 1) / passes - s.pp)
    prompt_s = prefill.total * passes * stages
    context = j.input_tokens + j.output_tokens / 2
    decode = forward(t, batch, context, np.ones_like(batch), head_rows=batch)
    steps = np.maximum(j.output_tokens - 1, 0.0)
    shared = prompts if continuous else np.ones(1)
    bound = prefill.compute_bound * passes * stages
    host_s = t.engine.host_step_s + t.engine.host_sequence_s * batch
    classes = _classes(t, prefill, passes * stages / s.pp / shared, t.engine.host_step_s)
    phases = {"prefill": Passes(prefill, passes / shared, classes)}
    drafted = _drafted(t, prompts, fresh, batch, context)
    rounds = np.ones(1)
    if drafted is not None:
        rounds, decode = drafted.rounds, verification(t, batch, context, decode)
        prompt_s = prompt_s + drafted.prompt.total * drafted.passes * stages
        phases["draft prefill"] = drafted.prefill(stages, shared)
        phases["draft"] = drafted.decode(steps)
        bound = bound + (
            drafted.prompt.compute_bound * drafted.passes * stages + drafted.one.compute_bound * drafted.often * steps * s.pp
        )
    chunks, single = _prompt(t, np.ones_like(batch), fresh, slower)
    waited_s = _mixed_wait_s(t, batch, chunks, single, decode) if continuous else np.zeros(1)
    classes["launch"] = classes["launch"] + waited_s
    prefill_s = (prompt_s + t.engine.host_step_s) / shared + waited_s
    step_s = (decode.total * s.pp + host_s) * rounds + (drafted.token_s if drafted else 0.0)
    passed = steps * rounds
    phases["decode"] = Passes(decode, passed, _classes(t, decode, passed, host_s * passed))
    by_class = {name: added(of.by_class[name] for of in phases.values()) for name in phases["prefill"].by_class}
    by_class = {name: np.broadcast_to(value, (t.rows,)) for name, value in by_class.items()}
    bound = bound + decode.compute_bound * passed * s.pp
    # 2·N per token and causal attention; one output token carries its share of the prompt
    flop = 2 * m.active_matrix + 2 * m.layers * m.attended * attended_tokens(t, context)
    common = {"prefill_s": prefill_s, "step_s": step_s}
    if continuous:
        alone_s = single.total * chunks * s.pp + t.engine.host_step_s + waited_s
        read_s = decode.attention * rounds
        if drafted is not None:
            alone_s, read_s = alone_s + drafted.alone_s, read_s + drafted.one.attention * drafted.often
        times = _continuous(t, batch, prompts, (prefill_s, alone_s, step_s), read_s)
    else:
        times = _fixed(batch, prefill_s, step_s, steps)
    full = {name: np.broadcast_to(value, (t.rows,)) for name, value in (common | times).items()}
    return ServeColumns(
        **full,
        by_class=by_class,
        compute_bound=np.broadcast_to(bound, (t.rows,)),
        flop_per_token=np.broadcast_to(flop, (t.rows,)),
        phases=phases,
    )


@dataclass(frozen=True)
class _Drafted:
    """What a draft model adds; `often` and `rounds` are its passes, and the model's own, for one token."""

    table: Table
    prompt: Pass
    passes: Floats
    alone_s: Floats
    """Of a prompt alone in its pass."""
    one: Pass
    often: Floats
    rounds: Floats

    @property
    def token_s(self) -> Floats:
        """Of drafting, for one token that comes out."""
        return self.one.total * self.table.layout.pp * self.often

    def prefill(self, stages: Floats, shared: Floats) -> Passes:
        """Of the prompts of a batch, or one of the `shared` prompts of a pass."""
        times = self.passes * stages / self.table.layout.pp / shared
        return Passes(self.prompt, self.passes / shared, _classes(self.table, self.prompt, times, 0.0))

    def decode(self, steps: Floats) -> Passes:
        """Of `steps` tokens."""
        count = self.often * steps
        return Passes(self.one, count, _classes(self.table, self.one, count, 0.0))


def _drafted(t: Table, prompts: Floats, fresh: Floats, batch: Floats, context: Floats) -> _Drafted | None:
    """None where no candidate has a draft that is timed; of those without one among others it takes no time."""
    d = drafting(t)
    if d is None:
        return None
    proposed = t.job.draft_tokens
    there = (proposed > 0) * 1.0
    rounds = 1 / tokens_per_round(proposed, t.job.acceptance)
    passes, prompt = _prompt(d, prompts, fresh)
    chunks, single = _prompt(d, np.ones_like(batch), fresh)
    one = forward(d, batch, context, np.ones_like(batch), head_rows=batch)
    return _Drafted(d, prompt, passes * there, single.total * chunks * t.layout.pp * there, one, proposed * rounds, rounds)


def _prompt(t: Table, prompts: Floats, fresh: Floats, slower: Floats | float = 1.0) -> tuple[Floats, Pass]:
    """(passes, one of them) that `prompts` of `fresh` tokens take in chunks; each sees half of all tokens before it, on average.

    `slower`: device time over that of prompts alone.
    """
    j, s = t.job, t.layout
    rows = prompts * fresh / s.cp
    chunk = np.where(t.engine.prefill_chunk > 0, t.engine.prefill_chunk, rows)
    passes = np.maximum(1.0, rows / chunk)
    context = (j.input_tokens + j.prefix_tokens) / 2
    return passes, forward(t, rows / passes, context, np.minimum(fresh, rows / passes), head_rows=prompts / passes).slowed(slower)


def _mixed_wait_s(t: Table, batch: Floats, chunks: Floats, single: Pass, decode: Pass) -> Floats:
    """Seconds that the iterations of a prompt wait for the host, where those with running sequences are launched operator by operator.

    n = B·chunks/o passes of prompts begin with each decoding step of a closed loop, by chance, so that those there are come
    n/(1 - exp(-n)) at a time. An iteration lasts as long as its prompts and the step take on the device, or as the host needs to
    launch it.
    """
    launch_s = t.model.layers / t.layout.pp * t.engine.mixed_launches_per_layer * t.chip.launch_s
    together = at_a_time(batch * chunks / np.maximum(t.job.output_tokens, 1.0))
    wait_s = np.maximum(0.0, np.maximum(0.0, launch_s - decode.device) / together - single.device)
    result: Floats = wait_s * chunks * t.layout.pp * (t.engine.mixed_launches_per_layer > 0) * (batch > 1)
    return result


def at_a_time(begin: Floats) -> Floats:
    """n/(1 - exp(-n)): how many begin with a step in which any do, where n begin with a step on average."""
    few = np.maximum(begin, 1e-9)
    found: Floats = few / -np.expm1(-few)
    return found


def _fixed(batch: Floats, prefill_s: Floats, step_s: Floats, steps: Floats) -> dict[str, Floats]:
    request = prefill_s + steps * step_s
    alike = {"ttft": prefill_s, "tpot": step_s, "request": request}
    shares = ("_s", "_p50_s", "_p95_s", "_p99_s")
    return {name + share: value for name, value in alike.items() for share in shares} | {"requests_per_s": batch / request}


def _first_token(
    t: Table, batch: Floats, prompts: Floats, prefill_s: Floats, alone_s: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """(mean, 95th, 99th percentile, prompts the middle one waits for) of a closed loop of B requests of one length.

    All start together, so in the first round the middle one waits for (B + n)/2 prompts, n of which share a pass. Engines that
    put prompts first keep them in step: running sequences stand still until all have their first token, so all end together and
    every round is like the first. They hand a token over while the next pass runs, so that it appears one pass of n later.
    Where prompts share iterations, sequences drift apart, and later rounds wait for few.
    """
    first = (batch + prompts) / 2
    few = np.minimum(t.engine.prompts_together, first)
    drifting = first / ROUNDS * prefill_s + (1 - 1 / ROUNDS) * few * alone_s
    in_step = prefill_s * (first + prompts * (1 - prompts / batch))
    waits = t.engine.prompts_first > 0
    # a tenth of the requests are of the first round: its middle is the 95th percentile, nine tenths of it the 99th
    late = np.where(waits, prefill_s * batch, np.maximum(first * prefill_s, few * alone_s))
    last = np.where(waits, prefill_s * batch, np.maximum((0.9 * batch + 0.1 * prompts) * prefill_s, late))
    return np.where(waits, in_step, drifting), late, last, first


def _continuous(
    t: Table, batch: Floats, prompts: Floats, times: tuple[Floats, Floats, Floats], read_s: Floats
) -> dict[str, Floats]:
    """A closed loop of B requests: while one lives, every other is prefilled once, so it lasts B·prefill + o·step.

    `times`: seconds of a prompt among those it shares a pass with, of a prompt alone in its pass, and of a decoding step; `read_s`:
    those of attention in one stage, a token. Requests
    of one length at a fixed concurrency start together (`_first_token`); independent ones wait as in a queue with the share of
    time that prefills take. High percentiles take the load seen by an unlucky request: with many independent users the number
    in flight is Poisson, so B + 1.645·sqrt(B) at the 95th; the time that grows with B is the prefills and the reading of the caches.
    They screen candidates; `planner.engine.speed.service` simulates those that are shown.
    """
    prefill_s, alone_s, step_s = times
    output = np.maximum(t.job.output_tokens, 1.0)
    cycle = batch * prefill_s + output * step_s
    share = np.minimum(0.95, batch * prefill_s / cycle)
    queued = prefill_s * (1 + np.minimum(batch / 2, 0.5 * share / (1 - share)))
    together, late, last, first = _first_token(t, batch, prompts, prefill_s, alone_s)
    lockstep = t.job.lockstep > 0
    in_step = lockstep & (t.engine.prompts_first > 0)
    ttft = np.where(lockstep, together, queued) + 0.5 * step_s
    # in step, a sequence waits for the prompts after its own and then decodes undisturbed
    tpot = np.where(in_step, (batch - first) * prefill_s + (output - 1) * step_s, cycle - ttft) / np.maximum(output - 1, 1.0)
    growing = prefill_s + output * read_s * t.layout.pp / batch
    request_p95, request_p99 = (cycle + tail * np.sqrt(batch) * growing for tail in NORMAL_TAILS)
    tails = [prefill_s + np.minimum(batch * prefill_s, factor * (queued - prefill_s)) for factor in (3.0, 4.6)]
    ttft_p95, ttft_p99 = (step_s + np.where(lockstep, of, tail) for of, tail in zip((late, last), tails, strict=True))
    steps = np.maximum(output - 1, 1.0)
    return {
        "ttft_s": ttft,
        "ttft_p50_s": ttft,
        "ttft_p95_s": ttft_p95,
        "ttft_p99_s": ttft_p99,
        "tpot_s": tpot,
        "tpot_p50_s": tpot,
        "tpot_p95_s": np.maximum(tpot, (request_p95 - ttft_p95) / steps),
        "tpot_p99_s": np.maximum(tpot, np.maximum(request_p95 - ttft_p95, request_p99 - ttft_p99) / steps),
        "request_s": cycle,
        "request_p50_s": cycle,
        "request_p95_s": request_p95,
        "request_p99_s": request_p99,
        "requests_per_s": batch / cycle,
    }
