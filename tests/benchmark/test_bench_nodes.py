"""Collectives over nodes: two programs that torchrun starts as two nodes of this machine, over gloo; the first keeps the results."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner

from bench.kinds.ranks import OPERATIONS, World
from bench.machine.adapters import fabric_between
from planner.hardware.ceilings.measured_collectives import collectives_of
from planner.hardware.measurements.store import Store
from planner.observe.benchmark.worker import rank_of

TORCHRUN = {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node(number: int, port: int, state: Path) -> subprocess.Popen[str]:
    """One of two nodes with one rank each."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number)),
        *("--master-addr", "127.0.0.1", "--master-port", str(port), "-m", "planner", "--state", str(state)),
        *("bench", "--suite", "collectives", "--device", "cpu", "--json"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("torch_here")
def test_what_two_nodes_do_together_is_kept_by_the_first(tmp_path: Path) -> None:
    port = free_port()
    nodes = [node(number, port, tmp_path / f"node-{number}") for number in range(2)]
    said = [one.communicate(timeout=300) for one in nodes]
    assert [one.returncode for one in nodes] == [0, 0], said
    store = Store.open(tmp_path / "node-0")
    found = store.all()
    assert [one.point for one in found] == [f"collective/{op}/2/2-nodes" for op in OPERATIONS]
    for one in found:
        assert (one.parameters["ranks"], one.parameters["nodes"], one.parameters["backend"]) == (2, 2, "gloo")
        assert one.parameters["fabric"] == "ethernet"
        assert one.value is not None
        assert one.value > 0
        assert len(one.parameters["series"]) == 3
    assert [run.state for run in store.runs()] == ["finished"]
    assert not (tmp_path / "node-1" / "measurements.jsonl").exists()
    lines = [json.loads(line) for line in said[0][0].splitlines() if line.startswith("{")]
    assert [line["point"] for line in lines] == [one.point for one in found]
    assert said[1][0] == ""


def test_what_nodes_do_together_is_not_taken_for_the_link_inside_one(tmp_path: Path) -> None:
    import msgspec

    from planner.hardware.catalogue.gpus import load_gpus
    from planner.hardware.measurements.measurement import Measurement
    from planner.paths import presets_folder

    gpu = load_gpus(presets_folder() / "gpus").find("H100 SXM5 80GB")
    inside = Measurement(
        point="collective/all_reduce/8",
        kind="collective",
        device=gpu.name,
        fingerprint="a-b",
        parameters={"op": "all_reduce", "ranks": 8, "series": [[32768, 2e-5], [2**30, 5e-3]]},
        value=2e11,
        low=1.9e11,
        high=2.1e11,
        status="ok",
        taken_at="t",
        suite="standard",
        run="r",
    )
    assert len(collectives_of([inside], gpu)) == 1
    across = msgspec.structs.replace(inside, parameters={**inside.parameters, "nodes": 2})
    assert collectives_of([across], gpu) == ()
    assert len(collectives_of([msgspec.structs.replace(inside, parameters={**inside.parameters, "nodes": 1})], gpu)) == 1


def test_the_place_among_ranks_is_read_as_torchrun_says_it() -> None:
    assert World.around(TORCHRUN) == World(rank=9, ranks=16, nodes=2)
    assert World.around({name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}) == World(9, 16, 2)
    assert World.around({"RANK": "0", "WORLD_SIZE": "1"}) is None
    assert World.around({}) is None
    assert (rank_of(TORCHRUN), rank_of({}), rank_of({"RANK": "0", "WORLD_SIZE": "1"})) == (9, None, None)


@pytest.mark.parametrize(
    ("ports", "backend", "ranks", "environment", "fabric"),
    [
        (["4: ACTIVE"] * 8, "nccl", 8, {}, "infiniband"),
        (["4: ACTIVE"] * 4, "nccl", 8, {}, "infiniband"),
        (["4: ACTIVE"], "nccl", 8, {}, "ethernet"),
        (["4: ACTIVE"], "nccl", 1, {}, "infiniband"),
        (["1: DOWN"] * 8, "nccl", 8, {}, "ethernet"),
        (["4: ACTIVE"] * 8, "gloo", 8, {}, "ethernet"),
        (["4: ACTIVE"] * 8, "nccl", 8, {"NCCL_IB_DISABLE": "1"}, "ethernet"),
        ([], "nccl", 8, {}, "ethernet"),
    ],
)
def test_what_joins_the_nodes_is_kept_with_the_point(
    tmp_path: Path, ports: list[str], backend: str, ranks: int, environment: dict[str, str], fabric: str
) -> None:
    for number, state in enumerate(ports):
        port = tmp_path / "sys" / "class" / "infiniband" / f"mlx5_{number}" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    found = fabric_between(backend, ranks, environment, tmp_path)
    assert found["fabric"] == "ethernet"  # a container without the adapters' devices
    (tmp_path / "dev" / "infiniband").mkdir(parents=True)
    (tmp_path / "dev" / "infiniband" / "uverbs0").touch()
    found = fabric_between(backend, ranks, environment, tmp_path)
    assert found["fabric"] == fabric
    if fabric == "infiniband":
        assert found == {"fabric": fabric, "adapters": len(ports), "adapter_bits_per_s": 400e9}


@pytest.mark.usefixtures("torch_here")
def test_the_collectives_of_this_machine_are_a_suite_of_their_own(planner_process: RunPlanner) -> None:
    done = planner_process("bench", "--suite", "collectives", "--device", "cpu", "--ranks", "2", "--json", timeout_s=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["point"] for one in found] == [f"collective/{op}/2" for op in OPERATIONS]
    for one in found:
        assert (one["parameters"]["nodes"], one["parameters"]["ranks"], one["parameters"]["backend"]) == (1, 2, "gloo")
        assert [size for size, _ in one["parameters"]["series"]] == [2**15, 2**20, 2**24]
        assert one["bytes"] == (2 if one["parameters"]["op"] == "all_reduce" else 1) / 2 * 2**24
        assert 1e5 < one["value"] < 1e12
    alone = planner_process("bench", "--suite", "collectives", "--device", "cpu", "--ranks", "1", timeout_s=300)
    assert alone.returncode == 2
    assert "two GPUs, or two processes" in alone.stderr
    assert "--ranks" in alone.stderr


@pytest.mark.usefixtures("torch_here")
def test_ranks_that_lost_each_other_are_not_asked_again() -> None:
    from types import SimpleNamespace
    from typing import cast

    from bench.kinds import collective
    from bench.points import Bench, UnsupportedError
    from bench.protocol import Point

    point = Point(id="collective/all_reduce/2", kind="collective", label="", device="cpu", expected_s=1, cap_s=1)
    here = cast("Bench", SimpleNamespace(group=SimpleNamespace(lost="Connection closed by peer")))
    with pytest.raises(UnsupportedError, match="lost each other: Connection closed by peer"):
        collective.measure_joined(here, point, "all_reduce", 2, (4096,))


@pytest.mark.usefixtures("torch_here")
def test_a_node_that_never_comes_is_said(tmp_path: Path) -> None:
    """Rank 0 of two without the other: it waits until it is stopped, and ends as cancelled."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    command = [sys.executable, "-m", "planner", "--state", str(tmp_path), "bench", "--suite", "collectives", "--device", "cpu"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lonely:
        assert lonely.stderr is not None
        for line in lonely.stderr:
            if "points of suite" in line:
                break
        lonely.terminate()
        rest = lonely.stderr.read()
        assert lonely.wait(20) == 143
    assert "Cancelled: 0 results kept" in rest
