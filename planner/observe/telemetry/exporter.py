"""Snapshots from an exporter in the Prometheus text format: NVIDIA's dcgm-exporter, all-smi, or `gpu-planner watch --prometheus`.

A counter that the exporter does not give is absent with that reason; it is never taken for 0.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from planner.errors import Problem, UserError
from planner.observe.driver.counters import GPM_FIELDS, event_reason_names
from planner.observe.health import health_warnings, typed
from planner.observe.snapshot import MOST as MOST_READING
from planner.observe.snapshot import NO_HOST, DeviceSnapshot, MigSnapshot, Snapshot
from planner.observe.telemetry.exposition import DEVICE_METRICS, PREFIX, Sample, read_samples
from planner.units import MEGA, MIB
from planner.web import NoAnswerError, read_url

TIMEOUT_S = 5.0
MOST_BYTES = 64 * MIB
MOST_DIGITS = 9
NOT_GIVEN = "the exporter does not give it"


class Meaning(NamedTuple):
    """The snapshot field that a metric fills, and the factor into SI units."""

    field: str
    scale: float = 1.0


def _meanings(table: Mapping[str, tuple[Any, ...]]) -> dict[str, Meaning]:
    """Metric -> meaning, from a table of field -> (factor into SI units, the metric's names)."""
    return {name: Meaning(field, scale) for field, (scale, *names) in table.items() for name in names}


DCGM = _meanings(
    {
        "sm_active_fraction": (1.0, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
        "sm_occupancy_fraction": (1.0, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
        "tensor_active_fraction": (1.0, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
        "dram_bandwidth_fraction": (1.0, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
        "graphics_active_fraction": (1.0, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO"),
        "integer_active_fraction": (1.0, "PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO"),
        "fp64_active_fraction": (1.0, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
        "fp32_active_fraction": (1.0, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
        "fp16_active_fraction": (1.0, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
        "pcie_tx_bytes_per_s": (1.0, "PROF_PCIE_TX_BYTES"),
        "pcie_rx_bytes_per_s": (1.0, "PROF_PCIE_RX_BYTES"),
        "nvlink_tx_bytes_per_s": (1.0, "PROF_NVLINK_TX_BYTES"),
        "nvlink_rx_bytes_per_s": (1.0, "PROF_NVLINK_RX_BYTES"),
        "kernel_resident_fraction": (0.01, "DEV_GPU_UTIL"),
        "memory_active_fraction": (0.01, "DEV_MEM_COPY_UTIL"),
        "memory_total_bytes": (MIB, "DEV_FB_TOTAL"),
        "memory_reserved_bytes": (MIB, "DEV_FB_RESERVED"),
        "memory_used_bytes": (MIB, "DEV_FB_USED"),
        "memory_free_bytes": (MIB, "DEV_FB_FREE"),
        "power_w": (1.0, "DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS"),
        "power_average_w": (1.0, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
        "power_limit_w": (1.0, "DEV_POWER_MGMT_LIMIT", "DEV_ENFORCED_POWER_LIMIT"),
        "energy_j": (1e-3, "DEV_TOTAL_ENERGY_CONSUMPTION"),
        "sm_clock_hz": (MEGA, "DEV_SM_CLOCK"),
        "max_sm_clock_hz": (MEGA, "DEV_MAX_SM_CLOCK"),
        "memory_clock_hz": (MEGA, "DEV_MEM_CLOCK"),
        "temperature_c": (1.0, "DEV_GPU_TEMP"),
        "memory_temperature_c": (1.0, "DEV_MEMORY_TEMP"),
    }
)
"""Name after 'DCGM_FI_' -> field. DCGM 4.6 renamed some; both names are listed."""
DCGM_HEALTH = _meanings(
    {
        "ecc_corrected_volatile": (1.0, "DEV_ECC_SBE_VOL_TOTAL"),
        "ecc_uncorrected_volatile": (1.0, "DEV_ECC_DBE_VOL_TOTAL"),
        "ecc_corrected_aggregate": (1.0, "DEV_ECC_SBE_AGG_TOTAL"),
        "ecc_uncorrected_aggregate": (1.0, "DEV_ECC_DBE_AGG_TOTAL"),
        "remapped_rows_correctable": (1.0, "DEV_CORRECTABLE_REMAPPED_ROWS"),
        "remapped_rows_uncorrectable": (1.0, "DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        "row_remap_pending": (1.0, "DEV_ROW_REMAP_PENDING"),
        "row_remap_failed": (1.0, "DEV_ROW_REMAP_FAILURE"),
        "retired_pages_single_bit": (1.0, "DEV_RETIRED_SBE"),
        "retired_pages_double_bit": (1.0, "DEV_RETIRED_DBE"),
        "page_retirement_pending": (1.0, "DEV_RETIRED_PENDING"),
    }
)
"""Name after 'DCGM_FI_' -> field of metrics of failing memory, which `read_fleet` does not query."""
ALL_SMI_PREFIX = "all_smi_gpu_"
ALL_SMI = _meanings(
    {
        "kernel_resident_fraction": (0.01, "utilization"),
        "memory_used_bytes": (1.0, "memory_used_bytes"),
        "memory_total_bytes": (1.0, "memory_total_bytes"),
        "temperature_c": (1.0, "temperature_celsius"),
        "power_average_w": (1.0, "power_consumption_watts"),
        "power_limit_w": (1.0, "power_limit_current_watts"),
        "sm_clock_hz": (MEGA, "frequency_mhz"),
        "max_sm_clock_hz": (MEGA, "clock_graphics_max_mhz"),
    }
)
"""Name after 'all_smi_gpu_' -> field (lablup/all-smi src/api/metrics/gpu.rs, 0.26)."""
DCGM_REASONS = ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")
HELD_BACK, UP = f"{PREFIX}clock_held_back", f"{PREFIX}up"
TELLS_OF_A_GPU = frozenset((HELD_BACK, UP, *DCGM_REASONS, *(f"DCGM_FI_{name}" for name in DCGM_REASONS)))
"""Metrics that show that there is a GPU without filling a field."""
OWN = {name: Meaning(field) for field, name, _ in DEVICE_METRICS}
READ_FIELDS = {meaning.field for meaning in (*DCGM.values(), *DCGM_HEALTH.values(), *ALL_SMI.values(), *OWN.values())}


HOST_LABELS = ("Hostname", "hostname", "node", "instance")
"""Labels that name the host, the most specific first."""
INDEX_LABELS = ("gpu_index", "index", "gpu")
UUID_LABELS = ("UUID", "gpu_uuid", "uuid")
SLICE_LABELS = ("GPU_I_ID", "mig_gpu_instance", "mig_uuid", "mig_profile")
"""Labels that identify a slice of a GPU; the first one present counts."""


Gpu = tuple[str, str, str]
"""Host, index and UUID as labels give them; empty: not given."""


class Place(NamedTuple):
    """The GPU, or slice of one, that a sample belongs to."""

    gpu: Gpu
    part: str
    """Id of the GPU instance; empty for the whole GPU."""


def read_exporter(url: str) -> Snapshot:
    """One snapshot from the exporter at `url`; raises `UserError` when it does not answer, or has no metric of a GPU."""
    began_s = time.monotonic()
    text = fetched(url, "--source")
    devices = devices_of(read_samples(text, url))
    if not devices:
        raise UserError(
            Problem(
                url,
                "",
                "answers, but has no metric of a GPU: not dcgm-exporter's (DCGM_FI_…), all-smi's (all_smi_gpu_…) or ours (gpu_planner_…).",
            )
        )
    return snapshot_of(devices, url, dt.datetime.now(tz=dt.UTC), began_s, time.monotonic() - began_s)


def snapshot_of(
    devices: tuple[DeviceSnapshot, ...], source: str, taken_at: dt.datetime, taken_at_s: float, collect_s: float = 0.0
) -> Snapshot:
    """A snapshot without a host, since exporters describe GPUs only."""
    return Snapshot(
        taken_at=taken_at.isoformat(timespec="milliseconds"),
        taken_at_s=taken_at_s,
        collect_s=collect_s,
        interval_s=0.0,
        nvml_state="ready",
        nvml_detail=source,
        host=NO_HOST,
        devices=devices,
        source=source,
    )


def fetched(url: str, option: str, timeout_s: float = TIMEOUT_S) -> str:
    """The text at `url`; raises `UserError` naming the option that `url` was given with."""
    if not url.startswith(("http://", "https://")):
        raise UserError(Problem(option, "", f"{url!r} is no address; it has to begin with http:// or https://."))
    try:
        return read_url(url, within_s=timeout_s, most_bytes=MOST_BYTES).body.decode(errors="replace")
    except NoAnswerError as error:
        raise UserError(Problem(option, "", f"{url} {error}{f': {error.said}' if error.said else '.'}")) from None


class _Seen:
    """The labels, reasons and values that the samples give one GPU or slice."""

    __slots__ = ("labels", "reasons", "values")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.values: dict[str, float] = {}
        self.reasons: int | list[str] | None = None

    def take(self, other: _Seen) -> None:
        """Add what `other` says of the same place."""
        self.labels = {**other.labels, **self.labels}
        self.values = other.values | self.values
        self.reasons = other.reasons if self.reasons is None else self.reasons


def devices_of(samples: Iterable[Sample]) -> tuple[DeviceSnapshot, ...]:
    """The GPUs that appear in the samples, by host, then by index, then by name."""
    seen = _seen_in(samples)
    parts: dict[Gpu, list[Place]] = {}
    for place in seen:
        slices = parts.setdefault(place.gpu, [])
        if place.part:
            slices.append(place)
    several = len({host for host, _, _ in parts}) > 1
    unnumbered = 10**MOST_DIGITS
    order = sorted([(gpu[0], unnumbered if (number := number_of(gpu[1])) is None else number, gpu) for gpu in parts])
    return tuple(
        _device(position if number == unnumbered else number, gpu, sorted(parts[gpu]), seen, host=host if several else "")
        for position, (host, number, gpu) in enumerate(order)
    )


def _seen_in(samples: Iterable[Sample]) -> dict[Place, _Seen]:
    """The labels, reasons and values of each GPU and slice, in the order of the samples."""
    found: dict[Place, _Seen] = {}
    for name, labels, value in samples:
        place = place_of(labels)
        if place is None or not is_reading(value):
            continue
        meaning = meaning_of(name)
        if meaning is not None:
            if not is_reading(scaled := value * meaning.scale):
                continue
        elif name not in TELLS_OF_A_GPU:
            continue
        seen = found.get(place)
        if seen is None:
            seen = found[place] = _Seen(labels)
        elif seen.labels is not labels:
            seen.labels = {**seen.labels, **labels}
        if meaning is not None:
            seen.values[meaning.field] = scaled
        elif name == HELD_BACK:
            seen.reasons = [*(seen.reasons if isinstance(seen.reasons, list) else ()), labels.get("reason", "")]
        elif name != UP:
            seen.reasons = int(value)
    joined = _joined(place.gpu for place in found)
    for place in [place for place in found if place.gpu in joined] if joined else ():
        said = found.pop(place)
        found.setdefault(Place(joined[place.gpu], place.part), _Seen(said.labels)).take(said)
    return found


def is_reading(value: float) -> bool:
    """Whether a counter can have this SI value: not NaN, infinite or negative, nor a sentinel such as 2^63."""
    return 0 <= value <= MOST_READING


@lru_cache(maxsize=256)
def meaning_of(name: str) -> Meaning | None:
    """The field that the metric `name` fills; None for a metric that is not shown."""
    if name.startswith("DCGM_FI_"):
        known = name.removeprefix("DCGM_FI_")
        return DCGM.get(known) or DCGM_HEALTH.get(known)
    if name.startswith(ALL_SMI_PREFIX):
        return ALL_SMI.get(name.removeprefix(ALL_SMI_PREFIX))
    return OWN.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None


def place_of(labels: Mapping[str, str]) -> Place | None:
    """The GPU that the labels name by index or UUID, and its host; None without either.

    all-smi has the model in `gpu`, and the index in `gpu_index` (before 0.21 in `index`).
    """
    number, uuid = first_of(labels, INDEX_LABELS), first_of(labels, UUID_LABELS)
    if not number and not uuid:
        return None
    return Place((first_of(labels, HOST_LABELS), number, uuid), first_of(labels, SLICE_LABELS))


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of the labels `names` that is not empty, else empty."""
    for name in names:
        if text := labels.get(name):
            return text
    return ""


def _joined(gpus: Iterable[Gpu]) -> dict[Gpu, Gpu]:
    """Incomplete labels -> the complete ones, where they can only mean one GPU."""
    forms = {gpu: (gpu[0] != "", gpu[1] != "", gpu[2] != "") for gpu in gpus}
    found: dict[Gpu, Gpu] = {}
    for form in sorted(set(forms.values()), key=sum, reverse=True)[1:]:
        meant: dict[Gpu, set[Gpu]] = {}
        for (host, number, uuid), other in forms.items():
            if other != form and all(more or not one for one, more in zip(form, other, strict=True)):
                short = (host * form[0], number * form[1], uuid * form[2])
                meant.setdefault(short, set()).add(found.get((host, number, uuid), (host, number, uuid)))
        found |= {short: whole.pop() for short, whole in meant.items() if short in forms and len(whole) == 1}
    return found


def number_of(label: str) -> int | None:
    """The number that `label` writes in decimal digits; None for another text, and for more digits than GPUs are counted with."""
    return int(label) if label.isdecimal() and len(label) <= MOST_DIGITS else None


def _device(index: int, gpu: Gpu, parts: Sequence[Place], seen: Mapping[Place, _Seen], *, host: str) -> DeviceSnapshot:
    whole = seen.get(Place(gpu, "")) or _Seen(seen[parts[0]].labels)
    known: dict[str, Any] = {name: typed(name, value) for name, value in whole.values.items()}
    _complete_memory(known)
    said, labels = whole.reasons, whole.labels
    known["reasons"] = _not_given(frozenset(known), reasons=said is None)
    if host:
        known["host"] = host
    if said is not None:
        known["event_reasons"] = event_reason_names(said) if isinstance(said, int) else tuple(said)
    if warnings := health_warnings(known):
        known["health_warnings"] = warnings
    if parts:
        known["mig"] = tuple(_slice(place, seen[place].labels, seen[place].values) for place in parts)
        known["mig_enabled"] = True
    name = (
        labels.get("modelName")
        or labels.get("name")
        or (labels.get("gpu") if labels.get("gpu_index") or labels.get("index") else None)
    )
    return DeviceSnapshot(index=index, uuid=gpu[2] or None, name=name, state="ok", **known)


@lru_cache(maxsize=64)
def _not_given(known: frozenset[str], *, reasons: bool) -> dict[str, str]:
    """Reasons of the fields that are not `known`; one table for all GPUs with the same fields."""
    return dict.fromkeys([*sorted(READ_FIELDS - known), *(["event_reasons"] if reasons else [])], NOT_GIVEN)


def _slice(place: Place, labels: Mapping[str, str], known: dict[str, float]) -> MigSnapshot:
    _complete_memory(known)
    own = {name: value for name, value in known.items() if name in MigSnapshot.__struct_fields__}
    return MigSnapshot(
        uuid=labels.get("mig_uuid") or None,
        profile=labels.get("GPU_I_PROFILE") or labels.get("mig_profile") or "unnamed slice",
        gpu_instance=number_of(place.part),
        reasons=dict.fromkeys(
            (name for name in GPM_FIELDS if name in MigSnapshot.__struct_fields__ and name not in own), NOT_GIVEN
        ),
        **cast("dict[str, Any]", own),
    )


_MEMORY = ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")


def _complete_memory(known: dict[str, float]) -> None:
    """Add the total where an exporter gives only used, free and (newer ones) reserved memory."""
    if "memory_used_bytes" in known and "memory_free_bytes" in known and "memory_total_bytes" not in known:
        known["memory_total_bytes"] = sum(known.get(name, 0.0) for name in _MEMORY)
