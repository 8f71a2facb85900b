"""Objects as users, controllers and managers write them, by what they are: what a fuzzer begins with."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.records.migration_status import migration_object
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from support.kube.hostile_objects import PATTERNS
from support.kube.job_objects import KINDS, job_object
from support.kube.pods import annotated, job_pod, kubeflow_pod, mesh_pod, pod, stateful_pod
from support.kube.training_templates import running_pod

Object = dict[str, Any]

AT: Final = "2026-01-01T00:00:00Z"
ANNOTATIONS: Final[Mapping[str, str]] = {
    f"specon.io/{name}": value
    for name, value in {
        "inject": "true",
        "instrument": "true",
        "queue": "team-a",
        "class": "trial",
        "min-workers": "1",
        "max-workers": "8",
        "min-cpu": "0.5",
        "interval": "90s",
        "checkpoint": "file:/data/save",
        "checkpoint-path": "/data/checkpoints",
        "log-path": "/data/train.log",
        "format": "regular-expression",
        "pattern": "step (?P<step>\\d+) loss (?P<value>\\S+)",
        "scaled": "4:2",
        "suspended-for": "held-change-1",
        "pinned": "node-1",
        "cpu": "2",
        "replica": "a/train/worker/0",
    }.items()
}


_TAINT: Final = {"key": "example.com/service", "effect": "NoExecute", "timeAdded": AT}


def _told(item: Object, **metadata: Any) -> Object:
    """Return the object as the API has it."""
    known = {"namespace": "a", "name": "train", "uid": "u", "resourceVersion": "7", "creationTimestamp": AT}
    return {**item, "metadata": {**known, **item.get("metadata", {}), **metadata}}


def _seen(made: Object, uid: str) -> Object:
    """Return a pod that a controller made, as a watch shows it."""
    made = _told(copy.deepcopy(made), uid=uid)
    made["metadata"].setdefault("labels", {})["specon.io/sidecar"] = "injected"
    made["spec"]["nodeName"] = "node-0"
    state = {"name": "trainer", "state": {"running": {"startedAt": AT}}}
    made["status"] = {"phase": "Running", "containerStatuses": [state], "conditions": [{"type": "Ready"}]}
    return made


_GROUP_POD: Final = stateful_pod("train-0", 1)
_GROUP_POD["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = "train"

_PODS: Final = [
    _GROUP_POD,
    pod(annotations={**annotated(), "specon.io/queue": "team-a"}),
    job_pod(index=3),
    stateful_pod(),
    kubeflow_pod(),
    mesh_pod(native=False),
    *(pod(annotations=annotated(pattern=pattern)) for pattern in PATTERNS.values() if len(pattern) < 5000),
]
_MOVE: Final = Transaction(
    id="m1",
    kind=Kind.MOVE,
    job="a/train",
    before={"a/train/worker/0": "node-0"},
    after={"a/train/worker/0": "node-1"},
    policy="progress",
    purpose="migrate",
    reason="converged",
    state=TransactionState.LEAVING,
    proposed_at=1.0,
    deadline=10.0,
    witnesses={"a/train/worker/0": Witness(incarnation="uid-1")},
)
_STATUS: Final[Object] = {
    "state": "Evicting",
    "phase": "Running",
    "node": "node-0",
    "source": "node-0",
    "target": "node-1",
    "destination": "node-1",
    "destinationHostname": "node-1",
    "attempt": 1,
    "incarnation": "uid-1",
    "starts": 3,
    "crashes": 1,
    "movedFor": ["migrate"],
    "cooldownUntil": AT,
    "checkpoint": {"step": 7, "path": "/data/checkpoints/7", "digest": "0" * 64, "time": AT},
    "proposedAt": AT,
    "deadline": AT,
    "endedAt": None,
    "updatedAt": AT,
    "category": "converged",
    "loss": 0.5,
    "step": 7,
    "gain": 0.1,
    "expectedGain": {"low": 0.1, "middle": 0.2, "high": 0.3},
    "manager": "one",
    "manifest": '{"metadata": {"name": "train"}}',
    "message": "words",
}

SEEDS: Final[Mapping[str, list[Object]]] = {
    "review": _PODS,
    "pod": [*(_seen(each, f"uid-{index}") for index, each in enumerate(_PODS)), running_pod("train", AT)],
    "owner": [
        {
            **_told(job_object(kind, annotations=dict(ANNOTATIONS)), uid=f"{kind}-uid"),
            "kind": kind,
            "status": {"conditions": [{"type": "Complete", "status": "False"}]},
        }
        for kind in KINDS
    ]
    + [
        _told(
            {
                **job_object("StatefulSet"),
                "metadata": {"ownerReferences": [{"kind": kind, "name": "group-0", "controller": True}]},
            },
            name="group-0",
        )
        | {"kind": "StatefulSet"}
        for kind in ("LeaderWorkerSet", "Pod")
    ],
    "node": [
        _told(
            {
                "metadata": {"labels": {"kubernetes.io/hostname": "node-0"}},
                "spec": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]},
                "status": {
                    "allocatable": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
            name="node-0",
        )
    ],
    "volume": [
        _told(
            {
                "spec": {
                    "volumeName": "v",
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/x"},
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    },
                },
                "status": {"phase": "Bound"},
            }
        )
    ],
    "devices": [
        _told(
            {
                "spec": {
                    "driver": "gpu.example.com",
                    "pool": {"name": "node-0", "generation": 2},
                    "devices": [{"name": "gpu-0", "taints": [_TAINT]}],
                    "deviceSelector": {"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"},
                    "taint": _TAINT,
                }
            }
        ),
        _told(
            {
                "status": {
                    "allocation": {
                        "devices": {
                            "results": [
                                {
                                    "driver": "gpu.example.com",
                                    "pool": "node-0",
                                    "device": "gpu-0",
                                    "tolerations": [
                                        {**_TAINT, "operator": "Exists", "tolerationSeconds": 60}
                                    ],
                                }
                            ]
                        }
                    },
                    "reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}],
                }
            },
            ownerReferences=[{"kind": "Pod", "name": "train", "uid": "u"}],
        ),
    ],
    "record": [
        _told({**migration_object(_MOVE), "status": _STATUS}, name="m1"),
        _told({"spec": {"replica": "a/train/worker/0"}, "status": _STATUS}),
        _told({"spec": {"pod": "train", "target": "node-1", "reason": "please"}}, name="asked"),
        _told(
            {
                "spec": {"job": "a/train", "queue": "team-a"},
                "status": {
                    **_STATUS,
                    "phase": "Running",
                    "change": {"id": "change-1", "kind": "scale-out", "state": "Coming", "deadline": AT},
                    "pins": [{"replica": "a/train/worker/0", "hostname": "node-1"}],
                    "lastChange": {"id": "change-0", "kind": "admit", "state": "Succeeded"},
                },
            }
        ),
    ],
    "queue": [
        _told(
            {
                "spec": {
                    "quota": {"cpu": "8", "memory": "64Gi", "gpu": "4"},
                    "limit": {"cpu": 9},
                    "borrow": True,
                }
            },
            name="team-a",
        )
    ],
    "budget": [
        _told(
            {
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"job": "train"}}},
                "status": {"disruptionsAllowed": 1, "expectedPods": 3, "currentHealthy": 3},
            }
        )
    ],
    "lease": [
        _told(
            {
                "metadata": {"annotations": {"specon.io/namespaces": "a,b", "specon.io/paused": "why"}},
                "spec": {"holderIdentity": "h", "leaseDurationSeconds": 12, "acquireTime": AT},
            }
        )
    ],
    "webhooks": [
        {"webhooks": [{"name": "inject.specon.io", "clientConfig": {"service": {"namespace": "specon"}}}]}
    ],
}
"""Well-formed objects by what reads them."""
