"""How an engine forms its iterations, and what happened when it did."""

from __future__ import annotations

from dataclasses import dataclass, fields

from planner.engine.columns import Flags, Floats, Rows


@dataclass(frozen=True)
class Rules:
    """How the engine forms an iteration. Shape [lanes]."""

    budget: Floats
    """Most tokens of one iteration; infinite: whole prompts."""
    sequences: Floats
    """Most requests admitted at once."""
    capacity: Floats
    """Tokens the cache holds; infinite: nothing is cached, or it never fills."""
    reserve: Flags
    """A request is admitted only if its whole output would fit (TensorRT-LLM), instead of when its prompt fits."""
    mixed: Flags
    """Prompt tokens share an iteration with the running sequences (vLLM, TensorRT-LLM); else prompts go first (SGLang)."""

    def take(self, index: Flags | Rows) -> Rules:
        """The lanes `index`; numbers may repeat."""
        return Rules(**{item.name: getattr(self, item.name)[index] for item in fields(self)})


@dataclass(frozen=True)
class Trace:
    """What happened. Shape [lanes, requests] unless said; NaN: had not happened when the lane was done."""

    sent_s: Floats
    admitted_s: Floats
    first_s: Floats
    end_s: Floats
    output_tokens: Floats
    elapsed_s: Floats
    """Shape [lanes], as all below: from the admission of the first measured request to that of the one after the last."""
    busy_s: Floats
    in_flight: Floats
    """Admitted requests, mean over that time; NaN as below where it was not counted."""
    cached_tokens: Floats
    """Held in the cache, mean over that time."""
    waiting: Floats
    """Requests that had arrived when the last measured one was admitted, and were not."""
    preempted: Floats
    """Times a request lost its place."""
    gaps: Floats
    """Shape [lanes, bins]: times between two tokens of a sequence, counted by `gap_s`."""
    gap_s: Floats
    """Shape [lanes, bins]: the middle of each bin."""
