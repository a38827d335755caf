"""Catalogue of engines, `presets/engines`: records by release, and programs that stand for another engine.

`planner.engine.job.engine`, which makes records of these tables, defines and checks their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.paths import presets_folder
from planner.reading import read_toml
from planner.units import GIB

KINDS = ("serving", "training")


def engine_tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """(path of its file, complete table) of each engine and release, the oldest release of an engine first; raises `UserError` for other files.

    A later release has the values of the previous one, except where its table differs; GiB become bytes.
    """
    for kind in KINDS:
        path = presets_folder() / "engines" / f"{kind}.toml"
        first: dict[str, dict[str, Any]] = {}
        newest: dict[str, dict[str, Any]] = {}
        for written in read_toml(path)["engine"]:
            name, table = written["name"], _in_bytes(written)
            before = newest.get(name, {})
            if before:
                sources = {"before": before["source"], "first": first[name]["source"]}
                table["source"] = _filled_in(table.get("source", "{before}"), sources)
            newest[name] = {**before, **table}
            first.setdefault(name, newest[name])
            yield str(path), newest[name]


def stand_in_tables() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path of the file, name, table) of each program that stands for an engine; raises `UserError` for other files."""
    path = presets_folder() / "engines" / "stand_ins.toml"
    yield from ((str(path), name, table) for name, table in read_toml(path).items())


def _in_bytes(table: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with bytes in place of GiB."""
    return {
        f"{key[:-3]}bytes" if key.endswith("_gib") else key: value * GIB if key.endswith("_gib") else value
        for key, value in table.items()
    }


def _filled_in(text: str, sources: Mapping[str, str]) -> str:
    """`text` with the names of other sources replaced by these sources."""
    for name, source in sources.items():
        text = text.replace(f"{{{name}}}", source)
    return text
