"""The replica and the job that a pod stands for, from owner, labels, completion index and ordinal. Pure.

A replica keeps its name over moves and restarts, and no two pods of one owner have the same:

| owner | job | role and index |
|---|---|---|
| none (a bare Pod) | the pod's name | worker 0 |
| batch/v1 Job | its name | worker, completion index (0 where the Job is not Indexed) |
| StatefulSet | its name | worker, ordinal |
| Kubeflow v1 (TFJob, PyTorchJob, ...) | its name | ps; or worker, as below |
| MPIJob | its name | the launcher is ps 0; worker, as below |
| JobSet of one Job | the name of that, JOBSET-REPLICATEDJOB-0 | worker, completion index |
| JobSet of several Jobs | its name | worker, 1000 x the index of the Job in it + completion index |
| the same, where its pods say that each trains by itself | the name of the Job | worker, completion index |
| LeaderWorkerSet | its name, of a further group NAME-GROUP | worker, 0 for the leader, else the ordinal |
| anything else (ReplicaSet, ...) | its name | worker 0; can be observed only |

Of a Kubeflow job the master or chief is worker 0, the workers follow from 1, whether there is such a head or
not, and evaluators from 500000: a pod does not say which other replica types its job has. The launcher of an
MPIJob trains nothing and always stays, as a parameter server does; the MPI operator (v2beta1) makes it as the
pod of a Job of its own. Pods of a JobSet tell how many Jobs it makes since JobSet 0.7.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.job_set import index_in_set
from specon_manager.backends.kube.objects.leader_worker_set import KIND, SET_NAME, job_of_group, member_of
from specon_manager.backends.kube.transport.resources import Object
from specon_sidecar.wire import ReplicaName

Role = Literal["worker", "ps"]

KUBEFLOW_JOB: Final = "training.kubeflow.org/job-name"
KUBEFLOW_TYPE: Final = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX: Final = "training.kubeflow.org/replica-index"
KUBEFLOW_ROLE: Final = "training.kubeflow.org/job-role"
KUBEFLOW_OPERATOR: Final = "training.kubeflow.org/operator-name"
MPI_OPERATOR: Final = "mpi-operator"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
JOB_SET_JOBS: Final = "jobset.sigs.k8s.io/global-replicas"
JOB_SET_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"

_HEADS: Final = frozenset({"master", "chief"})
_EVALUATORS_FROM: Final = 500_000
_HIGHEST_INDEX: Final = 999_999  # as the wire allows
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_ORDINAL: Final = re.compile(r"-(0|[1-9][0-9]{0,5})\Z")


class Identity(Struct, frozen=True, kw_only=True):
    """Which replica a pod is, and who creates its pods."""

    namespace: str
    job: str
    role: Role = "worker"
    index: int = 0
    owner_kind: str = "Pod"
    """Kind of what creates the next pod of this replica: Pod (nobody does), Job, StatefulSet, TFJob, ..."""
    owner_name: str = ""
    owner_uid: str = ""
    """Empty for a bare pod, which has another UID after each move, for a JobSet that does not tell it, for a
    LeaderWorkerSet, which never does, and for the launcher of an MPIJob, whose owner is a Job."""

    @property
    def replica(self) -> str:
        """`namespace/job/role/index`."""
        return f"{self.namespace}/{self.job}/{self.role}/{self.index}"

    @property
    def job_name(self) -> str:
        """`namespace/job`."""
        return f"{self.namespace}/{self.job}"


def identity_of(pod: Object) -> Identity | None:
    """Return which replica a pod is; None where it has no name yet, or none that the messages allow.

    None too for static pods: their kubelet owns them.
    """
    metadata = _mapping(pod, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name") or ""
    if not isinstance(namespace, str) or not isinstance(name, str):
        return None
    controller = controller_of(pod)
    if controller is None:
        found = Identity(namespace=namespace, job=name, owner_name=name)
    elif controller.get("kind") == "Node":
        return None
    else:
        owned = _identify_owned(namespace, name, controller, metadata)
        if owned is None:
            return None
        found = owned
    try:
        msgspec.convert(found.replica, ReplicaName)
    except msgspec.ValidationError:
        return None
    return found


def controller_of(pod: Object) -> Mapping[str, Any] | None:
    """Return the owner reference of the object that creates the pods of this one's kind; None without one."""
    references = _mapping(pod, "metadata").get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return reference
    return None


def kubeflow_member(replica_type: str, index: int) -> tuple[Role, int] | None:
    """Return role and index of the replica `index` of a Kubeflow replica type; None for an unknown type."""
    kind = replica_type.lower()
    if kind == "ps":
        return "ps", index
    if kind == "launcher":
        return ("ps", 0) if index == 0 else None
    if kind == "worker":
        return "worker", index + 1
    if kind in _HEADS:
        return ("worker", 0) if index == 0 else None
    return ("worker", _EVALUATORS_FROM + index) if kind == "evaluator" else None


def _identify_owned(
    namespace: str, name: str, controller: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Identity | None:
    """Return the identity of a pod that something creates, from what that something writes on its pods."""
    labels = _mapping(metadata, "labels")
    annotations = _mapping(metadata, "annotations")
    kind, owner = str(controller.get("kind", "")), str(controller.get("name", ""))
    uid = str(controller.get("uid", ""))
    group = str(controller.get("apiVersion", "")).partition("/")[0]
    index: int | None = 0
    role: Role = "worker"
    job = owner
    if group == "kubeflow.org":
        number = _number(labels.get(KUBEFLOW_INDEX, "0"))
        replica_type = str(labels.get(KUBEFLOW_TYPE, labels.get(KUBEFLOW_ROLE, "")))
        member = None if number is None else kubeflow_member(replica_type, number)
        if member is None:
            return None
        role, index = member
    elif kind == "Job" and group == "batch":
        index = _number(annotations.get(COMPLETION_INDEX, labels.get(COMPLETION_INDEX, "0")))
        if JOB_SET in labels:
            kind, owner, uid = "JobSet", str(labels[JOB_SET]), str(labels.get(JOB_SET_UID, ""))
            if labels.get(JOB_SET_JOBS, "1") != "1" and annotations.get(f"{PREFIX}replicas") != "independent":
                job, index = owner, index_in_set(_number(labels.get(JOB_SET_INDEX)), index)
        elif labels.get(KUBEFLOW_OPERATOR) == MPI_OPERATOR and KUBEFLOW_JOB in labels:
            kind, owner, uid = "MPIJob", str(labels[KUBEFLOW_JOB]), ""
            job, role, index = owner, "ps", 0
    elif kind == "StatefulSet" and group == "apps":
        ordinal = _ORDINAL.search(name)
        index = _number(labels.get(POD_INDEX, ordinal[1] if ordinal else None))
        if (in_group := member_of(labels, owner, index)) is not None:
            kind, owner, uid = KIND, str(labels[SET_NAME]), ""
            job, index = job_of_group(owner, in_group[0]), in_group[1]
    if index is None or index > _HIGHEST_INDEX:
        return None
    return Identity(
        namespace=namespace,
        job=job,
        role=role,
        index=index,
        owner_kind=kind,
        owner_name=owner,
        owner_uid=uid,
    )


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def _mapping(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping under `key`; empty where there is none: manifests may leave out anything."""
    found = holder.get(key)
    return found if isinstance(found, dict) else {}
