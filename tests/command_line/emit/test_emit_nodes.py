"""Jobs over several nodes: their files hold to their tools' forms, and their shell starts what it says, on every node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from job_sample import STAND_IN, block, documents, shell_of, understood
from repository import RunPlanner

from planner.cli.emit import manifests
from planner.cli.emit.measuring import Job, written
from planner.errors import UserError

GPU = "H100 SXM5 80GB"
JOB = Job((GPU,), "collectives", None, 8, nodes=2, products=("NVIDIA H100 80GB HBM3",))


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., list[str]]:
    return shell_of(tmp_path)


def check_ranks(calls: list[str], head: str, port: int) -> None:
    """Both nodes start eight ranks that meet at the first, which alone passes on the result."""
    first, second = (understood(call) for call in calls if call.startswith("torchrun"))
    for rank, one in enumerate((first, second)):
        assert (one.nnodes, one.node_rank, one.nproc_per_node) == ("2", rank, "8")
        assert (one.master_addr, one.master_port, one.no_python) == (head, port, True)
        assert (one.training_script, one.training_script_args[0]) == ("gpu-planner", "--state")
        assert one.training_script_args[2:] == ["bench", "--suite", "collectives", "--device", "cuda:0"]
    exports = [call for call in calls if "export" in call]
    assert len(exports) == 1
    assert exports[0].split()[2] == first.training_script_args[1]


@pytest.mark.torch_inside
def test_sky_starts_the_ranks_of_two_nodes(shell: Callable[..., list[str]]) -> None:
    text = written("sky", JOB)
    assert "\nnum_nodes: 2\n" in text
    assert "accelerators: {H100: 8}" in text
    calls = []
    for rank in range(2):
        told = {"SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": "10.0.0.4\n10.0.0.5"}
        calls += shell(block(text, "run"), **told)
    check_ranks(calls, "10.0.0.4", 29500)


def test_skypilot_itself_accepts_it(tmp_path: Path) -> None:
    sky = pytest.importorskip("sky")
    path = tmp_path / "task.yaml"
    path.write_text(written("sky", JOB))
    assert sky.Task.from_yaml(str(path)).num_nodes == 2


@pytest.mark.torch_inside
def test_slurm_starts_one_task_a_node(shell: Callable[..., list[str]], tmp_path: Path) -> None:
    text = written("slurm", JOB)
    directives = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.MULTILINE))
    assert {name: directives[name] for name in ("nodes", "ntasks", "ntasks-per-node", "gres")} == {
        "nodes": "2",
        "ntasks": "2",
        "ntasks-per-node": "1",
        "gres": "gpu:8",
    }
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    planner = tmp_path / "venv" / "bin" / "gpu-planner"
    planner.write_text(STAND_IN)
    planner.chmod(0o755)
    environment = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_NNODES": "2", "SLURM_CPUS_PER_TASK": "32"}
    calls = shell(text, VENV=str(tmp_path / "venv"), SLURM_SUBMIT_DIR=str(tmp_path), **environment)
    assert calls[0] == "scontrol show hostnames node-[a-b]"
    assert calls[1].startswith("srun --kill-on-bad-exit=1 --cpus-per-task=32 bash -euc ")
    inner = text.partition("<<'EOF' || true\n")[2].partition("\nEOF\n")[0]
    shell(inner, HEAD="a", PORT="1", SLURM_NODEID="1", SLURM_NNODES="2")
    check_ranks([call for call in calls if call.startswith(("torchrun", "gpu-planner"))], "node-a", 29500 + 2345)
    assert (tmp_path / "gpu-planner-12345.json").exists()


@pytest.mark.torch_inside
def test_kubernetes_runs_a_pod_a_node(shell: Callable[..., list[str]]) -> None:
    text = written("kubernetes", JOB)
    service, job = documents(text)
    assert (service["kind"], service["spec"]["clusterIP"], service["spec"]["selector"]) == (
        "Service",
        "None",
        {"job-name": "gpu-planner"},
    )
    spec = job["spec"]
    assert (job["kind"], spec["completions"], spec["parallelism"], spec["completionMode"]) == ("Job", 2, 2, "Indexed")
    pod = spec["template"]["spec"]
    assert (pod["subdomain"], pod["restartPolicy"]) == (service["metadata"]["name"], "Never")
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    rules = pod["affinity"]
    (term,) = rules["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["NVIDIA-H100-80GB-HBM3"]
    assert rules["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert container["command"] == ["bash", "-euc"]
    calls = [call for rank in range(2) for call in shell(container["args"][0], JOB_COMPLETION_INDEX=str(rank))]
    check_ranks(calls, "gpu-planner-0.gpu-planner", 29500)
    assert calls[:3] == ["getent hosts gpu-planner-0.gpu-planner", "sleep 1", "getent hosts gpu-planner-0.gpu-planner"]


def test_one_pod_needs_no_names(shell: Callable[..., list[str]]) -> None:
    (job,) = documents(written("kubernetes", Job((GPU,), "standard", "qwen3-8b", products=("NVIDIA H100 80GB HBM3",))))
    assert (job["kind"], job["spec"]["completions"]) == ("Job", 1)
    assert "podAntiAffinity" not in job["spec"]["template"]["spec"]["affinity"]
    calls = shell(job["spec"]["template"]["spec"]["containers"][0]["args"][0])
    assert [call.split()[3:6] for call in calls] == [["bench", "--suite", "standard"], ["measurements", "export"]]


@pytest.mark.process
def test_the_result_is_what_the_first_pod_prints(tmp_path: Path) -> None:
    """The command in the head takes the JSON out of whatever else is in the log."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    (line,) = [line for line in written("kubernetes", JOB).splitlines() if "kubectl logs" in line]
    command = line.removeprefix("#").replace("kubectl", "kubectl_stand_in")
    log = 'torchrun: {"not": "this"}\n{\n "schema": 1\n}\n'
    script = f"kubectl_stand_in() {{ printf '%s' '{log}'; }}\n{command}\n"
    subprocess.run([bash, "-eu"], input=script, text=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "gpu-planner-result.json").read_text()) == {"schema": 1}


def test_what_has_no_form_for_nodes_is_refused(run_planner: RunPlanner) -> None:
    with pytest.raises(UserError, match="a Dockerfile is for one machine"):
        written("docker", JOB)
    with pytest.raises(UserError, match="no resource name is known for GPUs of Intel"):
        written("kubernetes", Job(("Gaudi 3",), "quick", vendor="Intel"))
    assert written("kubernetes", Job(("MI300X",), "quick", vendor="AMD")).count("amd.com/gpu: 1") == 1
    wrong = run_planner("bench", "--emit", "docker", "--gpu", GPU, "--nodes", "2")
    assert wrong.returncode == 2
    assert "sky, slurm and kubernetes" in wrong.stderr
    assert run_planner("bench", "--emit", "sky", "--nodes", "2", "--suite", "quick").returncode == 2
    assert run_planner("bench", "--nodes", "2").returncode == 2
    done = run_planner("bench", "--emit", "sky", "--nodes", "4", "--gpu", GPU, "--ranks", "4")
    assert done.returncode == 0, done.stderr
    assert "num_nodes: 4" in done.stdout
    assert "--nproc-per-node 4" in done.stdout
    assert "--nproc-per-node 8" in run_planner("bench", "--emit", "kubernetes", "--nodes", "2", "--gpu", GPU).stdout


def test_objects_are_read_back_as_they_are() -> None:
    """By a parser of YAML: names that YAML would take for something else, shell of several lines, maps in lists."""
    odd = ["yes", "1e5", "null", "a: b", "# not a comment", "- x", "2026-01-01", "", "plain"]
    labels = {f"label{at}": name for at, name in enumerate(odd)}
    script = ["set -e", 'echo "$HOME: #1"', "if true; then", "  echo two", "fi"]
    pod = manifests.Pod("job", "image:latest", script, 8, "NVIDIA", ("NVIDIA H100 80GB HBM3",), port=8000, token=True)
    objects = [
        manifests.headless("on", {"app": "no"}),
        manifests.headless("odd", labels),
        manifests.balanced("door", {"app": "1.0"}, 8000),
        manifests.indexed_job(pod, 2, limit_s=1800),
        manifests.stateful_set(pod, 2, "peers"),
        manifests.deployment(pod, 3),
    ]
    assert list(yaml.safe_load_all(manifests.text_of(objects))) == objects
