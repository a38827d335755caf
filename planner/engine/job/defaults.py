"""Values of a workload, with defaults for absent ones."""

from __future__ import annotations

from typing import Any

from planner.workload.tasks import Workload


class Defaults:
    """Values as given, or defaults, which are recorded in `assumed`."""

    def __init__(self, workload: Workload, assumed: dict[str, Any] | None = None) -> None:
        self._workload = workload
        self.assumed: dict[str, Any] = {} if assumed is None else assumed

    def given_or(self, name: str, default: Any) -> Any:
        """Value of `name`; where it is absent, `default`, which is recorded."""
        given = getattr(self._workload, name)
        if given is None:
            self.assumed[name] = default
            return default
        return given
