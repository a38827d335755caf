"""One GPU behind NVML: its identity, its counters, and its readings, with a reason for every absent value."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from planner.observe.driver import counters
from planner.observe.driver.messages import GpuFacts
from planner.observe.driver.mig import MigSlices
from planner.observe.driver.nvml import Nvml, NvmlError
from planner.observe.driver.processes import NONE_VISIBLE, ProcessTable, processes_of
from planner.observe.driver.reading import GpmRing, Reading, split_states
from planner.observe.health import health_warnings
from planner.observe.snapshot import REASON_TEXTS, CapabilityState, DeviceSnapshot, ListedKind


class NvmlDevice:
    """A GPU at an NVML index; readings belong to the one thread that polls."""

    def __init__(self, nvml: Nvml, index: int) -> None:
        self._nvml = nvml
        self.index = index
        self.identity: GpuFacts | None = None
        """Facts that do not change while the driver runs; None if the GPU never answered."""
        self.state: CapabilityState = "ok"
        """'ok', or the reason why it cannot be read now."""
        self.capabilities: dict[str, CapabilityState] = {}
        """Counter -> its state when it was last read."""
        self.mig_enabled: bool | None = None
        self._handle: Any = None
        self._gpm: GpmRing | None = None
        self._slices = MigSlices(nvml)
        self._slow: Reading = Reading()
        self._slow_at_s: float | None = None
        self._throttled: tuple[float, dict[str, float]] | None = None
        self._processes: Reading = Reading()
        self._connect()

    def _connect(self) -> None:
        try:
            self._handle = self._nvml.call("nvmlDeviceGetHandleByIndex", self.index)
            if self.identity is None:
                self.identity = self._identify()
        except NvmlError as error:
            self.state = error.state
            return
        self.state = "ok"
        self.capabilities.clear()

    def _identify(self) -> GpuFacts:
        nvml, handle = self._nvml, self._handle
        uuid = nvml.call("nvmlDeviceGetUUID", handle)
        capability = self.ask("compute capability", "nvmlDeviceGetCudaComputeCapability")
        memory = self._query(counters.MEMORY)
        return GpuFacts(
            uuid=uuid,
            index=self.index,
            nvml_name=nvml.text("nvmlDeviceGetName", handle) or "unnamed GPU",
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            memory_total_bytes=memory.values.get("memory_total_bytes"),
        )

    def ask(self, counter: str, function: str, *arguments: Any) -> Any:
        """Answer to one NVML call, or None with the reason stored; a counter that the GPU lacks is not read again."""
        if self.capabilities.get(counter) in counters.LASTING:
            return None
        try:
            answer = self._nvml.call(function, self._handle, *arguments)
        except NvmlError as error:
            self._note(counter, error)
            return None
        self.capabilities[counter] = "ok"
        return answer

    def _note(self, counter: str, error: NvmlError) -> None:
        self.capabilities[counter] = error.state
        if error.state == "lost":
            self.state = "lost"

    def _why(self, counter: str) -> str:
        return REASON_TEXTS[self.capabilities.get(counter, "error")]

    def _query(self, query: counters.Query) -> Reading:
        reading = Reading()
        older = query.older
        if older is not None and self.capabilities.get(query.counter + ", newer call") in counters.LASTING:
            answer, convert = self.ask(query.counter, older[0], *older[1]), older[2]
        else:
            answer, convert = self.ask(query.counter, query.function, *query.arguments), query.convert
            if older is not None and self.capabilities[query.counter] == "function missing":
                self.capabilities[query.counter + ", newer call"] = self.capabilities.pop(query.counter)
                answer, convert = self.ask(query.counter, older[0], *older[1]), older[2]
        values = convert(answer) if answer is not None else (None,) * len(query.fields)
        for name, value in zip(query.fields, values, strict=True):
            reading.set(name, value, self._why(query.counter))
        return reading

    def _fields(self, counter: str, fields: Sequence[counters.Field]) -> Reading:
        if self.capabilities.get(counter) not in counters.LASTING:
            try:
                values, reasons = split_states(self._nvml.field_values(self._handle, fields))
            except NvmlError as error:
                self._note(counter, error)
            else:
                self.capabilities[counter] = "ok"
                return Reading(values, reasons)
        return Reading.absent((wanted.field for wanted in fields), self._why(counter))

    def _power(self) -> Reading:
        reading = self._fields("power fields", counters.FAST_FIELDS)
        if reading.values:
            return reading
        answer = self._query(counters.POWER_USAGE).values.get("power_w")
        capability = self.identity.compute_capability if self.identity else None
        instantaneous = capability is not None and tuple(map(int, capability.split("."))) <= (8, 0)
        reading = Reading()
        reading.set(
            "power_w",
            answer if instantaneous else None,
            self._why("power") if answer is None else "this driver only gives an average",
        )
        reading.set(
            "power_average_w",
            None if instantaneous else answer,
            self._why("power") if answer is None else "this GPU only gives the current value",
        )
        return reading

    def has_gpm(self) -> bool:
        """True if this GPU has hardware counter averages, as far as is known."""
        if "GPM" not in self.capabilities:
            support = self.ask("GPM", "nvmlGpmQueryDeviceSupport")
            if support is not None and not support.isSupportedDevice:
                self.capabilities["GPM"] = "not supported"
        return self.capabilities["GPM"] not in counters.LASTING

    def probe_gpm(self) -> CapabilityState:
        """State of the hardware counters after taking one sample."""
        self._gpm_reading()
        return self.capabilities["GPM"]

    def mig_profiles(self) -> tuple[str, ...] | None:
        """Profiles of the present slices; None if the GPU is not sliced."""
        self._read_mig_mode()
        return self._slices.profiles if self.mig_enabled else None

    def power_limit_w(self) -> float | None:
        """Power limit in force; None if the driver does not report it."""
        limit: float | None = self._query(counters.POWER_LIMIT).values.get("power_limit_w")
        return limit

    def _gpm_reading(self) -> Reading:
        if not self.has_gpm():
            missing = counters.NOT_WITH_MIG if self.mig_enabled else counters.NO_GPM
            reason = missing if self.capabilities["GPM"] == "not supported" else self._why("GPM")
            return Reading.absent(counters.GPM_FIELDS, reason)
        self._gpm = self._gpm or GpmRing(self._nvml, lambda sample: self._nvml.call("nvmlGpmSampleGet", self._handle, sample))
        try:
            values, reasons = self._gpm.read()
        except NvmlError as error:
            self._note("GPM", error)
            return Reading.absent(counters.GPM_FIELDS, counters.NOT_WITH_MIG if self.mig_enabled else self._why("GPM"))
        self.capabilities["GPM"] = "ok"
        return Reading({**values, "counter_window_s": self._gpm.window_s}, reasons)

    def _read_slow(self, now_s: float) -> None:
        slow = Reading()
        for query in (*counters.SLOW_QUERIES, *counters.HEALTH_QUERIES):
            slow.take(self._query(query))
        part = self._fields("slow fields", counters.SLOW_FIELDS)
        throttled = {name: part.values.pop(name) for name in counters.THROTTLE_COUNTERS & part.values.keys()}
        slow.values.update(part.values)
        slow.reasons.update({name: reason for name, reason in part.reasons.items() if name not in counters.THROTTLE_COUNTERS})
        missing = next((reason for name, reason in part.reasons.items() if name in counters.THROTTLE_COUNTERS), "no value")
        slow.set("throttled_s", dict(sorted(throttled.items())) or None, missing)
        slow.set("throttled_fraction", self._throttled_fraction(now_s, throttled), missing if not throttled else "first reading")
        self._slow, self._slow_at_s = slow, now_s
        self._read_mig_mode()

    def _throttled_fraction(self, now_s: float, throttled: dict[str, float]) -> dict[str, float] | None:
        before, self._throttled = self._throttled, (now_s, throttled)
        if before is None or not throttled or now_s - before[0] < 0.05:
            return None
        passed_s = now_s - before[0]
        return {
            name: min(1.0, max(0.0, (value - before[1][name]) / passed_s))
            for name, value in sorted(throttled.items())
            if name in before[1]
        }

    def _read_mig_mode(self) -> None:
        modes = self.ask("MIG", "nvmlDeviceGetMigMode")
        enabled = bool(modes[0]) if modes is not None else None
        if enabled != self.mig_enabled:  # other counters exist with slices than without
            mig_standing = self.capabilities.get("MIG", "ok")
            self.capabilities = {"MIG": mig_standing}
            self.mig_enabled = enabled
            self._free_gpm()
        if enabled:
            self._slices.list_again(self._handle)
        else:
            self._slices.close()

    def read_processes(self, table: ProcessTable | None) -> None:
        """List the processes on this GPU for the following snapshots; without `table` they list none."""
        self._processes = Reading()
        if table is None or self.state != "ok":
            return
        found = processes_of(self._list_processes, table)
        answered = self.capabilities.get("compute processes") == "ok"
        self._processes.set("processes", found, NONE_VISIBLE if answered else self._why("compute processes"))

    def _list_processes(self, kind: ListedKind) -> list[Any] | None:
        answer: list[Any] | None = self.ask(f"{kind} processes", self._nvml.process_call(kind))
        return answer

    def snapshot(self, *, slow: bool, cuda_ordinal: int | None = None) -> DeviceSnapshot:
        """Read the fast counters, and the slow ones when `slow`; each slow reading tries to find a lost GPU again."""
        if self.state != "ok" and slow:
            self._free_gpm()
            self._slices.close()
            self._connect()
        now_s = time.monotonic()
        merged = Reading()
        if self.state == "ok":
            if slow:
                self._read_slow(now_s)
            merged = Reading(dict(self._slow.values), dict(self._slow.reasons))
            for part in (
                self._gpm_reading(),
                self._power(),
                *(self._query(query) for query in counters.FAST_QUERIES),
                self._processes,
            ):
                merged.take(part)
            if self.mig_enabled:
                whole_gpu = {"kernel_resident_fraction", "memory_active_fraction"} & merged.reasons.keys()
                merged.reasons.update(dict.fromkeys(whole_gpu, counters.NOT_WITH_MIG))
        mig = self._slices.read(self._handle) if self.state == "ok" and self.mig_enabled else ()
        lost = self.state != "ok"
        return DeviceSnapshot(
            index=self.index,
            uuid=self.identity.uuid if self.identity else None,
            name=self.identity.nvml_name if self.identity else None,
            cuda_ordinal=cuda_ordinal,
            state=self.state,
            mig_enabled=None if lost else self.mig_enabled,
            mig=mig,
            health_warnings=() if lost else health_warnings(merged.values),
            slow_age_s=None if lost or self._slow_at_s is None else max(0.0, now_s - self._slow_at_s),
            reasons={} if lost else merged.reasons,
            **({} if lost else merged.values),
        )

    def _free_gpm(self) -> None:
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def close(self) -> None:
        """Free what belongs to this GPU; the session calls it."""
        self._free_gpm()
        self._slices.close()
