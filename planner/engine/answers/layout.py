"""Layout of one job over GPUs."""

from __future__ import annotations

import msgspec


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
    """Replicas of a disaggregated service that only read prompts; the other ones of the dp replicas only decode."""

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
