"""Prometheus text format (version 0.0.4): writing snapshots in it, and reading its samples.

Names follow the format's own conventions: base units as a suffix, shares of 1 as `_ratio`, running totals as `_total`.
A value that is not known has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from planner.errors import Problem, UserError
from planner.observe.snapshot import DeviceSnapshot, MigSnapshot, Snapshot
from planner.observe.telemetry.metrics import metrics

PREFIX = "gpu_planner_"
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?(\{.*\})?\s+(\S+)(?:\s+-?[\d.]+)?\s*(?:#.*)?$")
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_TEXT})\s*=\s*{_TEXT}\s*,?")
_PLAIN = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)",?')
_ALL_PLAIN = re.compile(r'\{(?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]{0,1000}",?)*\}')
"""Labels as exporters write them, without escapes or blanks: matched at once, for pages of a hundred thousand GPUs."""
_QUOTED_NAME = re.compile(rf"\{{\s*{_TEXT}\s*,?")
"""Name of a metric in UTF-8, which is inside the braces: {"dcgm.sm.active", gpu="0"} 0.5 (Prometheus 3)."""
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
    for field, metric in metrics().items():
        name = metric.exported
        if not name:
            continue
        found = [(labels, value) for device, labels in labelled if (value := getattr(device, field)) is not None]
        if field in MigSnapshot.__struct_fields__:
            found += [(labels, value) for part, labels in slices if (value := getattr(part, field)) is not None]
        lines += _metric(name, "counter" if name.endswith("_total") else "gauge", metric.help, found)
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
    """Samples of a text in the format, without other lines; raises `UserError` naming `where` if there are none.

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
        text = f"{wrong[1][:60]!r} is not the text format of Prometheus; is this the address of an exporter?"
        raise UserError(Problem(where, f"line {wrong[0]}", text))
    return samples


def _sample(line: str, read: dict[str, dict[str, str]]) -> Sample:
    """One line; `read` stores the labels that were read before, because all metrics of a GPU have the same."""
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
