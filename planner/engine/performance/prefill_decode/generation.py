"""Seconds of generating: the pass over the prompt, a decoding step, and the latencies of requests."""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.columns import Floats, Rows, Table, added, full
from planner.engine.performance.operators.attention import attention_flop
from planner.engine.performance.operators.host_memory import prefix_load_s
from planner.engine.performance.prefill_decode.passes import (
    Batch,
    ModelPasses,
    Passes,
    batch_of,
    draft_passes,
    encoder_passes,
    launch_wait_s,
    model_passes,
    tower_passes,
)
from planner.engine.performance.prefill_decode.request_latency import Latency, LoopTimes, closed_loop, fixed_batch


class ServeColumns(msgspec.Struct, frozen=True):
    """Times of one replica, shape [rows]. A replica is a group of tp·pp GPUs; a deployment has dp of them."""

    prefill_s: Floats
    """Time of the prompts of the batch (generate, prefill) or of one request (serve)."""
    step_s: Floats
    """Time of one decoding step of all sequences: the time between tokens without prefills."""
    ttft_s: Latency
    """Time from sending a request until its first token."""
    tpot_s: Latency
    """Time between the tokens of a request."""
    request_s: Latency
    requests_per_s: Floats
    """Requests per second of one replica."""
    by_class: dict[str, Floats]
    compute_bound: Floats
    flop_per_token: Floats
    phases: dict[str, Passes]
    """"prefill" (of the batch; of one request in a service) and "decode"; with a draft also "draft prefill" and "draft"; "encoder" where
    one reads the prompt, with the decoder's first token as "prefill"; "pictures" where prompts have some."""


def serve_of(t: Table, *, continuous: bool, alike: Rows | None = None) -> ServeColumns:
    """Times of every candidate; `continuous`: finished sequences are replaced at once (serve), else one fixed batch. `alike`: see `model_passes`."""
    e, batch = t.engine, batch_of(t, continuous=continuous)
    model, draft, encoder = model_passes(t, batch, alike), draft_passes(t, batch), encoder_passes(t, batch)
    tower = tower_passes(t, batch)
    models = [model, *(one for one in (draft, encoder, tower) if one)]
    launch_s = launch_wait_s(model, batch) if continuous else np.zeros(1)
    host_s = e.host_step_s + e.host_sequence_s * batch.sequences
    prefill_s = (added(one.prompts_s for one in models) + e.host_step_s) / batch.requests + launch_s
    step_s = added(one.token_s for one in models) + host_s * model.steps_per_token
    if continuous:
        single_s = added(one.single_s for one in models) + e.host_step_s + launch_s
        attention_s = added(one.step.attention * one.steps_per_token for one in models) * t.layout.pp
        times = LoopTimes(prefill_s, single_s, step_s, attention_s)
        ttft, tpot, request, requests_per_s = closed_loop(t, batch, times)
        late_s = e.front_end_s + prefix_load_s(t) + e.late_steps * step_s * (t.job.output_tokens > 1)
        ttft, request = (latency.map(lambda seconds: seconds + late_s) for latency in (ttft, request))
        requests_per_s = batch.sequences / (batch.sequences / requests_per_s + late_s)
    else:
        ttft, tpot, request, requests_per_s = fixed_batch(batch, prefill_s, step_s)
    phases = _phases(model, draft, batch, launch_s, host_s)
    if encoder:
        phases = {"encoder": encoder.prefill(batch, 0.0), **phases}
    if tower:
        phases = {"pictures": tower.prefill(batch, 0.0), **phases}

    def whole(value: Floats) -> Floats:
        return full(value, t.rows)

    by_class = {name: added(phase.by_class[name] for phase in phases.values()) for name in phases["prefill"].by_class}
    return ServeColumns(
        prefill_s=whole(prefill_s),
        step_s=whole(step_s),
        ttft_s=ttft.map(whole),
        tpot_s=tpot.map(whole),
        request_s=request.map(whole),
        requests_per_s=whole(requests_per_s),
        by_class={name: whole(value) for name, value in by_class.items()},
        compute_bound=whole(added(one.compute_bound_s(batch.steps) for one in models)),
        flop_per_token=whole(_flop_per_token(t, batch)),
        phases=phases,
    )


def _phases(model: ModelPasses, draft: ModelPasses | None, batch: Batch, launch_s: Floats, host_s: Floats) -> dict[str, Passes]:
    """Phases of `ServeColumns`; `launch_s`: a prompt's wait for the host, `host_s`: the engine around a step."""
    prefill = model.prefill(batch, model.table.engine.host_step_s)
    prefill.by_class["launch"] = prefill.by_class["launch"] + launch_s
    phases = {"prefill": prefill}
    if draft:
        phases |= {"draft prefill": draft.prefill(batch, 0.0), "draft": draft.decode(batch, 0.0)}
    return phases | {"decode": model.decode(batch, host_s)}


def _flop_per_token(t: Table, batch: Batch) -> Floats:
    """2·N and causal attention, for a generated token, or for one of a prompt that is only read."""
    j, read = t.job, t.prompts
    reading = 2 * read.model.active_matrix + attention_flop(read, (j.input_tokens + j.prefix_tokens) / 2)
    return np.where(j.output_tokens > 1, 2 * t.model.active_matrix + attention_flop(t, batch.context), reading)
