"""Workloads by name: those of `presets/workloads/`, and the user's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from planner.durable import write_whole
from planner.errors import Problem, UserError, nearest_names, shown
from planner.reading import kind_of, read_text, read_toml, toml_files, user_path
from planner.schema import read_struct, with_numbers
from planner.workload.huggingface.hub import is_hub_id
from planner.workload.models import FILES, ModelShelf, is_path
from planner.workload.tasks import Workload

Origin = Literal["shipped", "user", "file"]

MOST_PRESET_BYTES = 1 << 20
"""Largest size of a preset file; a preset has some twenty lines."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


class Preset(msgspec.Struct, frozen=True):
    """A named workload."""

    name: str
    path: Path
    origin: Origin
    workload: Workload


class PresetShelf:
    """Workload presets: the shipped ones, and the user's in `user/presets/`, which override shipped ones of the same name."""

    def __init__(self, shipped: Path, user: Path, models: ModelShelf | None = None) -> None:
        """Shelf of both folders; the names of `models` are recognised where a preset is expected."""
        self._shipped = shipped
        self._user = user / "presets"
        self._models = models

    def names(self) -> tuple[str, ...]:
        """Every name, sorted; no file is opened, so a broken one does no harm here."""
        return tuple(sorted({path.stem for folder in (self._shipped, self._user) for path in toml_files(folder)}))

    def load(self, name: str | Path) -> Preset:
        """Preset called `name`, or the .toml file at that path; raises `UserError` with every problem."""
        path, origin = self._locate(name)
        workload = read_workload(_tables(path), str(path))
        if isinstance(workload.model, str) and is_path(workload.model):
            beside = path.parent / user_path(workload.model)
            if kind_of(beside):
                workload = msgspec.structs.replace(workload, model=str(beside))
        return Preset(path.stem, path, origin, workload)

    def given(self, name: str | Path) -> tuple[dict[str, Any], str]:
        """Unchecked tables of the file of the preset called `name`, and its path; raises `UserError` if it cannot be read."""
        path, _ = self._locate(name)
        return _tables(path), str(path)

    def save(self, name: str, workload: Workload, *, overwrite: bool = False) -> Path:
        """Write `workload` as the user's preset `name` and return its path; comments of an overwritten preset stay.

        Raises `UserError` for an unusable name, a name taken (unless `overwrite`), or a folder that cannot be written.
        """
        if not re.fullmatch(_NAME, name) or name.casefold().endswith(".toml"):
            raise UserError(
                Problem("", "name", f"{name!r} cannot name a preset; use letters, digits, '-', '_' and '.', at most 64.")
            )
        path = self._user / f"{name}.toml"
        if path.exists() and not overwrite:
            raise UserError(Problem(str(path), "", "exists already; choose another name or overwrite it."))
        text = as_toml(workload, path)
        write_whole(path, text).require()
        return path

    def _named(self, name: str) -> tuple[Path, Origin] | None:
        """Preset called `name`; the user's own is preferred to a shipped one."""
        folders: tuple[tuple[Path, Origin], ...] = ((self._user, "user"), (self._shipped, "shipped"))
        return next(((path, origin) for folder, origin in folders for path in toml_files(folder) if path.stem == name), None)

    def _locate(self, name: str | Path) -> tuple[Path, Origin]:
        given = str(name)
        if isinstance(name, str) and "=" in given and not kind_of(user_path(given)) and not self._named(given):
            raise UserError(Problem("", "preset", f"{given!r} is a setting, not a preset: {shlex.join(['--set', given])}"))
        if isinstance(name, Path) or given.endswith((".toml", *FILES)) or "/" in given:
            if given.endswith(FILES) or (is_hub_id(given) and not given.endswith(".toml") and not kind_of(user_path(given))):
                self._refuse_model(given, "is a model, not a preset" if self._is_known(given) else "is no file here")
            path = user_path(given)
            if not kind_of(path) and (near := self._names_like(path.stem)):
                raise UserError(
                    Problem(given, "", "cannot be read: No such file or directory; a preset is opened by its name alone.", near)
                )
            return path, "file"
        if found := self._named(given):
            return found
        if self._is_known(given):
            self._refuse_model(given, "is a model, not a preset")
        models = self._models.names() if self._models else ()
        near = nearest_names(given, (*self.names(), *models))
        holding = tuple(name for name in self.names() if given.casefold() in name.casefold())[:3]
        if near and near[0] in models and not holding:
            self._refuse_model(near[0], f"is not a known preset; {near[0]!r} is a model", given)
        near = holding or nearest_names(given, self.names())
        how = "" if near else " `gpu-planner presets` lists them."
        raise UserError(Problem("", "preset", f"{given!r} is not a known preset; a path to a .toml file works too.{how}", near))

    def _names_like(self, name: str) -> tuple[str, ...]:
        """`name` itself if it is a preset, else the presets closest in spelling."""
        return (name,) if self._named(name) else nearest_names(name, self.names())

    def _is_known(self, name: str) -> bool:
        return self._models is not None and self._models.is_known(name)

    def _refuse_model(self, model: str, why: str, given: str = "") -> NoReturn:
        """Raise `UserError` for a model's name in place of a preset's, and explain how to plan it. `given`: its spelling, where that differs."""
        how = shlex.join(["gpu-planner", "plan", "--set", f"model={model}", "--set", "task=serve"])
        raise UserError(Problem("", "preset", f"{given or model!r} {why}. A service of a model is planned with: {how}"))


def _tables(path: Path) -> dict[str, Any]:
    """Tables of a preset's file; raises `UserError`."""
    return read_toml(path, MOST_PRESET_BYTES)


def read_workload(data: Mapping[str, Any], where: str) -> Workload:
    """`data` as a workload, with numbers also as the form accepts them ('4k'); raises `UserError` with one problem per fault."""
    workload = read_struct(Workload, with_numbers(Workload, data), where)
    try:
        msgspec.json.encode(workload)
    except UnicodeEncodeError as error:  # an argument that is no UTF-8
        raise UserError(Problem(where, "", f"{shown(error.object)} is not text in UTF-8.")) from None
    return workload


def _stated(struct: msgspec.Struct) -> dict[str, Any]:
    """Fields of `struct` that differ from their defaults, as TOML can hold them."""
    return {
        field.encode_name: _plain(value)
        for field in msgspec.structs.fields(struct)
        if (value := getattr(struct, field.name)) is not None
        and value != (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
    }


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _stated(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value if item is not None]
    return value


def as_toml(workload: Workload, path: Path) -> str:
    """TOML of `workload`, merged into the contents of `path` so that comments stay."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    stated = _stated(workload)
    try:
        document = tomlkit.parse(read_text(path))
    except (UserError, ParseError):
        document = tomlkit.document()
    for key in [key for key in document if key not in stated]:
        document.remove(key)
    for key, value in sorted(stated.items(), key=lambda item: isinstance(item[1], dict)):
        if key not in document or document[key] != value:
            document[key] = value
    return tomlkit.dumps(document)
