"""Kubernetes objects as YAML: an Indexed Job or a service, with the headless Service that gives its pods names.

kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication; every line here is of `v1`, `batch/v1` or `apps/v1`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.text import one_line

RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
"""Vendor -> what its device plugin calls a GPU."""


class Pod(msgspec.Struct, frozen=True):
    """One pod of a job or a service."""

    name: str
    image: str
    script: Sequence[str]
    gpus: int
    vendor: str
    products: Sequence[str]
    """Names that the driver gives the part; none: any GPU."""
    environment: Mapping[str, str]
    port: int | None = None
    token: bool = False
    """Whether the secret with the token for Hugging Face is passed on."""


def text_of(objects: Sequence[Mapping[str, Any]]) -> str:
    """The objects as YAML, one document each: maps in blocks, shell as a literal block, the rest as JSON, which YAML contains."""
    return "---\n".join(lines_text(_block(one, 0)) for one in objects)


def lines_text(lines: Iterable[str]) -> str:
    """The text of a file: no name in a line ends it, and so a comment, a key or a command."""
    return "".join(f"{one_line(line)}\n" for line in lines)


def _block(value: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    pad = "  " * depth
    for key, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            lines += [f"{pad}{key}:", *_block(entry, depth + 1)]
        elif isinstance(entry, list) and any(isinstance(one, Mapping) or "\n" in one for one in entry):
            lines.append(f"{pad}{key}:")
            for one in entry:
                first, *rest = _block(one, depth + 2) if isinstance(one, Mapping) else ["|", *_indented(one, depth + 2)]
                lines += [f"{pad}  - {first.strip()}", *rest]
        else:
            lines.append(
                f"{pad}{key}: {entry if isinstance(entry, str) and not _quoted(entry) else json.dumps(entry, ensure_ascii=False)}"
            )
    return lines


def _indented(text: str, depth: int) -> list[str]:
    return ["  " * depth + line for line in text.split("\n")]


def _quoted(text: str) -> bool:
    plain = text.replace("-", "").replace("/", "").replace(".", "").replace("_", "")
    return (
        not plain.isalnum()
        or not text[0].isalpha()
        or text.lower() in {"true", "false", "yes", "no", "y", "n", "on", "off", "null", "none"}
    )


def kubernetes_object(version: str, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An object of the API `version`."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def headless(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The Service that gives the pods with `labels` names, before they are ready too."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(labels)}
    return kubernetes_object("v1", "Service", name, spec)


def balanced(name: str, labels: Mapping[str, str], port: int) -> dict[str, Any]:
    """The Service that requests go to."""
    return kubernetes_object("v1", "Service", name, {"selector": dict(labels), "ports": [{"port": port, "targetPort": port}]})


def indexed_job(pod: Pod, nodes: int, *, limit_s: int | None = None) -> dict[str, Any]:
    """A pod a node; all of them or none: what one of several ranks loses is not done again by one alone."""
    spec: dict[str, Any] = {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed", "backoffLimit": 0}
    if limit_s is not None:
        spec["activeDeadlineSeconds"] = limit_s
    labels = {"job-name": pod.name}
    template = template_of(pod, labels if nodes > 1 else {}, {"subdomain": pod.name, "restartPolicy": "Never"})
    return kubernetes_object("batch/v1", "Job", pod.name, spec | {"template": {"spec": template}})


def stateful_set(pod: Pod, nodes: int, service: str) -> dict[str, Any]:
    """A service whose one replica needs all of `nodes` pods; `service` gives them names."""
    labels = {"app": pod.name}
    spec = {"serviceName": service, "replicas": nodes, "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels}}
    return kubernetes_object("apps/v1", "StatefulSet", pod.name, spec | {"template": labelled(pod, labels)})


def deployment(pod: Pod, replicas: int) -> dict[str, Any]:
    """A service each of whose replicas is one pod."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": pod.name}}}
    return kubernetes_object("apps/v1", "Deployment", pod.name, spec | {"template": labelled(pod, {})})


def labelled(pod: Pod, apart: Mapping[str, str]) -> dict[str, Any]:
    """The template of a service's pods, which carry its name as their label `app`."""
    return {"metadata": {"labels": {"app": pod.name}}, "spec": template_of(pod, apart, {})}


def template_of(pod: Pod, apart: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's own spec; pods with the labels `apart` lie on different nodes."""
    if pod.vendor not in RESOURCES:
        known = ", ".join(RESOURCES)
        raise UserError(Problem("--emit", "kubernetes", f"no resource name is known for GPUs of {pod.vendor}; known: {known}."))
    container: dict[str, Any] = {
        "name": pod.name,
        "image": pod.image,
        "command": ["bash", "-euc"],
        "args": ["\n".join(pod.script) + "\n"],
        "resources": {"limits": {RESOURCES[pod.vendor]: pod.gpus}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108  # where NCCL shares memory, in the container
    }
    environment: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in pod.environment.items()]
    if pod.token:
        secret = {"name": "hugging-face", "key": "token", "optional": True}
        environment.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}})
    if environment:
        container["env"] = environment
    if pod.port is not None:
        container["ports"] = [{"containerPort": pod.port}]
        probe = {"httpGet": {"path": "/health", "port": pod.port}, "periodSeconds": 10}
        container |= {"readinessProbe": probe} if not apart else {}
    found: dict[str, Any] = {**more, "containers": [container], "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    if affinity := _affinity(pod, apart):
        found["affinity"] = affinity
    return found


def _affinity(pod: Pod, apart: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if pod.products and pod.vendor == "NVIDIA":
        labels = [name.replace(" ", "-") for name in pod.products]
        wanted = {"key": "nvidia.com/gpu.product", "operator": "In", "values": labels}
        terms = [{"matchExpressions": [wanted]}]
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if apart:
        rule = {"labelSelector": {"matchLabels": dict(apart)}, "topologyKey": "kubernetes.io/hostname"}
        found["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    return found
