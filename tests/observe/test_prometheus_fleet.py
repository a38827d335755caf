"""A fleet as Prometheus servers have kept it: asked in averages, summed up, the slow and the sick named."""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import fleet_day
import pytest
from repository import RunPlanner
from telemetry_sample import WINDOWS
from test_exporter import H100, dcgm_text, server

from planner.engine.advice.fleet import suspects
from planner.engine.advice.observation import Observed
from planner.errors import UserError
from planner.observe.telemetry.prometheus import Cost, read_fleet
from planner.observe.telemetry.recording import read_recording
from planner.observe.telemetry.window import observe, observe_fleet
from planner.session import Session

NEEDS_PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no prometheus on the PATH (Debian package prometheus)",
)
HOSTS = {"node-a": "idle", "node-b": "compute-bound-training", "node-c": "launch-bound"}
SECONDS, STEP_S = 3600.0, 15.0


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = fleet_day.serve(folder, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def blocks_of_recordings(folder: Path) -> None:
    """The recordings of `HOSTS`, each again and again up to now, as a server would have scraped them."""
    end_s = math.floor(time.time())
    samples: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))  # of each metric, of each series, in time
    for host, name in HOSTS.items():
        snapshots = read_recording(WINDOWS / f"{name}.jsonl").snapshots
        for number in range(int(SECONDS / STEP_S)):
            at_s = end_s - SECONDS + number * STEP_S
            for line in dcgm_text(snapshots[number % len(snapshots)], host).splitlines():
                if not line.startswith("#"):
                    series, _, _ = line.rpartition(" ")
                    samples[series.partition("{")[0]][series].append(f"{line} {at_s:.0f}\n")
    make_blocks(folder, samples)


def make_blocks(folder: Path, samples: dict[str, dict[str, list[str]]]) -> None:
    """A data folder of Prometheus with the lines of each metric and series."""
    text = folder.with_suffix(".om")
    grouped = [f"# TYPE {name} gauge\n" + "".join(chain.from_iterable(found.values())) for name, found in samples.items()]
    text.write_text("".join(grouped) + "# EOF\n")
    tool = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder)]
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)


@NEEDS_PROMETHEUS
@pytest.mark.process
def test_averages_of_a_real_server_are_what_the_readings_say(tmp_path: Path, run_planner: RunPlanner) -> None:
    blocks_of_recordings(tmp_path / "data")
    session = Session.open(state=tmp_path, config=tmp_path)
    with prometheus(tmp_path / "data") as address:
        cost = Cost()
        found = {one.host: one for one in observe_fleet(read_fleet(address, SECONDS, cost=cost), session.gpus)}
        done = run_planner("rightsize", "--prometheus", address, "--prometheus", address, "--match", 'Hostname="node-b"', "--json")
    assert set(found) == set(HOSTS)
    assert cost.queries < 30
    for host, name in HOSTS.items():
        (true,) = observe(read_recording(WINDOWS / f"{name}.jsonl").snapshots, session.gpus)
        seen = found[host]
        assert seen.gpu == true.gpu == H100
        assert seen.busy == pytest.approx(true.busy, abs=0.05)
        assert seen.power_w == pytest.approx(true.power_w, rel=0.03)
        assert seen.memory_used_bytes == pytest.approx(true.memory_used_bytes, rel=0.01)
        if name != "idle":
            assert seen.sm_active == pytest.approx(true.sm_active, rel=0.05)
            assert seen.sm_clock_hz == pytest.approx(true.sm_clock_hz, rel=0.05)
    limiters = {row.observed.host: row.judgement.limiter for row in session.rightsize(list(found.values())).gpus}
    assert limiters == {"node-a": "idle", "node-b": "compute", "node-c": "launch/host"}
    document = json.loads(done.stdout)
    assert [row["observed"]["host"] for row in document["gpus"]] == ["node-b", "node-b"]  # of both servers
    assert document["fleet"]["by_verdict"][0]["gpus"] == 2


@NEEDS_PROMETHEUS
@pytest.mark.process
def test_a_fleet_that_all_smi_was_scraped_of(tmp_path: Path, run_planner: RunPlanner) -> None:
    """Two hosts of two GPUs, at 42 % for half of the hour and idle for the rest; the model stands in the label `gpu`."""
    end_s = math.floor(time.time())
    samples: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host in ("a:9090", "b:9090"):
        for number in range(2):
            labels = f'{{gpu="NVIDIA H200",instance="{host}",gpu_uuid="GPU-{host}-{number}",gpu_index="{number}"}}'
            for step in range(int(SECONDS / STEP_S)):
                works = step % 40 < 20
                for name, value in (("utilization", 42 * works), ("memory_used_bytes", 2**33), ("memory_total_bytes", 2**37)):
                    metric = f"all_smi_gpu_{name}"
                    samples[metric][labels].append(f"{metric}{labels} {value} {end_s - SECONDS + step * STEP_S:.0f}\n")
    make_blocks(tmp_path / "data", samples)
    with prometheus(tmp_path / "data") as address:
        found = read_fleet(address, SECONDS)
        done = run_planner("rightsize", "--prometheus", address, "--seconds", str(SECONDS), "--json")
    assert [(one.host, one.device.index, one.device.name) for one in found] == [
        (host, number, "NVIDIA H200") for host in ("a:9090", "b:9090") for number in (0, 1)
    ]
    for one in found:
        assert one.busy == pytest.approx(0.5, abs=0.05)
        assert one.device.kernel_resident_fraction == pytest.approx(0.42, rel=0.1)
        assert one.device.memory_used_bytes == 2**33
    assert [row["observed"]["gpu"] for row in json.loads(done.stdout)["gpus"]] == ["H200 SXM"] * 4


@NEEDS_PROMETHEUS
@pytest.mark.process
def test_a_fleet_is_summed_up_and_its_sick_nodes_are_named(tmp_path: Path, run_planner: RunPlanner) -> None:
    fleet_day.make_blocks(tmp_path / "data", gpus=112, hours=2, step_s=300)
    with prometheus(tmp_path / "data") as address:
        text = run_planner("rightsize", "--prometheus", address, "--seconds", "7200", COLUMNS="160").stdout
        found = json.loads(run_planner("rightsize", "--prometheus", address, "--seconds", "7200", "--json").stdout)["fleet"]
    why = {(one["host"], one["index"]): one["why"] for one in found["suspects"]}
    assert {host for host, _ in why} == {f"node{number:03d}" for number in (fleet_day.SLOW, fleet_day.HOT, fleet_day.FAULTY)}
    slow = r"clock at 0\.72 of its peers; arithmetic at 0\.7[123] of its job's"
    assert re.fullmatch(slow, why[f"node{fleet_day.SLOW:03d}", 0])
    assert "held back by software thermal" in why[f"node{fleet_day.HOT:03d}", 7]
    assert why[f"node{fleet_day.FAULTY:03d}", 3] == "uncorrectable memory errors (2 since the driver was loaded)"
    assert sum(one["gpus"] for one in found["by_job"]) == sum(one["gpus"] for one in found["by_host"]) == 112
    assert {one["name"] for one in found["by_job"]} == {str(1000 + number) for number in range(4)}
    assert f"node{fleet_day.SLOW:03d} GPU 0-7" in text
    assert "By verdict" in text
    assert "waste $/month" in text


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, '{"status": "success", "data": []}', "has kept no metric of a GPU"),
        (200, '{"status": "error", "error": "query processing would load too many samples"}', "too many samples"),
        (200, "<html>", "does not answer as a Prometheus server does"),
        (200, '{"status": "success", "data": ["DCGM_FI_PROF_SM_ACTIVE"]}', "does not answer as a Prometheus server does"),
        (400, '{"status": "error", "error": "parse error"}', "parse error"),
    ],
)
def test_a_server_that_cannot_answer_is_said(status: int, text: str, said: str) -> None:
    with server(lambda _: (status, text)) as address, pytest.raises(UserError, match=said):
        read_fleet(address, 60)


def gpu(number: int, **changes: Any) -> Observed:
    plain: dict[str, Any] = {"sm_clock_hz": 1.98e9, "tensor_active": 0.5, "busy": 1.0, "job": "7", "gpu": H100}
    return Observed(index=number % 8, host=f"n{number // 8}", seconds=3600.0, readings=240, **plain | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sm_clock_hz": 1.4e9}, "clock at 0.71 of its peers"),
        ({"tensor_active": 0.36}, "arithmetic at 0.72 of its job's"),
        ({"held_back": {"hardware thermal": 0.3}}, "held back by hardware thermal 30 % of the time"),
        ({"sm_clock_hz": 0.3e9, "busy": 0.0}, ""),
        ({"held_back": {"power cap": 0.9}}, ""),
        ({"sm_clock_hz": 1.9e9}, ""),
        ({"gpu": "L4", "sm_clock_hz": 1.4e9}, ""),
    ],
)
def test_who_is_slow_and_who_is_not(changes: dict[str, Any], said: str) -> None:
    seen = [gpu(number, **(changes if number == 5 else {})) for number in range(16)]
    assert [one.why for one in suspects(seen, {})] == ([said] if said else [])


def test_failing_memory_is_told_of_its_gpu_alone() -> None:
    (found,) = suspects([gpu(number) for number in range(16)], {("n1", 2): ["row remap pending"]})
    assert (found.host, found.index, found.why) == ("n1", 2, "row remap pending")
