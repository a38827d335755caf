"""The shelves of named things: models (`presets/models/`) and workloads (shipped, and the user's own)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from planner.errors import Problem, UserError, nearest_names
from planner.paths import write_whole
from planner.schema import read_struct, read_toml
from planner.workload.huggingface.hub import NotFetched, config_address, fetched_config, is_hub_id
from planner.workload.tasks import Workload

Origin = Literal["shipped", "user", "file"]

_PATHS = ("/", "./", "../", "~")
"""What a model's text starts with when it can only be a path."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.IGNORECASE)


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model: its Hugging Face style config and where that comes from."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    """Hugging Face ids and other spellings."""
    source: str
    retrieved: dt.date
    note: str = ""
    config: dict[str, Any]


class ModelShelf:
    """Models by name, alias, path of a config.json or id of the hub; files are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Model] = {}
        self._not_fetched: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        """Canonical names, sorted."""
        return tuple(self._paths)

    def find(self, name: str) -> Model:
        """The model called exactly `name` (letter case does not matter); raises `UserError` with the nearest names."""
        folded = name.strip().casefold()
        canonical = folded if folded in self._paths else self._aliases.get(folded)
        if canonical is None:
            near = nearest_names(name, (*self._paths, *self._spellings))
            raise UserError(
                Problem(
                    "",
                    "model",
                    f"{name!r} is not a known model; a path to a config.json or an id of the Hugging Face hub works too.",
                    near,
                )
            )
        return self._model(canonical)

    def config(self, name: str) -> dict[str, Any]:
        """The config of a model: its name or alias here, else a config.json or a directory that holds one, else an id of the hub.

        Raises `UserError`; one for a model that cannot be fetched says where to get the file and what to do with it.
        """
        folded, path = name.strip().casefold(), Path(name).expanduser()
        explicit = folded.endswith((".json", "/")) or folded.startswith(_PATHS)
        if not explicit and (folded in self._paths or folded in self._aliases):
            return self.find(name).config
        if explicit or path.exists():
            return _read_json_object(path / "config.json" if path.is_dir() else path)
        return self._from_hub(name.strip()) if is_hub_id(name.strip()) else self.find(name).config

    def hub_id(self, name: object) -> str:
        """Of the Hugging Face hub; '' for a file, a config, or a name that says none."""
        if not isinstance(name, str):
            return ""
        if is_hub_id(name.strip()):
            return name.strip()
        try:
            return next((alias for alias in self.find(name).aliases if is_hub_id(alias)), "")
        except UserError:  # the path of a file
            return ""

    def _from_hub(self, name: str) -> dict[str, Any]:
        """Asked once: a stream of requests for one unknown model does not wait for the network at every line."""
        if name not in self._not_fetched:
            try:
                return _read_json_object(fetched_config(name))
            except NotFetched as error:
                self._not_fetched[name] = str(error)
        text = (
            f"{name!r} is not in the catalogue, and {self._not_fetched[name]}. Give the path of its config.json instead: "
            f"curl -L -o config.json {config_address(name)}"
        )
        raise UserError(Problem("", "model", text, nearest_names(name, (*self._paths, *self._spellings))))

    @cached_property
    def _paths(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(self._folder.glob("*.toml"))}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Folded alias -> canonical name; needs every file."""
        return {alias.casefold(): name for name in self._paths for alias in self._model(name).aliases}

    @property
    def _spellings(self) -> tuple[str, ...]:
        return tuple(alias for name in self._paths for alias in self._model(name).aliases)

    def _model(self, canonical: str) -> Model:
        if canonical not in self._read:
            path = self._paths[canonical]
            self._read[canonical] = read_struct(Model, read_toml(path), str(path))
        return self._read[canonical]


@dataclass(frozen=True, slots=True)
class Preset:
    """A workload under a name."""

    name: str
    path: Path
    origin: Origin
    workload: Workload


class PresetShelf:
    """Workload presets: `shipped/*.toml`, and the user's in `user/presets/`, which win over shipped ones of the same name."""

    def __init__(self, shipped: Path, user: Path) -> None:
        self._shipped = shipped
        self._user = user / "presets"

    def names(self) -> tuple[str, ...]:
        """Every name, sorted; no file is opened, so a broken one does no harm here."""
        return tuple(sorted({path.stem for folder in (self._shipped, self._user) for path in folder.glob("*.toml")}))

    def load(self, name: str | Path) -> Preset:
        """The preset called `name`, or the .toml file at that path; raises `UserError` with every problem."""
        path, origin = self._locate(name)
        workload = read_workload(read_toml(path), str(path))
        if isinstance(workload.model, str) and (workload.model.endswith((".json", "/")) or workload.model.startswith(_PATHS)):
            beside = path.parent / Path(workload.model).expanduser()
            if beside.exists():
                workload = msgspec.structs.replace(workload, model=str(beside))
        return Preset(path.stem, path, origin, workload)

    def save(self, name: str, workload: Workload, *, overwrite: bool = False) -> Path:
        """Write `workload` as the user's preset `name` and return its path.

        The file appears whole or not at all. Comments of a preset that is overwritten stay. Raises `UserError` for an
        unusable name, a name taken (unless `overwrite`), or a folder that cannot be written.
        """
        if not _NAME.fullmatch(name) or name.casefold().endswith(".toml"):
            raise UserError(
                Problem("", "name", f"{name!r} cannot name a preset; use letters, digits, '-', '_' and '.', at most 64.")
            )
        path = self._user / f"{name}.toml"
        if path.exists() and not overwrite:
            raise UserError(Problem(str(path), "", "exists already; choose another name or overwrite it."))
        text = _as_toml(workload, path)
        try:
            write_whole(path, text)
        except OSError as error:
            raise UserError(Problem(str(path), "", f"cannot be written: {error.strerror}.")) from None
        return path

    def _locate(self, name: str | Path) -> tuple[Path, Origin]:
        given = str(name)
        if isinstance(name, Path) or given.endswith(".toml") or "/" in given:
            return Path(given).expanduser(), "file"
        folders: tuple[tuple[Path, Origin], ...] = ((self._user, "user"), (self._shipped, "shipped"))
        for folder, origin in folders:
            path = folder / f"{given}.toml"
            if path.is_file():
                return path, origin
        near = nearest_names(given, self.names())
        raise UserError(Problem("", "preset", f"{given!r} is not a known preset; a path to a .toml file works too.", near))


def read_workload(data: Mapping[str, Any], where: str) -> Workload:
    """`data` as a workload; raises `UserError` with one problem per fault."""
    return read_struct(Workload, data, where)


def _read_json_object(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UserError(Problem(str(path), "model", f"cannot be read: {error.strerror}.")) from None
    except msgspec.DecodeError as error:
        raise UserError(Problem(str(path), "model", f"is not a JSON object: {error}.")) from None


def _stated(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields of `struct` that differ from their defaults, as TOML can hold them."""
    return {
        field.encode_name: _plain(value)
        for field in msgspec.structs.fields(struct)
        if (value := getattr(struct, field.name)) is not None and value != _default(field)
    }


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _stated(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value if item is not None]
    return value


def _as_toml(workload: Workload, path: Path) -> str:
    """TOML of `workload`, laid over what `path` holds already so that comments survive."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    stated = _stated(workload)
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ParseError):
        document = tomlkit.document()
    for key in [key for key in document if key not in stated]:
        document.remove(key)
    for key, value in sorted(stated.items(), key=lambda item: isinstance(item[1], dict)):
        if key not in document or document[key] != value:
            document[key] = value
    return tomlkit.dumps(document)
