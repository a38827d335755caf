"""The GPUs of a fleet over time, by one range query to a Prometheus server, as snapshots of each host."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import defaultdict
from typing import Any
from urllib.parse import urlencode

from planner.errors import Problem, UserError
from planner.observe.snapshot import Snapshot
from planner.observe.telemetry.exporter import DCGM, DCGM_REASONS, devices_of, fetched, snapshot_of
from planner.observe.telemetry.exposition import PREFIX, Sample

HOST_LABELS = ("Hostname", "hostname", "node", "instance")
"""Labels that name the host, the most specific first."""
MOST_POINTS = 240
"""Most readings of one series; a longer window is read in longer steps."""
LEAST_STEP_S = 1.0
QUERY_TIMEOUT_S = 30.0


def read_fleet(server: str, seconds: float, *, match: str = "", step_s: float | None = None) -> dict[str, list[Snapshot]]:
    """Host -> its snapshots over the last `seconds`, one each `step_s`, from the server at address `server`.

    `match` narrows the query with label matchers, as PromQL writes them between braces: 'cluster="a",job=~"dcgm.*"'.
    Raises `UserError` when the server refuses or knows of no GPU.
    """
    end = time.time()
    step = step_s or max(LEAST_STEP_S, seconds / MOST_POINTS)
    names = "|".join([f"DCGM_FI_({'|'.join(sorted([*DCGM, *DCGM_REASONS]))})", f"{PREFIX}.+"])
    selector = f'{{__name__=~"{names}"' + (f",{match}" if match else "") + "}"
    query = urlencode({"query": selector, "start": f"{end - seconds:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"})
    answer = _decoded(fetched(f"{server.rstrip('/')}/api/v1/query_range?{query}", "--prometheus", QUERY_TIMEOUT_S), server)
    by_host: dict[str, dict[float, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for series in answer:
        labels: dict[str, str] = series["metric"]
        host = next((labels[name] for name in HOST_LABELS if labels.get(name)), "unnamed host")
        name = labels.get("__name__", "")
        for at_s, value in series["values"]:
            by_host[host][float(at_s)].append(Sample(name, labels, float(value)))
    fleet = {host: _snapshots(host, readings) for host, readings in sorted(by_host.items())}
    found = {host: snapshots for host, snapshots in fleet.items() if snapshots}
    if not found:
        hint = " with these labels" if match else ""
        raise UserError(Problem("--prometheus", "", f"{server} has kept no metric of a GPU{hint} in the last {seconds:g} s."))
    return found


def _decoded(text: str, server: str) -> list[dict[str, Any]]:
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            raise UserError(Problem("--prometheus", "", f"{server} refuses: {answer.get('error', answer['status'])}."))
        series: list[dict[str, Any]] = answer["data"]["result"]
    except (ValueError, KeyError, TypeError):
        raise UserError(Problem("--prometheus", "", f"{server} does not answer as a Prometheus server does.")) from None
    return series


def _snapshots(host: str, readings: dict[float, list[Sample]]) -> list[Snapshot]:
    """The readings of one host in the order of time; those without a GPU are left out."""
    found = []
    for at_s in sorted(readings):
        devices = devices_of(readings[at_s])
        if devices:
            found.append(snapshot_of(devices, host, dt.datetime.fromtimestamp(at_s, tz=dt.UTC), at_s))
    return found
