"""Values read from a GPU, with a reason for absent ones, and averages of hardware counters (GPM) over the poll interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.observe.driver.counters import FIRST_GPM, GPM_LONGEST_WINDOW_S, GPM_METRICS, GPM_MINIMUM_WINDOW_S
from planner.observe.driver.nvml import Nvml, NvmlError
from planner.observe.snapshot import REASON_TEXTS, CapabilityState


@dataclass(slots=True)
class Reading:
    """Values of snapshot fields, and the reason of each field that has none."""

    values: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def absent(cls, names: Iterable[str], reason: str) -> Reading:
        """Reading without values for `names`, all for one reason."""
        return cls({}, dict.fromkeys(names, reason))

    def set(self, name: str, value: Any, reason: str = "no value") -> None:
        """Set one field to its value, or store the reason if it is None."""
        if value is None:
            self.reasons[name] = reason
        else:
            self.values[name] = value

    def take(self, part: Reading) -> None:
        """Add the values and reasons of `part`."""
        self.values.update(part.values)
        self.reasons.update(part.reasons)


class GpmRing:
    """Two sample buffers; each reading averages over the time since the previous one."""

    def __init__(self, nvml: Nvml, take: Callable[[Any], None]) -> None:
        """Ring for `nvml`; `take` stores a sample of the device into a buffer, and raises `NvmlError`."""
        self._nvml = nvml
        self._take = take
        self._request = nvml.gpm_request(GPM_METRICS)
        self._samples: list[Any] = []
        self._newest = 0
        self._newest_at_s: float | None = None
        self._values: dict[str, float | CapabilityState] = {}
        self.window_s: float | None = None
        """Time covered by the current averages."""

    def read(self) -> tuple[dict[str, float], dict[str, str]]:
        """Averages, and the reason of each that is absent; raises `NvmlError` when the counters do not answer.

        A second call within a tenth of a second repeats the last averages: the hardware refreshes no faster.
        """
        began_s = time.monotonic()
        if self._newest_at_s is not None and began_s - self._newest_at_s < GPM_MINIMUM_WINDOW_S:
            return self._answer()
        while len(self._samples) < 2:
            self._samples.append(self._nvml.call("nvmlGpmSampleAlloc"))
        older, newer = self._newest, 1 - self._newest
        previous_at_s, self._newest_at_s = self._newest_at_s, None  # without a sample there is nothing to average from
        self._take(self._samples[newer])
        if previous_at_s is None or began_s - previous_at_s > GPM_LONGEST_WINDOW_S:
            self._values, self.window_s = {}, None
        else:
            self._values = self._nvml.gpm_metrics(self._request, GPM_METRICS, self._samples[older], self._samples[newer])
            self.window_s = began_s - previous_at_s
        self._newest, self._newest_at_s = newer, time.monotonic()
        return self._answer()

    def _answer(self) -> tuple[dict[str, float], dict[str, str]]:
        return split_states(self._values) if self._values else ({}, {metric.field: FIRST_GPM for metric in GPM_METRICS})

    def close(self) -> None:
        """Free the buffers."""
        for sample in self._samples:
            try:
                self._nvml.call("nvmlGpmSampleFree", sample)
            except NvmlError:
                continue  # freed with the session
        self._samples = []
        self._newest_at_s = None


def split_states(values: Mapping[str, float | CapabilityState]) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers among `values`, and the reasons of the others."""
    numbers = {field: value for field, value in values.items() if not isinstance(value, str)}
    return numbers, {field: REASON_TEXTS[value] for field, value in values.items() if isinstance(value, str)}
