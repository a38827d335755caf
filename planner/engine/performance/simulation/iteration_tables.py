"""Times of iterations, tabulated by whole numbers of sequences so that a step of the simulation only looks them up."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from planner.engine.columns import Floats, RowRecord, Rows
from planner.engine.performance.simulation.iteration_time import (
    KNOT_BELOW,
    KNOT_WIDTHS,
    KNOTS,
    IterationTime,
    at_whole,
    between,
    place_of,
)


class IterationTables(RowRecord, frozen=True, dict=True):
    """Tables of shape [runs, numbers of sequences from 0] unless noted, in seconds."""

    time: IterationTime
    decode_s: Floats
    """The device's time to decode, without reading the cache."""
    head_s: Floats
    """Time of the output head; numbers are those of its tokens."""
    slope_s: Floats
    """Shape [runs, knots], as below: time of one more token from each knot to the next, without attention and head."""
    level_s: Floats
    """Time for no tokens, on the line through that knot and the next."""
    tokens_each: Floats
    """Shape [runs]: tokens of a decoding sequence in a pass; g + 1 with a draft."""
    draft_s: Floats | None
    """Time of the draft's passes in a round; None without drafts."""

    @cached_property
    def _first(self) -> tuple[Rows, Rows, Rows]:
        """Start of each run in the flat tables by sequences, by tokens of the head, and by knots."""
        run = np.arange(self.tokens_each.size)
        return run * self.decode_s.shape[1], run * self.head_s.shape[1], run * KNOTS.size

    @cached_property
    def _whole(self) -> bool:
        """True if every pass has a whole number of tokens."""
        return bool((self.time.row_share == 1).all())

    @cached_property
    def has_floor(self) -> bool:
        """True if decoding can wait for the host's launches in any run."""
        return bool(self.time.floor_s.any())

    @cached_property
    def _prompt_floor_s(self) -> Floats | None:
        """`prompt_floor_s`; None: 0 in every run."""
        return self.time.prompt_floor_s if self.time.prompt_floor_s.any() else None

    @cached_property
    def _latency_s(self) -> tuple[Floats | None, Floats | None]:
        """Latency of the prompts' and of the decoding sequences' attention kernels; None: 0 in every run."""
        prompts_s, decoding_s = self.time.prompt_latency_s, self.time.decode_latency_s
        return prompts_s if prompts_s.any() else None, decoding_s if decoding_s.any() else None

    @cached_property
    def _longer(self) -> Floats | None:
        """Share by which prompt tokens take longer together with decoding sequences than alone; None: no longer in any run."""
        mixed = self.time.mixed_floor_s.any() or (self.time.mixed_factor != 1).any()
        return self.time.mixed_factor - 1 if mixed else None

    def decoding_s(self, running: Floats, context: Floats) -> Floats:
        """The device's time to decode `running` [runs] sequences with `context` [runs] tokens in the cache."""
        return self.decode_s.ravel()[self._first[0] + running.astype(np.int64)] + self.time.cached_s * context

    def rows_of(self, running: Floats) -> Floats:
        """Tokens of a pass of `running` [runs] decoding sequences."""
        return running if self.draft_s is None else running * self.tokens_each

    def prompting_s(self, tokens: Floats, pairs: Floats, completed: Rows, beside: Floats, rows: Floats, context: Floats) -> Floats:
        """The total time of an iteration with prompt tokens; all of shape [runs].

        It computes `tokens` prompt tokens, which attend to `pairs` and complete so many prompts, together with `beside` decoding sequences
        with `rows` tokens in the pass and `context` tokens in the cache, none without a sequence.
        """
        time = self.time
        heads = self.head_s.ravel()[self._first[1] + (rows + completed).astype(np.int64)]
        of_prompts_s, of_decoding_s = self._latency_s
        decodes = beside > 0
        rows_s = self._rows_s(self._decoded(tokens, completed), rows, beside)
        if time.encoder_s is not None:
            rows_s = rows_s + between(time.encoder_s, tokens) * (tokens > 0)
        device_s = rows_s + heads + time.sequence_s * beside + time.prompt_s * tokens + time.pair_s * pairs
        if of_prompts_s is not None:
            device_s += of_prompts_s
        if of_decoding_s is not None:
            device_s += of_decoding_s * decodes
        device_s += time.cached_s * context
        if self._longer is not None:
            slower = 1 + self._longer * tokens / np.maximum(tokens + beside, 1.0)
            device_s = np.where(decodes, np.maximum(device_s * slower, time.mixed_floor_s), device_s)
        return (device_s if self._prompt_floor_s is None else np.maximum(device_s, self._prompt_floor_s)) + time.host_s

    def _decoded(self, tokens: Floats, completed: Rows) -> Floats:
        """Tokens of the prompts that pass the generating layers: one per completed prompt where an encoder reads it."""
        return tokens if self.time.encodes is None else np.where(self.time.encodes > 0, completed, tokens)

    def _rows_s(self, tokens: Floats, rows: Floats, beside: Floats) -> Floats:
        """Time of all but attention and head, for `tokens` prompt tokens together with `rows` of the decoding sequences."""
        time = self.time
        if self._whole:
            number = tokens + rows if self.time.encodes is None else np.maximum(tokens + rows, 1.0)
            at = self._first[2] + KNOT_BELOW.take(number.astype(np.int64), mode="clip")
            rows_s: Floats = self.level_s.ravel()[at] + self.slope_s.ravel()[at] * number
        else:
            rows_s = between(time.rows_s, tokens * time.row_share + rows)
        if time.draft is None or self.draft_s is None:
            return rows_s
        prompts_s = between(time.draft.prompt_s, tokens * time.row_share) * (tokens > 0)
        return rows_s + prompts_s + self.draft_s.ravel()[self._first[0] + beside.astype(np.int64)]


def tables_of(time: IterationTime, slots: int) -> IterationTables:
    """Tables for up to `slots` sequences."""
    count = np.arange(slots + 1, dtype=np.float64)
    tokens_each, draft_s, heads = np.ones(time.host_s.size), None, count
    if time.draft is not None:
        tokens_each = time.draft.proposed + 1
        draft_s = at_whole(time.draft.side_s, count) * (count > 0)
        heads = np.arange(slots * tokens_each.max() + 1)
    head_s = at_whole(time.head_s, heads) * (heads > 0)
    decode_s = time.sequence_s[:, None] * count
    if time.draft is not None:
        decode_s += at_whole(time.draft.round_s, count)
    else:
        decode_s = _steps_s(time, count, head_s) + decode_s + time.decode_latency_s[:, None]
    slope_s = np.diff(time.rows_s, axis=1, append=time.rows_s[:, -1:]) / KNOT_WIDTHS
    return IterationTables(time, decode_s, head_s, slope_s, time.rows_s - slope_s * KNOTS, tokens_each, draft_s)


def _steps_s(time: IterationTime, count: Floats, head_s: Floats) -> Floats:
    """Time of all but attention in a step of each `count` of sequences, with `head_s` of the output head, for the rows of its CUDA graph."""
    steps_s = at_whole(time.rows_s, count) + head_s
    if time.graphs is None:
        return steps_s
    rows = time.graphs.rows(count)
    run, number = (rows > count).nonzero()
    place = place_of(rows[run, number], run * KNOTS.size)
    steps_s[run, number] = place.of(time.rows_s) + place.of(time.head_s)
    return steps_s
