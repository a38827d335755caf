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
    """The function and constants of a module that writes the services of one engine."""

    INSTALLED: str
    """Packages pip installs for GPUs of NVIDIA."""
    PORT: int
    IMAGES: Mapping[str, str]
    """Vendor -> container image."""

    NAME: str
    """Name of the engine, as its makers write it."""
    DTYPES: Mapping[str, str]
    """Compute dtype -> the engine's word for it."""
    ROUNDED: Mapping[str, str]
    """Storage format -> what the engine rounds weights of 16 bits to as it loads them; the others have to be in the checkpoint."""
    CACHES: Mapping[str, str]
    """Format of the cache -> the engine's word for it."""

    def lines(self, job: Job, row: PlanRow, spread: Spread, hub_id: str) -> Iterator[str]:
        """Shell that serves until it is stopped."""


def left_out(service: Service, job: Job, layout: LayoutAnswer, hub_id: str) -> Iterator[str]:
    """Settings of a service that the engine's command line cannot say; each a sentence without its end."""
    if layout.cp > 1:
        yield f"{service.NAME} has no context parallelism in this form"
    if layout.ep > 1 and layout.ep != layout.tp:
        yield f"{service.NAME}'s experts are spread over tp = {layout.tp} GPUs here, not over ep = {layout.ep}"
    if (job.workload.kv_dtype or "bf16") not in service.CACHES:
        yield f"{service.NAME} has no cache of {job.workload.kv_dtype}"
    if not hub_id:
        yield f"the model has no id on the Hugging Face hub, which {service.NAME} loads it by"


def notes(service: Service, job: Job) -> Iterator[str]:
    """Notes for people before they start it."""
    if job.stored not in service.DTYPES and job.stored not in service.ROUNDED:
        yield f"MODEL has to be a checkpoint whose weights are stored as {job.stored}; the one named here is its original."
    if job.workload.kv_offload:
        yield f"{service.NAME} keeps prefixes in the host's memory once its own option says how much of it; that is left to you."


def service_of(engine: str) -> Service | None:
    """The module of `engine`; None where there is none."""
    name = re.sub(r"\W", "_", engine)
    return cast("Service", importlib.import_module(f"{__name__}.{name}")) if name in written_engines() else None


def written_engines() -> list[str]:
    """Engines whose services can be written."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
