"""How long one iteration of a replica takes, read off `forward` at a few points and interpolated between them.

An iteration of p prompt tokens beside B decoding sequences that hold C cached tokens takes
t = host + max(floor, rows(p + B) + head(B + k) + b·B + c·C + alpha·p + beta·V), where k prompts end in it and V counts the
pairs of tokens that its prompt tokens attend to: x·prefix + x²/2 for the first x fresh tokens of a request. Where p > 0 and B > 0
the device takes 1 + (mixed - 1)·p/(p + B) times as long, and the floor is that of mixed iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from planner.engine.columns import Floats, Rows, Table
from planner.engine.performance.operators.forward_pass import Pass, attention_pass_s, forward, latency_pass_s
from planner.engine.performance.prefill_decode.speculative_decoding import drafting, verification
from planner.engine.performance.simulation.draft_rounds import Drafting

KNOTS_PER_DOUBLING = 2
DOUBLINGS = 14
KNOTS = 2.0 ** (np.arange(KNOTS_PER_DOUBLING * DOUBLINGS + 1) / KNOTS_PER_DOUBLING)
"""Rows at which a pass is evaluated; linear between and beyond."""


@dataclass(frozen=True)
class Pace:
    """Shape [lanes], or [lanes, knots] for `rows_s` and `head_s`; seconds, summed over the stages of a pipeline."""

    rows_s: Floats
    """Everything that grows with the tokens of a pass, outside attention and output head, and the latency of its kernels."""
    head_s: Floats
    """The output head, by the number of tokens it is applied to."""
    sequence_s: Floats
    """b: attention of one more decoding sequence, whatever it holds, and the engine's own work for it."""
    cached_s: Floats
    """c: reading one more cached token."""
    prompt_s: Floats
    """alpha: attention of one more prompt token."""
    pair_s: Floats
    """beta: attention of one more pair of prompt tokens."""
    decode_latency_s: Floats
    """Of the attention kernels of the decoding sequences."""
    prompt_latency_s: Floats
    """Of the attention kernels of prompts."""
    floor_s: Floats
    """What the host needs to launch a pass."""
    mixed_floor_s: Floats
    """The same of an iteration with prompt tokens and decoding sequences."""
    mixed_factor: Floats
    """Device time of prompt tokens beside decoding sequences over that of prompts alone."""
    host_s: Floats
    """What the engine needs between passes."""
    row_share: Floats
    """Prompt tokens a GPU computes of one token of the prompt (1 / context-parallel ranks)."""
    draft: Drafting | None = None
    """Where a draft proposes tokens an iteration is a round, and `sequence_s`, `cached_s`, `prompt_s`, `pair_s` are of both models."""

    @property
    def lanes(self) -> int:
        """Number of replicas described."""
        return int(self.host_s.size)

    def take(self, index: Rows) -> Pace:
        """The lanes `index`, in that order; an index may repeat."""
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        draft = parts.pop("draft")
        return Pace(**{name: part[index] for name, part in parts.items()}, draft=draft and draft.take(index))


def _below(x: Floats) -> Rows:
    """The knot at or below each `x` ≥ 1, so that there is one above."""
    return np.minimum((np.log2(x) * KNOTS_PER_DOUBLING + 1e-9).astype(np.int64), KNOTS.size - 2)


LAST_KNOT = int(KNOTS[-1])
BELOW = _below(np.maximum(np.arange(LAST_KNOT + 1.0), 1.0))
"""The knot at or below each whole number of rows; beyond the table it is that of its last."""


def at_whole(values: Floats, at: Floats) -> Floats:
    """`values` [lanes, knots] of every lane at each of the whole numbers `at`, shape [lanes, at]; see `between`."""
    left = BELOW.take(at.astype(np.int64), mode="clip")
    low, high = values.take(left, axis=1), values.take(left + 1, axis=1)
    result: Floats = low + (high - low) * (np.maximum(at, 1.0) - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])
    return result


def between(values: Floats, at: Floats, lane: Rows) -> Floats:
    """`values` [lanes, knots] of each lane at `at` (≥ 0) rows, linear between the knots and, from 1 down, level."""
    x = np.maximum(at, 1.0)
    left = _below(x)
    low, high = values[lane, left], values[lane, left + 1]
    result: Floats = low + (high - low) * (x - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])
    return result


def _repeated(table: Table, times: int) -> Table:
    return table.take(np.repeat(np.arange(table.rows), times))


def pace_of(table: Table) -> Pace:
    """The pace of every row of `table` (its replica, at the mean lengths of its job)."""
    rows, s = table.rows, table.layout
    wide = _repeated(table, KNOTS.size)
    at = np.tile(KNOTS, rows)
    one = np.ones(at.size)
    knots = forward(wide, at, one, one, head_rows=at)
    shape, pp, single = (rows, KNOTS.size), np.broadcast_to(s.pp, rows), np.ones(rows)

    def full(value: Floats | float, length: int = rows) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), length).copy()

    prompt_s, pair_s = _prompt_attention(table)
    sequence_s, cached_s = _decode_attention(table, single)
    decode, prompt = _latency(table, single), _latency(table, single * 2)
    least = np.minimum(decode, prompt)
    varying = knots.matmul + knots.elementwise + knots.communication
    pace = Pace(
        rows_s=full(varying, at.size).reshape(shape) * pp[:, None] + (least * pp)[:, None],
        head_s=full(knots.head, at.size).reshape(shape) * pp[:, None],
        sequence_s=sequence_s + table.engine.host_sequence_s,
        cached_s=cached_s,
        prompt_s=prompt_s,
        pair_s=pair_s,
        decode_latency_s=(decode - least) * pp,
        prompt_latency_s=(prompt - least) * pp,
        floor_s=full(knots.host.reshape(-1)[:: KNOTS.size] if knots.host.size == at.size else knots.host) * pp,
        mixed_floor_s=full(table.model.layers * table.engine.mixed_launches_per_layer * table.chip.launch_s),
        mixed_factor=full(table.engine.mixed_factor),
        host_s=full(table.engine.host_step_s),
        row_share=1 / full(s.cp),
    )
    return pace if table.draft is None else _with_draft(table, pace)


def _prompt_attention(table: Table) -> tuple[Floats, Floats]:
    """Seconds of each prompt token and of each pair of them, from attention after half of a prompt and after the whole of it."""
    rows, j = table.rows, table.job
    cp, pp = (np.broadcast_to(of, rows) for of in (table.layout.cp, table.layout.pp))
    fresh, prefix = (np.broadcast_to(of, rows) for of in (j.input_tokens - j.prefix_tokens, j.prefix_tokens))
    half, whole = fresh / 2, fresh
    first = _attention_s(table, half / cp, prefix + half / 2, half) * pp
    both = _attention_s(table, whole / cp, prefix + whole / 2, whole) * pp
    pairs_first, pairs_both = half * prefix + half**2 / 2, whole * prefix + whole**2 / 2
    pair_s = np.maximum((both - 2 * first) / (pairs_both - 2 * pairs_first), 0.0)
    return (both - pair_s * pairs_both) / whole, pair_s


def _decode_attention(table: Table, tokens: Floats) -> tuple[Floats, Floats]:
    """Seconds of one more sequence and of each token it has cached, as it begins and ends its output; `tokens` of it are in a pass."""
    rows, j = table.rows, table.job
    inputs, outputs, pp = (np.broadcast_to(of, rows) for of in (j.input_tokens, j.output_tokens, table.layout.pp))
    near, far = inputs + 1, inputs + np.maximum(outputs, 2.0)
    begun, ended = (_attention_s(table, tokens, context, tokens) * pp for context in (near, far))
    cached_s = (ended - begun) / (far - near)
    return begun - cached_s * near, cached_s


def _with_draft(table: Table, pace: Pace) -> Pace:
    """`pace` with the rounds of the rows whose draft is timed; what the others do in an iteration stands for their rounds."""
    proposed = np.broadcast_to(table.job.draft_tokens, table.rows).copy()
    own = np.flatnonzero(proposed > 0)
    t = table if own.size == table.rows else table.take(own)
    d = drafting(t)
    if d is None or not own.size:
        return pace
    wide, wide_draft, at = _repeated(t, KNOTS.size), _repeated(d, KNOTS.size), np.tile(KNOTS, own.size)
    one, middle = np.ones(at.size), t.job.input_tokens + t.job.output_tokens / 2
    context = np.broadcast_to(middle, own.size).repeat(KNOTS.size)
    checked = verification(wide, at, context, forward(wide, at, context, one, head_rows=at))
    drafts = forward(wide_draft, at, context, one, head_rows=at)
    prompts = forward(wide_draft, at, one, at, head_rows=one)
    pp, proposals = np.broadcast_to(t.layout.pp, own.size), proposed[own]

    def outside(of: Pass) -> Floats:
        return np.broadcast_to(of.total - of.attention, at.size).reshape(own.size, KNOTS.size) * pp[:, None]

    plain = pace.rows_s + pace.head_s + pace.decode_latency_s[:, None]
    draft = Drafting(proposed, np.broadcast_to(table.job.acceptance, table.rows).copy(), plain, plain * 0, plain * 0)
    draft.side_s[own] = outside(drafts) * proposals[:, None]
    draft.round_s[own] = outside(checked) + draft.side_s[own]
    draft.prompt_s[own] = outside(prompts)
    found = replace(pace, draft=draft)
    checks, guesses = _decode_attention(t, proposals + 1), _decode_attention(d, np.ones(own.size))
    engine_s = np.broadcast_to(t.engine.host_sequence_s, own.size)
    found.sequence_s[own] = checks[0] + guesses[0] * proposals + engine_s
    found.cached_s[own] = checks[1] + guesses[1] * proposals
    for values, more in zip((found.prompt_s, found.pair_s), _prompt_attention(d), strict=True):
        values[own] += more
    return found


def _attention_s(table: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    return np.broadcast_to(attention_pass_s(table, rows, context, new), table.rows)


def _latency(table: Table, new: Floats) -> Floats:
    """Of a pass whose sequences compute `new` tokens each: one is decoding, more is a prompt."""
    return np.broadcast_to(latency_pass_s(table, new), table.rows).copy()


def constant_pace(lanes: int, *, prefill_s: float = 0.0, step_s: float = 0.0, **more: float) -> Pace:
    """A replica whose every pass takes `step_s`, and `prefill_s` more for each prompt token; other parts as given."""
    plain: dict[str, Any] = {item.name: np.full(lanes, more.get(item.name, 0.0)) for item in fields(Pace) if item.name != "draft"}
    table = np.zeros((lanes, KNOTS.size))
    return replace(
        Pace(**plain | {"rows_s": table + step_s, "head_s": table}),
        prompt_s=np.full(lanes, prefill_s),
        mixed_factor=np.full(lanes, more.get("mixed_factor", 1.0)),
        row_share=np.ones(lanes),
    )
