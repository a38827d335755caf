"""Published studies of compute per dollar, read from `presets/studies/`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import msgspec

from planner.reading import read_toml
from planner.schema import read_struct

Size = Annotated[float, msgspec.Meta(gt=0)]


class PublishedLead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range of model sizes in which a GPU gave the most FLOP per dollar; an absent end is open."""

    gpu: str
    """The study's name for it."""
    parts: tuple[str, ...]
    """Names in the catalogue that it may be."""
    from_parameters: Size | None = None
    to_parameters: Size | None = None


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU of the study that was hardly ever the best."""

    gpu: str
    parts: tuple[str, ...]


class PublishedPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a GPU at the time of the study."""

    gpu: str
    """Canonical name."""
    usd_per_gpu_h: Size
    as_of: str
    source: str


class PublishedStudy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The results of a study, and its conditions."""

    title: str
    source: str
    retrieved: dt.date
    conditions: str
    prices: str
    tokens_per_step: int
    price_set: str
    """Name of the list of prices at that time."""
    price: tuple[PublishedPrice, ...]
    lead: tuple[PublishedLead, ...]
    rarely: tuple[PublishedPart, ...] = ()


def load_study(path: Path) -> PublishedStudy:
    """The study in a TOML file; raises `UserError` with one problem per fault."""
    return read_struct(PublishedStudy, read_toml(path), str(path))
