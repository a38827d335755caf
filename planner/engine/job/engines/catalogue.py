"""Engines and the names that stand for one, as the catalogue has them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.job.engine import Engine
from planner.errors import Problems, UserError, nearest_names
from planner.schema import read_struct
from planner.workload.engines import IN_GIB, engine_tables, stand_in_tables

GENERIC = "generic"
"""The engine that stands for one that is not named."""


class Period(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Releases of a program from a month on, until the next period begins."""

    differs: Mapping[str, Any]
    """Attributes of the record that differ in them."""
    since: str = ""
    """Month from which they differ so, as 2024-11; "": from the first release on."""


class StandIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program that people name as an engine and that runs, or computes as, another one."""

    label: str
    engine: str
    """The engine whose record holds for it."""
    words: str
    """Relation to that engine."""
    source: str
    turns_on: Mapping[str, Any] = {}
    """Keys of a workload -> what it sets by default."""
    differs: Mapping[str, Any] = {}
    """Attributes of the record that differ."""
    releases: tuple[Period, ...] = ()
    """Periods of releases that differ further, the earliest first; the last one is taken where no month is named."""


def read_engine(table: Mapping[str, Any], where: str) -> Engine:
    """The record of a table; raises `UserError` with the keys as its file has them."""
    try:
        return read_struct(Engine, table, where)
    except UserError as error:
        raise UserError(
            one._replace(key=IN_GIB.get(one.key, one.key), nearest=tuple(IN_GIB.get(name, name) for name in one.nearest))
            for one in error.problems
        ) from None


def _engines() -> dict[str, tuple[Engine, ...]]:
    """Records by name, the engine that is not named last; raises `UserError` for what is no record."""
    found: dict[str, tuple[Engine, ...]] = {}
    for where, table in engine_tables():
        engine = read_engine(table, where)
        found[engine.name] = (*found.get(engine.name, ()), engine)
    generic = found.pop(GENERIC)
    return {**found, GENERIC: generic}


def _stand_ins() -> dict[str, StandIn]:
    """The programs by name; raises `UserError` for one that stands for no engine, or has a record of its own."""
    found, problems = {}, Problems()
    for where, name, table in stand_in_tables():
        problems.where, found[name] = where, read_struct(StandIn, table, where)
        if name in ENGINES:
            problems.add("", "stands for another engine here, and is an engine itself in serving.toml or training.toml.")
        if found[name].engine not in ENGINES:
            near = nearest_names(found[name].engine, ENGINES)
            problems.add("engine", f"{found[name].engine!r} is not an engine of serving.toml or training.toml.", near)
    problems.raise_if_any()
    return found


ENGINES = _engines()
"""Name -> its records, oldest release first; the last one is today's, which is taken where no release is named."""
STAND_INS = _stand_ins()
"""Name -> the program."""


def as_stand_in(one: StandIn, engine: Engine, month: str = "") -> Engine:
    """Record of `engine` with what differs in `one`, as it was in `month` (2025-01; "": as it is)."""
    runs = f"{one.label} {one.words} {engine.label}"
    begun = [period.differs for period in one.releases if not month or period.since <= month]
    differs = {**one.differs, **(begun[-1] if begun else {})}
    return replace(engine, label=one.label, runs=runs, turns_on=one.turns_on, source=f"{one.source}; {engine.source}", **differs)
