"""Sequences longer than the positions of a model.

A plan refuses them, as inference engines do. A candidate given in full is answered with a note, because runs beyond a
model's own positions are measured and published. Training may go beyond rotary positions, which is how contexts are extended. With a
bias by distance (ALiBi) there is no limit.
"""

from __future__ import annotations

from planner.errors import Problem, UserError
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lengths, Workload, trains


def check_context(workload: Workload, architecture: Architecture) -> None:
    """Raise `UserError` for sequences that are longer than the model allows."""
    excess = _beyond(workload, architecture)
    if excess is None or architecture.alibi or (trains(workload.task) and architecture.rotary):
        return
    key, given, before = excess
    most = (architecture.source if architecture.source and key == "input_tokens" else architecture).max_context or 0
    room = f"{most - before:,} after {before:,} of input_tokens" if before else f"{most:,}"
    further = (
        " For scaled ones (YaRN) give a config.json with more max_position_embeddings as the model." if architecture.rotary else ""
    )
    end = f"the model's positions end at {most:,} tokens.{further}"
    raise UserError(Problem("", key, f"{given:,} is not accepted; it has to be at most {room}: {end}"))


def positions_assumed(workload: Workload, architecture: Architecture) -> dict[str, str]:
    """Remark of the answer on positions beyond the model's own; empty if it has enough."""
    excess = _beyond(workload, architecture)
    if excess is None:
        return {}
    _, given, before = excess
    return {"positions": f"{given + before:,} tokens, though the model's own end at {architecture.max_context:,}"}


def _beyond(workload: Workload, architecture: Architecture) -> tuple[str, int, int] | None:
    """(key, its tokens, tokens before them) of the length that is beyond the model's positions; None if none is."""
    most = architecture.max_context
    if most is None:
        return None
    if trains(workload.task):
        read = _length(workload.input_tokens)[0] if architecture.source else 0
        if architecture.source and read > (architecture.source.max_context or most):
            return "input_tokens", read, 0
        return ("sequence", workload.sequence, 0) if workload.sequence and workload.sequence > most else None
    longest, mean = _length(workload.input_tokens)
    if architecture.source is not None:
        answer = 0 if workload.task == "prefill" else _length(workload.output_tokens)[0]
        read = architecture.source.max_context or most
        return ("input_tokens", longest, 0) if longest > read else ("output_tokens", answer, 0) if answer > most else None
    if longest > most:
        return "input_tokens", longest, 0
    if workload.task == "prefill":
        return None
    longest, answer = _length(workload.output_tokens)
    if longest > most:
        return "output_tokens", longest, 0 if mean >= most else mean
    return ("output_tokens", answer, mean) if mean + answer > most else None


def _length(given: int | Lengths | None) -> tuple[int, int]:
    """(longest, mean) of a length."""
    if isinstance(given, Lengths):
        return round(max(given.mean, given.p50 or 0.0, given.p95 or 0.0)), round(given.mean)
    return given or 0, given or 0
