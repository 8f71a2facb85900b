"""The pods of one job, who holds its name, and what the end of one of them tells. Pure.

The holder is the owner whose pods they are; of two that have the same name it is the one that was first.
"""

from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.identity import Identity
from specon_manager.backends.kube.objects.names import EARLIER_OWNER
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import ReplicaGone

_KILLED: Final = 137
"""The exit code of a process that SIGKILL ended."""
BARE: Final = "Pod"
_ABOVE: Final = "TrainJob"
"""Its pods are those of a JobSet, which is their holder."""


class JobPods(Struct, kw_only=True):
    """The pods of one job, and the events told of it."""

    name: str
    holder: tuple[str, str] | None = None
    """Kind and UID of the owner whose pods these are; a bare pod's UID changes from move to move."""
    pods: dict[str, PodInfo] = {}
    """By UID, those of the holder and those of strangers."""
    claimants: dict[str, dict[str, PodInfo]] = {}
    """The same by replica: a job may have thousands of pods."""
    gone: dict[str, PodInfo] = {}
    """Pods that vanished since events were taken the last time, as they were last."""
    told: JobSpec | None = None
    template: object = None
    """What the owner's template asked for when `told` was made; pods know more, as long as it is the same."""
    dirty: set[str] = set()
    """Replicas that changed."""


def restore_holder(job: JobPods, spec: JobSpec) -> None:
    """Let the owner keep the name that had it when an earlier manager wrote the job down.

    Another one that has come since has another job. The pods of a TrainJob do not name it, but its JobSet.
    """
    written = spec.template.get(EARLIER_OWNER)
    if written is None:
        job.template = ()  # what its pods asked for was not written down
    kind, uid = written if isinstance(written, list | tuple) and len(written) == 2 else ("", "")  # noqa: PLR2004  (kind and UID)
    if uid and kind not in {BARE, _ABOVE}:
        job.holder = str(kind), str(uid)


def tell_gone(replica: str, uid: str, pod: PodInfo | None, *, told_to_end: bool = False) -> ReplicaGone:
    """Return the end of an incarnation; `pod` is its last known form, None where nobody saw its end.

    `told_to_end`: whether all of its job was, by us. One that fails because the others went before it does
    not crash.
    """
    if pod is None or pod.detail is None:
        return ReplicaGone(replica=replica, incarnation=uid, reason="no trace of it is left")
    detail = pod.detail
    finished = detail.exit_code == 0 and detail.ended_before_told
    evicted = (pod.deleting or detail.disrupted or not pod.ended or told_to_end) and not finished
    said = "evicted" if evicted else pod.phase.lower()
    return ReplicaGone(
        replica=replica,
        incarnation=uid,
        exit_code=detail.exit_code,
        killed=evicted and detail.exit_code == _KILLED,
        evicted=evicted,
        reason=f"{said}: {detail.reason}" if detail.reason else said,
    )


def find_identity(pod: PodInfo) -> Identity | None:
    """Return the replica and the owner that a pod stands for; None where it is none of ours."""
    return None if pod.detail is None or pod.detail.placeholder else pod.detail.identity


def find_replica(pod: PodInfo) -> str:
    """Return the name of the replica that a pod is; empty where it is none."""
    identity = find_identity(pod)
    return "" if identity is None else identity.replica


def age_of(pod: PodInfo) -> tuple[str, str]:
    """Return the order of pods by their creation, the oldest first."""
    return ("" if pod.detail is None else pod.detail.created), pod.uid
