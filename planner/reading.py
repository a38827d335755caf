"""Files of others, read whole: regular files alone, of a bounded size and depth, each fault one problem that names the file."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from planner.errors import Problem, UserError, shown

if TYPE_CHECKING:
    from tomli import TOMLDecodeError

MOST_BYTES = 16 << 20
"""Largest size of a file whose reader names none; the largest of the catalogue have a hundredth of it."""
MOST_DEPTH = 64
"""Tables and lists inside each other."""
_FAULTS_OF_TOML = {"Cannot overwrite a value": "a key is given twice", r"Illegal character '\n'": "a text has no closing quote"}
"""Message of tomli -> the mistake behind it."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def user_path(text: str | Path) -> Path:
    """`text` as a path, with the home folder in place of a leading ~; raises `UserError` if there is no such home."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UserError(Problem(str(text), "", f"cannot be found: {error}")) from None


def kind_of(path: Path) -> int:
    """The `stat.S_IFMT` of what lies at `path`; 0 if nothing does, or for a name that no file can have."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return 0


def open_file(path: Path, key: str = "") -> BinaryIO:
    """The regular file at `path`, open; raises `UserError` for other paths and unreadable files."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind == stat.S_IFREG:
            return path.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, key, error) from None
    raise UserError(Problem(str(path), key, f"is {_KINDS.get(kind, 'no regular file')}, and a regular file is needed."))


def read_file(path: Path, key: str = "", most_bytes: int = MOST_BYTES) -> bytes:
    """Bytes of the regular file at `path`; raises `UserError` for one that cannot be read or is larger than `most_bytes`."""
    with open_file(path, key) as file:
        try:
            found = file.read(most_bytes + 1)
        except OSError as error:
            raise _unreadable(path, key, error) from None
    if len(found) > most_bytes:
        raise UserError(Problem(str(path), key, f"is larger than {most_bytes >> 20} MiB, the most that is read."))
    return found


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Text of the regular file at `path` in UTF-8, without a byte order mark; raises as `read_file` does."""
    try:
        return read_file(path, most_bytes=most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(Problem(str(path), "", "is not text in UTF-8.")) from None


def read_json(path: Path, key: str = "", *, constants: bool = False) -> dict[str, Any]:
    """The JSON object in a file; raises `UserError` naming it. `constants`: Infinity and NaN, which Python writes, become null."""
    found = parse_json(read_file(path, key), str(path), key, constants=constants)
    if not isinstance(found, dict):
        raise UserError(Problem(str(path), key, "is not a JSON object."))
    return found


def parse_json(text: bytes, where: str, key: str = "", *, constants: bool = False) -> Any:
    """Value of the JSON `text`; raises `UserError` for `where`."""
    import msgspec

    plain = text.removeprefix(codecs.BOM_UTF8)
    try:
        if constants and (b"Infinity" in plain or b"NaN" in plain):
            import json  # the screen reads files of its own before its first paint, and mostly none of these

            found = json.loads(plain, parse_constant=lambda _: None)
        else:
            found = msgspec.json.decode(plain)
    except (msgspec.DecodeError, ValueError) as error:
        raise UserError(Problem(where, key, f"is not JSON: {error}.")) from None
    except RecursionError:
        raise too_deep(where, key) from None
    check_depth(found, where, key)
    return found


def toml_files(folder: Path) -> list[Path]:
    """The TOML files of a folder and the folders in it, by file name."""
    return [Path(path) for _, path in toml_names(folder)]


def toml_names(folder: Path) -> list[tuple[str, str]]:
    """(name, path) of the TOML files of a folder and the folders in it, by name."""
    if kind_of(folder) != stat.S_IFDIR:
        return []
    found, folders = list[tuple[str, str]](), [str(folder)]
    while folders:
        with contextlib.suppress(PermissionError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".toml") and entry.is_file():
                    found.append((entry.name, entry.path))
    return sorted(found)


def read_toml(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The tables of a TOML file; raises `UserError` naming the file, and the line when the syntax is wrong."""
    return parse_toml(read_text(path, most_bytes=most_bytes), str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables that `text` spells; raises `UserError` for `where`."""
    import tomli

    try:
        found = tomli.loads(text)
    except RecursionError:
        raise too_deep(where) from None
    except tomli.TOMLDecodeError as error:
        raise UserError(Problem(where, "", f"is not valid TOML: {_said_of_toml(error)}.")) from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(Problem(where, "", f"is not valid TOML: {error}.")) from None
    check_depth(found, where)
    return found


def _said_of_toml(error: TOMLDecodeError) -> str:
    """Message of `error` in plain words, with its line of the file."""
    fault, _, place = str(error).rpartition(" (at ")
    line = error.doc.split("\n")[error.lineno - 1].strip()
    return f"{_FAULTS_OF_TOML.get(fault, fault)} (at {place}{f': {shown(line)}' if line else ''}"


def check_depth(found: object, where: str, key: str = "") -> None:
    """Raise `UserError` for tables and lists that are nested deeper than `MOST_DEPTH`."""
    level = [found] if isinstance(found, (dict, list)) else []
    for _ in range(MOST_DEPTH):
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one) if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise too_deep(where, key)


def too_deep(where: str, key: str = "") -> UserError:
    """The problem of tables and lists that are nested too deeply."""
    return UserError(Problem(where, key, f"is nested more than {MOST_DEPTH} tables or lists deep."))


def _unreadable(path: Path, key: str, error: OSError | ValueError) -> UserError:
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return UserError(Problem(str(path), key, f"cannot be read: {reason}."))
