"""Running the benchmark: the worker's events become lines of the pane, its results enter the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from textual.message import Message

from .benchmark import Run
from .planning import SessionThread


@dataclass
class RunChanged(Message):
    """The benchmark's state moved on."""

    run: Run
    measured: bool = False
    """Whether a new measurement was stored: the plan has to be made again."""


class Measuring:
    """At most one benchmark at a time."""

    def __init__(self, thread: SessionThread, post: Callable[[Message], object], python: str | None) -> None:
        self._thread = thread
        self._post = post
        self._python = python
        self.run = Run()

    @property
    def running(self) -> bool:
        """Whether a worker measures now."""
        return self.run.state == "running"

    async def measure(self, workload: Callable[[], Mapping[str, Any]]) -> None:
        """Run the quick suite."""

    async def stop(self) -> None:
        """Stop it; what was measured is kept."""

    def kill(self) -> None:
        """End the worker at once."""
