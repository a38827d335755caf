"""A value as given, or the default that is then reported."""

from __future__ import annotations

from typing import Any

from planner.workload.tasks import Workload


class Chooser:
    """Takes what was given, or a default that is then reported."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.assumed: dict[str, Any] = {}

    def __call__(self, name: str, default: Any) -> Any:
        """The value of `name` as given, else `default`, which is reported from then on."""
        given = getattr(self._workload, name)
        if given is None:
            self.assumed[name] = default
            return default
        return given
