"""GPUs of a fleet over a window, by Prometheus queries that return one number per GPU and metric.

The server averages, so the data sent over the network does not grow with the window. Counters of activity and traffic are averaged over all
readings and divided by the share of the time in use, because they are close to 0 in the rest; clocks are averaged over the readings in use.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from planner.engine.advice.diagnosis import IDLE
from planner.errors import Problem, UserError
from planner.observe.driver.counters import EVENT_REASONS
from planner.observe.snapshot import DeviceSnapshot
from planner.observe.telemetry.exporter import (
    ALL_SMI_PREFIX,
    DCGM_REASONS,
    HOST_LABELS,
    SLICE_LABELS,
    devices_of,
    fetched,
    first_of,
    meaning_of,
    place_of,
)
from planner.observe.telemetry.exposition import PREFIX, Sample
from planner.observe.telemetry.window import MEANS, FleetGpu

JOB_LABELS = ("hpc_job", "exported_pod", "pod", "slurm_job_id", "jobid")
"""Labels that name the work (dcgm-exporter under Slurm and Kubernetes), in order of precedence; `job` is not one of them, because it names the scrape."""
GPU_LABELS = ("gpu", "UUID", "uuid", "modelName", "name", "gpu_index", "index", "gpu_uuid", "GPU_I_PROFILE", *SLICE_LABELS)
STEPS, FEW_STEPS = 144, 48
"""Steps of a window at which use, clock and throttling are read. Averages are over all readings of the server."""
NAMELESS = "unnamed host"
LEAST_STEP_S = 15.0
LEAST_JOB_S = 600.0
"""Shortest time, in seconds, over which the labels of the work are searched for."""
QUERY_TIMEOUT_S = 30.0
AT_ONCE = 4
"""Queries in flight: a server answers about one for each of its processors at a time."""
ACTIVITIES = ("sm_active_fraction", "kernel_resident_fraction")
"""Fields that show whether something ran, the better one first."""
LINKS = tuple(f"{kind}_{way}_bytes_per_s" for kind in ("nvlink", "pcie") for way in ("tx", "rx"))
CLOCKS = ("sm_clock_hz",)
OVER_ALL = ("power_w", "power_average_w")
MOST = (
    *("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes", "memory_free_bytes", "power_limit_w", "max_sm_clock_hz"),
    *("ecc_uncorrected_volatile", "row_remap_pending", "row_remap_failed", "page_retirement_pending"),
)
"""Fields whose highest reading counts."""
WANTED = frozenset((*MEANS.values(), *LINKS, *CLOCKS, *OVER_ALL, *MOST))
REASON_BITS = {name: bit for bit, name in EVENT_REASONS.items() if bit in {0x4, 0x8, 0x20, 0x40, 0x80}}
"""Reasons of power and heat -> their bit: each costs the server a query, which names only the GPUs with such a reason."""
LEAST_REASON = min(REASON_BITS.values())
MOST_HOSTS = 200
"""Maximum number of hosts that a query names; if more are held back, it covers all hosts."""


T = TypeVar("T")
Reading = tuple[dict[str, str], float]
"""Labels and value."""
ANSWER_FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)


class _Answer(msgspec.Struct):
    """An answer of the HTTP interface (prometheus.io/docs/prometheus/latest/querying/api, read 2026-11-22)."""

    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _Vector(msgspec.Struct):
    """Data of an instant query."""

    result: list[msgspec.Raw]


class _Series(msgspec.Struct):
    """One series: labels, and a moment with the value as text."""

    metric: dict[str, str]
    value: tuple[float, str]


_DECODER = msgspec.json.Decoder(_Series)


@dataclass(slots=True)
class Cost:
    """Cost of the queries: their number, bytes received, seconds."""

    queries: int = 0
    bytes: int = 0
    seconds: float = 0.0


def read_fleet(server: str, seconds: float, *, match: str = "", cost: Cost | None = None) -> list[FleetGpu]:
    """GPUs that the server at address `server` has recorded over the last `seconds`, by host and index.

    `match`: label matchers as in PromQL's braces: 'cluster="a",job=~"dcgm.*"'. Raises `UserError` when the server refuses or has no GPU.
    """
    found = _Window(server.rstrip("/"), seconds, match, cost or Cost()).gpus()
    if not found:
        hint = " with these labels" if match else ""
        raise UserError(Problem("--prometheus", "", f"{server} has kept no metric of a GPU{hint} in the last {seconds:g} s."))
    return found


class _Window:
    """One window of one server."""

    def __init__(self, server: str, seconds: float, match: str, cost: Cost) -> None:
        self.server, self.seconds, self.match, self.cost = server, seconds, match, cost
        self.end_s = time.time()
        self.step_s, self.long_step_s = (max(LEAST_STEP_S, seconds / steps) for steps in (STEPS, FEW_STEPS))
        self.labels = ", ".join(dict.fromkeys((*HOST_LABELS, *GPU_LABELS)))

    def gpus(self) -> list[FleetGpu]:
        began_s = time.monotonic()
        names = self._names()
        if not names:
            return []
        queries = dict(self._queries(names))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = dict(zip(queries, pool.map(self._ask, queries.values()), strict=True))
            more = dict(self._reason_queries(answers))
            answers |= dict(zip(more, pool.map(self._ask, more.values()), strict=True))
        self.cost.seconds += time.monotonic() - began_s
        return _assembled(answers, self.seconds)

    def _names(self) -> list[str]:
        """Metrics of GPUs that the server has in the window."""
        selector = f'{{__name__=~"DCGM_FI_.+|{ALL_SMI_PREFIX}.+|{PREFIX}.+"' + (f",{self.match}" if self.match else "") + "}"
        given = {"match[]": selector, "start": f"{self.end_s - self.seconds:.3f}", "end": f"{self.end_s:.3f}"}
        return sorted(self._data(f"label/__name__/values?{urlencode(given)}", list[str]))

    def _queries(self, names: Iterable[str]) -> Iterator[tuple[tuple[str, str], str]]:
        """((what, metric), query) of all queries."""
        known = {name: meaning.field for name in names if (meaning := meaning_of(name)) and meaning.field in WANTED}
        active = next((name for wanted in ACTIVITIES for name, activity in known.items() if activity == wanted), None)
        window, steps, few = self._windows()
        runs = f"{self._select(active)} > {IDLE / self._scale(active):g}" if active else ""
        for name, activity in known.items():
            selected = self._select(name)
            if activity in MOST:
                yield ("value", name), f"max by ({self.labels}) (max_over_time({selected}{window}))"
            elif activity in CLOCKS and active:
                yield ("value", name), f"avg by ({self.labels}) (avg_over_time(({selected} and {runs}){few}))"
            else:
                yield ("value", name), f"avg by ({self.labels}) (avg_over_time({selected}{window}))"
        if active:
            busy = runs.replace(" > ", " > bool ")
            yield ("busy", active), f"avg by ({self.labels}) (avg_over_time(({busy}){steps}))"
            yield ("readings", active), f"sum by ({self.labels}) (count_over_time({self._select(active)}{window}))"
            yield ("job", active), f"last_over_time({self._select(active)}[{max(LEAST_JOB_S, self.seconds / 24):.0f}s])"
        for name in names:
            if name.removeprefix("DCGM_FI_") in DCGM_REASONS:
                yield ("reasons", name), f"max by ({self.labels}) (max_over_time({self._select(name)}{window})) >= {LEAST_REASON}"
            elif name == f"{PREFIX}throttled_seconds_total":
                yield ("held", name), f"avg by ({self.labels}, reason) (rate({self._select(name)}{window})) > 0"

    def _reason_queries(self, answers: Mapping[tuple[str, str], list[Reading]]) -> Iterator[tuple[tuple[str, str], str]]:
        """Queries for what held clocks back, for the hosts where something did at any time."""
        _, _, few = self._windows()
        for (what, name), series in answers.items():
            if what != "reasons" or not series:
                continue
            label = next((one for one in HOST_LABELS if all(labels.get(one) for labels, _ in series)), "")
            hosts = sorted({labels[label] for labels, _ in series}) if label else []
            narrowed = f"{label}=~{json.dumps('|'.join(map(re.escape, hosts)))}" if 0 < len(hosts) <= MOST_HOSTS else ""
            selected = self._select(name, narrowed)
            highest = max(value for _, value in series)
            for reason, bit in REASON_BITS.items():
                if bit <= highest:
                    share = f"avg_over_time((floor({selected} / {bit}) % 2){few})"
                    yield (f"held {reason}", name), f"avg by ({self.labels}) ({share}) > 0"

    def _windows(self) -> tuple[str, str, str]:
        """Window in PromQL: all its readings, some of them, and a few."""
        seconds = f"{self.seconds:.0f}s"
        return f"[{seconds}]", f"[{seconds}:{self.step_s:.0f}s]", f"[{seconds}:{self.long_step_s:.0f}s]"

    def _select(self, name: str, more: str = "") -> str:
        matchers = ",".join(filter(None, (self.match, more)))
        return f"{name}{{{matchers}}}" if matchers else name

    @staticmethod
    def _scale(name: str) -> float:
        meaning = meaning_of(name)
        return meaning.scale if meaning else 1.0

    def _ask(self, query: str) -> list[Reading]:
        given = urlencode({"query": query, "time": f"{self.end_s:.3f}"})
        return list(_readings(self._data(f"query?{given}", _Vector).result))

    def _data(self, path: str, kind: type[T]) -> T:
        text = fetched(f"{self.server}/api/v1/{path}", "--prometheus", QUERY_TIMEOUT_S)
        self.cost.queries += 1
        self.cost.bytes += len(text)
        try:
            answer = msgspec.json.decode(text, type=_Answer)
            if answer.status == "success":
                return msgspec.json.decode(answer.data, type=kind)
        except ANSWER_FAULTS:
            raise UserError(Problem("--prometheus", "", f"{self.server} does not answer as a Prometheus server does.")) from None
        raise UserError(Problem("--prometheus", "", f"{self.server} refuses: {answer.error or answer.status}."))


def _assembled(answers: Mapping[tuple[str, str], list[Reading]], seconds: float) -> list[FleetGpu]:
    """GPUs of all hosts, from the answers to every query."""
    shares, jobs = dict[tuple[str, str], float](), dict[tuple[str, str], str]()
    counts, held = dict[tuple[str, str], int](), dict[tuple[str, str], dict[str, float]]()
    for (what, _), series in answers.items():
        for labels, value in series:
            key = _key(labels)
            if what == "busy":
                shares[key] = min(1.0, max(0.0, value))
            elif what == "readings":
                counts[key] = int(value)
            elif what == "job":
                jobs[key] = next((labels[name] for name in JOB_LABELS if labels.get(name)), "")
            elif what.startswith("held"):
                reason = labels.get("reason") or what.removeprefix("held ")
                held.setdefault(key, {})[reason] = value
    samples: dict[str, list[Sample]] = defaultdict(list)
    for (what, name), series in answers.items():
        meaning = meaning_of(name)
        if what == "value" and meaning is not None:
            over_use = meaning.field not in {*MOST, *CLOCKS, *OVER_ALL}
            for labels, value in series:
                share = shares.get(_key(labels)) if over_use else None
                samples[_key(labels)[0]].append(Sample(name, labels, value / share if share else value))
    found = []
    for host, given in sorted(samples.items()):
        for device in devices_of(given):
            places = ((host, device.uuid or str(device.index)), (host, str(device.index)))
            place = next((key for key in places if key in shares or key in counts), places[0])
            one = FleetGpu(host, _bounded(device), seconds, shares.get(place), counts.get(place, 0), jobs.get(place, ""))
            use = one.busy or 1.0
            one.held_back = {reason: min(1.0, share / use) for reason, share in sorted(held.get(place, {}).items())}
            found.append(one)
    return found


def _bounded(device: DeviceSnapshot) -> DeviceSnapshot:
    """`device` with shares of at most 1: counters and use are read at different moments, so their ratio may exceed it."""
    over = {name: 1.0 for name in MEANS.values() if name.endswith("_fraction") and (getattr(device, name) or 0.0) > 1.0}
    return msgspec.structs.replace(device, **over) if over else device


def _readings(series: Iterable[msgspec.Raw]) -> Iterator[Reading]:
    """Labels and value of an instant answer; series of another form, and values that are not numbers, are left out."""
    for one in series:
        try:
            found = _DECODER.decode(one)
            value = float(found.value[1])
        except ANSWER_FAULTS:
            continue
        if math.isfinite(value):
            yield found.metric, value


def _key(labels: Mapping[str, str]) -> tuple[str, str]:
    """Host and GPU of a series."""
    place = place_of(labels)
    host, number, uuid = place.gpu if place else (first_of(labels, HOST_LABELS), "", "")
    return host or NAMELESS, uuid or number
