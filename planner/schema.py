"""Strict conversion of parsed TOML or JSON into structs, which names every fault instead of the first one."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from planner.errors import Problem, UserError, nearest_names, shown
from planner.numbers import in_unit, written_number

S = TypeVar("S", bound=msgspec.Struct)
MOST_FAULTS = 50
"""Maximum number of faults reported of one document; with more it is another kind of document."""
MOST_NAMED = 4
"""Keys of a table that are named where one is accepted."""
UNITS_OF_KEYS = {"s": "s", "h": "h", "usd": "$", "w": "W"}
"""Last part of a key -> the unit that a number may be written with."""
MOST_NAME = 100
"""Characters of an unknown key that are shown."""
_TABLES = (dict, Mapping)
"""Types of a table with any names."""

_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "a table",
    dt.date: "a date like 2026-08-22",
}


def read_struct(kind: type[S], given: Mapping[str, Any], where: str) -> S:
    """`given` as a `kind`; raises `UserError` with one problem per fault."""
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise UserError(faults(kind, given, where) or Problem(where, "", str(error))) from None


def with_numbers(kind: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with numbers for texts such as '4k' and '1.5B' where a `kind` takes a number and no text; the rest is left as it is."""
    if not _may_write_numbers(given):
        return dict(given)
    fields = _fields(kind)
    return {name: _as_number(fields[name].type, value, name) if name in fields else value for name, value in given.items()}


def _may_write_numbers(given: Mapping[str, Any]) -> bool:
    """False if no text in `given` can be a number: all begin with a letter, as in most presets. The fields of a kind are slow to find."""
    waiting: list[Any] = [given]  # tables may be nested too deeply for a recursion
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, str) and not value.strip()[:1].isalpha():
            return True
    return False


def _as_number(kind: Any, value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        for part, _ in alternatives(kind):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                return with_numbers(part, value)
            if get_origin(part) in _TABLES:
                return {name: _as_number(get_args(part)[1], inner, key) for name, inner in value.items()}
    parts = [part for part, _ in alternatives(kind)]
    if not isinstance(value, str) or str in parts or not (int in parts or float in parts):
        return value
    unit = "" if "_per_" in key else UNITS_OF_KEYS.get(key.rpartition("_")[2], "")
    number = written_number(in_unit(value, unit) if unit else value)
    return value if number is None else int(number) if number.is_integer() else number


def faults(kind: type[msgspec.Struct], given: object, where: str, key: str = "") -> list[Problem]:
    """Faults of `given` as a `kind`, up to `MOST_FAULTS`: unknown, missing, unusable keys. `key`: prefix of the dotted names."""
    if not isinstance(given, Mapping):
        return [Problem(where, key, f"{shown(given)} is not a table.")]
    return list(itertools.islice(_faults_of_table(kind, given, where, key), MOST_FAULTS))


def _faults_of_table(kind: type[msgspec.Struct], given: Mapping[str, Any], where: str, key: str) -> Iterator[Problem]:
    fields = _fields(kind)
    place, inner = getattr(kind, "KEYS_WITHIN", ("", None))
    known = {name: f"{place}.{name}" for name in (_fields(inner) if inner else ())} | {name: name for name in fields}
    elsewhere: Mapping[str, str] = getattr(kind, "KEYS_ELSEWHERE", {})
    for name in given:
        if name in fields:
            continue
        if name in known or name in elsewhere:
            said = elsewhere.get(name) or f"it is known as {known[name]}"
            yield Problem(where, _join(key, str(name)), f"unknown key here; {said}.")
            continue
        near = _within_tables(kind, name) or tuple(known[one] for one in nearest_names(str(name), known, most=2))
        hint = "" if near else f" Known keys: {', '.join(fields)}."
        yield Problem(where, _join(key, str(name)), f"unknown key.{hint}", near)
    for name, field in fields.items():
        if name in given:
            yield from _faults_of_value(field.type, given[name], where, _join(key, name))
        elif field.required:
            yield Problem(where, _join(key, name), f"missing; {_accepted(field.type)} is required.")


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Fields by external name; cached, since finding them resolves every annotation."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _within_tables(kind: type[msgspec.Struct], name: object) -> tuple[str, ...]:
    """The keys called `name` of the tables in a `kind`: 'targets.deadline_h'."""
    tables = ((key, part) for key, field in _fields(kind).items() for part, _ in alternatives(field.type))
    return tuple(
        f"{key}.{name}"
        for key, part in tables
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and name in _fields(part)
    )


def _faults_of_value(kind: Any, value: object, where: str, key: str) -> Iterator[Problem]:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        inner = list(itertools.islice(_faults_within(kind, value, where, key), MOST_FAULTS))
        if inner:
            yield from inner
        elif isinstance(error.__cause__, ValueError):  # a rule of the struct over several of its keys
            yield Problem(where, key, f"{error.__cause__}.")
        else:
            near = nearest_names(value, _choices(kind)) if isinstance(value, str) else ()
            yield Problem(where, key, f"{shown(value)} is not accepted; it has to be {_accepted(kind)}.", near)


def _faults_within(kind: Any, value: object, where: str, key: str) -> Iterator[Problem]:
    """Faults of the parts of `value`, where it is a table or a list as in `kind`."""
    for part, _ in alternatives(kind):
        origin, arguments = get_origin(part), get_args(part)
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and isinstance(value, Mapping):
            yield from _faults_of_table(part, value, where, key)
        elif origin in {tuple, list} and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _faults_of_value(arguments[0], item, where, f"{key}[{index}]")
        elif origin in _TABLES and isinstance(value, Mapping):
            for name, item in value.items():
                yield from _faults_of_value(arguments[1], item, where, _join(key, str(name)))


@functools.cache
def alternatives(kind: Any, bounds: msgspec.Meta | None = None) -> tuple[tuple[Any, msgspec.Meta | None], ...]:
    """The members of a union without None, each with its bounds."""
    if get_origin(kind) is Annotated:
        return alternatives(get_args(kind)[0], get_args(kind)[1])
    if get_origin(kind) in {Union, types.UnionType}:
        return tuple(part for member in get_args(kind) if member is not type(None) for part in alternatives(member))
    return ((kind, bounds),)


def _choices(kind: Any) -> tuple[str, ...]:
    parts = (part for part, _ in alternatives(kind))
    return tuple(str(choice) for part in parts if get_origin(part) is Literal for choice in get_args(part))


def choices_of(kind: type[msgspec.Struct], name: str) -> tuple[str, ...]:
    """The texts that the field `name` of a `kind` may have; () where it is not limited to some, or there is no such field."""
    return _choices(_fields(kind)[name].type) if name in _fields(kind) else ()


def takes_texts(kind: type[msgspec.Struct], name: str) -> bool:
    """True if the field `name` of a `kind` is a list of texts."""
    field = _fields(kind).get(name)
    lists = [get_args(part)[0] for part, _ in alternatives(field.type) if get_origin(part) is list] if field else []
    return any(item is str or get_origin(item) is Literal for item_kind in lists for item, _ in alternatives(item_kind))


def _accepted(kind: Any) -> str:
    words: list[str] = []
    for part, bounds in alternatives(kind):
        if get_origin(part) is Literal:
            words += [repr(choice) for choice in get_args(part)]
        elif get_origin(part) in {list, tuple}:
            items = get_args(part)
            counted = f" of {len(items)} items" if get_origin(part) is tuple and Ellipsis not in items else _range(bounds, "items")
            words.append(f"a list{counted}, each item {_accepted(items[0])}")
        elif get_origin(part) in _TABLES:
            words.append("a table")
        elif isinstance(part, type) and issubclass(part, msgspec.Struct):
            names = tuple(_fields(part))
            words.append(f"a table of {', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''}")
        else:
            words.append(_WORDS.get(part, str(part)) + _range(bounds))
    return " or ".join(([", ".join(words[:-1])] if len(words) > 1 else []) + words[-1:])


def _range(bounds: msgspec.Meta | None, counted: str = "characters") -> str:
    """The range of a number or the length of a text or list, in words; `counted`: its parts."""
    if bounds is None:
        return ""
    if bounds.max_length is not None:
        return f" of at most {bounds.max_length:,} {counted}"
    ends = (("from", bounds.ge), ("above", bounds.gt), ("to", bounds.le), ("below", bounds.lt))
    said = [f"{word} {_written_out(end)}" for word, end in ends if end is not None]
    return f" {' '.join(said)}{' on' if bounds.ge is not None and len(said) == 1 else ''}"


def _written_out(end: float) -> str:
    """An end of a range without an exponent, up to a billion and down to a millionth: '0.000001'."""
    if end == int(end):
        return f"{int(end):,}" if abs(end) <= 10**9 else f"{end:g}"
    return f"{end:f}".rstrip("0") if abs(end) >= 1e-6 else f"{end:g}"


def _join(key: str, name: str) -> str:
    name = name if len(name) <= MOST_NAME else f"{name[:MOST_NAME]}…"
    return f"{key}.{name}" if key else name
