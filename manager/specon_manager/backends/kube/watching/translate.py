"""Pods and their owner as the job that the core knows. Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.capability import Capability, capability
from specon_manager.backends.kube.objects.coupling import ALONE
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import Detail, PodInfo
from specon_manager.backends.kube.objects.volumes import FREE, Movability
from specon_manager.backends.kube.objects.ways import immovable_because, owner_immovable_because
from specon_manager.model.cluster import JobSpec, index_of, role_of
from specon_manager.model.constraints import ANYWHERE, Constraints
from specon_manager.model.resources import NOTHING, Resources, largest


def options_of(pod: Detail) -> Options:
    """Return what a pod's annotations say."""
    return pod.options


def is_told_by_owner(owner: OwnerInfo) -> bool:
    """Whether its job is known from the object alone: it wants a sidecar, and is held or may be scaled.

    Not where something else made the object, which decides: the Job of a JobSet is told as the JobSet's. That
    of a TrainJob is told by its JobSet, for the TrainJob does not know its pods.
    """
    if owner.controller and not (owner.kind == "JobSet" and owner.controller == f"TrainJob {owner.name}"):
        return False
    options = owner.options
    asked = options.queue is not None or options.max_workers is not None or options.min_workers is not None
    return bool(owner.job) and not owner.over and options.inject is True and asked


def spec_of_owner(
    owner: OwnerInfo, server: tuple[int, int] = (0, 0), *, known: JobSpec | None = None
) -> JobSpec:
    """Return the job of an owner that has no pods: not yet, or while it is suspended.

    `known` is the job last told of when there were some: they know more than the template (what the
    sidecar and their claims add, the value of their PriorityClass).
    """
    options = owner.options
    can = capability(owner, options, server)
    spec = JobSpec(
        name=owner.job_name,
        replicas=_names(owner.job_name, owner, can),
        requests=owner.worker_requests,
        ps_requests=owner.ps_requests,
        unlike=owner.unlike,
        immovable=owner_immovable_because(owner),
        placed_by="owner",
        bursts=owner.bursts,
        constraints=owner.constraints,
        **_read_annotations(options, owner.grace_seconds, owner.namespace),
        **_elastic(owner, can, options),
    )
    if known is None:
        return spec
    return msgspec.structs.replace(
        spec,
        requests=known.requests,
        ps_requests=known.ps_requests,
        unlike=known.unlike,
        priority=known.priority,
        bursts=known.bursts,
        lowest_cpu=known.lowest_cpu,
        constraints=known.constraints,
    )


def spec_of(
    job: str,
    pods: Sequence[PodInfo],
    owner: OwnerInfo | None,
    verdicts: Mapping[str, Movability],
    server: tuple[int, int] = (0, 0),
) -> JobSpec:
    """Return the job `namespace/job` whose pods these are: at least one, all with an identity in it.

    `server` is the version of the API server, (0, 0) where it is not known.

    Where pods differ, the latest counts. `verdicts` are those of the volumes, by pod UID; a pod without one
    is taken to be free, for the verdict is asked for again before a move. Only what all volumes have in
    common is a constraint of the job: the volumes of its other replicas may be elsewhere.
    """
    ordered = sorted(pods, key=lambda pod: (_detail(pod).created, pod.uid))
    requests: dict[str, Resources] = {}
    for pod in ordered:
        requests[role_of(replica_of(pod))] = pod.reserved
    latest = ordered[-1]
    detail = _detail(latest)
    options = detail.options
    if owner is not None:
        owner = _with_what_pods_say(owner, detail)
    unlike = () if owner is None or owner.job_name != job else _list_reserved(ordered, owner)
    if unlike:
        requests["worker"] = largest(amount for _, amount in unlike)
    can = capability(owner, options, server)
    named = {replica_of(pod) for pod in ordered} | set(_names(job, owner, can))
    judged = [verdicts[pod.uid] for pod in ordered if pod.uid in verdicts and not pod.ended]
    return JobSpec(
        name=job,
        replicas=tuple(sorted(named, key=_by_role)),
        requests=requests.get("worker", requests.get("ps", NOTHING)),
        ps_requests=requests.get("ps"),
        unlike=unlike,
        immovable=immovable_because(latest, owner, options)
        or next((verdict.immovable for verdict in judged if verdict.immovable), ""),
        placed_by="owner",
        priority=detail.priority,
        bursts=detail.bursts,
        unshareable=detail.unshareable,
        lowest_cpu=None if detail.unweightable else options.min_cpu,
        constraints=_common(detail.constraints, judged),
        **_read_annotations(options, detail.grace_seconds, latest.namespace),
        **_elastic(owner, can, options),
    )


def _list_reserved(ordered: Sequence[PodInfo], owner: OwnerInfo) -> tuple[tuple[int, Resources], ...]:
    """Return what its workers reserve from which index on, where their templates differ.

    A template knows less than its pods (what the sidecar adds). Where none of its own is there, what the
    pods of others have beyond their templates is added.
    """
    templates = dict(owner.unlike)
    firsts = tuple(templates)
    reserved: dict[int, Resources] = {}
    for pod in ordered:
        found = bisect_right(firsts, index_of(replica_of(pod)))
        reserved[firsts[found - 1] if found else 0] = pod.reserved
    added = largest(amount - templates[first] for first, amount in reserved.items() if first in templates)
    return tuple((first, reserved.get(first, amount + added)) for first, amount in owner.unlike)


def _read_annotations(options: Options, grace_seconds: float, namespace: str) -> dict[str, Any]:
    """Return what the annotations say of any job.

    Kinds are those of a namespace: another tenant's jobs of the same name teach nothing about its own.
    """
    return {
        "job_class": options.job_class or "best-effort",
        "utility": options.utility or 0.0,
        "queue": options.queue or "",
        "kind": f"{namespace}/{options.kind}" if options.kind else "",
        "grace_seconds": grace_seconds if options.grace_period is None else options.grace_period,
        "checkpointing": checkpointing(None if options.checkpoint is None else options.checkpoint.kind),
        "migratable": options.migrate is not False,
        "share": options.share or "none",
        "gpu_memory": options.gpu_memory or 0.0,
        "on_hang": options.on_hang or "report",
    }


def _elastic(owner: OwnerInfo | None, can: Capability, options: Options) -> dict[str, Any]:
    """Return whether the job trains as one, and how it is held and scaled, or why it is not."""
    held = bool(options.queue) and not can.unholdable
    as_one = ALONE if owner is None else owner.coupling(options)
    changes = held or can.resizing != "none"
    said: dict[str, Any] = {
        "coupled": as_one.coupled or (changes and options.replicas != "independent"),
        "savers": options.savers or "lead",
        "coupling": as_one.why,
        "held": held,
        "resizing": can.resizing,
        "unscalable": can.unscalable,
        "unpreemptible": can.unpreemptible,
        "top_down": can.top_down,
    }
    if owner is not None and can.resizing != "none":
        said |= {"workers": max(1, owner.asked), "min_workers": can.fewest}
        said |= {"headroom": owner.headroom, "no_headroom": owner.no_headroom}
    elif options.min_workers is not None or options.max_workers is not None:
        said |= {"headroom": 0, "no_headroom": can.unscalable}
    if owner is not None and changes:
        said["present"] = owner.workers
    return said


def _names(job: str, owner: OwnerInfo | None, can: Capability) -> tuple[str, ...]:
    """Return the names of all replicas that the job may have: absent workers are some of them."""
    if owner is None:
        return ()
    members = owner.replicas
    if can.resizing != "none":
        members = owner.named(max(can.most or 0, owner.workers, owner.asked))
    names = (f"{job}/{role}/{index}" for role, index in members)
    return tuple(sorted(names, key=_by_role))


def _with_what_pods_say(owner: OwnerInfo, pod: Detail) -> OwnerInfo:
    """Return the owner with the others that are seen to manage its pods."""
    kueue, volcano = owner.kueue or pod.kueue, owner.volcano or pod.volcano
    if (kueue, volcano) == (owner.kueue, owner.volcano):
        return owner
    return msgspec.structs.replace(owner, kueue=kueue, volcano=volcano)


def constraints_with(pod: Detail, verdict: Movability) -> Constraints:
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


def _common(constraints: Constraints, verdicts: Sequence[Movability]) -> Constraints:
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
