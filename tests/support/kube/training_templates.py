"""Pods that train, as their owners write them and as the API server has them."""

from typing import Any

from support.kube.pods import annotated

Object = dict[str, Any]


def training_template(name: str, *, recreate: bool = False) -> Object:
    """Return the template of a pod that asks for a sidecar."""
    annotations = {
        "specon.io/inject": "true",
        "specon.io/log-path": "/data/train.log",
        "specon.io/checkpoint-path": "/data/checkpoints",
    }
    if recreate:
        annotations["specon.io/recreate"] = "true"
    container = {
        "name": "trainer",
        "image": "registry.example/train:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "metadata": {"labels": {"job": name}, "annotations": annotations},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "data", "nfs": {"server": "nas", "path": "/data"}}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
        },
    }


def elastic_job(name: str, queue: str, *, workers: int, fewest: int = 1, most: int) -> Object:
    """Return a Job of a LocalQueue that Kueue sizes by slices, of workers with a processor each."""
    body = _job_with(name, "1", min_workers=str(fewest), max_workers=str(most))
    indexed = {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}, "annotations": elastic}
    return {"metadata": metadata, "spec": {**body, **indexed, "podReplacementPolicy": "Failed"}}


def held_job(name: str, cpu: str) -> Object:
    """Return a Job of one pod that a manager of ours admits, and Kueue knows nothing of."""
    return {"metadata": {"name": name}, "spec": _job_with(name, cpu, queue="research")}


def _job_with(name: str, cpu: str, **annotations: str) -> Object:
    template = training_template(name)
    template["metadata"]["annotations"] |= annotated(**annotations)
    template["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}  # all that a queue has
    template["spec"]["serviceAccountName"] = "default"
    return {"backoffLimit": 0, "template": template}


def running_pod(name: str, created: str) -> Object:
    """Return a pod of a Job of its own that runs and has a sidecar, as the API server would have it."""
    template = training_template(name)
    uid = f"uid-of-{name}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{uid}"}
    status = {"state": {"running": {}}, "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template["metadata"],
            "labels": {"specon.io/sidecar": "injected", "job-name": name},
            "name": f"{name}-x",
            "namespace": "training",
            "uid": uid,
            "creationTimestamp": created,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**template["spec"], "nodeName": "node-0"},
        "status": {"phase": "Running", "containerStatuses": [{"name": "trainer", **status}]},
    }
