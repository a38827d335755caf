"""Chunks of work on a Ray cluster (docs.ray.io), returned in order and repeated where a node is lost."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import ray

from planner.cli.terminal.streams import say, say_passing
from planner.errors import Problem, UserError
from planner.units import counted

A = TypeVar("A")
R = TypeVar("R")

MOST_RETRIES = 5
"""Times that a chunk is begun again when its worker or node is lost."""
AHEAD = 3
"""Chunks handed out for each processor: enough that none waits, few enough that arguments and results fit into memory."""
SENT = ("planner", "presets", "bench")
"""Packages that workers are sent."""
SILENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


class RayCluster:
    """A cluster that was joined; it serves functions of this package, which its workers are sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.nodes = sum(1 for node in ray.nodes() if node["Alive"])

    @classmethod
    @contextlib.contextmanager
    def join(cls, on: str) -> Iterator[Self]:
        """Join the cluster at `on`, or the one this machine is part of, or begin one of this machine; raises `UserError`."""
        os.environ.update({name: os.environ.get(name, value) for name, value in SILENT.items()})
        before = ray.is_initialized()
        options: dict[str, Any] = {"runtime_env": {"py_modules": [_folder(name) for name in SENT]}}
        address = on if on.startswith("ray://") else "auto"
        try:
            if not before:
                _begin(address, options)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise UserError(Problem("--on", "", f"{on} cannot be reached: {str(error).splitlines()[0]}")) from None
        cluster = cls(on)
        say(f"{counted(cluster.nodes, 'node')} with {cluster.processors} processors by Ray {ray.__version__}")
        try:
            yield cluster
        finally:
            if not before:
                ray.shutdown()

    def __call__(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[R]:
        """The results of `function` in the order of its `arguments`; a chunk whose worker is lost is begun again."""
        remote = ray.remote(max_retries=MOST_RETRIES, num_cpus=1)(function)
        waiting: deque[Any] = deque()
        rest, done = iter(arguments), 0
        shown = sys.stderr.isatty() and len(arguments) > 1
        while True:
            while len(waiting) < AHEAD * self.processors and (argument := next(rest, None)) is not None:
                waiting.append(remote.remote(argument))
            if not waiting:
                break
            yield ray.get(waiting.popleft())
            done += 1
            if shown:
                say_passing(f"{self.name}: {done} of {len(arguments)} chunks")
        if shown:
            say_passing("")


def _folder(package: str) -> str:
    """Folder of a package, found without importing it."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return next(iter(found.submodule_search_locations))


def _begin(address: str, options: dict[str, Any]) -> None:
    """Join the cluster at `address`; where "auto" finds none, begin one of this machine."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, **options}
    try:
        ray.init(address=address, **quiet)
    except ConnectionError:
        if address != "auto":
            raise
        ray.init(include_dashboard=False, **quiet)
