"""Training jobs for a real cluster, one for each kind of owner: all train with `support.local.trainer`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from specon_manager.backends.kube.transport.resources import JOBS, PODS, STATEFUL_SETS, Object, Resource
from support.local import trainer

CLAIM: Final = "training"
"""The claim that all jobs of a test share; each replica has a directory of its own on it."""
SCRIPT: Final = "trainer"
STEPS: Final = 6000
USER: Final = 1000
HURRY: Final = "hurry"

ANNOTATIONS: Final = {
    "specon.io/inject": "true",
    "specon.io/log-path": "/data/train.log",
    "specon.io/checkpoint-path": "/data/checkpoints",
    # Converges within seconds; the default `horizon` wants to see more of a run.
    "specon.io/classifier": "specon",
    "specon.io/alpha": "0.05",
    "specon.io/interval": "1s",
    "specon.io/heartbeat": "1s",
}
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
ONLY_WHEN_ASKED: Final = ("--every", "0")
"""No checkpoint but those that somebody asked for."""


def script() -> Object:
    """Return the ConfigMap with the trainer."""
    code = Path(trainer.__file__).read_text("utf-8")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SCRIPT},
        "data": {"trainer.py": code},
    }


class Jobs:
    """Makes manifests; `image` has sh and python3, `node_selector` says which nodes are to be used."""

    def __init__(self, image: str, node_selector: Mapping[str, str]) -> None:
        self._image = image
        self._node_selector = dict(node_selector)

    def pod(
        self,
        name: str,
        *flags: str,
        annotations: Mapping[str, str] = ANNOTATIONS,
        steps: int = STEPS,
        prefers: str | None = None,
        labels: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> Object:
        """Return a bare Pod; `prefers` is the node that it is put on where there is room."""
        metadata = {"name": name, "annotations": dict(annotations), "labels": dict(labels)}
        spec = self._spec({"subPath": name}, flags, steps)
        if prefers is not None:
            wish = {"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}
            term = {"weight": 100, "preference": {"matchExpressions": [wish]}}
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def job(
        self, name: str, *flags: str, annotations: Mapping[str, str] = ANNOTATIONS, steps: int = STEPS
    ) -> Object:
        """Return a Job whose first failure is its last."""
        spec = self._spec({"subPath": name}, flags, steps)
        return _job(name, spec, annotations, {})

    def indexed_job(
        self,
        name: str,
        *flags: str,
        completions: int = 2,
        annotations: Mapping[str, str] = ANNOTATIONS,
        steps: int = STEPS,
    ) -> Object:
        """Return an Indexed Job which counts no disruption as a failure; index I trains in NAME-I."""
        ignore = {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
        changes = {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": completions,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [ignore]},
        }
        mount = {"subPathExpr": f"{name}-$(JOB_COMPLETION_INDEX)"}
        return _job(name, self._spec(mount, flags, steps), annotations, changes)

    def stateful_set(
        self, name: str, *flags: str, annotations: Mapping[str, str] = ANNOTATIONS, steps: int = STEPS
    ) -> Object:
        """Return a StatefulSet of one replica, which trains in NAME-0."""
        labels = {"app": name}
        variable = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        spec = self._spec({"subPathExpr": "$(POD_NAME)"}, flags, steps, variable)
        del spec["restartPolicy"]
        template = {"metadata": {"labels": labels, "annotations": dict(annotations)}, "spec": spec}
        wanted = {
            "serviceName": name,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": template,
        }
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": wanted}

    def in_volume(self, name: str, code: str) -> Object:
        """Return a pod that runs Python as root with the whole volume at /volume, and ends."""
        container = {
            "name": "python",
            "image": self._image,
            "command": ["python3", "-c", code],
            "volumeMounts": [{"name": "data", "mountPath": "/volume"}],
        }
        spec: Object = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": self._node_selector,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def _spec(
        self, mount: Mapping[str, str], flags: tuple[str, ...], steps: int, *environment: Object
    ) -> Object:
        given = f"--directory /data --log /data/train.log --checkpoint-dir /data/checkpoints --steps {steps}"
        if "--every" not in flags:
            flags = (*flags, "--every", "20")
        run = f"exec python3 /trainer/trainer.py {given} --step-seconds 0.05 --hurry /data/{HURRY}"
        container = {
            "name": "trainer",
            "image": self._image,
            "command": ["sh", "-c", f"mkdir -p /data/checkpoints && {run} {' '.join(flags)}"],
            "env": list(environment),
            "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data", **mount},
                {"name": SCRIPT, "mountPath": "/trainer"},
            ],
        }
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
            "automountServiceAccountToken": False,
            "nodeSelector": dict(self._node_selector),
            "securityContext": {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER},
            "containers": [container],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}},
                {"name": SCRIPT, "configMap": {"name": SCRIPT}},
            ],
        }


def _job(name: str, spec: Object, annotations: Mapping[str, str], changes: Mapping[str, Any]) -> Object:
    template = {"metadata": {"annotations": dict(annotations)}, "spec": spec}
    wanted = {"backoffLimit": 0, "template": template, **changes}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": wanted}


def resource_of(manifest: Object) -> Resource:
    """Return the resource that a manifest made here is of."""
    return {"Pod": PODS, "Job": JOBS, "StatefulSet": STATEFUL_SETS}[manifest["kind"]]
