"""Collectives timed by nccl-tests, as measured points of a GPU, in the same form as the benchmark's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.measurements.measurement import Measurement, Run
from planner.hardware.measurements.plausibility import collective_faults, implausibility
from planner.observe.results.result import CollectiveTimes

EXAMPLES = {"gpu": "H100", "op": "all_reduce", "ranks": "8", "nodes": "1", "fabric": "infiniband"}
SUITE = "nccl-tests"


def measurement_of(
    times: CollectiveTimes, given: Mapping[str, Any], where: str, find: Callable[[str], Gpu | None], now: str
) -> tuple[Run, Measurement]:
    """The run and the point; raises `UserError` for settings that are wrong, or missing from both the file and `given`.

    `find`: the GPU for a name. `now`: the time of the import, because the text has none.
    """
    settings = times.settings | {name: value for name, value in given.items() if name in EXAMPLES}
    wanted = [*EXAMPLES][:4] + (["fabric"] if (settings.get("nodes") or 1) != 1 else [])
    problems = [
        Problem(where, name, f"is not in the file; give it as --set {name}=VALUE, such as {name}={EXAMPLES[name]}.")
        for name in wanted
        if not settings.get(name)
    ]
    gpu = find(str(settings["gpu"])) if settings.get("gpu") else None
    if settings.get("gpu") and gpu is None:
        problems.append(Problem(where, "gpu", f"{settings['gpu']!r} is not in the catalogue; give its name as --set gpu=NAME."))
    parameters = {name: settings[name] for name in wanted if name != "gpu" and settings.get(name)}
    parameters |= {"series": [list(pair) for pair in times.series], "backend": "nccl"}
    if not problems:
        problems += [Problem(where, name, text) for name, text in collective_faults(parameters)]
    if problems or gpu is None:
        raise UserError(problems)
    return _measured(times, parameters, gpu, now)


def _measured(times: CollectiveTimes, parameters: dict[str, Any], gpu: Gpu, now: str) -> tuple[Run, Measurement]:
    op, ranks = parameters["op"], int(parameters["ranks"])
    size, seconds = times.series[-1]
    wire_bytes = size * (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks
    digest = hashlib.sha256(repr((gpu.name, sorted(parameters.items()))).encode()).hexdigest()
    run, machine = f"import-{digest[:16]}", f"{digest[:12]}-{SUITE}"
    point = Measurement(
        point=f"collective/{op}/{ranks}" + (f"/{parameters['nodes']}-nodes" if parameters["nodes"] > 1 else ""),
        kind="collective",
        device=gpu.name,
        fingerprint=machine,
        parameters=parameters | {"bytes": size, "latency_s": times.series[0][1]},
        value=wire_bytes / seconds,
        status="ok",
        detail="imported from nccl-tests; the time is that of the import",
        taken_at=now,
        suite=SUITE,
        run=run,
        bytes=wire_bytes,
        origin="imported",
    )
    reason = implausibility(point, gpu)
    whole = Run(id=run, suite=SUITE, device=gpu.name, fingerprint=machine, started_at=now, state="finished", measurements=1)
    return whole, msgspec.structs.replace(point, quarantine=reason)
