"""The catalogue of engines, `presets/engines`: records by release, and programs that stand for another engine.

What a key means, and whether it is one, `planner.engine.job.engine` says, which makes records of these tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.paths import presets_folder
from planner.reading import read_toml
from planner.units import GIB

KINDS = ("serving", "training")


def engine_tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """(path of its file, table in full) of each engine and release, the oldest release of an engine first; raises `UserError` for other files.

    A later release has what the one before it has, except for what its table says; GiB become bytes.
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
    """`table` with bytes in the place of GiB."""
    return {
        f"{key[:-3]}bytes" if key.endswith("_gib") else key: value * GIB if key.endswith("_gib") else value
        for key, value in table.items()
    }


def _filled_in(text: str, sources: Mapping[str, str]) -> str:
    """`text` with other sources in the place of their names."""
    for name, source in sources.items():
        text = text.replace(f"{{{name}}}", source)
    return text
