"""Models by name: `presets/models/`, a config.json or a GGUF file on disk, or an id of the Hugging Face hub."""

from __future__ import annotations

import datetime as dt
import re
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planner.errors import Problem, UserError, nearest_names
from planner.reading import kind_of, parse_toml, read_json, read_text, toml_names, user_path
from planner.schema import read_struct
from planner.workload.huggingface.hub import NotFetched, config_address, fetched_config, is_hub_id
from planner.workload.huggingface.keys import STORED_AS, TAKEN_AS

if TYPE_CHECKING:
    from planner.workload.architecture import Architecture
    from planner.workload.checkpoints.gguf_file import GgufFile
    from planner.workload.checkpoints.tensors import StoredTensor
    from planner.workload.uploads import Uploads

GGUF = ".gguf"
PRESET = ".toml"
FILES = (".json", GGUF)
"""Endings of the files that contain a model."""
CONFIG = "\n[config]\n"
"""Line that ends the head of a model's file."""
_MXFP4_FILES = "mxfp4_moe"
"""Format of llama.cpp's files of a model that is published in MXFP4, whatever their names say: its experts are copied unchanged."""
_PATHS = ("/", "./", "../", "~")
"""Beginnings of a text that can only be a path of a model."""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of a model and the source of its config."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    """Hugging Face ids and other spellings."""
    source: str
    retrieved: dt.date
    note: str = ""


class Model(Head, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model with its Hugging Face style config."""

    config: dict[str, Any]


class ModelShelf:
    """Models by name, alias, path of a config.json or id of the hub; a file is read when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Model] = {}
        self._heads: dict[str, Head] = {}
        self._texts: dict[str, str] = {}
        self._not_fetched: dict[str, str] = {}
        self._gguf: dict[Path, GgufFile] = {}

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

    def heads(self) -> dict[str, tuple[Head, str]]:
        """Every model by name, without its config, and the `model_type` of that config."""
        return {name: (self._head(name), _type_of(self._text(name))) for name in self._paths}

    def known(self, name: str) -> Model | None:
        """The model of the catalogue with that name or alias; None for a path, or an id of the hub that is not in the catalogue."""
        folded = name.strip().casefold()
        return None if is_path(folded) or (folded not in self._paths and folded not in self._aliases) else self.find(name)

    def is_known(self, name: str) -> bool:
        """True if `name` is a model's, without a request to the hub: of the catalogue, of an upload of one, or of a file."""
        return bool(name.endswith(FILES) or self.known(name) or self._uploads.find(name))

    def config(self, name: str) -> dict[str, Any]:
        """Config of a name or alias here, a config.json, a folder with one, a GGUF file, or an id of the hub. Raises `UserError`.

        A name that consists of a known model's and a format is that model, unless the hub has more. The error for a model that cannot be
        fetched states where to get the file.
        """
        folded, path = name.strip().casefold(), user_path(name)
        explicit = is_path(folded)
        if known := self.known(name):
            return known.config
        if folded.endswith(GGUF):
            return self.gguf(path).config
        if folded.endswith(PRESET):
            raise UserError(Problem(name, "model", f"is a preset, not a model. To open it: gpu-planner {name}"))
        if explicit or kind_of(path):
            folder = kind_of(path) == stat.S_IFDIR
            config = read_json(path / "config.json" if folder else path, "model", constants=True)
            return _with_quantisation(config, path if folder else path.parent)
        if is_hub_id(name.strip()):
            return self._from_hub(name.strip())
        return self._upload(name) or self.find(name).config

    def _upload(self, name: str) -> dict[str, Any]:
        """Config of the model that `name` is an upload of, with the format in the name and the words for it; empty if it is no upload."""
        from planner.workload.huggingface.quantization import quantised_format

        found = self._uploads.find(name)
        if found is None:
            return {}
        config = self._model(found.model).config
        kept = _MXFP4_FILES if found.gguf and quantised_format(config) == "mxfp4" else ""
        stored_as, alike = kept or found.stored_as, "a mix like " if found.alike and not kept else ""
        stored = {STORED_AS: stored_as} if stored_as else {}
        words = f"{found.model}{f', stored in {alike}{stored_as}' if stored_as else ''}: so {name.strip()} reads"
        return {**config, **stored, TAKEN_AS: words}

    def gguf(self, path: Path) -> GgufFile:
        """Config and tensors of the GGUF file at `path`, read once; raises `UserError`."""
        from planner.workload.checkpoints.gguf_file import read_gguf

        if path not in self._gguf:
            self._gguf[path] = read_gguf(path)
        return self._gguf[path]

    def check_gguf(self, name: str, counted: Architecture) -> None:
        """Raise `UserError` where the family's parameters differ from those in the file by more than a hundredth."""
        held = self.gguf(user_path(name)).parameters
        if abs(counted.total - held) > held / 100:
            text = f"holds {held:,} parameters, and {counted.family!r} of its sizes has {counted.total:,}. Give its config.json instead."
            raise UserError(Problem(name, "model", text))

    def tensors(self, name: str) -> tuple[StoredTensor, ...]:
        """Tensors of the checkpoint at `name`, on disk or on the hub; empty for a config without weights. Raises `UserError` for unreadable files."""
        from planner.workload.checkpoints.headers import folder_tensors, hub_tensors

        folded, path = name.strip().casefold(), user_path(name)
        if self.known(name):
            return ()
        if folded.endswith(GGUF):
            return self.gguf(path).tensors
        if kind := kind_of(path):
            return folder_tensors(path if kind == stat.S_IFDIR else path.parent)
        return hub_tensors(name.strip()) if is_hub_id(name.strip()) else ()

    def hub_id(self, name: object) -> str:
        """The model's id on the Hugging Face hub, of several the one most like `name`; '' for a file, a config, or a name without one."""
        from planner.workload.uploads import unlike

        if not isinstance(name, str) or is_path(name.strip().casefold()) or name.endswith(FILES):
            return ""
        if is_hub_id(name.strip()):
            return name.strip()
        upload = None if self.known(name) else self._uploads.find(name)
        try:
            aliases = self.find(upload.model if upload else name).aliases
        except UserError:
            return ""
        return min(filter(is_hub_id, aliases), key=lambda alias: unlike(alias, name), default="")

    def _from_hub(self, name: str) -> dict[str, Any]:
        """Config from the hub; a failure is stored, so that many requests for one unknown model wait for the network once."""
        if name not in self._not_fetched:
            try:
                return read_json(fetched_config(name), "model", constants=True)
            except NotFetched as error:
                self._not_fetched[name] = str(error)
        if upload := self._upload(name):
            return upload
        text = (
            f"{name!r} is not in the catalogue, and {self._not_fetched[name]}. Give the path of its config.json instead: "
            f"curl -L -o config.json {config_address(name)}"
        )
        raise UserError(Problem("", "model", text, nearest_names(name, (*self._paths, *self._spellings))))

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {name.removesuffix(PRESET): path for name, path in toml_names(self._folder)}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Folded alias -> canonical name; needs the head of every file."""
        return {alias.casefold(): name for name in self._paths for alias in self._head(name).aliases}

    @property
    def _spellings(self) -> tuple[str, ...]:
        return tuple(alias for name in self._paths for alias in self._head(name).aliases)

    @cached_property
    def _uploads(self) -> Uploads:
        from planner.workload.uploads import Uploads
        from planner.workload.weights import FORMATS

        return Uploads({name: (name, *self._head(name).aliases, self._head(name).title) for name in self._paths}, FORMATS)

    def _text(self, canonical: str) -> str:
        if canonical not in self._texts:
            self._texts[canonical] = read_text(Path(self._paths[canonical]))
        return self._texts[canonical]

    def _head(self, canonical: str) -> Head:
        """Beginning of a file, without parsing its config, which would take five times as long."""
        if canonical not in self._heads:
            path, text = self._paths[canonical], self._text(canonical).partition(CONFIG)[0]
            self._heads[canonical] = read_struct(Head, parse_toml(text, path), path)
        return self._heads[canonical]

    def _model(self, canonical: str) -> Model:
        if canonical not in self._read:
            path = self._paths[canonical]
            self._read[canonical] = read_struct(Model, parse_toml(self._text(canonical), path), path)
        return self._read[canonical]


def _type_of(text: str) -> str:
    """The `model_type` of the config of a model's file."""
    found = re.search(r'^model_type = "([^"]*)"', text.partition(CONFIG)[2], re.MULTILINE)
    return found[1] if found else ""


def _with_quantisation(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`config` with what ModelOpt writes into a separate file, where it has no `quantization_config`."""
    beside = folder / "hf_quant_config.json"
    if "quantization_config" in config or kind_of(beside) != stat.S_IFREG:
        return config
    return config | {"quantization_config": read_json(beside, "model")}


def is_path(model: str) -> bool:
    """True if a model's text can only be the path of a config.json, of its directory, or of a GGUF file."""
    return model.endswith((*FILES, "/")) or model.startswith(_PATHS)
