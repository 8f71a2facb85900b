"""A LeaderWorkerSet of one group as one gang: the numbers of its pods, and what stands against it. Pure.

Its leaders are the pods of a StatefulSet of its name. Each leader owns the StatefulSet of its workers, which
has the leader's name. `replicas: 0` ends the leader and, once that is gone, its workers; `replicas: 1` makes
the group anew, under the same names.

Sources: LeaderWorkerSet v1 at 060ab4d (August 2026): `leaderworkerset_controller.go`, `pod_controller.go`,
and its webhooks, which let `replicas` change and be 0.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from specon_manager.backends.kube.objects.annotation_reader import options_said
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.fields import count, mapping
from specon_manager.backends.kube.objects.quantities import requested_amounts, resources_of
from specon_manager.backends.kube.objects.scheduling import constraints_of
from specon_manager.model.resources import Resources

KIND: Final = "LeaderWorkerSet"
_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
SET_NAME: Final = f"{_PREFIX}name"
"""The label of each pod that names its LeaderWorkerSet."""
WORKER_INDEX: Final = f"{_PREFIX}worker-index"
"""That of its index in its group, which the webhook of LeaderWorkerSets adds to a worker."""
_EXCLUSIVE: Final = (f"{_PREFIX}exclusive-topology", f"{_PREFIX}subgroup-exclusive-topology")
_RECREATES: Final = frozenset({"", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart"})
_GROUP: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,5})")


def member_of(labels: Mapping[str, Any], stateful_set: str, ordinal: int | None) -> tuple[int, int] | None:
    """Return the group of a pod and its index in that, 0 for the leader; None for a pod of no group.

    `stateful_set` is the one that creates the pod, `ordinal` the pod's number in it. Labels that the webhook
    of LeaderWorkerSets adds are not needed: ours may be asked first.
    """
    name = labels.get(SET_NAME)
    if ordinal is None or not isinstance(name, str) or not name:
        return None
    if stateful_set == name:
        return ordinal, 0
    found = _GROUP.fullmatch(stateful_set)
    if found is None or found[1] != name or ordinal < 1:
        return None
    return int(found[2]), ordinal


def job_of_group(name: str, group: int) -> str:
    """Return the job, without its namespace, that a group is: the first has the name of its set."""
    return f"{name}-{group}" if group else name


def set_of(stateful_set: str, controller: str) -> str:
    """Return the name of the LeaderWorkerSet that a StatefulSet belongs to; empty where it is of none.

    `controller` is kind and name of what owns the StatefulSet: the set itself, or a leader of its own name.
    """
    kind, _, owner = controller.partition(" ")
    if kind == KIND:
        return owner
    found = _GROUP.fullmatch(stateful_set) if kind == "Pod" and owner == stateful_set else None
    return "" if found is None else found[1]


def templates_of(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the templates of the leader and of a worker, which are one where the leader has none."""
    group = mapping(spec.get("leaderWorkerTemplate"))
    worker = mapping(group.get("workerTemplate"))
    leader = group.get("leaderTemplate")
    return (worker if leader is None else mapping(leader)), worker


def requests_of(spec: Mapping[str, Any]) -> tuple[tuple[int, Resources], ...]:
    """Return what a pod requests from which index on, empty where leader and workers request the same."""
    leader, worker = (
        resources_of(requested_amounts(mapping(each.get("spec")))) for each in templates_of(spec)
    )
    return () if leader == worker else ((0, leader), (1, worker))


def why_not_as_one(leader_worker_set: Mapping[str, Any]) -> str:
    """Return why it cannot come and go as one, in words that follow its name; empty where it can."""
    spec = mapping(leader_worker_set.get("spec"))
    group = mapping(spec.get("leaderWorkerTemplate"))
    annotations = mapping(mapping(leader_worker_set.get("metadata")).get("annotations"))
    if (groups := count(spec.get("replicas"), 1)) > 1:
        return f"has {groups} groups (replicas): only one that is alone can leave and come again"
    if group.get("subGroupPolicy") is not None:
        return "has subgroups (subGroupPolicy), each of which may need nodes of its own"
    if found := next((key for key in _EXCLUSIVE if key in annotations), ""):
        return f"has nodes of its own ({found}): its controller chooses those of the workers"
    if str(policy := group.get("restartPolicy") or "") not in _RECREATES:
        return f"restarts its pods one by one (restartPolicy: {str(policy)[:40]}), not the group"
    retention = mapping(group.get("persistentVolumeClaimRetentionPolicy"))
    if "Delete" in (retention.get("whenScaled"), retention.get("whenDeleted")):
        return "loses its volumes when its pods go (persistentVolumeClaimRetentionPolicy)"
    leader, worker = templates_of(spec)
    if constraints_of(mapping(leader.get("spec"))) != constraints_of(mapping(worker.get("spec"))):
        return "has a leader that may not run on the same nodes as its workers"
    if _options_of(leader) != _options_of(worker):
        return "has a leader and workers with different annotations"
    return ""


def _options_of(template: Mapping[str, Any]) -> Options:
    """Return what the annotations of a template say, but which container trains: a leader may have more."""
    said = options_said(mapping(mapping(template.get("metadata")).get("annotations")))
    return msgspec.structs.replace(said, container=None)
