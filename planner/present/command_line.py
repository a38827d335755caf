"""Command line of a plan, with settings in the notation of `--set`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planner.errors import UserError
from planner.reading import parse_toml

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Lever


def value_of(text: str) -> Any:
    """Value of `text` in TOML; other text is a string, so that quotes are not needed."""
    try:
        return parse_toml(f"value = {text}", "")["value"]
    except UserError:
        return text


def spelled(key: str, value: Any) -> list[str]:
    """`value` as arguments of `--set`; a table becomes one argument per key."""
    if isinstance(value, dict):
        return [text for name, inner in value.items() for text in spelled(f"{key}.{name}", inner)]
    if value is None:
        return [f"{key}="]
    if isinstance(value, str) and value and value_of(value) == value:
        return [f"{key}={value}"]
    return [f"{key}={_as_toml(msgspec.to_builtins(value))}"]


def _as_toml(value: Any) -> str:
    """`value` on one line of TOML, with inline tables and without absent keys."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={_as_toml(inner)}" for name, inner in value.items() if inner is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


class PlanCommand(msgspec.Struct, frozen=True):
    """Arguments of `gpu-planner plan`."""

    preset: str
    """Name or path of the preset; empty if the settings are the whole workload."""
    settings: Sequence[str] = ()
    """Arguments of `--set`."""
    gpus: Sequence[str] = ()
    objective: str | None = None
    config: Path | None = None
    own: Path | None = None
    """File with the user's own machines."""
    basis: BasisChoice = "measured"

    @property
    def text(self) -> str:
        """Command that gives the same ranking, quoted for a shell."""
        return self._text(self.gpus, self.settings)

    def text_with(self, lever: Lever) -> str:
        """Command with the change of `lever`, quoted for a shell."""
        changed = [text for key, value in lever.change.items() for text in spelled(key, value)]
        keys = {_key(text) for text in changed}
        kept = [text for text in self.settings if _key(text) not in keys]
        return self._text(() if "gpus_considered" in lever.change else self.gpus, [*kept, *changed])

    def _text(self, gpus: Sequence[str], settings: Sequence[str]) -> str:
        words = [
            "gpu-planner",
            *(["--config", str(self.config)] if self.config else []),
            "plan",
            *([self.preset] if self.preset else []),
        ]
        words += [word for name in gpus for word in ("--gpu", name)]
        words += ["--own", str(self.own)] if self.own else []
        words += ["--objective", self.objective] if self.objective else []
        words += [word for text in settings for word in ("--set", text)]
        import shlex

        return shlex.join([*words, *(["--basis", self.basis] if self.basis != "measured" else [])])


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()
