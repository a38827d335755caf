"""One evaluated candidate: its layout and its network, whether it fits, its memory, its times and its rates.

A field that does not apply, or is not known, is absent.
"""

from typing import Any, Literal

import msgspec

from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.memory import MemoryBytes


class Network(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Network between nodes, as it is sold, given or assumed."""

    fabric: str
    """'InfiniBand', 'EFA', 'Ethernet', …; 'none sold': nodes cannot be joined."""
    bytes_per_s: float | None = None
    """Per GPU and direction; None if there is no network."""
    joined_nodes: int = 1
    """Nodes that each group of the layout spans: all nodes of a training job, or the nodes of one replica of a service."""
    nodes: int = 1
    """Total number of rented nodes."""
    most_nodes: int | None = None
    """Nodes that can be had at once; None: no known limit."""
    by_agreement: bool = False
    """More nodes are needed than anyone can order without a contract with the provider."""
    basis: Literal["published", "given", "assumed"]
    source: str = ""


class TermPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Price of the same nodes on one term."""

    term: str
    usd_per_h: float
    """Price of all nodes."""
    job_usd: Figure | None = None
    """Cost of a job that ends, including the unused rest of a commitment and the cost of interruptions."""
    committed_usd: float | None = None
    """Price of the whole commitment."""
    break_even_use: float | None = None
    """Share of the time above which a commitment costs less than paying by the hour."""
    basis: Literal["published", "by discount"] = "published"


class LayoutAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Degrees of parallelism and batch sizes. `gpus` = tp·pp·dp·cp; ep divides the experts inside that."""

    gpus: int
    nodes: int = 1
    gpus_per_node: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    virtual_stages: int = 1
    sharding: str | None = None
    checkpointing: str | None = None
    micro_batch: int | None = None
    batch: int | None = None
    """Concurrent sequences per replica while generating or serving."""
    prefill_replicas: int = 0
    """Replicas of a disaggregated service that only read prompts; the rest of the dp replicas only decode."""

    @property
    def text(self) -> str:
        """Short form for a table cell: 'tp2·dp4 zero3'."""
        degrees = [f"{name}{getattr(self, name)}" for name in ("tp", "pp", "cp", "ep", "dp") if getattr(self, name) > 1]
        parts = ["·".join(degrees) or "single"]
        if self.prefill_replicas:
            parts.append(f"{self.prefill_replicas}P:{self.dp - self.prefill_replicas}D")
        if self.sharding and self.sharding != "none":
            parts.append(self.sharding)
        if self.checkpointing and self.checkpointing != "none":
            parts.append(f"ckpt-{self.checkpointing}")
        return " ".join(parts)


class ParameterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the whole model."""

    total: int
    active: int
    """Parameters used for one token (MoE: only the routed experts)."""
    embedding: int
    trainable: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluated candidate."""

    id: Any = msgspec.field(default=None)
    fits: bool
    reason: str | None
    """Reason why it does not fit or cannot be timed; None if it fits."""
    bottleneck: str | None
    memory_bytes: MemoryBytes | None = None
    probability_fits: float | None = None
    """Probability that its memory is enough, from the range of `memory_bytes`; `fits` compares the predicted value only."""
    host_memory_bytes: float | None = None
    """Host memory per GPU, where something is offloaded."""
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
    """Mean power of all GPUs without the hosts, including their idle time at this traffic."""
    evidence: dict[str, float] = {}
    """Causes that make the ranges wider than usual for their kind, and the amount of each."""
    seconds_by_class: dict[str, float] = {}
    """Time of a step (or a request) by operator class."""
    assumed: dict[str, Any] = {}
    """Every default used."""
    layout: LayoutAnswer | None = None
    network: Network | None = None
    """Network between nodes; present where an offer, or the candidate, has one."""
    version: str = ""

    @property
    def gpus(self) -> int:
        """Number of GPUs of its layout; 1 if there is none."""
        return self.layout.gpus if self.layout else 1
