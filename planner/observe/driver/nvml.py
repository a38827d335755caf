"""Calls of NVML through pynvml, only in this module. It reads and never sets values; a failed call has a state.

One `Nvml` is one open session with the driver. It belongs to the thread that polls it: the driver serialises calls anyway, and
closing it while another thread is inside a call crashes the process.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any, Literal, Self

from planner.observe.driver.counters import Field
from planner.observe.snapshot import CapabilityState

NvmlState = Literal["ready", "no driver", "driver not loaded", "version mismatch", "no permission", "not answering", "error"]
"""State of NVML as a whole on this machine."""

NVML_DETAILS: dict[NvmlState, str] = {
    "ready": "NVML answers",
    "no driver": "No NVIDIA driver: the library libnvidia-ml was not found",
    "driver not loaded": "The NVIDIA driver is installed but not loaded",
    "version mismatch": "The NVIDIA driver and its library differ in version; restart the machine or reload the driver",
    "no permission": "This user or container may not talk to the NVIDIA driver",
    "not answering": "The NVIDIA driver did not answer",
    "error": "The NVIDIA driver reported an error",
}

_OPEN_STATES: dict[int, NvmlState] = {4: "no permission", 9: "driver not loaded", 12: "no driver", 18: "version mismatch"}
_CAPABILITY_STATES: dict[int, CapabilityState] = {
    2: "not supported",  # an id this driver does not know
    3: "not supported",
    4: "no permission",
    6: "not supported",
    10: "stale",
    13: "function missing",
    15: "lost",
    16: "lost",
    25: "function missing",  # a struct version this driver does not know
    28: "lost",
}
_UNION_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class NvmlError(Exception):
    """A failed call: the resulting `state` of the counter, and NVML's `code` (None when the call never reached it)."""

    def __init__(self, state: CapabilityState, code: int | None, function: str) -> None:
        super().__init__(f"{function}: {state}" + (f" (NVML code {code})" if code is not None else ""))
        self.state = state
        self.code = code
        self.function = function

    @property
    def open_state(self) -> NvmlState:
        """State of NVML as a whole after the failure of the first call."""
        return "error" if self.code is None else _OPEN_STATES.get(self.code, "error")


class Nvml:
    """An open session with the driver; a context manager. Made by `Nvml.open()`."""

    def __init__(self, pynvml: ModuleType) -> None:
        self._pynvml = pynvml
        self._open = False
        self.device_count = 0
        """Number of GPUs the driver counts."""

    @classmethod
    def open(cls) -> Self:
        """Load and initialise the library; raises `NvmlError`, whose `open_state` distinguishes a missing driver."""
        import pynvml

        nvml = cls(pynvml)
        nvml._open = True
        try:
            nvml.call("nvmlInit")
        except NvmlError:
            nvml._open = False
            raise
        try:
            nvml.device_count = int(nvml.call("nvmlDeviceGetCount"))
        except NvmlError:
            nvml.close()
            raise
        return nvml

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the session; closing twice is harmless."""
        if not self._open:
            return
        with contextlib.suppress(NvmlError):  # a session that cannot be ended ends with the process
            self.call("nvmlShutdown")
        self._open = False

    def call(self, function: str, *arguments: Any) -> Any:
        """Answer of `pynvml.<function>`; raises `NvmlError`."""
        if not self._open:
            raise NvmlError("error", None, function)
        routine = getattr(self._pynvml, function, None)
        if routine is None:
            raise NvmlError("function missing", None, function)
        try:
            return routine(*arguments)
        except self._pynvml.NVMLError as error:
            raise NvmlError(_CAPABILITY_STATES.get(error.value, "error"), error.value, function) from None
        except UnicodeDecodeError:
            raise NvmlError("error", None, function) from None

    def text(self, function: str, *arguments: Any) -> str | None:
        """A string from the driver; None if it returns none."""
        try:
            answer = self.call(function, *arguments)
        except NvmlError:
            return None
        return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)

    @property
    def driver_version(self) -> str | None:
        """Version of the driver: '570.86.15'."""
        return self.text("nvmlSystemGetDriverVersion")

    @property
    def cuda_version(self) -> str | None:
        """Newest CUDA version that the driver supports: '12.8'."""
        try:
            version = int(self.call("nvmlSystemGetCudaDriverVersion"))
        except NvmlError:
            return None
        return f"{version // 1000}.{version % 1000 // 10}"

    def process_call(self, kind: Literal["compute", "graphics"]) -> str:
        """Name of the function that lists processes; the older one for the few drivers whose newer one returns longer records (R535)."""
        longer = self._exports("nvmlDeviceGetConfComputeMemSizeInfo") and not self._exports("nvmlDeviceGetRunningProcessDetailList")
        return f"nvmlDeviceGet{kind.capitalize()}RunningProcesses_{'v2' if longer else 'v3'}"

    def _exports(self, function: str) -> bool:
        """True if the driver's library has `function`."""
        return hasattr(getattr(self._pynvml, "nvmlLib", None), function)

    def field_values(self, handle: Any, fields: Sequence[Field]) -> dict[str, float | CapabilityState]:
        """Field name -> its value in SI, or the reason it is absent; raises `NvmlError` when the whole call fails."""
        answers = self.call("nvmlDeviceGetFieldValues", handle, [field.id for field in fields])
        values: dict[str, float | CapabilityState] = {}
        for field, answer in zip(fields, answers, strict=True):
            if answer.nvmlReturn != 0:
                values[field.field] = _CAPABILITY_STATES.get(answer.nvmlReturn, "error")
            elif answer.valueType >= len(_UNION_MEMBERS):
                values[field.field] = "not supported"
            else:
                values[field.field] = _finite(getattr(answer.value, _UNION_MEMBERS[answer.valueType]) * field.scale)
        return values

    def gpm_request(self, metrics: Sequence[Field]) -> Any:
        """Structure that requests `metrics`; it is large, so it is created once and reused."""
        request = self._pynvml.c_nvmlGpmMetricsGet_t()
        request.version = 1
        request.numMetrics = len(metrics)
        for slot, metric in zip(request.metrics, metrics, strict=False):
            slot.metricId = metric.id
        return request

    def gpm_metrics(self, request: Any, metrics: Sequence[Field], earlier: Any, later: Any) -> dict[str, float | CapabilityState]:
        """Field name -> its average between two samples in SI, or the reason it is absent; raises `NvmlError`."""
        request.sample1, request.sample2 = earlier, later
        self.call("nvmlGpmMetricsGet", request)
        return {
            metric.field: _finite(slot.value * metric.scale)
            if slot.nvmlReturn == 0
            else _CAPABILITY_STATES.get(slot.nvmlReturn, "error")
            for slot, metric in zip(request.metrics, metrics, strict=False)
        }


def _finite(value: float) -> float | CapabilityState:
    """`value`, or "not supported" for NaN, which some drivers return without a value."""
    return value if math.isfinite(value) else "not supported"


def library_installed() -> bool:
    """True if the driver's library is installed, without calling it."""
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def describe_failure(error: NvmlError) -> str:
    """Sentence on the reason why NVML could not be opened."""
    detail = NVML_DETAILS[error.open_state]
    return f"{detail} ({error})" if error.open_state == "error" else detail
