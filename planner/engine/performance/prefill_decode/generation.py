"""Seconds of generating: the prompt's pass, a decoding step, and what requests see of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.performance.operators.forward_pass import attended_tokens
from planner.engine.performance.prefill_decode.passes import Load, Model, Passes, draft_of, load_of, mixed_wait_s, model_of
from planner.engine.performance.prefill_decode.request_latency import Latency, LoopTimes, closed_loop, fixed_batch


@dataclass(frozen=True)
class ServeColumns:
    """Shape [rows]; a replica is one tp·pp group, the deployment has dp of them."""

    prefill_s: Floats
    """The prompts of the batch (generate, prefill) or of one request (serve)."""
    step_s: Floats
    """One decoding step of B sequences, between-token time without prefills."""
    ttft_s: Latency
    """From sending a request until its first token."""
    tpot_s: Latency
    """Time between the tokens of a request."""
    request_s: Latency
    requests_per_s: Floats
    """Of one replica."""
    by_class: dict[str, Floats]
    compute_bound: Floats
    flop_per_token: Floats
    phases: dict[str, Passes]
    """"prefill" of the batch, or of one request of those served; and "decode". With a draft model, "draft prefill" and "draft"."""


def serve_of(t: Table, *, continuous: bool) -> ServeColumns:
    """Times of every candidate; `continuous`: finished sequences are replaced at once (serve), else one fixed batch."""
    e, load = t.engine, load_of(t, continuous=continuous)
    model, draft = model_of(t, load), draft_of(t, load)
    models = [model, draft] if draft else [model]
    waited_s = mixed_wait_s(model, load) if continuous else np.zeros(1)
    host_s = e.host_step_s + e.host_sequence_s * load.sequences
    prefill_s = (added(one.prompt_s for one in models) + e.host_step_s) / load.each + waited_s
    step_s = added(one.token_s for one in models) + host_s * model.often
    if continuous:
        alone_s = added(one.alone_s for one in models) + e.host_step_s + waited_s
        read_s = added(one.step.attention * one.often for one in models) * t.layout.pp
        ttft, tpot, request, requests_per_s = closed_loop(t, load, LoopTimes(prefill_s, alone_s, step_s, read_s))
    else:
        ttft, tpot, request, requests_per_s = fixed_batch(load, prefill_s, step_s)
    phases = _phases(model, draft, load, (waited_s, host_s))

    def full(value: Floats) -> Floats:
        return np.broadcast_to(value, (t.rows,))

    by_class = {name: added(of.by_class[name] for of in phases.values()) for name in phases["prefill"].by_class}
    return ServeColumns(
        prefill_s=full(prefill_s),
        step_s=full(step_s),
        ttft_s=ttft.map(full),
        tpot_s=tpot.map(full),
        request_s=request.map(full),
        requests_per_s=full(requests_per_s),
        by_class={name: full(value) for name, value in by_class.items()},
        compute_bound=full(added(one.compute_bound_s(load.steps) for one in models)),
        flop_per_token=full(_flop_per_token(t, load)),
        phases=phases,
    )


def _phases(model: Model, draft: Model | None, load: Load, around: tuple[Floats, Floats]) -> dict[str, Passes]:
    """`around`: seconds that a prompt's iterations wait for the host, and that the engine takes around a step."""
    waited_s, host_s = around
    prefill = model.prefill(load, model.table.engine.host_step_s)
    prefill.by_class["launch"] = prefill.by_class["launch"] + waited_s
    found = {"prefill": prefill}
    if draft:
        found |= {"draft prefill": draft.prefill(load, 0.0), "draft": draft.decode(load, 0.0)}
    return found | {"decode": model.decode(load, host_s)}


def _flop_per_token(t: Table, load: Load) -> Floats:
    """2·N and causal attention; one output token carries its share of the prompt."""
    m = t.model
    return 2 * m.active_matrix + 2 * m.layers * m.attended * attended_tokens(t, load.context)
