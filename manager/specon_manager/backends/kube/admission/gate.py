"""The scheduling gate of pods whose job waits for its admission: put on, left out, or taken away. Pure.

The annotation `specon.io/queue` asks for it. A gated pod has its name and its volumes and takes no room: the
scheduler leaves it alone until the manager removes the gate, together with the choice of the node
(KEP-3521, "Pod Scheduling Readiness"; KEP-3838 for what may be changed of a gated pod). So has a pod that a
move awaits: its gate goes once the room that is kept for it is its own.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from specon_manager.backends.kube.admission.injection import HOSTNAME, Injection
from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE, PINNED, QUEUE, REPLICA
from specon_manager.backends.kube.objects.capability import SINCE
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.identity import controller_of, identity_of
from specon_manager.backends.kube.transport.resources import Object

_KUEUE: Final = "kueue.x-k8s.io/"
_VOLCANO: Final = ("volcano.sh/", "scheduling.volcano.sh/", "scheduling.k8s.io/group-name")
_VOLCANO_SCHEDULER: Final = "volcano"
_MIRROR: Final = "kubernetes.io/config.mirror"


def gate_pod(injected: Injection, namespace: str, pins: Mapping[str, str]) -> Injection:
    """Return the pod with our gate where it is to be held, else without it and a word why it is not.

    A pod whose replica is pinned (`pins`: hostname by replica) belongs to a job that has been admitted or
    moves: it is let through to its node. Twice gives the same as once.
    """
    pod = injected.pod
    why = unheld(pod, namespace)
    spec = mapping(pod.get("spec"))
    pinned = _is_pinned(pod, spec, pins)
    before = mappings(spec.get("schedulingGates"))
    gates = [gate for gate in before if gate.get("name") != ADMISSION_GATE]
    if not why and not pinned:
        gates.append({"name": ADMISSION_GATE})
    if why:
        said = f"{QUEUE}: the pod is not held until its job is admitted: {why}"
        injected = Injection(pod, (*injected.warnings, said))
    if {gate.get("name") for gate in gates} == {gate.get("name") for gate in before}:
        return injected  # also in its order: a second call must change nothing
    left = {key: value for key, value in spec.items() if key != "schedulingGates"}
    made = {**left, "schedulingGates": gates} if gates else left
    return Injection({**pod, "spec": made}, injected.warnings)


def gate_arrival(injected: Injection, arriving: Collection[str]) -> Injection:
    """Return the pod with our gate where a move awaits it: it is let go once its room is its own.

    Twice gives the same as once.
    """
    spec = mapping(injected.pod.get("spec"))
    annotations = mapping(mapping(injected.pod.get("metadata")).get("annotations"))
    gates = mappings(spec.get("schedulingGates"))
    chosen = mapping(spec.get("nodeSelector")).get(HOSTNAME)
    ours = annotations.get(REPLICA) in arriving and chosen and annotations.get(PINNED) == chosen
    if not ours or spec.get("nodeName") or any(gate.get("name") == ADMISSION_GATE for gate in gates):
        return injected
    made = {**spec, "schedulingGates": [*gates, {"name": ADMISSION_GATE}]}
    return Injection({**injected.pod, "spec": made}, injected.warnings)


def unheld(pod: Object, namespace: str) -> str:
    """Return why a pod is never held, whatever queue it names, in words; empty where it is."""
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    if spec.get("nodeName"):
        return f"spec.nodeName: {str(spec['nodeName'])[:80]!r} gives it a node already"
    if _MIRROR in mapping(metadata.get("annotations")):
        return "it is a static pod, which its kubelet runs"
    if other := other_queue(pod):
        return f"{other} decides when it starts"
    owner = controller_of(pod)
    if owner is None:
        return "nothing that can be suspended creates it; have a Job create it"
    identity = identity_of({**pod, "metadata": {**metadata, "namespace": namespace}})
    group = str(owner.get("apiVersion", "")).partition("/")[0]
    known = identity is not None and identity.owner_kind in SINCE
    if not known or (owner.get("kind") == "Job" and group != "batch"):
        kind = owner.get("kind") if identity is None else identity.owner_kind
        return f"a {str(kind)[:80]} is not held; those that are: {', '.join(sorted(SINCE))}"
    return ""


def other_queue(pod: Object) -> str:
    """Return which other queueing controller decides when this pod starts; empty where none does."""
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    marks = [
        *mapping(metadata.get("labels")),
        *mapping(metadata.get("annotations")),
        *(str(gate.get("name")) for gate in mappings(spec.get("schedulingGates"))),
    ]
    if any(mark.startswith(_KUEUE) for mark in marks):
        return "Kueue"
    if spec.get("schedulerName") == _VOLCANO_SCHEDULER or any(mark.startswith(_VOLCANO) for mark in marks):
        return "Volcano"
    return ""


def _is_pinned(pod: Object, spec: Mapping[str, Any], pins: Mapping[str, str]) -> bool:
    """Whether the pod has the node that is decided for its replica."""
    replica = mapping(mapping(pod.get("metadata")).get("annotations")).get(REPLICA)
    node = pins.get(str(replica))
    return node is not None and mapping(spec.get("nodeSelector")).get(HOSTNAME) == node
