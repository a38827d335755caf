"""Logs of other tools as recordings: `nvidia-smi --query-gpu … --format=csv`, `nvidia-smi dmon`, saved pages of an exporter.

Columns by https://docs.nvidia.com/deploy/nvidia-smi/ (read 2026-11-22). No such log has counters of the multiprocessors: 'utilization.gpu'
and dmon's 'sm' are the share of time with a kernel running.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from planner.errors import Problem, UserError
from planner.observe.driver.counters import event_reason_names
from planner.observe.health import typed
from planner.observe.snapshot import DeviceSnapshot, Snapshot
from planner.observe.telemetry.exporter import devices_of, snapshot_of
from planner.observe.telemetry.exposition import read_samples
from planner.observe.telemetry.metrics import Tool, meanings

NOT_LOGGED = "the log does not have it"
DMON_STEP_S = 1.0
"""Seconds between dmon's lines without times: its default (`-d 1`)."""
UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y%m%d %H:%M:%S")


class Row(NamedTuple):
    """One line of a log: seconds, the GPU, fields of a snapshot, and whether the seconds are those of a date."""

    at_s: float
    gpu: int
    fields: dict[str, Any]
    dated: bool = True


LOGS: tuple[Tool, ...] = ("nvidia_smi", "dmon")
WHOLE = {"pcie_generation", "pcie_width"}
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")


def logged_snapshots(text: str, where: str, label: str) -> list[Snapshot] | None:
    """Readings of a log in one of these forms; None for other text. Raises `UserError` for a missing column."""
    head, lines = text[:4096].lstrip("\ufeff \n\r\t"), text.lstrip("\ufeff").splitlines()
    names = head.partition("\n")[0]
    if re.match(r"#\s*(date\s+time\s+)?gpu\s", head, re.IGNORECASE):
        rows = _dmon(lines)
    elif "," in names and re.search(r"\b(utilization\.gpu|memory\.used|power\.draw|clocks\.)", names):
        rows = _query(lines, where)
    else:
        return [_page(text, where, label)] if re.search(r"^(DCGM_FI_|gpu_planner_)\w+\{", text, re.MULTILINE) else None
    try:
        found = _snapshots(rows, label)
    except csv.Error as error:
        raise UserError(Problem(where, "", f"is not a log of nvidia-smi that can be read: {error}.")) from None
    if not found:
        raise UserError(Problem(where, "", "is a log of nvidia-smi without a reading; was it cut off?"))
    return found


def _page(text: str, where: str, label: str) -> Snapshot:
    devices = devices_of(read_samples(text, where))
    if not devices:
        raise UserError(Problem(where, "", "has no metric of a GPU."))
    return snapshot_of(devices, label, None, 0.0)


def _query(lines: Iterable[str], where: str) -> Iterator[Row]:
    """Rows of --query-gpu; a repeated header, as from several runs into one file, starts a new table."""
    names: list[str] = []
    for cells in csv.reader(lines, skipinitialspace=True):
        stripped = [UNIT.sub("", cell).strip() for cell in cells]
        if any(name in meanings("nvidia_smi") or name == "timestamp" for name in stripped):
            names = stripped
            if "timestamp" not in names:
                raise UserError(Problem(where, "", "has no column timestamp; log with --query-gpu=timestamp,index,name,…"))
            continue
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        at_s = _seconds(row.get("timestamp", ""))
        if at_s is None or len(cells) < len(names):
            continue  # a line that a killed process cut off
        said = next((row[name] for name in REASONS if MASK.fullmatch(row.get(name, ""))), None)
        texts = {
            "name": row.get("name") or row.get("gpu_name") or None,
            "uuid": row.get("uuid") or row.get("gpu_uuid") or None,
            "event_reasons": event_reason_names(int(said, 16)) if said else None,
        }
        given = {name: value for name, value in texts.items() if value}
        yield Row(at_s, int(_number(row.get("index")) or 0), _figures(row, "nvidia_smi") | given)


def _dmon(lines: Iterable[str]) -> Iterator[Row]:
    names: list[str] = []
    steps = dict[int, int]()
    for line in lines:
        if line.startswith("#"):
            words = line.lstrip("# ").split()
            names = [word.lower() for word in words] if "gpu" in (word.lower() for word in words) else names
            continue
        row = dict(zip(names, line.split(), strict=False))
        index = _number(row.get("gpu"))
        if index is None or len(row) < len(names):
            continue
        number = steps[int(index)] = steps.get(int(index), -1) + 1
        at_s = _seconds(f"{row['date']} {row['time']}") if "date" in row and "time" in row else None
        yield Row(number * DMON_STEP_S if at_s is None else at_s, int(index), _figures(row, "dmon"), at_s is not None)


def _figures(row: Mapping[str, str], tool: Tool) -> dict[str, Any]:
    """Fields of a snapshot in the cells of `row`."""
    return {
        field: value * scale for name, (field, scale) in meanings(tool).items() if (value := _number(row.get(name))) is not None
    }


def _snapshots(rows: Iterable[Row], label: str) -> list[Snapshot]:
    """Snapshots of the rows; a new one begins where a GPU appears again."""
    found: list[Snapshot] = []
    together: dict[int, Row] = {}
    for row in rows:
        if row.gpu in together:
            found.append(_snapshot(together, label))
            together = {}
        together[row.gpu] = row
    return [*found, _snapshot(together, label)] if together else found


def _snapshot(rows: Mapping[int, Row], label: str) -> Snapshot:
    at_s = min(row.at_s for row in rows.values())
    devices = tuple(_device(rows[index]) for index in sorted(rows))
    dated = all(row.dated for row in rows.values())
    return snapshot_of(devices, label, dt.datetime.fromtimestamp(at_s, tz=dt.UTC) if dated else None, at_s)


COUNTERS = frozenset(
    {
        *("event_reasons", "sm_active_fraction", "sm_occupancy_fraction", "tensor_active_fraction", "dram_bandwidth_fraction"),
        *("fp64_active_fraction", "fp32_active_fraction", "fp16_active_fraction"),
    }
)
"""Fields that no log has."""


def _device(row: Row) -> DeviceSnapshot:
    known: dict[str, Any] = {
        name: int(value) if name in WHOLE else typed(name, value) if isinstance(value, float) else value
        for name, value in row.fields.items()
    }
    logged = {field for tool in LOGS for field, _ in meanings(tool).values()}
    missing = sorted((COUNTERS | logged) - known.keys())
    return DeviceSnapshot(index=row.gpu, state="ok", reasons=dict.fromkeys(missing, NOT_LOGGED), **known)


def _number(text: str | None) -> float | None:
    """Number at the beginning of a cell ('99 %', '[N/A]', '-'); None without one, and for one beyond every counter."""
    matched = NUMBER.match(text or "")
    value = float(matched[0]) if matched else math.inf
    return value if math.isfinite(value) else None


def _seconds(text: str) -> float | None:
    for form in TIMES:
        try:
            return dt.datetime.strptime(text.strip(), form).replace(tzinfo=dt.UTC).timestamp()
        except ValueError:
            continue
    return None
