"""Time of one iteration of a replica: `forward` evaluated at a few points, and interpolated between them.

Symbols: B decoding sequences · C tokens they have cached · p prompt tokens · k prompts that end in the iteration ·
V pairs of tokens that the prompt tokens attend to: x·prefix + x²/2 for the first x fresh tokens of a request.

    t = host + max(floor, rows(p + B) + head(B + k) + b·B + c·C + alpha·p + beta·V)

Where p > 0 and B > 0 the device takes 1 + (mixed - 1)·p/(p + B) times as long, and the floor is that of mixed iterations. Where the stages of a
pipeline work on k micro batches at once, an iteration is a round of all of them, each with 1/k of its tokens; a prompt is through the stages later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, RowRecord, Rows, Table
from planner.engine.columns.limits import chunk_tokens, most_sequences
from planner.engine.performance.operators.forward_pass import Pass, attention_pass_s, by_tokens, forward, latency_pass_s
from planner.engine.performance.operators.host_memory import prefix_load_s
from planner.engine.performance.operators.launches import launch_s
from planner.engine.performance.prefill_decode.engine_limits import padded_rows
from planner.engine.performance.prefill_decode.passes import batch_of, micro_batches, tower_passes
from planner.engine.performance.prefill_decode.speculative_decoding import DraftRounds, drafting, verification

KNOTS_PER_DOUBLING = 2
DOUBLINGS = 14
KNOTS = 2.0 ** (np.arange(KNOTS_PER_DOUBLING * DOUBLINGS + 1) / KNOTS_PER_DOUBLING)
"""Numbers of tokens at which a pass is evaluated; times are linear between them and beyond."""
KNOT_WIDTHS = np.diff(KNOTS, append=np.inf)
"""Tokens from each knot to the next."""


class GraphSizes(RowRecord, frozen=True):
    """CUDA graphs of decoding steps; columns of shape [rows]."""

    doubled: Floats
    """`Engine.doubled_graphs`."""
    most: Floats
    """Sequences of the largest graph."""
    streams: Floats
    """Micro batches of a step, each a graph of its own."""

    def rows(self, sequences: Floats) -> Floats:
        """Rows that a step of each number of `sequences` [numbers] computes; shape [rows, numbers]."""
        streams = self.streams[:, None]
        return padded_rows(sequences / streams, self.doubled[:, None], self.most[:, None]) * streams


class IterationTime(RowRecord, frozen=True):
    """Times of shape [rows], or [rows, knots] for `rows_s` and `head_s`; seconds, summed over the stages of a pipeline."""

    rows_s: Floats
    """rows: all but attention and output head, with the latency of its kernels, by the tokens of the pass."""
    head_s: Floats
    """head: the output head, by the tokens it is applied to."""
    sequence_s: Floats
    """b: attention of one more decoding sequence with an empty cache, and the engine's own work for it."""
    cached_s: Floats
    """c: reading one more cached token."""
    prompt_s: Floats
    """alpha: attention of one more prompt token."""
    pair_s: Floats
    """beta: attention of one more pair of prompt tokens."""
    decode_latency_s: Floats
    """Latency of the decoding sequences' attention kernels."""
    prompt_latency_s: Floats
    """Latency of the prompts' attention kernels."""
    floor_s: Floats
    """floor: the host's launches of a pass without prompt tokens."""
    prompt_floor_s: Floats
    """floor of a pass with prompt tokens, which no graph of a decoding step replays."""
    mixed_floor_s: Floats
    """floor of a pass of prompt tokens beside decoding sequences."""
    mixed_factor: Floats
    """mixed: device time of prompt tokens together with decoding sequences ÷ that of prompts alone."""
    host_s: Floats
    """host: the engine's work between passes."""
    front_end_s: Floats
    """Time of a request outside iterations: in the server, for loading its prefix from the host's memory, and for its prompt to pass the
    stages after the round it takes from others."""
    intake_s: Floats
    """The server's part of it, in which it admits one request after the other."""
    late_steps: Floats
    """Further iterations until a token is delivered."""
    row_share: Floats
    """Share of the prompt's tokens that one GPU computes: 1 / context-parallel ranks."""
    encoder_s: Floats | None = None
    """Encoders of prompts as `rows_s`, by the prompt tokens of the pass, 0 in rows without one; None if no row has one. In rows with one the
    decoder passes one token of a prompt that ends, in place of `rows_s` of its tokens."""
    encodes: Floats | None = None
    """1: an encoder reads the prompts of the row."""
    graphs: GraphSizes | None = None
    """CUDA graphs of decoding steps; None if there is one for every number of sequences."""
    draft: DraftRounds | None = None
    """Rounds of a draft; with one an iteration is a round, and `sequence_s`, `cached_s`, `prompt_s`, `pair_s` include the draft's."""


def _knot_below(tokens: Floats) -> Rows:
    """The knot at or below each number of `tokens` ≥ 1 that has another above it."""
    return np.minimum((np.log2(tokens) * KNOTS_PER_DOUBLING + 1e-9).astype(np.int64), KNOTS.size - 2)


KNOT_BELOW = _knot_below(np.maximum(np.arange(KNOTS[-1] + 1.0), 1.0))
"""The knot at or below each whole number of tokens; beyond the table it is that of its last."""


def at_whole(values: Floats, tokens: Floats) -> Floats:
    """`values` [rows, knots] at each whole number of `tokens` [numbers]; shape [rows, numbers]. See `between`."""
    left = KNOT_BELOW.take(tokens.astype(np.int64), mode="clip")
    low, high = values.take(left, axis=1), values.take(left + 1, axis=1)
    return low + (high - low) * (np.maximum(tokens, 1.0) - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])


class Interpolation(NamedTuple):
    """Place of numbers of tokens between two knots of tables [rows, knots]; shape [numbers], or [series, numbers]."""

    at: Rows
    """The knot at or below each of them, in the flat table."""
    above: Floats
    """Tokens above that knot."""
    width: Floats
    """Tokens from it to the next."""

    @property
    def first(self) -> Interpolation:
        """The first of several series."""
        return Interpolation(self.at[0], self.above[0], self.width[0])

    def of(self, values: Floats) -> Floats:
        """`values` [rows, knots] interpolated at this place."""
        flat = values.ravel()
        low = flat.take(self.at)
        return low + (flat[1:].take(self.at) - low) * self.above / self.width


def place_of(tokens: Floats, first: Rows) -> Interpolation:
    """The place of each number of `tokens` ≥ 0, those below 1 at 1, in the row of a flat table that begins at `first`."""
    tokens = np.maximum(tokens, 1.0)
    knot = _knot_below(tokens)
    return Interpolation(first + knot, tokens - KNOTS.take(knot), KNOT_WIDTHS.take(knot))


def between(values: Floats, tokens: Floats) -> Floats:
    """`values` [rows, knots] at each row's number of `tokens` [rows] ≥ 0: linear between the knots, and constant below 1."""
    return place_of(tokens, np.arange(len(values)) * KNOTS.size).of(values)


def iteration_time(table: Table) -> IterationTime:
    """The times of every row's replica, at the mean lengths of its job."""
    rows = table.rows
    upright = table.upright()
    each = np.maximum(KNOTS / micro_batches(upright), 1.0)
    knots = by_tokens(upright, each, head_rows=each)
    pp, single = np.broadcast_to(table.layout.pp, rows), np.ones(rows)

    def full(value: Floats | float) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), rows).copy()

    middle = table.job.input_tokens + table.job.output_tokens / 2
    mixed_s = table.engine.mixed_launches_per_layer * table.chip.launch_s
    prompt_s, pair_s = _prompt_attention(table.prompts)
    prompt_s = prompt_s + _pictures_s(table)
    sequence_s, cached_s = _decode_attention(table, single)
    encoder_s, encodes = _encoders(table, pp)
    # two sequences are a prompt
    decode, prompt = (np.broadcast_to(latency_pass_s(table, new), rows) for new in (single, single * 2))
    least = np.minimum(decode, prompt)
    time = IterationTime(
        rows_s=_by_knot(knots["matmul"] + knots["elementwise"] + knots["communication"], pp) + (least * pp)[:, None],
        head_s=_by_knot(knots["head"], pp),
        sequence_s=sequence_s + table.engine.host_sequence_s,
        cached_s=cached_s,
        prompt_s=prompt_s,
        pair_s=pair_s,
        decode_latency_s=(decode - least) * pp,
        prompt_latency_s=(prompt - least) * pp,
        floor_s=full(table.model.layers * launch_s(table, middle, 1.0)),
        prompt_floor_s=full(table.model.layers * launch_s(table, middle, 2.0)),
        mixed_floor_s=full(table.model.layers * np.maximum(launch_s(table, middle, 2.0), mixed_s)),
        mixed_factor=full(table.engine.mixed_factor),
        host_s=full(table.engine.host_step_s),
        front_end_s=full(table.engine.front_end_s + prefix_load_s(table) + _through_stages_s(table)),
        intake_s=full(table.engine.front_end_s),
        late_steps=full(table.engine.late_steps),
        row_share=1 / full(table.layout.cp),
        encoder_s=encoder_s,
        encodes=encodes,
        graphs=_graphs(table),
    )
    return time if table.draft is None else _with_draft(table, time)


def _graphs(table: Table) -> GraphSizes | None:
    doubled = table.engine.doubled_graphs
    if not np.any(doubled > 0):
        return None
    return GraphSizes(
        *(np.broadcast_to(column, table.rows).copy() for column in (doubled, most_sequences(table), micro_batches(table)))
    )


def _through_stages_s(table: Table) -> Floats:
    """Further seconds for a prompt to pass a pipeline after its turn among k micro batches; 0 without them."""
    k = micro_batches(table)
    if not np.any(k > 1):
        return np.zeros(1)
    fresh = table.job.input_tokens - table.job.prefix_tokens
    tokens = np.minimum(fresh, np.where((chunk := chunk_tokens(table)) > 0, chunk, fresh)) / table.layout.cp
    one = forward(table.prompts, tokens, (table.job.input_tokens + table.job.prefix_tokens) / 2, tokens, head_rows=np.ones(1))
    return one.device * fresh / (tokens * table.layout.cp) * table.layout.pp * (1 - 1 / k)


def _encoders(table: Table, pp: Floats) -> tuple[Floats | None, Floats | None]:
    """`encoder_s` and `encodes` of every row; None if no row has an encoder."""
    if table.source is None:
        return None, None
    encodes = np.broadcast_to(table.model.reads_source, table.rows).copy()
    upright = table.upright()
    each = np.maximum(KNOTS / micro_batches(upright), 1.0)
    passed = forward(upright.prompts, each, np.ones(1), each, head_rows=np.zeros(1))
    return _by_knot(passed.total - passed.attention, pp) * encodes[:, None], encodes


def _by_knot(seconds: Floats, pp: Floats) -> Floats:
    """Seconds of all of `pp` pipeline stages, from those of one stage, which broadcast to [rows, knots]."""
    return np.broadcast_to(seconds, (pp.size, KNOTS.size)) * pp[:, None]


def _pictures_s(table: Table) -> Floats:
    """Seconds of the pictures of a prompt for each of its tokens; 0 if no prompt has one."""
    if table.tower is None:
        return np.zeros(table.rows)
    batch = batch_of(replace(table, layout=replace(table.layout, sequences=np.ones(1))), continuous=True)
    tower = tower_passes(table, batch)
    fresh = np.maximum(table.job.input_tokens - table.job.prefix_tokens, 1.0)
    return np.zeros(table.rows) if tower is None else np.broadcast_to(tower.single_s / fresh, table.rows)


def _prompt_attention(table: Table) -> tuple[Floats, Floats]:
    """Seconds of each prompt token and of each pair of them, from the attention at half of a prompt and at its end."""
    rows, j = table.rows, table.job
    cp, pp = (np.broadcast_to(column, rows) for column in (table.layout.cp, table.layout.pp / micro_batches(table)))
    whole, prefix = (np.broadcast_to(column, rows) for column in (j.input_tokens - j.prefix_tokens, j.prefix_tokens))
    half = whole / 2
    first = _attention_s(table, half / cp, prefix + half / 2, half) * pp
    both = _attention_s(table, whole / cp, prefix + whole / 2, whole) * pp
    pairs_first, pairs_both = half * prefix + half**2 / 2, whole * prefix + whole**2 / 2
    pair_s = np.maximum((both - 2 * first) / (pairs_both - 2 * pairs_first), 0.0)
    return (both - pair_s * pairs_both) / whole, pair_s


def _decode_attention(table: Table, tokens: Floats) -> tuple[Floats, Floats]:
    """Seconds of one more sequence with `tokens` [rows] in a pass, and of each token it has cached, from its first and last pass."""
    rows, j = table.rows, table.job
    inputs, outputs, pp = (
        np.broadcast_to(column, rows) for column in (j.input_tokens, j.output_tokens, table.layout.pp / micro_batches(table))
    )
    near, far = inputs + 1, inputs + np.maximum(outputs, 2.0)
    begun, ended = (_attention_s(table, tokens, context, tokens) * pp for context in (near, far))
    cached_s = (ended - begun) / (far - near)
    return begun - cached_s * near, cached_s


def _attention_s(table: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    return np.broadcast_to(attention_pass_s(table, rows, context, new), table.rows)


def _with_draft(table: Table, time: IterationTime) -> IterationTime:
    """`time` with rounds for the rows whose draft is timed; for other rows, whose g is 0, a round is a plain iteration."""
    proposed = np.broadcast_to(table.job.draft_tokens, table.rows).copy()
    own = np.flatnonzero(proposed > 0)
    t = table if own.size == table.rows else table.take(own)
    d = drafting(t)
    if d is None or not own.size:
        return time
    upright, of_draft, one = t.upright(), d.upright(), np.ones(1)
    context = upright.job.input_tokens + upright.job.output_tokens / 2
    each = np.maximum(KNOTS / micro_batches(upright), 1.0)
    checked = verification(upright, each, context, forward(upright, each, context, one, head_rows=each))
    drafts = forward(of_draft, each, context, one, head_rows=each)
    prompts = forward(of_draft, each, one, each, head_rows=one)
    pp, proposals = np.broadcast_to(t.layout.pp, own.size), proposed[own]

    def outside(passed: Pass) -> Floats:
        return _by_knot(passed.total - passed.attention, pp)

    plain = time.rows_s + time.head_s + time.decode_latency_s[:, None]
    draft = DraftRounds(proposed, np.broadcast_to(table.job.acceptance, table.rows).copy(), plain, plain * 0, plain * 0)
    draft.side_s[own] = outside(drafts) * proposals[:, None]
    draft.round_s[own] = outside(checked) + draft.side_s[own]
    draft.prompt_s[own] = outside(prompts)
    (check_s, check_cached_s), (guess_s, guess_cached_s) = (
        _decode_attention(t, proposals + 1),
        _decode_attention(d, np.ones(own.size)),
    )
    time.sequence_s[own] = check_s + guess_s * proposals + np.broadcast_to(t.engine.host_sequence_s, own.size)
    time.cached_s[own] = check_cached_s + guess_cached_s * proposals
    for values, more in zip((time.prompt_s, time.pair_s), _prompt_attention(d), strict=True):
        values[own] += more
    return replace(time, draft=draft)


def constant_time(runs: int, *, prefill_s: float = 0.0, step_s: float = 0.0, **more: float) -> IterationTime:
    """Times of an engine whose passes take `step_s`, and `prefill_s` more for each prompt token; other parts as given, else 0."""
    parts: dict[str, Any] = {
        name: np.zeros(runs) for name in IterationTime.__struct_fields__ if name not in {"draft", "graphs", "encoder_s", "encodes"}
    }
    given = {"mixed_factor": 1.0, "row_share": 1.0, "prompt_s": prefill_s} | more
    table = np.zeros((runs, KNOTS.size))
    return IterationTime(
        **parts | {name: np.full(runs, value) for name, value in given.items()} | {"rows_s": table + step_s, "head_s": table}
    )
