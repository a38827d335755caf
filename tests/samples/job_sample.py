"""Jobs that are written for other tools, run among stand-ins of those tools: who was called, on which node, with what."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from repository import ROOT

STAND_IN = r"""#!/bin/bash
said="$*"
echo "$(basename "$0") ${said//$'\n'/ }" >> "$CALLS"
case "$(basename "$0")" in
  gpu-planner) [[ "$*" == *export* ]] && { [[ "$*" == *--out* ]] && echo '{}' > "${!#}" || echo '{}'; } ;;
  scontrol) printf 'node-a\nnode-b\n' ;;
  srun) for SLURM_NODEID in $(seq 0 $((SLURM_NNODES - 1))); do export SLURM_NODEID; "${@:3}"; done ;;
  getent) [ -e "$CALLS.asked" ] || { touch "$CALLS.asked"; exit 2; } ;;
  sleep) true ;;
esac
exit 0
"""
"""Tools that write down how they were called; `getent` finds the first node the second time."""


def shell_of(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs shell among stand-ins: (script, environment) -> every call, in order."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("torchrun", "gpu-planner", "scontrol", "srun", "getent", "sleep", "vllm", "pip"):
        (tools / name).write_text(STAND_IN)
        (tools / name).chmod(0o755)

    def run(script: str, **environment: str) -> list[str]:
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        given = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "HOME": str(tmp_path), **environment}
        for flags in (["-n"], ["-eu"]):
            done = subprocess.run(
                [bash, *flags], input=script, env=given, capture_output=True, text=True, cwd=tmp_path, check=False
            )
            assert done.returncode == 0, done.stderr
        return calls.read_text().splitlines()

    return run


def understood(call: str) -> Any:
    """A call of torchrun, as torch reads it."""
    run = pytest.importorskip("torch.distributed.run")
    name, *words = call.split()
    assert name == "torchrun"
    return run.get_args_parser().parse_args(words)


def block(text: str, name: str) -> str:
    """The shell under the key `name` of a YAML."""
    found: str = yaml.safe_load(text)[name]
    return found


def documents(text: str) -> list[dict[str, Any]]:
    """Kubernetes objects, against the schema of their kind; of Kubernetes' own kinds where those schemas are installed."""
    found: list[dict[str, Any]] = list(yaml.safe_load_all(text))
    for one in found:
        if one["kind"] in OPERATORS:
            jsonschema.validate(one, SCHEMAS[one["kind"]])
        if importlib.util.find_spec("kubernetes_validate"):
            schemas = importlib.import_module("kubernetes_validate")
            for inner in OPERATORS.get(one["kind"], lambda whole: [whole])(one):
                schemas.validate(inner, "1.34", strict=True)
    return found


def _jobs_inside(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": one["name"]}, **one["template"]}
        for one in found["spec"]["replicatedJobs"]
    ]


def _pod_of_group(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Pod", **found["spec"]["leaderWorkerTemplate"]["workerTemplate"]}]


def _predictor(found: dict[str, Any]) -> list[dict[str, Any]]:
    own = SCHEMAS["InferenceService"]["properties"]["spec"]["properties"]["predictor"]["properties"]
    spec = {name: value for name, value in found["spec"]["predictor"].items() if name not in own}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": found["metadata"], "spec": spec}]


SCHEMAS = json.loads((ROOT / "tests" / "data" / "kubernetes_schemas.json").read_text())
OPERATORS = {"JobSet": _jobs_inside, "LeaderWorkerSet": _pod_of_group, "InferenceService": _predictor}
"""Kind of an operator -> the objects of Kubernetes itself inside one."""
