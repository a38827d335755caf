"""Models that run on given hardware, a row for each model and weight precision."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import Verdict

Order = Literal["size", "speed", "users", "context"]
"""Ranking of solutions: parameters and then the precision; or, among models of similar size, tokens/s, sequences at once or the longest context."""


class FitRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model in one weight precision, in the layout that serves it best. `rank` is None for rows that are no solution."""

    rank: int | None
    model: str
    weight_dtype: str
    method: str = ""
    """Parameters that are trained and the recipe; empty for a service."""
    fits: bool
    verdict: Verdict
    why: str
    """Resource that limits the speed, or the reason why the model is no solution."""
    probability_fits: float | None = None
    """Probability that the memory is enough, from its range."""
    context_tokens: int | None = None
    """Longest context of one sequence in this layout; None: not known, or not limited by memory or positions."""
    concurrency: int | None = None
    """Maximum number of sequences whose cache fits at once; in training, sequences of a micro batch."""
    at_once: int | None = None
    """Requests in flight on all replicas, which the speeds are of; None in training."""
    bits: int = 0
    """Class of the weights' precision: 32, 16, 8 or 4. Together with the parameters it indicates quality."""
    headroom: float | None = None
    """Share of the fullest GPU that is left for caches, or left free in training. Negative: the share that is missing."""
    alone_tokens_per_s: float | None = None
    """Tokens per second of a single request alone on its replica: the most that a user can see."""
    positions: int | None = None
    """Longest context by the model's own positions; None: no limit, as with a bias by distance."""
    longest_context_tokens: int | None = None
    """Longest context in any layout on the same GPUs."""
    longest_context_layout: str = ""
    """Layout with the longest context."""
    answer: Answer
    request: dict[str, Any] = {}
    """Request for `estimate` that describes this candidate."""


class FitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of models, and of candidates (models in a precision and a layout)."""

    models: int
    models_that_fit: int
    considered: int
    fit: int


class Fit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer for one pool of equal GPUs."""

    gpu: str
    gpus: int
    task: dict[str, Any]
    """Workload without its model, as given."""
    each_tokens_per_s: float | None = None
    """Tokens a second that each user of a service gets at least, where neither a load nor a limit of latency was given."""
    order: Order = "size"
    rows: list[FitRow]
    counts: FitCounts
    left_out: list[str] = []
    """Models that are not made for the task; each is answered where it is named."""
    notes: list[str] = []
    version: str = ""
