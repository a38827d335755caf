"""Table of candidates: a row for each candidate, a column for each attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec
import numpy as np

from planner.engine.columns.arrays import Columns, Flags, Floats, Rows
from planner.engine.records.chip import ChipNumbers
from planner.engine.records.engine import EngineNumbers
from planner.engine.records.footprint import Footprint
from planner.engine.records.job import JobNumbers, StoredWeights
from planner.engine.records.layout import Layout


class ModelColumns(Columns, frozen=True):
    """Attributes of `Architecture` that the formulas use, with the same names and meanings."""

    layers: Floats
    width: Floats
    heads: Floats
    kv_heads: Floats
    query: Floats
    key: Floats
    ffn: Floats
    gated: Floats
    vocabulary: Floats
    tied: Floats
    token_matrix: Floats
    input_matrix: Floats
    output_matrix: Floats
    embedding: Floats
    head: Floats
    mixing_matrix: Floats
    mlp_matrix: Floats
    expert_matrix: Floats
    shared_matrix: Floats
    router_matrix: Floats
    attended: Floats
    scored_share: Floats
    attended_all: Floats
    attended_window: Floats
    attended_chosen: Floats
    attended_source: Floats
    wide_all: Floats
    wide_window: Floats
    read_all: Floats
    read_window: Floats
    read_chosen: Floats
    read_source: Floats
    cached_all: Floats
    cached_window: Floats
    cached_source: Floats
    cached_heads: Floats
    window_heads: Floats
    latent_rank: Floats
    expanded: Floats
    state: Floats
    wide_state: Floats
    scan_flop: Floats
    qk_norm: Floats
    norms_all_heads: Floats
    norms: Floats
    centred: Floats
    rotary: Floats
    encoder: Floats
    dropout: Floats
    window: Floats
    chosen: Floats
    experts: Floats
    experts_per_token: Floats
    routed_share: Floats
    expert_ffn: Floats
    expert_width: Floats
    expert_vector: Floats
    shared_ffn: Floats
    moe_layers: Floats
    dense_share: Floats
    mixer_share: Floats
    layers_shared: Floats
    experts_total: Floats
    total: Floats
    active: Floats
    active_matrix: Floats
    final_vector: Floats
    towers: Floats

    @property
    def reads_source(self) -> Floats:
        """1: layers attend to the output of an encoder, which reads the prompt in their place."""
        return np.where(self.attended_source > 0, 1.0, 0.0)

    @property
    def moe_share(self) -> Floats:
        """Share of the layers that have routed experts."""
        return self.moe_layers / self.layers

    @property
    def parts(self) -> Floats:
        """Share of its two parts, attention and MLP, that a layer has in the mean: a half where each layer is one of them."""
        return (self.mixer_share + self.dense_share + self.moe_share) / 2

    @property
    def whole_layers(self) -> Floats:
        """Share of the layers that have both parts; the others have one."""
        return 2 * self.parts - 1

    @property
    def mean_ffn(self) -> Floats:
        """Mean feed-forward width for a token in a layer, over dense layers and those with experts."""
        return self.common_ffn + self.experts_per_token * self.expert_ffn * self.moe_share

    @property
    def common_ffn(self) -> Floats:
        """Feed-forward width for a token in a layer without routed experts, the mean over all layers."""
        return self.ffn * self.dense_share + self.shared_ffn * self.moe_share


class ChipColumns(ChipNumbers[Floats], Columns, frozen=True, kw_only=True):
    """Figures of devices."""


class EngineColumns(EngineNumbers[Floats], Columns, frozen=True, kw_only=True):
    """Numbers of engines."""


class FootprintColumns(Footprint[Floats], Columns, frozen=True, kw_only=True):
    """Footprints of jobs."""


class DraftColumns(StoredWeights[Floats], Columns, frozen=True, kw_only=True):
    """Stored weights of draft models."""


class JobColumns(JobNumbers[Floats], Columns, frozen=True, kw_only=True):
    """Numbers of jobs."""


class LayoutColumns(Layout[Floats], Columns, frozen=True, kw_only=True):
    """Layouts of candidates."""

    @classmethod
    def gather(cls, records: Sequence[Any], index: Rows) -> Self:
        """Columns of `Columns.gather`, each of shape [rows], which give a table its number of rows."""
        found = super().gather(records, index)
        return cls(**{name: np.broadcast_to(getattr(found, name), index.shape) for name in cls.__struct_fields__})

    @property
    def expert_gpus(self) -> Floats:
        """GPUs that hold one copy of a layer's experts: ep, or tp where that is larger, because tensor parallelism then splits each expert."""
        return np.maximum(self.ep, self.tp)

    @property
    def expert_streams(self) -> Floats:
        """Ranks with their own tokens that share one copy of the experts."""
        return np.maximum(1.0, self.ep / self.tp)


class Table(msgspec.Struct, frozen=True):
    """Candidates, a row each."""

    model: ModelColumns
    job: JobColumns
    footprint: FootprintColumns
    engine: EngineColumns
    chip: ChipColumns
    layout: LayoutColumns
    draft_model: ModelColumns | None = None
    """Draft models, and the model itself in rows without one; None if no row has a timed draft."""
    draft: DraftColumns | None = None
    source: ModelColumns | None = None
    """Encoders of prompts, and the model itself in rows without one; None if no row has one."""

    tower: ModelColumns | None = None
    """Towers that read pictures, and the model itself in rows without one; None if no prompt has a picture."""

    rollout_job: JobColumns | None = None
    """Job of generating the answers that are trained on; None if the model is not trained on its own answers."""
    rollout_engine: EngineColumns | None = None

    @property
    def rows(self) -> int:
        """Number of candidates."""
        return int(self.layout.gpus.size)

    def take(self, keep: Flags | Rows) -> Table:
        """Candidates `keep`."""
        return self._of_parts(lambda part: part.take(keep))

    def upright(self) -> Table:
        """Candidates with columns of shape [rows, 1]; see `Columns.upright`."""
        return self._of_parts(lambda part: part.upright())

    def _of_parts(self, change: Callable[[Columns], Columns]) -> Table:
        parts: dict[str, Columns | None] = {name: getattr(self, name) for name in self.__struct_fields__}
        changed: dict[str, Any] = {name: part and change(part) for name, part in parts.items()}
        return Table(**changed)

    @property
    def prompts(self) -> Table:
        """Candidates with the stack that prompts pass, an encoder or the model itself, as their model."""
        return self if self.source is None else msgspec.structs.replace(self, model=self.source, source=None)
