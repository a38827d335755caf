"""Chunks on a Ray cluster of two nodes: the same digits as one process, in order, also where a worker is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, RunPlanner

pytestmark = pytest.mark.process

TRACE = str(ROOT / "tests/data/traffic/azure_code_2023.csv")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes on this machine, which is joined by every command of the module."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    import bench
    import planner
    import presets

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, runtime_env={"py_modules": [planner, presets, bench]})
    yield ray
    ray.shutdown()
    cluster.shutdown()


def test_a_replay_has_the_same_digits(two_nodes: Any, run_planner: RunPlanner) -> None:
    arguments = ("replay", TRACE, "llama-3.1-70b-chat-service", "--set", "model=llama-3.1-8b", "--gpu", "L40S", "--json")
    alone, spread = run_planner(*arguments), run_planner(*arguments, "--on", "ray")
    assert alone.returncode == spread.returncode
    assert alone.stdout == spread.stdout
    assert "2 nodes with 2 processors" in spread.stderr


def test_estimates_come_back_in_order(
    two_nodes: Any, run_planner: RunPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.cli.estimate import command

    monkeypatch.setattr(command, "CLUSTER_CHUNK_LINES", 100)
    path = tmp_path / "lines.jsonl"
    request = {"model": "llama-3.1-8b", "gpu": "L4", "task": "generate", "input_tokens": 64, "output_tokens": 8}
    lines = [json.dumps({**request, "id": number, "batch": 1 + number % 50}) for number in range(450)]
    lines[7] = "no json"
    path.write_text("\n".join(lines))
    alone, spread_out = run_planner("estimate", str(path)), run_planner("estimate", str(path), "--on", "ray")
    assert spread_out.returncode == 0, spread_out.stderr
    assert alone.stdout == spread_out.stdout
    assert [json.loads(line)["id"] for line in spread_out.stdout.splitlines()] == [None if n == 7 else n for n in range(450)]


def test_a_worker_that_is_lost_is_replaced(two_nodes: Any, tmp_path: Path) -> None:
    from planner.cli.cluster.ray_cluster import RayCluster

    mark = tmp_path / "begun"

    def fragile(number: int) -> int:
        if number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    assert list(RayCluster("ray")(fragile, list(range(12)))) == [number * number for number in range(12)]
    assert mark.exists()


@pytest.mark.parametrize("on", ["dask", "ray:/x", "http://a"])
def test_other_clusters_are_refused(run_planner: RunPlanner, on: str) -> None:
    done = run_planner("replay", TRACE, "--on", on)
    assert done.returncode == 2
    assert "ray://HOST:10001" in done.stderr


def test_without_ray_the_extra_is_named(run_planner: RunPlanner, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ray" else found(name, *more))
    done = run_planner("estimate", "--on", "ray", TRACE)
    assert done.returncode == 2
    assert "gpu-planner[ray]" in done.stderr
