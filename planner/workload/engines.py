"""Catalogue of engines, `presets/engines`: records by release, and programs that stand for another engine.

`planner.engine.job.engine`, which makes records of these tables, defines and checks their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.errors import Problem, UserError
from planner.paths import presets_folder
from planner.reading import read_toml
from planner.units import GIB

KINDS = ("serving", "training")
IN_GIB = {f"{name}_bytes": f"{name}_gib" for name in ("context", "communicator")}
"""Attribute of a record -> the key that states it in GiB."""


def engine_tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """(place in its file, complete table) of each engine and release, the oldest release of an engine first; raises `UserError` for other files.

    A later release has the values of the previous one, except where its table differs; GiB become bytes.
    """
    for kind in KINDS:
        path = presets_folder() / "engines" / f"{kind}.toml"
        first: dict[str, dict[str, Any]] = {}
        newest: dict[str, dict[str, Any]] = {}
        for number, written in enumerate(read_toml(path)["engine"]):
            if "name" not in written:
                raise UserError(Problem(str(path), f"engine[{number}].name", "missing; a text is required."))
            name, table = written["name"], _in_bytes(written)
            before = newest.get(name, {})
            if before:
                sources = {"before": before.get("source", ""), "first": first[name].get("source", "")}
                table["source"] = _filled_in(table.get("source", "{before}"), sources)
            newest[name] = {**before, **table}
            first.setdefault(name, newest[name])
            yield f"{path}: {_place(written)}", newest[name]


def stand_in_tables() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Place in the file, name and table of each program that runs another engine; raises `UserError` for other files."""
    path = presets_folder() / "engines" / "stand_ins.toml"
    yield from ((f"{path}: {name}", name, table) for name, table in read_toml(path).items())


def _place(table: Mapping[str, Any]) -> str:
    """A record of a file of engines as messages name it: 'engine[vllm]', 'engine[vllm 0.11.1]'."""
    since = ".".join(map(str, table.get("since", ())))
    return f"engine[{table['name']}{since and f' {since}'}]"


def _in_bytes(table: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with bytes in place of GiB."""
    in_bytes = {name: attribute for attribute, name in IN_GIB.items()}
    return {in_bytes.get(key, key): value * GIB if key in in_bytes else value for key, value in table.items()}


def _filled_in(text: str, sources: Mapping[str, str]) -> str:
    """`text` with the names of other sources replaced by these sources."""
    for name, source in sources.items():
        text = text.replace(f"{{{name}}}", source)
    return text
