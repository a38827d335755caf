"""Chunks of work on a Ray cluster (docs.ray.io); results are returned in order, and chunks of a lost node are repeated."""

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
"""Maximum number of retries of a chunk whose worker or node was lost."""
AHEAD = 3
"""Chunks in progress for each processor: enough to keep all busy, few enough for arguments and results to fit into memory."""
SENT = ("planner", "presets", "bench")
"""Packages that are sent to workers."""
SILENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


class RayCluster:
    """A connected cluster, which runs functions of this package."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.nodes = sum(1 for node in ray.nodes() if node["Alive"])

    @classmethod
    @contextlib.contextmanager
    def join(cls, on: str) -> Iterator[Self]:
        """Connect to the cluster at `on`, or to that of this machine, or start one on it; raises `UserError`."""
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
        """Results of `function` in the order of its `arguments`; a chunk whose worker is lost is repeated."""
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
    """Folder of a package, which is not imported."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return next(iter(found.submodule_search_locations))


def _begin(address: str, options: dict[str, Any]) -> None:
    """Connect to the cluster at `address`; if "auto" finds none, start one on this machine."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, **options}
    try:
        ray.init(address=address, **quiet)
    except ConnectionError:
        if address != "auto":
            raise
        ray.init(include_dashboard=False, **quiet)
