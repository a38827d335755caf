"""The shipped catalogue, read once in a process: a thousand tests open sessions, and hardly any adds parts or prices of its own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from planner.session.inventory import Inventory

PARTS = {"gpus": "gpus", "providers": "providers", "shipped_offers": "gpus", "ceiling_records": ""}
"""What a session reads -> the folder of the configuration that changes it."""


def _read_once(part: str, own: str) -> None:
    """Let all sessions whose configuration has no folder `own` share the first one's `part`."""
    read = vars(Inventory)[part].func
    kept: dict[str, Any] = {}

    def shared(session: Inventory) -> Any:
        if own and (session.config / own).exists():
            return read(session)
        if part not in kept:
            kept[part] = read(session)
        return kept[part]

    found = cached_property(shared)
    found.__set_name__(Inventory, part)
    setattr(Inventory, part, found)


def share_catalogue() -> None:
    """Have all of `PARTS` read once."""
    for part, own in PARTS.items():
        _read_once(part, own)
