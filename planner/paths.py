"""Folders of the shipped presets and of the user's config and state, and the default preset."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import msgspec

S = TypeVar("S", bound="msgspec.Struct")
T = TypeVar("T")
DEFAULT_PRESET = "llama-3.1-70b-chat-service"
"""The workload that is planned when none is named."""
OPEN_SUFFIX = ".part.jsonl"
"""Ending of journals in `runs` of the state folder whose results are not all known to be in the store."""

HOMELESS = "/nonexistent"
"""Home of users without one (Debian Policy 9.2.3), such as an arbitrary user number in a container: nothing is kept."""


def presets_folder() -> Path:
    """The folder `presets/` of the installed package."""
    import presets

    return Path(next(iter(presets.__path__)))


def read_shipped(kind: type[S], *place: str) -> S:
    """The shipped TOML file at `place` below the presets as a `kind`; raises `UserError` with one problem per fault."""
    from planner.reading import read_toml
    from planner.schema import read_struct

    path = presets_folder().joinpath(*place)
    return read_struct(kind, read_toml(path), str(path))


def read_shipped_part(kind: type[T], key: str, *place: str) -> T:
    """Table `key`, the only one, of the shipped TOML file at `place` as a `kind`, such as a dict of structs; raises as `read_shipped`."""
    from msgspec import defstruct

    document = defstruct("Document", [(key, kind)], frozen=True, forbid_unknown_fields=True)
    found: T = getattr(read_shipped(document, *place), key)
    return found


def config_folder() -> Path:
    """Folder of the user's presets and config.toml (not created here)."""
    return _own("config", ".config")


def state_folder() -> Path:
    """Folder of measurements and the last form (not created here)."""
    return _own("state", ".local/state")


def _own(kind: str, usual: str) -> Path:
    """The user's folder of a kind; `usual` lies in the home of a user without one."""
    if (base := _by_variables(kind, usual)) is not None:
        return base / "gpu-planner"
    import platformdirs

    try:
        return Path(getattr(platformdirs, f"user_{kind}_dir")("gpu-planner", appauthor=False))
    except RuntimeError:  # no HOME, and no such user
        return Path(HOMELESS) / usual / "gpu-planner"


def _by_variables(kind: str, usual: str) -> Path | None:
    """The base folder of a kind by the XDG Base Directory Specification; None where more than two variables decide.

    The same as `platformdirs`, which takes as long to import as half of click.
    """
    if sys.platform != "linux" or "ANDROID_ROOT" in os.environ:
        return None
    given, home = os.environ.get(f"XDG_{kind.upper()}_HOME", ""), os.environ.get("HOME", "")
    if given:
        return Path(given) if given.startswith("/") else None
    return Path(home) / usual if home.startswith("/") else None
