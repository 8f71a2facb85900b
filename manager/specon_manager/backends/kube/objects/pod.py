"""Pods and nodes with only the needed fields: other people's pods come by the ten thousand. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects import annotation_keys as names
from specon_manager.backends.kube.objects.annotation_reader import options_said
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.identity import Identity, controller_of, identity_of
from specon_manager.backends.kube.objects.node_warnings import maintenance_at, warnings_of
from specon_manager.backends.kube.objects.quantities import amounts_of, requested_amounts, resources_of
from specon_manager.backends.kube.objects.scheduling import HOSTNAME, constraints_of, taints_of
from specon_manager.backends.kube.objects.selectors import selects
from specon_manager.backends.kube.objects.time_share import why_no_turns
from specon_manager.backends.kube.objects.weights import bursts, read_whole_cpu, requested_cpu, why_not
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.constraints import Constraints, Taint
from specon_manager.model.resources import NOTHING, Resources

PLACEHOLDER: Final = f"{names.PREFIX}placeholder"
"""Label of a pod that holds room for a move; its value names the move."""
MOVE: Final = f"{names.PREFIX}move"
"""Annotation of such a pod: the id of the move, whole."""
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_VOLCANO: Final = "volcano"
_POD_GROUP: Final = "scheduling.k8s.io/group-name"

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_TRAINER: Final = "SPECON_TRAINER"
_USUAL_TRAINERS: Final = ("tensorflow", "pytorch")
# Equal strings and records are kept once: ten thousand pods name a hundred nodes and a dozen sizes.
_KEPT: dict[Any, Any] = {}
_MOST_KEPT: Final = 20_000


class Owner(Struct, frozen=True, gc=False):
    """What creates the pods of a kind."""

    kind: str
    name: str
    uid: str
    group: str = ""


class Mount(Struct, frozen=True, gc=False):
    """A volume where the trainer's container has it."""

    path: str
    source: str
    """Which kind of volume: `persistentVolumeClaim`, `emptyDir`, `nfs`, ..."""
    claim: str = ""
    """Name of the claim, where it is one."""


class Detail(Struct, frozen=True, kw_only=True):
    """The facts about a pod that has a sidecar, or that holds room, beside those about every pod."""

    identity: Identity | None
    options: Options
    """What its annotations say, without what we wrote ourselves."""
    created: str
    owner: Owner | None
    constraints: Constraints
    pinned: str
    """The hostname that we wrote into its node selector; empty where we wrote none."""
    mounts: tuple[Mount, ...]
    claims: tuple[str, ...]
    """Every claim that the pod uses, in whichever container."""
    grace_seconds: float
    container: str
    """Name of the trainer's container."""
    trains: bool
    """Whether it runs."""
    exit_code: int | None
    """Of the trainer's container, once it has ended."""
    ended_before_told: bool
    """Whether the trainer's container had ended before the pod was told to."""
    disrupted: bool
    unschedulable: str
    """What the scheduler says, where it found no node; else empty."""
    waiting: str
    """Why the trainer's container waits, e.g. ImagePullBackOff; empty where it does not."""
    waiting_message: str
    reason: str
    kueue: bool
    placeholder: str
    move: str
    volcano: str = ""
    """By what Volcano is known to schedule it; empty where it does not."""
    gated: bool = False
    """Whether it waits for our gate: it is no incarnation yet."""
    priority: int = 0
    """Of its PriorityClass, as the API server resolved it."""
    whole_cpu: float | None = None
    """What the trainer requested of processors before they were lowered in place; None: they were not."""
    trainer_cpu: float = 0.0
    """What it requests now, cores."""
    bursts: bool = False
    """Whether it may use more of them than it requests."""
    unweightable: str = ""
    """Why that cannot be changed in place; empty where it can."""
    unshareable: str = ""
    """Why it can take no turns on its GPUs though its owner asks for that; empty where it can."""


class PodInfo(Struct, frozen=True, kw_only=True):
    """One pod; `detail` only for those that matter by themselves."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    phase: str = "Pending"
    requests: Resources = NOTHING
    deleting: bool = False
    wants_sidecar: bool = False
    """Annotated, but without a sidecar."""
    would_be: str = ""
    """Such a pod's replica, where it can be told."""
    detail: Detail | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def reserved(self) -> Resources:
        """What it requests, with the processors that it gave up in place: they stay its own."""
        detail = self.detail
        if detail is None or detail.whole_cpu is None:
            return self.requests
        cpu = self.requests.cpu + max(0.0, detail.whole_cpu - detail.trainer_cpu)
        return Resources(cpu=round(cpu, 6), memory=self.requests.memory, gpu=self.requests.gpu)

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good; the object may still be there."""
        return self.phase in _TERMINAL


class NodeInfo(Struct, frozen=True, kw_only=True):
    """One node."""

    uid: str
    name: str
    allocatable: Resources
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    ready: bool
    """Whether its kubelet answers and nobody cordoned it."""
    warnings: tuple[str, ...] = ()
    """By what it is announced that it is to be emptied."""
    leaves_at: float | None = None
    """When that begins, Unix seconds; None where nobody says."""

    @property
    def hostname(self) -> str:
        """The value by which pods are pinned to it."""
        return self.labels.get(HOSTNAME, self.name)


def slim_pod(
    pod: Object, namespaces: frozenset[str] = frozenset(), selected: Mapping[str, Any] | None = None
) -> PodInfo:
    """Return the needed fields of a pod; those outside of `namespaces` (none given: all) are other people's.

    A pod whose labels the LabelSelector `selected` means matters by itself, also without a sidecar.
    """
    metadata, spec, status = mapping(pod.get("metadata")), mapping(pod.get("spec")), _status(pod)
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    namespace = str(metadata.get("namespace", ""))
    mine = not namespaces or namespace in namespaces
    injected = labels.get(names.SIDECAR_LABEL) == names.INJECTED
    wants = mine and not injected and annotations.get(names.INJECT) == "true"
    named = selected is not None and selects(selected, labels, unknown=False)
    detailed = mine and (injected or named or PLACEHOLDER in labels)
    return PodInfo(
        uid=str(metadata.get("uid", "")),
        namespace=_keep(namespace),
        name=str(metadata.get("name", "")),
        node=_keep(str(spec.get("nodeName") or "")),
        phase=_keep(str(status.get("phase") or "Pending")),
        requests=_keep(resources_of(requested_amounts(spec))),
        deleting=metadata.get("deletionTimestamp") is not None,
        wants_sidecar=wants,
        would_be=_would_be(pod) if wants else "",
        detail=_detail(pod) if detailed else None,
    )


def _would_be(pod: Object) -> str:
    identity = identity_of(pod)
    return "" if identity is None else identity.replica


def slim_node(node: Object) -> NodeInfo:
    """Return the needed fields of a node."""
    metadata, spec, status = mapping(node.get("metadata")), mapping(node.get("spec")), _status(node)
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in mappings(status.get("conditions"))
    )
    labels = mapping(metadata.get("labels"))
    return NodeInfo(
        uid=str(metadata.get("uid", "")),
        name=str(metadata.get("name", "")),
        allocatable=resources_of(amounts_of(status.get("allocatable"))),
        labels={str(key): str(value) for key, value in labels.items()},
        taints=taints_of(spec.get("taints")),
        ready=ready and not spec.get("unschedulable", False),
        warnings=warnings_of(node),
        leaves_at=maintenance_at(node),
    )


def trainer_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the container that trains: marked, named by annotation, known by name, or the first; else {}."""
    containers = mappings(mapping(pod.get("spec")).get("containers"))
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    for container in containers:
        if any(each.get("name") == _TRAINER for each in mappings(container.get("env"))):
            return container
    wanted = (annotations.get(f"{names.PREFIX}container"), *_USUAL_TRAINERS)
    for name in wanted:
        for container in containers:
            if name is not None and container.get("name") == name:
                return container
    return containers[0] if containers else {}


def _detail(pod: Object) -> Detail:
    metadata, spec, status = mapping(pod.get("metadata")), mapping(pod.get("spec")), _status(pod)
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    trainer = trainer_of(pod)
    state = _state_of(status, str(trainer.get("name", "")))
    waiting, ended = mapping(state.get("waiting")), mapping(state.get("terminated"))
    conditions = {str(each.get("type")): each for each in mappings(status.get("conditions"))}
    scheduled = conditions.get("PodScheduled", {})
    unplaced = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    exit_code = ended.get("exitCode")
    grace = spec.get("terminationGracePeriodSeconds", 30)
    pinned = str(annotations.get(names.PINNED, ""))
    return Detail(
        identity=identity_of(pod),
        options=options_said(annotations),
        created=str(metadata.get("creationTimestamp", "")),
        owner=_owner(pod),
        constraints=_keep(constraints_of(spec, pinned=pinned)),
        pinned=pinned,
        mounts=_mounts(spec, trainer),
        claims=tuple(
            str(mapping(volume["persistentVolumeClaim"]).get("claimName", ""))
            for volume in mappings(spec.get("volumes"))
            if "persistentVolumeClaim" in volume
        ),
        grace_seconds=float(grace) if isinstance(grace, int | float) else 30.0,
        container=str(trainer.get("name", "")),
        trains="running" in state,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        ended_before_told=_has_ended_before_told(metadata, ended),
        disrupted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        unschedulable=str(scheduled.get("message") or "no node fits") if unplaced else "",
        waiting=str(waiting.get("reason", "")),
        waiting_message=str(waiting.get("message", ""))[:300],
        reason=str(status.get("reason") or ended.get("reason") or ""),
        kueue=KUEUE_QUEUE in labels or "kueue.x-k8s.io/managed" in labels,
        placeholder=str(labels.get(PLACEHOLDER, "")),
        move=str(annotations.get(MOVE, "")),
        volcano=volcano_in(spec, annotations),
        gated=any(each.get("name") == names.ADMISSION_GATE for each in mappings(spec.get("schedulingGates"))),
        priority=_priority(spec.get("priority")),
        whole_cpu=read_whole_cpu(annotations.get(names.WHOLE_CPU)),
        trainer_cpu=requested_cpu(trainer),
        bursts=bursts(trainer),
        unweightable=why_not(spec, status, trainer),
        unshareable=why_no_turns(spec, trainer, _sidecar(spec)) if names.SHARE in annotations else "",
    )


def _sidecar(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (each for each in mappings(spec.get("initContainers")) if each.get("name") == names.SIDECAR_NAME)
    return next(found, {})


def volcano_in(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    """Return by what Volcano is known to schedule pods of this specification; empty where it does not."""
    if spec.get("schedulerName") == _VOLCANO:
        return "the scheduler of its pods is volcano"
    return f"its pods are in the group {annotations[_POD_GROUP]}" if _POD_GROUP in annotations else ""


def _priority(given: object) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) else 0


def _mounts(spec: Mapping[str, Any], trainer: Mapping[str, Any]) -> tuple[Mount, ...]:
    """Return the volumes of the trainer's container, the longest paths first."""
    volumes = {str(volume.get("name")): volume for volume in mappings(spec.get("volumes"))}
    found = []
    for mount in mappings(trainer.get("volumeMounts")):
        volume = volumes.get(str(mount.get("name")), {})
        source = next((key for key in volume if key != "name"), "")
        claim = mapping(volume.get("persistentVolumeClaim")).get("claimName", "")
        found.append(Mount(path=str(mount.get("mountPath", "")), source=source, claim=str(claim)))
    return tuple(sorted(found, key=lambda mount: (-len(mount.path), mount.path)))


def _state_of(status: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    """Return the state of a container; that of one that is being restarted is its waiting."""
    for each in mappings(status.get("containerStatuses")):
        if each.get("name") == container:
            return mapping(each.get("state"))
    return {}


def _has_ended_before_told(metadata: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    """Whether the container ended before the deletion was asked for; the API's times are whole seconds."""
    until, finished = _time(metadata.get("deletionTimestamp")), _time(ended.get("finishedAt"))
    if finished is None:
        return False
    if until is None:
        return True
    grace = metadata.get("deletionGracePeriodSeconds")
    told = until - (float(grace) if isinstance(grace, int | float) else 0.0)
    return finished < told


def _time(given: object) -> float | None:
    if not isinstance(given, str):
        return None
    try:
        return datetime.fromisoformat(given).timestamp()
    except ValueError:
        return None


def _owner(pod: Object) -> Owner | None:
    reference = controller_of(pod)
    if reference is None:
        return None
    group = str(reference.get("apiVersion", ""))
    return Owner(
        kind=str(reference.get("kind", "")),
        name=str(reference.get("name", "")),
        uid=str(reference.get("uid", "")),
        group=group.partition("/")[0] if "/" in group else "",
    )


def _keep(value: Any) -> Any:
    if len(_KEPT) > _MOST_KEPT:
        _KEPT.clear()
    return _KEPT.setdefault(value, value)


def _status(obj: Object) -> Mapping[str, Any]:
    return mapping(obj.get("status"))
