"""The Prometheus text format (version 0.0.4): snapshots written in it, and its samples read.

Names follow the format's own conventions: base units as a suffix, shares of 1 as `_ratio`, running totals as `_total`.
A value that is not known has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from planner.errors import Problem, UserError
from planner.observe.snapshot import DeviceSnapshot, MigSnapshot, Snapshot

PREFIX = "gpu_planner_"

DEVICE_METRICS: tuple[tuple[str, str, str], ...] = (
    ("sm_active_fraction", "sm_active_ratio", "Cycles of the multiprocessors with at least one warp"),
    ("sm_occupancy_fraction", "sm_occupancy_ratio", "Active warps of the most that could be"),
    ("tensor_active_fraction", "tensor_active_ratio", "Cycles of the matrix pipes in use"),
    ("dram_bandwidth_fraction", "dram_bandwidth_ratio", "Memory bandwidth in use, of the theoretical one"),
    ("graphics_active_fraction", "graphics_active_ratio", "Time with any engine in use"),
    ("integer_active_fraction", "integer_active_ratio", "Cycles of the integer pipes in use"),
    ("fp64_active_fraction", "fp64_active_ratio", "Cycles of the FP64 pipes in use"),
    ("fp32_active_fraction", "fp32_active_ratio", "Cycles of the FP32 pipes in use"),
    ("fp16_active_fraction", "fp16_active_ratio", "Cycles of the FP16 pipes in use"),
    ("pcie_tx_bytes_per_s", "pcie_transmit_bytes_per_second", "Sent over PCIe"),
    ("pcie_rx_bytes_per_s", "pcie_receive_bytes_per_second", "Received over PCIe"),
    ("nvlink_tx_bytes_per_s", "nvlink_transmit_bytes_per_second", "Sent over NVLink"),
    ("nvlink_rx_bytes_per_s", "nvlink_receive_bytes_per_second", "Received over NVLink"),
    ("kernel_resident_fraction", "kernel_resident_ratio", "Time with a kernel running (GPU-Util of nvidia-smi)"),
    ("memory_active_fraction", "memory_active_ratio", "Time in which memory was read or written; no bandwidth"),
    ("memory_total_bytes", "memory_total_bytes", "Memory of the GPU"),
    ("memory_reserved_bytes", "memory_reserved_bytes", "Memory kept by the driver"),
    ("memory_used_bytes", "memory_used_bytes", "Memory taken by programs"),
    ("memory_free_bytes", "memory_free_bytes", "Memory left"),
    ("power_w", "power_watts", "Power drawn at the moment"),
    ("power_average_w", "power_average_watts", "Power drawn over the last second"),
    ("power_limit_w", "power_limit_watts", "Power the board may draw"),
    ("energy_j", "energy_joules_total", "Energy since the driver was loaded"),
    ("sm_clock_hz", "sm_clock_hertz", "Clock of the multiprocessors"),
    ("max_sm_clock_hz", "sm_clock_max_hertz", "Their highest clock"),
    ("memory_clock_hz", "memory_clock_hertz", "Clock of the memory"),
    ("temperature_c", "temperature_celsius", "Temperature of the GPU"),
    ("memory_temperature_c", "memory_temperature_celsius", "Temperature of the memory"),
    ("ecc_corrected_volatile", "ecc_corrected_volatile_total", "Memory errors corrected since the driver was loaded"),
    ("ecc_uncorrected_volatile", "ecc_uncorrected_volatile_total", "Memory errors not corrected since the driver was loaded"),
    ("ecc_corrected_aggregate", "ecc_corrected_aggregate_total", "Memory errors corrected in the life of the GPU"),
    ("ecc_uncorrected_aggregate", "ecc_uncorrected_aggregate_total", "Memory errors not corrected in the life of the GPU"),
    ("remapped_rows_correctable", "remapped_rows_correctable", "Rows of memory replaced after corrected errors"),
    ("remapped_rows_uncorrectable", "remapped_rows_uncorrectable", "Rows of memory replaced after errors not corrected"),
    ("row_remap_pending", "row_remap_pending", "Whether rows are to be replaced at the next reset"),
    ("row_remap_failed", "row_remap_failed", "Whether no spare row was left for a faulty one"),
    ("retired_pages_single_bit", "retired_pages_single_bit", "Pages taken out of use after corrected errors"),
    ("retired_pages_double_bit", "retired_pages_double_bit", "Pages taken out of use after errors not corrected"),
    ("page_retirement_pending", "page_retirement_pending", "Whether pages are to be taken out of use at the next reset"),
)
"""(field of a snapshot, metric name without the prefix, help)."""

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?(\{.*\})?\s+(\S+)(?:\s+-?[\d.]+)?\s*(?:#.*)?$")
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_TEXT})\s*=\s*{_TEXT}\s*,?")
_PLAIN = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)",?')
_ALL_PLAIN = re.compile(r'\{(?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]{0,1000}",?)*\}')
"""Labels as exporters write them, without escapes or blanks: read in one go, for pages of a hundred thousand GPUs."""
_QUOTED_NAME = re.compile(rf"\{{\s*{_TEXT}\s*,?")
"""The name of a metric in UTF-8 stands within the braces: {"dcgm.sm.active", gpu="0"} 0.5 (Prometheus 3)."""
_ESCAPE = re.compile(r"\\[\\n\"]")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


MOST_LABEL = 1000
"""Characters of a label's text that are read."""


class Sample(NamedTuple):
    """One line of the format."""

    name: str
    labels: Mapping[str, str]
    value: float


def prometheus_text(snapshot: Snapshot) -> str:
    """`snapshot` in the text format, one metric after the other."""
    lines: list[str] = []
    labelled = [(device, device_labels(device)) for device in snapshot.devices]
    slices = [(part, slice_labels(device, part)) for device in snapshot.devices for part in device.mig]
    for field, name, words in DEVICE_METRICS:
        found = [(labels, value) for device, labels in labelled if (value := getattr(device, field)) is not None]
        if field in MigSnapshot.__struct_fields__:
            found += [(labels, value) for part, labels in slices if (value := getattr(part, field)) is not None]
        lines += _metric(name, "counter" if name.endswith("_total") else "gauge", words, found)
    reasons = [
        ({**device_labels(device), "reason": reason}, 1.0) for device in snapshot.devices for reason in device.event_reasons or ()
    ]
    lines += _metric("clock_held_back", "gauge", "Why the clock is not at its highest at the moment", reasons)
    throttled = [
        ({**device_labels(device), "reason": reason}, seconds)
        for device in snapshot.devices
        for reason, seconds in (device.throttled_s or {}).items()
    ]
    lines += _metric("throttled_seconds_total", "counter", "Time held back since the driver was loaded", throttled)
    warnings = [
        ({**device_labels(device), "warning": warning}, 1.0) for device in snapshot.devices for warning in device.health_warnings
    ]
    lines += _metric("health_warning", "gauge", "What is wrong with the memory of the GPU", warnings)
    up = [(labels, float(device.state == "ok")) for device, labels in labelled]
    lines += _metric("up", "gauge", "Whether the GPU answers", up)
    lines += _metric("host_cpu_busy_ratio", "gauge", "Processors in use", [({}, snapshot.host.cpu_busy_fraction)])
    return "".join(f"{line}\n" for line in lines)


def device_labels(device: DeviceSnapshot) -> dict[str, str]:
    """Labels that identify a GPU."""
    host = {"Hostname": device.host} if device.host else {}
    return {"gpu": str(device.index), "uuid": device.uuid or "", "name": device.name or "", **host}


def slice_labels(device: DeviceSnapshot, part: MigSnapshot) -> dict[str, str]:
    """Labels that identify a slice; the number of its GPU instance only where the driver gives one."""
    numbered = {} if part.gpu_instance is None else {"mig_gpu_instance": str(part.gpu_instance)}
    return {**device_labels(device), "mig_uuid": part.uuid or "", "mig_profile": part.profile, **numbered}


def _metric(name: str, kind: str, words: str, found: Iterable[tuple[Mapping[str, str], float | None]]) -> Iterator[str]:
    known = [(labels, value) for labels, value in found if value is not None]
    if not known:
        return
    yield f"# HELP {PREFIX}{name} {words}."
    yield f"# TYPE {PREFIX}{name} {kind}"
    for labels, value in known:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{PREFIX}{name}{{{inner}}} {float(value)!r}" if inner else f"{PREFIX}{name} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def read_samples(text: str, where: str) -> list[Sample]:
    """The samples of a text in the format, other lines left out; raises `UserError` naming `where` if there is none.

    Names and labels may be in UTF-8, as Prometheus 3 writes them.
    """
    samples: list[Sample] = []
    labels: dict[str, dict[str, str]] = {}
    wrong: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            samples.append(_sample(stripped, labels))
        except ValueError:
            wrong = wrong or (number, stripped)
    if wrong is not None and not samples:
        text = f"{wrong[1][:60]!r} is not the text format of Prometheus; is this address an exporter's?"
        raise UserError(Problem(where, f"line {wrong[0]}", text))
    return samples


def _sample(line: str, read: dict[str, dict[str, str]]) -> Sample:
    """One line; `read` keeps the labels that were read before, since all metrics of a GPU have the same."""
    matched = _SAMPLE.match(line)
    if matched is None:
        raise ValueError(line)
    name, braced = matched[1] or "", matched[2] or "{}"
    if not name:
        quoted = _QUOTED_NAME.match(braced)
        if quoted is None:
            raise ValueError(line)
        name, braced = quoted[1], "{" + braced[quoted.end() :]
    if braced not in read:
        read[braced] = _labels(braced)
    return Sample(name, read[braced], float(matched[3]))


def _labels(braced: str) -> dict[str, str]:
    if _ALL_PLAIN.fullmatch(braced):
        return dict(_PLAIN.findall(braced))
    inner, place, found = braced[1:-1].rstrip(), 0, {}
    while place < len(inner):
        matched = _LABEL.match(inner, place)
        if matched is None:
            raise ValueError(braced)
        text = matched[3][:MOST_LABEL]
        found[matched[1] or matched[2]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], text) if "\\" in text else text
        place = matched.end()
    return found
