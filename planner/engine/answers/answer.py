"""One evaluated candidate: whether it fits, its memory, its times and its rates.

A field that does not apply, or is not known, is absent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.layout import LayoutAnswer
from planner.engine.answers.memory import MemoryBytes
from planner.engine.answers.network import Network


class ParameterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the whole model."""

    total: int
    active: int
    """Used for one token (MoE: the routed experts only)."""
    embedding: int
    trainable: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluated candidate."""

    id: Any = msgspec.field(default=None)
    fits: bool
    reason: str | None
    """Reason why it does not fit or cannot be timed; None when it fits."""
    bottleneck: str | None
    memory_bytes: MemoryBytes | None = None
    probability_fits: float | None = None
    """Probability that its memory is enough, by the range of `memory_bytes`; `fits` is whether what is predicted is."""
    host_memory_bytes: float | None = None
    """Host memory for each GPU, where something is offloaded."""
    parameters: ParameterCounts | None = None
    flop_per_token: float | None = None
    step_s: Figure | None = None
    tokens_per_s: Figure | None = None
    tokens_per_s_per_gpu: Figure | None = None
    mfu: Figure | None = None
    prefill_s: Figure | None = None
    ttft_s: Percentiles | None = None
    tpot_s: Percentiles | None = None
    request_s: Percentiles | None = None
    wait_s: Percentiles | None = None
    """Part of `request_s` from sending a request until the engine admits it. Present where requests were simulated."""
    utilisation: Figure | None = None
    """Share of time in which an iteration runs on a replica. Present where requests were simulated."""
    decode_tokens_per_s: Figure | None = None
    output_tokens_per_s: Figure | None = None
    requests_per_s: Figure | None = None
    max_concurrency: int | None = None
    max_context: int | None = None
    usd_per_million_tokens: Figure | None = None
    flop_per_usd: Figure | None = None
    energy_j_per_token: Figure | None = None
    power_w: Figure | None = None
    """Mean draw of all GPUs, their idle time at the traffic included, without the hosts."""
    evidence: dict[str, float] = {}
    """Causes that make its ranges wider than usual of their kind, and the amount of each."""
    seconds_by_class: dict[str, float] = {}
    """Time of a step (or a request) by operator class."""
    assumed: dict[str, Any] = {}
    """Every default used."""
    layout: LayoutAnswer | None = None
    network: Network | None = None
    """Between nodes; present where an offer, or the candidate, has any."""
    version: str = ""

    @property
    def gpus(self) -> int:
        """Number of GPUs of its layout; 1 where there is none."""
        return self.layout.gpus if self.layout else 1
