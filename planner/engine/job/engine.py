"""An engine that runs a model, with its sources."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.records.engine import EngineNumbers


@dataclass(frozen=True, kw_only=True)
class Engine(EngineNumbers[float]):
    """One inference or training engine, as it is from one of its releases on."""

    name: str
    label: str
    """The name as its makers spell it."""
    since: tuple[int, ...] = ()
    """First release this record holds for; (): any earlier one."""
    release: str = ""
    """Releases the record holds for, in words; said when none was named."""
    trains: bool = False
    """It runs training and fine-tuning."""
    generates: bool = True
    """It runs inference."""
    compute_capability: tuple[int, int] = (0, 0)
    """Least compute capability of an NVIDIA GPU it runs on, by its installation page as of 2026-08; (0, 0): any."""
    eager_attention: bool = False
    """Attention scores go through memory unless flash attention is asked for."""
    eager_by_family: bool = False
    """They do so for the families that transformers has no fused attention for."""
    packed_keep_inputs: bool = False
    """Products of bitsandbytes' weights keep their inputs for backward."""
    layer_split: bool = False
    """Several GPUs hold layers one after the other, unless tensor parallelism is asked for."""
    fp8_cache: bool = False
    """With products in FP8 or FP4 the cache is FP8, unless the workload says otherwise."""
    pool_fraction: float | None = None
    """Share of the GPU's memory it claims at start; None: it grows as needed."""
    source: str
    context_source: str
    """What `context_bytes` rests on, in a line."""
    communicator_source: str
    """What `communicator_bytes` rests on."""
    slack_source: str
    """What `slack`, `cache_slack` and `kept_activations` rest on."""
