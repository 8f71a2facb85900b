"""What every manager knows of pods with a sidecar, of nodes and of disruption budgets. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import (
    EVICT_ONLY,
    IN_PROGRESS,
    INJECTED,
    SIDECAR_LABEL,
)
from specon_manager.backends.kube.objects.annotation_reader import options_said
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.identity import controller_of, identity_of
from specon_manager.backends.kube.objects.node_warnings import warnings_of
from specon_manager.backends.kube.objects.scheduling import taints_of, tolerations_of
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.constraints import Constraints, Taint, Toleration, objection

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class PodFacts(Struct, frozen=True, kw_only=True, gc=False):
    """A pod with a sidecar."""

    uid: str
    namespace: str
    name: str
    node: str
    replica: str
    """Empty where it cannot be told."""
    ended: bool
    leaving: bool
    """Whether it was told to end."""
    owned: bool
    """Whether somebody creates the next one when it is gone: a bare pod has no owner."""
    movable: bool
    """Whether its owner lets it be moved at all."""
    patience: float | None
    """How long its eviction may be put off, seconds; None: as long as the settings say."""
    marks: tuple[str, str]
    """The values of `EVICT_ONLY` and `IN_PROGRESS`; empty where there is none."""
    tolerations: tuple[Toleration, ...]
    budgeted: Mapping[str, Any]
    """What a disruption budget looks at."""


class NodeFacts(Struct, frozen=True, kw_only=True, gc=False):
    """A node."""

    uid: str
    name: str
    emptied: bool
    """Whether it is cordoned, or about to be removed."""
    taints: tuple[Taint, ...]

    def drives_out(self, pod: PodFacts) -> bool:
        """Whether the pod is to leave: the node is emptied, or has a taint that the pod does not tolerate."""
        if self.emptied:
            return True
        return objection({}, self.name, self.taints, Constraints(tolerations=pod.tolerations)) is not None


class BudgetFacts(Struct, frozen=True, kw_only=True, gc=False):
    """A PodDisruptionBudget."""

    uid: str
    namespace: str
    budget: Object


def pod_facts(pod: Object) -> PodFacts:
    """Return the kept facts of a pod; nonsense in it is as if it were not there."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    annotations = mapping(metadata.get("annotations"))
    spec = mapping(pod.get("spec"))
    identity, options = identity_of(pod), options_said(annotations)
    deleting, phase = metadata.get("deletionTimestamp"), str(status.get("phase") or "Pending")
    ready = [each for each in mappings(status.get("conditions")) if each.get("type") == "Ready"]
    return PodFacts(
        uid=str(metadata.get("uid", "")),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        node=str(spec.get("nodeName") or ""),
        replica="" if identity is None else identity.replica,
        ended=phase in _TERMINAL,
        leaving=deleting is not None,
        owned=controller_of(pod) is not None,
        movable=options.migrate is not False,
        patience=options.eviction_patience,
        marks=(str(annotations.get(EVICT_ONLY, "")), str(annotations.get(IN_PROGRESS, ""))),
        tolerations=tolerations_of(spec.get("tolerations")),
        budgeted={
            "metadata": {
                "uid": metadata.get("uid"),
                "labels": mapping(metadata.get("labels")),
                "deletionTimestamp": deleting,
            },
            "status": {"phase": phase, "conditions": ready[:1]},
        },
    )


def has_sidecar(pod: Object) -> bool:
    """Whether it is a pod of ours, by the label that those have."""
    return mapping(mapping(pod.get("metadata")).get("labels")).get(SIDECAR_LABEL) == INJECTED


def node_facts(node: Object) -> NodeFacts:
    """Return the kept facts of a node."""
    metadata = mapping(node.get("metadata"))
    return NodeFacts(
        uid=str(metadata.get("uid", "")),
        name=str(metadata.get("name", "")),
        emptied=bool(warnings_of(node)),
        taints=taints_of(mapping(node.get("spec")).get("taints")),
    )


def budget_facts(budget: Object) -> BudgetFacts:
    """Return the kept facts of a disruption budget."""
    metadata = mapping(budget.get("metadata"))
    about = {key: metadata.get(key) for key in ("name", "uid", "generation")}
    kept: Object = {"metadata": about, "spec": budget.get("spec"), "status": budget.get("status")}
    uid, namespace = str(metadata.get("uid", "")), str(metadata.get("namespace", ""))
    return BudgetFacts(uid=uid, namespace=namespace, budget=kept)
