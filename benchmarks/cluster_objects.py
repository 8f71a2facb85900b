"""Objects of a large cluster as its API server has them: nodes, Jobs, pods with and without a sidecar.

Equal parts of all objects of a kind are one object in memory: the server that holds them never changes
an object in place.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from specon_manager.backends.kube.admission.injection import inject
from specon_manager.backends.kube.admission.sidecar_container import InjectionSettings
from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.records.progress_record import progress_object, progress_status
from specon_manager.backends.kube.records.records import status_of
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.progress import Progress
from specon_sidecar.classify import Category

Object = dict[str, Any]

NAMESPACE: Final = "ml"
CREATED: Final = "2025-01-02T03:04:05Z"
_MARK: Final = "xx-"
_JOB, _JOB_UID, _POD, _POD_UID, _NODE = (f"{_MARK}{word}" for word in ("job", "owner", "pod", "uid", "node"))


class Templates:
    """Makes objects that differ in their names; `authorities` are what sidecars trust, PEM."""

    def __init__(self, authorities: str) -> None:
        self._job = _managed(_job(), "kube-controller-manager")
        settings = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://x", ca_bundle=authorities)
        bare = _pod(f"{_POD}-abcde")
        options = read_options(bare["metadata"]["annotations"])
        injected = inject(bare, NAMESPACE, options, settings, {}).pod
        self._pending = _managed(injected, "kube-controller-manager")
        self._running = _managed({**injected, **_placed(injected, ("specon-sidecar", "trainer"))}, "kubelet")
        other = _pod(f"{_POD}-fghij")
        other["metadata"]["annotations"] = {"prometheus.io/scrape": "true"}
        self._other = _managed({**other, **_placed(other, ("trainer",))}, "kubelet")
        self._node = _managed(_node(), "kubelet")

    def node(self, name: str) -> Object:
        """Return a node that is ready."""
        return self._node.filled({_NODE: name, _POD_UID: _uid(f"node {name}")})

    def job(self, name: str) -> Object:
        """Return a Job of one pod."""
        return self._job.filled({_JOB: name, _JOB_UID: _uid(f"job {name}")})

    def pod(self, job: str, node: str = "") -> Object:
        """Return the pod of a Job, running on a node, or, without one, as its owner creates it."""
        words = {_JOB: job, _JOB_UID: _uid(f"job {job}"), _POD: job, _POD_UID: _uid(f"pod {job}")}
        return (self._running if node else self._pending).filled({**words, _NODE: node})

    def other(self, name: str, node: str) -> Object:
        """Return a pod of other people."""
        words = {_JOB: name, _JOB_UID: _uid(f"job {name}"), _POD: name, _POD_UID: _uid(f"pod {name}")}
        return self._other.filled({**words, _NODE: node})


def progress_of(job: str, node: str, now: float) -> Object:
    """Return the TrainingProgress of the only replica of a job, which runs on a node and has reported."""
    name = replica_of(job)
    replica = Replica(
        name=name,
        job=f"{NAMESPACE}/{job}",
        phase=Phase.RUNNING,
        node=node,
        incarnation=_uid(f"pod {job}"),
        starts=1,
        progress=Progress(
            category=Category.PROGRESSING,
            category_since=now - 600,
            reason="gain 0.023 per interval is above alpha 0.01",
            metric="loss",
            value=0.123456,
            step=123_000,
            step_at=now - 5,
            gain=0.0234,
            reported_at=now - 5,
        ),
    )
    made = progress_object(name)
    made["metadata"] |= {"uid": _uid(f"progress {job}"), "creationTimestamp": CREATED, "generation": 1}
    pod = f"{job}-abcde"
    return {**made, "status": status_of(progress_status(replica, now=now - 5, pod=pod))}


def replica_of(job: str) -> str:
    """Return the name of the only replica of a job."""
    return f"{NAMESPACE}/{job}/worker/0"


def uid_of_pod(job: str) -> str:
    """Return the UID of the only pod of a job."""
    return _uid(f"pod {job}")


def job_names(count: int, *, first: int = 0) -> Iterator[str]:
    """Yield the names of jobs."""
    return (f"resnet-{number:05d}" for number in range(first, first + count))


def _uid(what: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, what))


class _Template:
    """An object with marks in it; only the parts with marks are made again."""

    def __init__(self, value: Object) -> None:
        self._value = value
        self._marked: set[int] = set()
        self._look(value)

    def _look(self, value: Any) -> bool:
        if isinstance(value, str):
            return _MARK in value
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        found = max([self._look(part) for part in parts], default=False)  # every part, not only the first
        if found:
            self._marked.add(id(value))
        return found

    def filled(self, words: Mapping[str, str]) -> Object:
        """Return the object with these words for the marks."""
        filled: Object = self._filled(self._value, words)
        return filled

    def _filled(self, value: Any, words: Mapping[str, str]) -> Any:
        if isinstance(value, str):
            if _MARK in value:
                for mark, word in words.items():
                    value = value.replace(mark, word)
            return value
        if id(value) not in self._marked:
            return value
        if isinstance(value, dict):
            return {key: self._filled(part, words) for key, part in value.items()}
        return [self._filled(part, words) for part in value]


def _pod(name: str) -> Object:
    """Return the pod of a Job with one container that trains on a shared file system."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": _JOB,
        "uid": _JOB_UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    token = {
        "name": "kube-api-access-x7k2p",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    }
    mount = "/var/run/secrets/kubernetes.io/serviceaccount"
    tolerations = [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for what in ("not-ready", "unreachable")
    ]
    trainer = {
        "name": "trainer",
        "image": "registry.example/team/trainer:3.1.4",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "train.py"],
        "args": ["--data=/data/imagenet", "--epochs=90", "--batch-size=256", "--learning-rate=0.1"],
        "env": [
            {"name": f"SETTING_{number}", "value": f"value of the setting {number}"} for number in range(8)
        ],
        "resources": {
            "requests": {"cpu": "2", "memory": "4Gi"},
            "limits": {"cpu": "4", "memory": "8Gi"},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": token["name"], "mountPath": mount, "readOnly": True},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    labels = {
        "app": "training",
        "batch.kubernetes.io/job-name": _JOB,
        "batch.kubernetes.io/controller-uid": _JOB_UID,
        "job-name": _JOB,
        "controller-uid": _JOB_UID,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": f"{_JOB}-",
            "namespace": NAMESPACE,
            "uid": _POD_UID,
            "creationTimestamp": CREATED,
            "generation": 1,
            "labels": labels,
            "annotations": {
                f"{PREFIX}inject": "true",
                f"{PREFIX}log-path": "/data/train.log",
                f"{PREFIX}checkpoint-path": "/data/checkpoints",
            },
            "ownerReferences": [owner],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {
            "containers": [trainer],
            "volumes": [{"name": "data", "nfs": {"server": "nas.example", "path": "/exports/data"}}, token],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": tolerations,
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _placed(pod: Object, containers: tuple[str, ...]) -> Object:
    """Return spec and status of the pod once it runs on a node."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
        for kind in kinds
    ]
    statuses = [
        {
            "name": name,
            "state": {"running": {"startedAt": CREATED}},
            "lastState": {},
            "ready": True,
            "started": True,
            "restartCount": 0,
            "image": "registry.example/team/trainer:3.1.4",
            "imageID": "registry.example/team/trainer@sha256:" + "0123456789abcdef" * 4,
            "containerID": "containerd://" + "fedcba9876543210" * 4,
        }
        for name in containers
    ]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "startTime": CREATED,
        "initContainerStatuses": statuses[:-1],
        "containerStatuses": statuses[-1:],
        "qosClass": "Burstable",
    }
    return {"spec": {**pod["spec"], "nodeName": _NODE}, "status": status}


def _job() -> Object:
    pod = _pod("unused")
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": _JOB,
            "namespace": NAMESPACE,
            "uid": _JOB_UID,
            "creationTimestamp": CREATED,
            "generation": 1,
            "labels": {"app": "training"},
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": _JOB_UID}},
            "template": template,
        },
        "status": {"active": 1, "ready": 1, "startTime": CREATED},
    }


def _node() -> Object:
    room = {"cpu": "128", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    labels = {
        "kubernetes.io/hostname": _NODE,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-a",
        "node.kubernetes.io/instance-type": "large",
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": CREATED,
        "lastTransitionTime": CREATED,
    }
    images = [
        {"names": [f"registry.example/image-{number}:1"], "sizeBytes": 123_456_789} for number in range(50)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": _NODE, "uid": _POD_UID, "creationTimestamp": CREATED, "labels": labels},
        "spec": {"podCIDR": "10.1.0.0/24"},
        "status": {"allocatable": room, "capacity": room, "conditions": [ready], "images": images},
    }


def _managed(value: Object, manager: str) -> _Template:
    """Return a template of the object with the account of its fields, a third of most pods."""
    account = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": value["apiVersion"],
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields({key: value[key] for key in ("spec", "status") if key in value}),
    }
    return _Template({**value, "metadata": {**value["metadata"], "managedFields": [account]}})


def _fields(value: Any) -> Object:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(part) for key, part in value.items()}
    if isinstance(value, list) and value and all(isinstance(part, dict) and "name" in part for part in value):
        return {f'k:{{"name":"{part["name"]}"}}': _fields(part) | {".": {}} for part in value}
    return {}
