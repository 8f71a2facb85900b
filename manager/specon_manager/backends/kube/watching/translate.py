"""Pods and their owner as the job that the core knows. Pure."""

import functools
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from specon_manager.backends.kube.admission.annotations import (
    WRITTEN_BY_US,
    AnnotationError,
    Options,
    read_options,
)
from specon_manager.backends.kube.owners.table import immovable_because
from specon_manager.backends.kube.watching.owner_info import OwnerInfo
from specon_manager.backends.kube.watching.slim import Detail, PodInfo
from specon_manager.backends.kube.watching.volumes import FREE, Verdict
from specon_manager.model.cluster import JobSpec, role_of
from specon_manager.model.constraints import ANYWHERE, Constraints
from specon_manager.model.resources import NOTHING, Resources

_GRACE: Final = 30.0
"""Seconds; what Kubernetes gives where nothing is said."""


def options_of(pod: Detail) -> Options:
    """Return what a pod's annotations say; those that cannot be read say nothing (admission refused them)."""
    # Without what differs from pod to pod: those of a kind are read once.
    return _read(tuple(sorted(each for each in pod.annotations.items() if each[0] not in WRITTEN_BY_US)))


@functools.lru_cache(maxsize=4096)
def _read(annotations: tuple[tuple[str, str], ...]) -> Options:
    try:
        return read_options(dict(annotations))
    except AnnotationError:
        return Options(migrate=False)


def spec_of(
    job: str, pods: Sequence[PodInfo], owner: OwnerInfo | None, verdicts: Mapping[str, Verdict]
) -> JobSpec:
    """Return the job `namespace/job` whose pods these are: at least one, all with an identity in it.

    Where pods differ, the latest counts. `verdicts` are those of the volumes, by pod UID; a pod without one
    is taken to be free, for the verdict is asked for again before a move. Only what all volumes have in
    common is a constraint of the job: the volumes of its other replicas may be elsewhere.
    """
    ordered = sorted(pods, key=lambda pod: (_detail(pod).created, pod.uid))
    named = set() if owner is None else {f"{job}/{role}/{index}" for role, index in owner.replicas}
    requests: dict[str, Resources] = {}
    for pod in ordered:
        replica = replica_of(pod)
        named.add(replica)
        requests[role_of(replica)] = pod.reserved
    latest = ordered[-1]
    detail = _detail(latest)
    options = options_of(detail)
    grace = detail.grace_seconds if options.grace_period is None else options.grace_period
    judged = [verdicts[pod.uid] for pod in ordered if pod.uid in verdicts and not pod.ended]
    return JobSpec(
        name=job,
        replicas=tuple(sorted(named, key=_by_role)),
        requests=requests.get("worker", requests.get("ps", NOTHING)),
        ps_requests=requests.get("ps"),
        job_class=options.job_class or "best-effort",
        utility=options.utility or 0.0,
        queue=options.queue or "",
        grace_seconds=grace,
        checkpointing=checkpointing(None if options.checkpoint is None else options.checkpoint.kind),
        migratable=options.migrate is not False,
        immovable=immovable_because(latest, owner, options)
        or next((verdict.immovable for verdict in judged if verdict.immovable), ""),
        placed_by="owner",
        lowest_cpu=None if detail.unweightable else options.min_cpu,
        constraints=_common(detail.constraints, judged),
    )


def constraints_with(pod: Detail, verdict: Verdict) -> Constraints:
    """Return what this one pod and its volumes ask of a node."""
    return _common(pod.constraints, [verdict])


def checkpointing(mode: str | None) -> Literal["asked", "on-termination", "none"]:
    """Return when the trainer saves for a move, from the annotation `specon.io/checkpoint`."""
    if mode == "none":
        return "none"
    return "on-termination" if mode == "sigterm" else "asked"


def replica_of(pod: PodInfo) -> str:
    """Return the name of the replica that the pod is an incarnation of."""
    identity = _detail(pod).identity
    assert identity is not None, f"{pod.namespace}/{pod.name} is no replica"
    return identity.replica


def _common(constraints: Constraints, verdicts: Sequence[Verdict]) -> Constraints:
    shared = (verdicts[0] if verdicts else FREE).terms
    volumes = tuple(each for each in shared if all(each in verdict.terms for verdict in verdicts))
    if constraints == ANYWHERE and not volumes:
        return ANYWHERE
    return Constraints(
        selector=constraints.selector,
        terms=constraints.terms,
        volumes=volumes,
        tolerations=constraints.tolerations,
    )


def _by_role(replica: str) -> tuple[str, int]:
    job, _, index = replica.rpartition("/")
    return job, int(index)


def _detail(pod: PodInfo) -> Detail:
    assert pod.detail is not None, f"{pod.namespace}/{pod.name} has no sidecar"
    return pod.detail
