"""Slices of a multi-instance GPU, listed with every slow reading, because an administrator may change them at any time."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.observe.driver.counters import GPM_FIELDS, MEMORY_V2, NOT_WITH_MIG
from planner.observe.driver.nvml import Nvml, NvmlError
from planner.observe.driver.reading import GpmRing
from planner.observe.snapshot import REASON_TEXTS, MigSnapshot

SLICE_GPM_FIELDS = tuple(name for name in GPM_FIELDS if name in MigSnapshot.__struct_fields__)
"""Hardware counters that exist for a slice."""


class MigSlices:
    """All slices of one GPU."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._slices: tuple[tuple[Any, MigSnapshot], ...] = ()
        """Compute instances without readings, with their handles, which are valid until the next rearrangement."""
        self._rings: dict[int, GpmRing] = {}

    @property
    def profiles(self) -> tuple[str, ...]:
        """Profiles of the slices in the last list."""
        return tuple(one.profile for _, one in self._slices)

    def list_again(self, parent: Any) -> None:
        """List the present slices; buffers of vanished ones are freed."""
        try:
            most = int(self._nvml.call("nvmlDeviceGetMaxMigDeviceCount", parent))
        except NvmlError:
            most = 0
        found = [self._slice_at(parent, index) for index in range(most)]
        self._slices = tuple(one for one in found if one is not None)
        there = {one.gpu_instance for _, one in self._slices}
        for instance in [instance for instance in self._rings if instance not in there]:
            self._rings.pop(instance).close()

    def _slice_at(self, parent: Any, index: int) -> tuple[Any, MigSnapshot] | None:
        try:
            handle = self._nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", parent, index)
        except NvmlError:
            return None  # indices have gaps
        name = self._nvml.text("nvmlDeviceGetName", handle) or ""
        attributes = self._optional("nvmlDeviceGetAttributes_v2", handle)
        return handle, MigSnapshot(
            uuid=self._nvml.text("nvmlDeviceGetUUID", handle),
            profile=name.rpartition("MIG ")[2] or "unnamed slice",
            gpu_instance=self._optional("nvmlDeviceGetGpuInstanceId", handle),
            compute_instance=self._optional("nvmlDeviceGetComputeInstanceId", handle),
            sm_count=attributes.multiprocessorCount if attributes is not None else None,
        )

    def _optional(self, function: str, handle: Any) -> Any:
        try:
            return self._nvml.call(function, handle)
        except NvmlError:
            return None

    def read(self, parent: Any) -> tuple[MigSnapshot, ...]:
        """Memory and hardware counters of every slice. Slices of one GPU instance share its counters."""
        counters: dict[int | None, tuple[dict[str, float], dict[str, str]]] = {}
        for _, one in self._slices:
            if one.gpu_instance not in counters:
                counters[one.gpu_instance] = self._counters(parent, one.gpu_instance)
        return tuple(self._snapshot(handle, one, *counters[one.gpu_instance]) for handle, one in self._slices)

    def _counters(self, parent: Any, instance: int | None) -> tuple[dict[str, float], dict[str, str]]:
        if instance is None:
            return {}, dict.fromkeys(SLICE_GPM_FIELDS, NOT_WITH_MIG)
        try:
            if instance not in self._rings:
                take = lambda sample: self._nvml.call("nvmlGpmMigSampleGet", parent, instance, sample)  # noqa: E731  # one line of glue
                self._rings[instance] = GpmRing(self._nvml, take)
            return self._rings[instance].read()
        except NvmlError as error:
            return {}, dict.fromkeys(SLICE_GPM_FIELDS, REASON_TEXTS[error.state])

    def _snapshot(self, handle: Any, one: MigSnapshot, values: dict[str, float], reasons: dict[str, str]) -> MigSnapshot:
        memory: dict[str, float] = {}
        absent = {name: reason for name, reason in reasons.items() if name in SLICE_GPM_FIELDS}
        try:
            answer = self._nvml.call("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
            memory = {f"memory_{part}_bytes": float(getattr(answer, part)) for part in ("total", "reserved", "used", "free")}
        except NvmlError as error:
            absent.update({f"memory_{part}_bytes": REASON_TEXTS[error.state] for part in ("total", "reserved", "used", "free")})
        counted = {name: value for name, value in values.items() if name in SLICE_GPM_FIELDS}
        return msgspec.structs.replace(one, reasons=absent, **memory, **counted)

    def close(self) -> None:
        """Forget the slices and free their buffers."""
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()
        self._slices = ()
