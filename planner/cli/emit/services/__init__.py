"""Services that `plan --emit` can write: a module for each engine, named after it with `_` for every other sign.

A module of an engine has the names of `Service`; it is found by the name of the engine, so that a new one is a new file.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from planner.cli.emit.spread import Spread
    from planner.engine.answers.layout import LayoutAnswer
    from planner.engine.answers.plan import PlanRow
    from planner.engine.job.job import Job


class Service(Protocol):
    """The functions and constants of a module that writes the services of one engine."""

    INSTALLED: str
    """What pip installs for GPUs of NVIDIA."""
    PORT: int
    IMAGES: Mapping[str, str]
    """Vendor -> container image."""

    def left_out(self, job: Job, layout: LayoutAnswer, hub_id: str) -> Iterator[str]:
        """What of a service the engine's command line cannot say; each a sentence without its end."""

    def notes(self, job: Job) -> Iterator[str]:
        """What people have to know before they start it."""

    def lines(self, job: Job, row: PlanRow, spread: Spread, hub_id: str) -> Iterator[str]:
        """Shell that serves until it is stopped."""


def service_of(engine: str) -> Service | None:
    """The module of `engine`; None where there is none."""
    name = re.sub(r"\W", "_", engine)
    return cast("Service", importlib.import_module(f"{__name__}.{name}")) if name in written_engines() else None


def written_engines() -> list[str]:
    """Engines whose services can be written."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
