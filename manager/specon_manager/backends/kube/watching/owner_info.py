"""What creates pods (Job, StatefulSet, TFJob, PyTorchJob, JobSet), with only what is needed of it. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.admission.annotations import SUSPENDED_FOR
from specon_manager.backends.kube.admission.identity import controller_of, kubeflow_member
from specon_manager.backends.kube.transport.resources import (
    JOB_SETS,
    JOBS,
    PYTORCH_JOBS,
    STATEFUL_SETS,
    TF_JOBS,
    Resource,
)
from specon_manager.backends.kube.watching.fields import count, mapping, mappings
from specon_manager.backends.kube.watching.slim import KUEUE_QUEUE

Object = dict[str, Any]

_OWN_CONTROLLERS: Final = frozenset(
    {
        "",
        "kubernetes.io/job-controller",
        "kubeflow.org/training-operator",
        "jobset.sigs.k8s.io/jobset-controller",
    }
)
_MOST: Final = 10_000
"""Replicas that are named beforehand; further ones are named when they are seen."""


class OwnerInfo(Struct, frozen=True, kw_only=True):
    """One object that creates pods."""

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: tuple[tuple[str, int], ...] = ()
    """Role and index of each replica that it is to have; empty where only its pods tell."""
    at_once: int = 1
    """How many pods it has at the same time."""
    suspended: bool = False
    suspended_for: str = ""
    """The move for which we suspended it."""
    over: bool = False
    """Whether it completed or failed: it creates no more pods."""
    deleting: bool = False
    ignores_disruptions: bool = False
    """Whether a pod that is evicted is replaced without a count."""
    kueue: bool = False
    managed_by: str = ""
    """Another controller that is in charge of it, where its own is not."""
    controller: str = ""
    """Kind and name of what owns it, e.g. `TrainJob bert`."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def slim_job(job: Object) -> OwnerInfo:
    """Return what is needed of a batch/v1 Job."""
    spec = mapping(job.get("spec"))
    parallelism, completions = count(spec.get("parallelism"), 1), count(spec.get("completions"), 1)
    indexed = spec.get("completionMode") == "Indexed"
    rules = mappings(mapping(spec.get("podFailurePolicy")).get("rules"))
    ignores = any(
        rule.get("action") == "Ignore"
        and any(
            each.get("type") == "DisruptionTarget" and each.get("status", "True") == "True"
            for each in mappings(rule.get("onPodConditions"))
        )
        for rule in rules
    )
    return _owner(
        "Job",
        job,
        replicas=_workers(completions if indexed else 1),
        at_once=min(parallelism, completions) if spec.get("completions") is not None else parallelism,
        suspended=spec.get("suspend") is True,
        ignores_disruptions=ignores,
        managed_by=_other(spec.get("managedBy")),
    )


def slim_stateful_set(stateful_set: Object) -> OwnerInfo:
    """Return what is needed of an apps/v1 StatefulSet."""
    spec = mapping(stateful_set.get("spec"))
    size = count(spec.get("replicas"), 1)
    first = count(mapping(spec.get("ordinals")).get("start"), 0)
    replicas = tuple(("worker", first + index) for index in range(min(size, _MOST)))
    return _owner("StatefulSet", stateful_set, replicas=replicas, at_once=size, ignores_disruptions=True)


def slim_tf_job(job: Object) -> OwnerInfo:
    """Return what is needed of a kubeflow.org/v1 TFJob."""
    return _kubeflow("TFJob", job, "tfReplicaSpecs")


def slim_pytorch_job(job: Object) -> OwnerInfo:
    """Return what is needed of a kubeflow.org/v1 PyTorchJob."""
    return _kubeflow("PyTorchJob", job, "pytorchReplicaSpecs")


def slim_job_set(job_set: Object) -> OwnerInfo:
    """Return what is needed of a JobSet; its replicas have the names of its child Jobs: their pods tell."""
    spec = mapping(job_set.get("spec"))
    at_once = 0
    for each in mappings(spec.get("replicatedJobs")):
        child = mapping(mapping(each.get("template")).get("spec"))
        at_once += count(each.get("replicas"), 1) * count(child.get("parallelism"), 1)
    return _owner(
        "JobSet",
        job_set,
        at_once=at_once,
        suspended=spec.get("suspend") is True,
        managed_by=_other(spec.get("managedBy")),
    )


OWNER_RESOURCES: Final[Mapping[str, tuple[Resource, Callable[[Object], OwnerInfo]]]] = {
    "Job": (JOBS, slim_job),
    "StatefulSet": (STATEFUL_SETS, slim_stateful_set),
    "TFJob": (TF_JOBS, slim_tf_job),
    "PyTorchJob": (PYTORCH_JOBS, slim_pytorch_job),
    "JobSet": (JOB_SETS, slim_job_set),
}
"""Which resource each kind is, and how it is slimmed."""


def _kubeflow(kind: str, job: Object, field: str) -> OwnerInfo:
    spec = mapping(job.get("spec"))
    policy = mapping(spec.get("runPolicy"))
    members: list[tuple[str, int]] = []
    total = 0
    for replica_type, of_type in sorted(mapping(spec.get(field)).items()):
        size = count(mapping(of_type).get("replicas"), 1)
        total += size
        named = (kubeflow_member(replica_type, index) for index in range(min(size, _MOST)))
        members += [member for member in named if member is not None]
    return _owner(
        kind,
        job,
        replicas=tuple(sorted(members)),
        at_once=total,
        suspended=policy.get("suspend") is True,
        managed_by=_other(policy.get("managedBy")),
    )


def _owner(kind: str, obj: Object, **known: Any) -> OwnerInfo:
    metadata, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    controller = controller_of(obj)
    over = any(
        each.get("type") in {"Complete", "Completed", "Succeeded", "Failed"} and each.get("status") == "True"
        for each in mappings(status.get("conditions"))
    )
    return OwnerInfo(
        kind=kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        suspended_for=str(annotations.get(SUSPENDED_FOR, "")),
        over=over and kind != "StatefulSet",
        deleting=metadata.get("deletionTimestamp") is not None,
        kueue=KUEUE_QUEUE in labels,
        controller="" if controller is None else f"{controller.get('kind')} {controller.get('name')}",
        **known,
    )


def _workers(size: int) -> tuple[tuple[str, int], ...]:
    return tuple(("worker", index) for index in range(min(size, _MOST)))


def _other(given: object) -> str:
    name = str(given or "")
    return "" if name in _OWN_CONTROLLERS else name
