"""Objects of what is installed into a Kubernetes cluster besides: JobSet, Kueue, LeaderWorkerSet (which llm-d builds on), KServe.

jobset.x-k8s.io/v1alpha2 (jobset.sigs.k8s.io/docs), kueue.x-k8s.io's label (kueue.sigs.k8s.io/docs/tasks/run/jobs),
leaderworkerset.x-k8s.io/v1 (lws.sigs.k8s.io/docs), serving.kserve.io/v1beta1 (kserve.github.io/website); read 2026-11-22.
"""

from __future__ import annotations

from typing import Any

from planner.cli.emit.manifests import Pod, indexed_job, kubernetes_object, labelled, template_of
from planner.cli.emit.nodes import JOB_INDEX, kubernetes

QUEUE = "gpu-queue"
"""A LocalQueue of the namespace; its name is the cluster's own."""
JOB = "node"
"""The replicated job of a JobSet."""
LEADER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LEADER_NAME = "leaderworkerset.sigs.k8s.io/name"
NEEDED = {
    "jobset": "Needs JobSet in the cluster (jobset.sigs.k8s.io).",
    "kueue": f"Needs Kueue in the cluster (kueue.sigs.k8s.io); put your LocalQueue's name for {QUEUE}.",
    "lws": "Needs LeaderWorkerSet in the cluster (lws.sigs.k8s.io), as llm-d has it: an InferencePool of its gateway selects the same pods.",
    "kserve": "Needs KServe in the cluster (kserve.github.io).",
}
"""Form -> what has to be installed there."""


def jobset_nodes(name: str, nodes: int) -> tuple[str, ...]:
    """Shell that gives each pod of a JobSet NODES, NODE_RANK, HEAD and PORT; its own Service names the pods."""
    return kubernetes(nodes, JOB_INDEX, f"{name}-{JOB}-0-0.{name}")


def group_nodes() -> tuple[str, ...]:
    """Environment in each pod of a LeaderWorkerSet, by the variables that it sets."""
    return kubernetes('"$LWS_GROUP_SIZE"', '"$LWS_WORKER_INDEX"', '"$LWS_LEADER_ADDRESS"')


def jobset(pod: Pod, nodes: int, *, limit_s: int | None = None) -> dict[str, Any]:
    """A JobSet of one Indexed Job, a pod a node; it fails as a whole."""
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


def leader_worker_set(pod: Pod, nodes: int, replicas: int) -> dict[str, Any]:
    """`replicas` groups of `nodes` pods, each group one server; a group whose pod fails begins anew."""
    group = {"size": nodes, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": labelled(pod, {})}
    spec = {"replicas": replicas, "leaderWorkerTemplate": group}
    return kubernetes_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", pod.name, spec)


def leaders(name: str) -> dict[str, str]:
    """Labels of the first pod of every group, which requests go to."""
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
