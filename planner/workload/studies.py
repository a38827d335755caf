"""Published studies of compute per dollar, read from `presets/studies/`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from planner.numbers import Positive
from planner.reading import read_toml
from planner.schema import read_struct


class PublishedLead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range of model sizes in which a GPU gave the most FLOP per dollar; an absent end is open."""

    gpu: str
    """The study's name for it."""
    parts: tuple[str, ...]
    """Names in the catalogue that it may be."""
    from_parameters: Positive | None = None
    to_parameters: Positive | None = None


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU of the study that was hardly ever the best."""

    gpu: str
    parts: tuple[str, ...]


class PublishedPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a GPU at the time of the study."""

    gpu: str
    """Canonical name."""
    usd_per_gpu_h: Positive
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
