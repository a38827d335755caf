"""The user's file of refreshed offers: written whole, read back before it takes its place, the previous one kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from planner.durable import NotKeptError, WriteResult, refused, write_whole
from planner.errors import UserError
from planner.hardware.catalogue.gpus import GpuCatalogue
from planner.hardware.prices.offers import Offer, offers_of_file
from planner.reading import open_file

MARK = "# Written by gpu-planner offers refresh"
"""First words of a file that may be replaced; a file without them was written by the user."""


def is_refreshed(path: Path) -> bool:
    """Whether the file was written by `write_offers` and still has its mark."""
    try:
        with open_file(path) as file:
            return file.readline(len(MARK)) == MARK.encode()
    except (UserError, OSError):
        return False


def write_offers(path: Path, offers: Sequence[Offer], gpus: GpuCatalogue) -> WriteResult:
    """Replace the file, keeping the previous one as `.bak`. Raises `UserError` and changes nothing for unreadable offers."""
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        before = b""
    except OSError as error:
        return refused(path, error)

    def accept(fresh: Path) -> None:
        offers_of_file(fresh, gpus)
        if before:
            write_whole(path.with_suffix(".toml.bak"), before).require()

    try:
        return write_whole(path, as_toml(offers), accept)
    except NotKeptError as lost:
        return WriteResult(path, lost.problems[0].message.rstrip("."))


def as_toml(offers: Sequence[Offer]) -> str:
    """The offers as TOML; keys that all of them share stand under [defaults]."""
    import tomlkit

    tables = [msgspec.to_builtins(offer) for offer in offers]
    tables = [{key: value for key, value in table.items() if value not in (None, [])} for table in tables]
    shared = ("provider", "region", "tier", "as_of", "source", "note")
    common = {key: Counter(table.get(key) for table in tables).most_common(1)[0] for key in shared}
    defaults = {key: value for key, (value, times) in common.items() if value and times == len(tables)}

    def lines(table: dict[str, object]) -> list[str]:
        return [f"{key} = {tomlkit.item(value).as_string()}" for key, value in table.items() if value != ""]

    text = [f"{MARK}; the next one replaces it. Remove these words to keep it as your own.", ""]
    text += ["[defaults]", *lines(defaults)]
    for table in tables:
        text += ["", "[[offer]]", *lines({key: value for key, value in table.items() if key not in defaults})]
    return "\n".join(text) + "\n"
