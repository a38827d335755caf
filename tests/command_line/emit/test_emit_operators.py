"""Jobs and services for what is installed into a cluster besides, and for dstack and Ray: each is read back by its own library where there is one."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from job_sample import documents, shell_of, understood
from repository import RunPlanner
from test_emit_plan import ACROSS, HUB, MANY, ONE, TRAINING, first, service

from planner.cli.emit import Form
from planner.cli.emit.measuring import Job
from planner.cli.emit.measuring import written as measuring
from planner.cli.emit.running import written
from planner.errors import UserError

TRAIN = {"gpus": 16, "nodes": 2, "gpus_per_node": 8, "tp": 1, "pp": 1, "dp": 16}
BENCH = Job(("H100 SXM5 80GB",), "collectives", count=8, nodes=2)


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., list[str]]:
    return shell_of(tmp_path)


def training(form: Form, layout: dict[str, Any]) -> str:
    row, job, part = first(TRAINING, "H100 SXM5 80GB", layout)
    return written(form, TRAINING, row, job, part, HUB)


def script_of(pod: dict[str, Any]) -> str:
    found: str = pod["containers"][0]["args"][0]
    return found


@pytest.mark.torch_inside
def test_a_jobset_starts_the_ranks_of_two_nodes(shell: Callable[..., list[str]]) -> None:
    (found,) = documents(training("jobset", TRAIN))
    assert (found["apiVersion"], found["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert found["spec"]["network"]["enableDNSHostnames"] is True
    (replicated,) = found["spec"]["replicatedJobs"]
    job = replicated["template"]["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (2, 2, "Indexed")
    assert "subdomain" not in job["template"]["spec"]
    (call,) = [line for line in shell(script_of(job["template"]["spec"]), JOB_COMPLETION_INDEX="1") if line.startswith("torchrun")]
    read = understood(call)
    name = found["metadata"]["name"]
    assert (read.nnodes, str(read.node_rank), read.nproc_per_node) == ("2", "1", "8")
    assert read.master_addr == f"{name}-{replicated['name']}-0-0.{name}"


def test_kueue_admits_all_pods_or_none() -> None:
    headless, job = documents(training("kueue", TRAIN))
    assert headless["kind"] == "Service"
    assert job["kind"] == "Job"
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpu-queue"}
    assert job["spec"]["suspend"] is True
    assert job["spec"]["completions"] == 2


@pytest.mark.parametrize("form", ["jobset", "kueue"])
def test_measuring_by_jobset_and_kueue(form: Any) -> None:
    *_, found = documents(measuring(form, BENCH))
    spec = found["spec"] if form == "kueue" else found["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["activeDeadlineSeconds"] == 1800
    assert "bench --suite collectives" in script_of(spec["template"]["spec"])


def test_a_leader_worker_set_has_many_replicas_over_nodes(shell: Callable[..., list[str]]) -> None:
    layout = {**ACROSS, "gpus": 48, "nodes": 6, "dp": 3}
    with pytest.raises(UserError, match="lws can have several"):
        service("kubernetes", layout)
    balancer, found = documents(service("lws", layout))
    assert (found["apiVersion"], found["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    group = found["spec"]["leaderWorkerTemplate"]
    assert (found["spec"]["replicas"], group["size"]) == (3, 2)
    assert balancer["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    pod, (leader,) = group["workerTemplate"]["spec"], group["leaderTemplate"]["spec"]["containers"]
    assert leader["readinessProbe"]["httpGet"]["port"] == 8000
    assert "readinessProbe" not in pod["containers"][0]  # a node without a server of its own would never be ready
    assert leader["args"] == pod["containers"][0]["args"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 8}
    variables = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "s-0.s"}
    (call,) = [line for line in shell(script_of(pod), **variables) if line.startswith("vllm")]
    words = shlex.split(call)
    assert words[words.index("--node-rank") + 1] == "1"
    assert words[words.index("--master-addr") + 1] == "s-0.s"
    assert "--headless" in words


def test_kserve_serves_a_replica_a_pod() -> None:
    (found,) = documents(service("kserve", MANY))
    assert (found["apiVersion"], found["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    predictor = found["spec"]["predictor"]
    assert predictor["minReplicas"] == predictor["maxReplicas"] == 3
    (container,) = predictor["containers"]
    assert container["name"] == "kserve-container"
    assert container["ports"] == [{"containerPort": 8000, "protocol": "TCP"}]


def test_sglang_is_written_with_its_own_words() -> None:
    *_, found = documents(service("kubernetes", ACROSS, engine="sglang"))
    call = script_of(found["spec"]["template"]["spec"]).splitlines()[-1]
    assert "sglang.launch_server" in call
    assert "--tp-size 8 --pp-size 2" in call
    assert '--dist-init-addr "$HEAD:$PORT"' in call
    (one,) = [line for line in yaml.safe_load(service("sky", ONE, engine="sglang"))["run"].splitlines() if "launch_server" in line]
    assert "--nnodes" not in one


def read_by_dstack(text: str) -> dict[str, Any]:
    """The document, after dstack's own parser has taken it where dstack is installed."""
    found: dict[str, Any] = yaml.safe_load(text)
    try:
        parser = importlib.import_module("dstack._internal.core.models.configurations")
    except ImportError:
        return found
    parser.parse_run_configuration(found)
    return found


def test_dstack_takes_a_service_and_a_task() -> None:
    served = read_by_dstack(service("dstack", MANY))
    assert (served["type"], served["port"], served["replicas"]) == ("service", 8000, 3)
    assert served["resources"]["gpu"].startswith("H100:")
    task = read_by_dstack(training("dstack", TRAIN))
    assert (task["type"], task["nodes"]) == ("task", 2)
    assert "DSTACK_NODE_RANK" in task["commands"][0]
    with pytest.raises(UserError, match="a replica of a service on one machine"):
        service("dstack", ACROSS)


def test_a_job_of_ray_prints_the_result() -> None:
    text = measuring("ray", Job(("L40S",), "standard"))
    call = re.sub(r"\\\n", " ", text[text.index("ray job submit") :])
    words = shlex.split(call)
    environment = json.loads(words[words.index("--runtime-env-json") + 1])
    assert environment["pip"] == [".[bench]"]
    assert words[words.index("--entrypoint-num-gpus") + 1] == "1"
    assert "measurements export" in words[words.index("-c") + 1]
    with pytest.raises(UserError, match="starts on one machine"):
        measuring("ray", BENCH)


@pytest.mark.parametrize(("form", "made"), [("lws", training), ("kserve", training), ("jobset", None), ("kueue", None)])
def test_what_is_for_services_and_what_for_jobs(form: Form, made: Callable[..., str] | None) -> None:
    with pytest.raises(UserError, match=r"for services|for jobs that end"):
        (made or service)(form, TRAIN if made else ONE)


def test_the_command_line_writes_them(run_planner: RunPlanner) -> None:
    done = run_planner("bench", "--emit", "jobset", "--gpu", "H100 SXM5 80GB", "--nodes", "2")
    assert done.returncode == 0
    assert "Needs JobSet in the cluster" in done.stdout
