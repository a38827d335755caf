"""Strict conversion of parsed TOML or JSON into structs, which names every fault instead of the first one."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from planner.errors import Problem, UserError, nearest_names

if TYPE_CHECKING:
    from pathlib import Path

S = TypeVar("S", bound=msgspec.Struct)

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
    except msgspec.ValidationError as error:
        raise UserError(faults(kind, given, where) or Problem(where, "", str(error))) from None


def faults(kind: type[msgspec.Struct], given: object, where: str, key: str = "") -> list[Problem]:
    """Everything that keeps `given` from being a `kind`: unknown, missing and unusable keys, nested ones too.

    `key` stands before the dotted names.
    """
    if not isinstance(given, Mapping):
        return [Problem(where, key, f"{_shown(given)} is not a table.")]
    return list(_faults_of_table(kind, given, where, key))


def _faults_of_table(kind: type[msgspec.Struct], given: Mapping[str, Any], where: str, key: str) -> Iterator[Problem]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in fields:
            near = nearest_names(str(name), fields)
            hint = "" if near else f" Known keys: {', '.join(fields)}."
            yield Problem(where, _join(key, str(name)), f"unknown key.{hint}", near)
    for name, field in fields.items():
        if name in given:
            yield from _faults_of_value(field.type, given[name], where, _join(key, name))
        elif field.required:
            yield Problem(where, _join(key, name), f"missing; {_accepted(field.type)} is required.")


def _faults_of_value(kind: Any, value: object, where: str, key: str) -> Iterator[Problem]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        for part in _alternatives(kind):
            if isinstance(part, type) and issubclass(part, msgspec.Struct) and isinstance(value, Mapping):
                yield from _faults_of_table(part, value, where, key)
                return
            if get_origin(part) in {tuple, list} and isinstance(value, list):
                for index, item in enumerate(value):
                    yield from _faults_of_value(get_args(part)[0], item, where, f"{key}[{index}]")
                return
            if get_origin(part) is dict and isinstance(value, Mapping):
                for name, item in value.items():
                    yield from _faults_of_value(get_args(part)[1], item, where, _join(key, str(name)))
                return
        choices = _choices(kind)
        near = nearest_names(value, choices) if isinstance(value, str) else ()
        bound = str(error) if any(sign in str(error) for sign in (">", "<")) else ""
        wanted = f"{_accepted(kind)}{_bound_text(bound)}"
        yield Problem(where, key, f"{_shown(value)} is not accepted; it has to be {wanted}.", near)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """The members of a union, without None and without annotations."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in {Union, types.UnionType}:
        return tuple(part for member in get_args(kind) if member is not type(None) for part in _alternatives(member))
    return (kind,)


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(str(choice) for part in _alternatives(kind) if get_origin(part) is Literal for choice in get_args(part))


def _accepted(kind: Any) -> str:
    words: list[str] = []
    for part in _alternatives(kind):
        if get_origin(part) is Literal:
            words += [repr(choice) for choice in get_args(part)]
        elif get_origin(part) in {list, tuple}:
            words.append(f"a list, each item {_accepted(get_args(part)[0])}")
        elif get_origin(part) is dict or (isinstance(part, type) and issubclass(part, msgspec.Struct)):
            words.append("a table")
        else:
            words.append(_WORDS.get(part, str(part)))
    return " or ".join(([", ".join(words[:-1])] if len(words) > 1 else []) + words[-1:])


def _bound_text(message: str) -> str:
    """The bound of a message like 'Expected `float` > 0.0', in the same signs."""
    words = message.split()
    for index, word in enumerate(words[:-1]):
        if word in {">", ">=", "<", "<="}:
            return f" {word} {words[index + 1]}"
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def toml_files(folder: Path) -> list[Path]:
    """The TOML files of a folder and the folders in it, by file name."""
    return sorted((path for path in folder.rglob("*.toml") if path.is_file()), key=lambda path: path.name)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; raises `UserError` naming the file, and the line when the syntax is wrong."""
    import tomli

    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(Problem(str(path), "", f"cannot be read: {error.strerror}.")) from None
    except UnicodeDecodeError:
        raise UserError(Problem(str(path), "", "is not text in UTF-8.")) from None
    except tomli.TOMLDecodeError as error:
        raise UserError(Problem(str(path), "", f"is not valid TOML: {error}.")) from None
