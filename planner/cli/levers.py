"""The levers of a plan in which nothing fits, each with the command that pulls it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.cli.settings import spelled
from planner.engine.answers.lever import Lever


@dataclass(frozen=True, slots=True)
class AskedPlan:
    """What `gpu-planner plan` was given, so that it can be asked again."""

    preset: str
    settings: Sequence[str] = ()
    gpus: Sequence[str] = ()
    objective: str | None = None
    config: Path | None = None

    def command_with(self, lever: Lever) -> str:
        """The same command with `lever` pulled, quoted for a shell."""
        folder = ["--config", str(self.config)] if self.config else []
        words = ["gpu-planner", *folder, "plan", self.preset]
        if "gpus_considered" not in lever.change:
            words += [word for name in self.gpus for word in ("--gpu", name)]
        if self.objective:
            words += ["--objective", self.objective]
        changed = [text for key, value in lever.change.items() for text in spelled(key, value)]
        keys = {_key(text) for text in changed}
        kept = [text for text in self.settings if _key(text) not in keys]
        return shlex.join([*words, *(word for text in (*kept, *changed) for word in ("--set", text))])


def lever_lines(levers: Sequence[Lever], asked: AskedPlan) -> Iterator[tuple[str, str]]:
    """(what to change and what it costs, the command) of every lever."""
    for lever in levers:
        cost = lever.cost_text
        yield f"{lever.text} ({cost})" if cost else lever.text, asked.command_with(lever)


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()
