"""Kubernetes objects as YAML: an Indexed Job, a service, the headless Service that names pods, and objects of installed operators.

kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication: objects of `v1`, `batch/v1` or `apps/v1`. Of operators:
jobset.x-k8s.io/v1alpha2 (jobset.sigs.k8s.io/docs), kueue.x-k8s.io's label (kueue.sigs.k8s.io/docs/tasks/run/jobs),
leaderworkerset.x-k8s.io/v1 (lws.sigs.k8s.io/docs; llm-d builds on it), serving.kserve.io/v1beta1 (kserve.github.io/website); read 2026-11-22.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from planner.cli.emit.frames import JOB_INDEX, kubernetes, lines_text
from planner.errors import Problem, UserError

RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
"""Vendor -> resource name of a GPU in its device plugin."""


class Pod(msgspec.Struct, frozen=True):
    """One pod of a job or a service."""

    name: str
    image: str
    script: Sequence[str]
    gpus: int
    vendor: str
    products: Sequence[str]
    """Names of the GPU in its driver; empty: any GPU."""
    port: int | None = None
    token: bool = False
    """True if the pod gets the secret with the token for Hugging Face."""


def text_of(objects: Sequence[Mapping[str, Any]]) -> str:
    """Objects as YAML documents: mappings as blocks, shell as literal blocks, the rest as JSON, which is valid YAML."""
    return "---\n".join(lines_text(_block(one, 0)) for one in objects)


def _block(value: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    pad = "  " * depth
    for key, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            lines += [f"{pad}{key}:", *_block(entry, depth + 1)]
        elif isinstance(entry, list) and any(isinstance(one, Mapping) or "\n" in one for one in entry):
            lines.append(f"{pad}{key}:")
            for one in entry:
                literal = ["|", *(f"{pad}    {line}" for line in str(one).split("\n"))]
                first, *rest = _block(one, depth + 2) if isinstance(one, Mapping) else literal
                lines += [f"{pad}  - {first.strip()}", *rest]
        else:
            lines.append(
                f"{pad}{key}: {entry if isinstance(entry, str) and not _quoted(entry) else json.dumps(entry, ensure_ascii=False)}"
            )
    return lines


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
    """A headless Service, which names the pods with `labels` even before they are ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(labels)}
    return kubernetes_object("v1", "Service", name, spec)


def balanced(name: str, labels: Mapping[str, str], port: int) -> dict[str, Any]:
    """A Service that distributes requests."""
    return kubernetes_object("v1", "Service", name, {"selector": dict(labels), "ports": [{"port": port, "targetPort": port}]})


def indexed_job(pod: Pod, nodes: int, *, limit_s: int | None = None) -> dict[str, Any]:
    """One pod per node; they succeed or fail together, because a single rank cannot redo lost work."""
    spec: dict[str, Any] = {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed", "backoffLimit": 0}
    if limit_s is not None:
        spec["activeDeadlineSeconds"] = limit_s
    labels = {"job-name": pod.name}
    template = template_of(pod, labels if nodes > 1 else {}, {"subdomain": pod.name, "restartPolicy": "Never"})
    return kubernetes_object("batch/v1", "Job", pod.name, spec | {"template": {"spec": template}})


def stateful_set(pod: Pod, nodes: int, service: str) -> dict[str, Any]:
    """A service with one replica that needs all `nodes` pods, which are named by `service`."""
    labels = {"app": pod.name}
    spec = {"serviceName": service, "replicas": nodes, "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels}}
    return kubernetes_object("apps/v1", "StatefulSet", pod.name, spec | {"template": labelled(pod, labels)})


def deployment(pod: Pod, replicas: int) -> dict[str, Any]:
    """A service with one pod per replica."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": pod.name}}}
    return kubernetes_object("apps/v1", "Deployment", pod.name, spec | {"template": labelled(pod, {})})


def labelled(pod: Pod, apart: Mapping[str, str]) -> dict[str, Any]:
    """Template of a service's pods, with its name as their label `app`."""
    return {"metadata": {"labels": {"app": pod.name}}, "spec": template_of(pod, apart, {})}


def template_of(pod: Pod, apart: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, Any]:
    """Template of a pod; pods with the labels `apart` are placed on different nodes."""
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
    if pod.token:
        secret = {"name": "hugging-face", "key": "token", "optional": True}
        container["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}}]
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


QUEUE = "gpu-queue"
"""Placeholder for the name of a LocalQueue of the namespace."""
JOB = "node"
"""Name of the replicated job of a JobSet."""
LEADER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LEADER_NAME = "leaderworkerset.sigs.k8s.io/name"
NEEDED = {
    "jobset": "Needs JobSet in the cluster (jobset.sigs.k8s.io).",
    "kueue": f"Needs Kueue in the cluster (kueue.sigs.k8s.io); replace {QUEUE} by the name of your LocalQueue.",
    "lws": "Needs LeaderWorkerSet in the cluster (lws.sigs.k8s.io), as used by llm-d: an InferencePool of its gateway selects the same pods.",
    "kserve": "Needs KServe in the cluster (kserve.github.io).",
}
"""Form -> software that has to be installed in the cluster."""


def jobset_nodes(name: str, nodes: int) -> tuple[str, ...]:
    """Shell that sets NODES, NODE_RANK, HEAD and PORT in each pod of a JobSet, whose own Service names the pods."""
    return kubernetes(nodes, JOB_INDEX, f"{name}-{JOB}-0-0.{name}")


def group_nodes() -> tuple[str, ...]:
    """Shell that sets the same variables in each pod of a LeaderWorkerSet."""
    return kubernetes('"$LWS_GROUP_SIZE"', '"$LWS_WORKER_INDEX"', '"$LWS_LEADER_ADDRESS"')


def jobset(pod: Pod, nodes: int, *, limit_s: int | None = None) -> dict[str, Any]:
    """A JobSet of one Indexed Job with one pod per node, which fails as a whole."""
    job = indexed_job(pod, nodes, limit_s=limit_s)["spec"]
    network = {"enableDNSHostnames": True, "subdomain": pod.name, "publishNotReadyAddresses": True}
    job["template"]["spec"].pop("subdomain", None)  # the JobSet gives its own
    spec = {
        "network": network,
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": JOB, "replicas": 1, "template": {"spec": job}}],
    }
    return kubernetes_object("jobset.x-k8s.io/v1alpha2", "JobSet", pod.name, spec)


def queued(job: dict[str, Any]) -> dict[str, Any]:
    """A Job or JobSet that waits in a queue of Kueue, which starts all its pods or none."""
    metadata = job["metadata"] | {"labels": {"kueue.x-k8s.io/queue-name": QUEUE}}
    return job | {"metadata": metadata, "spec": {"suspend": True} | job["spec"]}


def job_nodes(form: str, name: str, nodes: int) -> Sequence[str]:
    """Shell by which the pods of a job find each other; empty for one pod."""
    if nodes == 1:
        return ()
    return jobset_nodes(name, nodes) if form == "jobset" else kubernetes(nodes, JOB_INDEX, f"{name}-0.{name}")


def job_objects(form: str, pod: Pod, nodes: int, *, limit_s: int | None = None) -> list[dict[str, Any]]:
    """Kubernetes objects of a job in `form`: a JobSet, or an Indexed Job (queued by Kueue if asked for) with a Service that names its pods."""
    if form == "jobset":
        return [jobset(pod, nodes, limit_s=limit_s)]
    job = indexed_job(pod, nodes, limit_s=limit_s)
    named = [headless(pod.name, {"job-name": pod.name})] if nodes > 1 else []
    return [*named, queued(job) if form == "kueue" else job]


def leader_worker_set(pod: Pod, nodes: int, replicas: int) -> dict[str, Any]:
    """A LeaderWorkerSet: each group of `nodes` pods is a server, answers through its first pod, and restarts if a pod fails."""
    others = {"leaderTemplate": labelled(pod, {}), "workerTemplate": labelled(msgspec.structs.replace(pod, port=None), {})}
    pods = others if nodes > 1 else {"workerTemplate": labelled(pod, {})}
    spec = {
        "replicas": replicas,
        "leaderWorkerTemplate": {"size": nodes, "restartPolicy": "RecreateGroupOnPodRestart", **pods},
    }
    return kubernetes_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", pod.name, spec)


def leaders(name: str) -> dict[str, str]:
    """Labels of the first pod of every group, which receives the requests."""
    return {LEADER_NAME: name, LEADER_INDEX: "0"}


def inference_service(pod: Pod, replicas: int) -> dict[str, Any]:
    """An InferenceService of KServe whose predictor is the engine's own server."""
    template = template_of(pod, {}, {})
    (container,) = template["containers"]
    container["name"] = "kserve-container"
    container["ports"] = [{"containerPort": pod.port, "protocol": "TCP"}]
    spec = {"predictor": {"minReplicas": replicas, "maxReplicas": replicas, **template}}
    found = kubernetes_object("serving.kserve.io/v1beta1", "InferenceService", pod.name, spec)
    found["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "RawDeployment"}
    return found
