"""Snapshots from an exporter in the Prometheus text format: NVIDIA's dcgm-exporter, all-smi, or `gpu-planner watch --prometheus`.

A counter that the exporter does not give is absent with that reason; it is never taken for 0.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

from planner.errors import Problem, UserError
from planner.observe.driver.counters import GPM_FIELDS, event_reason_names
from planner.observe.health import health_warnings, typed
from planner.observe.snapshot import MOST as MOST_READING
from planner.observe.snapshot import NO_HOST, DeviceSnapshot, MigSnapshot, Snapshot
from planner.observe.telemetry.exposition import PREFIX, Sample, read_samples
from planner.observe.telemetry.metrics import Meaning, meanings, metrics
from planner.units import MIB
from planner.web import NoAnswerError, read_url

TIMEOUT_S = 5.0
MOST_BYTES = 64 * MIB
MOST_DIGITS = 9
NOT_GIVEN = "the exporter does not report it"


ALL_SMI_PREFIX = "all_smi_gpu_"
DCGM_REASONS = ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")
HELD_BACK, UP = f"{PREFIX}clock_held_back", f"{PREFIX}up"
TELLS_OF_A_GPU = frozenset((HELD_BACK, UP, *DCGM_REASONS, *(f"DCGM_FI_{name}" for name in DCGM_REASONS)))
"""Metrics that show that a GPU exists without filling a field."""


HOST_LABELS = ("Hostname", "hostname", "node", "instance")
"""Labels that name the host, the most specific first."""
INDEX_LABELS = ("gpu_index", "index", "gpu")
UUID_LABELS = ("UUID", "gpu_uuid", "uuid")
SLICE_LABELS = ("GPU_I_ID", "mig_gpu_instance", "mig_uuid", "mig_profile")
"""Labels that identify a slice of a GPU; the first one present counts."""


Gpu = tuple[str, str, str]
"""Host, index and UUID from labels; empty: not given."""


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
    devices: tuple[DeviceSnapshot, ...], source: str, taken_at: dt.datetime | None, taken_at_s: float, collect_s: float = 0.0
) -> Snapshot:
    """A snapshot without a host, since exporters describe GPUs only."""
    return Snapshot(
        taken_at=taken_at.isoformat(timespec="milliseconds") if taken_at else "",
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
    """Text at `url`; raises `UserError` naming the option that `url` was given with."""
    given = url.partition("?")[0]
    if not url.startswith(("http://", "https://")):
        raise UserError(Problem(option, "", f"{given!r} is not an address; it has to begin with http:// or https://."))
    try:
        return read_url(url, within_s=timeout_s, most_bytes=MOST_BYTES).body.decode(errors="replace")
    except NoAnswerError as error:
        raise UserError(Problem(option, "", f"{given} {error}{f': {error.said}' if error.said else '.'}")) from None


class _Seen:
    """Labels, reasons and values that the samples give for one GPU or slice."""

    __slots__ = ("labels", "reasons", "values")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.values: dict[str, float] = {}
        self.reasons: int | list[str] | None = None

    def take(self, other: _Seen) -> None:
        """Add the readings of `other`, of the same place."""
        self.labels = {**other.labels, **self.labels}
        self.values = other.values | self.values
        self.reasons = other.reasons if self.reasons is None else self.reasons


def devices_of(samples: Iterable[Sample]) -> tuple[DeviceSnapshot, ...]:
    """GPUs that appear in the samples, by host, then by index, then by name."""
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
    """Labels, reasons and values of each GPU and slice, in the order of the samples."""
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
    """True if a counter can have this SI value: not NaN, infinite or negative, nor a sentinel such as 2^63."""
    return 0 <= value <= MOST_READING


@lru_cache(maxsize=256)
def meaning_of(name: str) -> Meaning | None:
    """Field that the metric `name` fills; None for a metric that is not shown."""
    for prefix, known in _meanings():
        if name.startswith(prefix):
            return known.get(name.removeprefix(prefix))
    return None


@cache
def _meanings() -> tuple[tuple[str, Mapping[str, Meaning]], ...]:
    """Prefix of an exporter's metrics -> name after it -> meaning."""
    own = {metric.exported: Meaning(field) for field, metric in metrics().items() if metric.exported}
    return (("DCGM_FI_", meanings("dcgm")), (ALL_SMI_PREFIX, meanings("all_smi")), (PREFIX, own))


def place_of(labels: Mapping[str, str]) -> Place | None:
    """The GPU that the labels name by index or UUID, and its host; None without either.

    all-smi has the model in `gpu`, and the index in `gpu_index` (before 0.21 in `index`).
    """
    number, uuid = first_of(labels, INDEX_LABELS), first_of(labels, UUID_LABELS)
    if not number and not uuid:
        return None
    return Place((first_of(labels, HOST_LABELS), number, uuid), first_of(labels, SLICE_LABELS))


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """First of the labels `names` that is not empty, else empty."""
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
    """Number that `label` writes in decimal digits; None for another text, and for more digits than GPUs are counted with."""
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
    read = {meaning.field for _, names in _meanings() for meaning in names.values()}
    return dict.fromkeys([*sorted(read - known), *(["event_reasons"] if reasons else [])], NOT_GIVEN)


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
