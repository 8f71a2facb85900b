"""On which nodes a pod may run: its selector, required affinity and tolerations as `Constraints`. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.model.constraints import NAME, Constraints, Requirement, Taint, Terms, Toleration

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label by which incarnations are pinned to a node; its value need not be the node's name."""

_REQUIREMENTS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})


def constraints_of(spec: Mapping[str, Any], *, pinned: str = "") -> Constraints:
    """Return what a pod with this specification asks of its node, without the hostname that we pinned.

    `pinned` is the hostname that we wrote into its node selector, empty where we wrote none. The affinities
    of its volumes are added by `volumes`.
    """
    selector = spec.get("nodeSelector")
    labels = [
        (str(key), str(value))
        for key, value in (selector.items() if isinstance(selector, dict) else ())
        if not (pinned and key == HOSTNAME and value == pinned)
    ]
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return Constraints(
        selector=tuple(sorted(labels)),
        terms=terms_of(required.get("nodeSelectorTerms")),
        tolerations=tolerations_of(spec.get("tolerations")),
    )


def terms_of(listed: object) -> Terms:
    """Return the alternatives of a node selector (`nodeSelectorTerms`)."""
    return tuple(
        (
            *(_requirement(each) for each in mappings(term.get("matchExpressions"))),
            *(_requirement(each | {"key": NAME}) for each in mappings(term.get("matchFields"))),
        )
        for term in mappings(listed)
    )


def taints_of(listed: object) -> tuple[Taint, ...]:
    """Return the taints of a node; one with an effect that is not known here excludes."""
    return tuple(
        Taint(
            key=str(each.get("key", "")),
            value=str(each.get("value") or ""),
            effect=each["effect"] if each.get("effect") in _EFFECTS else "NoSchedule",
        )
        for each in mappings(listed)
    )


def tolerations_of(listed: object) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod."""
    return tuple(_toleration(each) for each in mappings(listed))


def _toleration(given: Mapping[str, Any]) -> Toleration:
    """Return the toleration; one of a form that is not known here tolerates nothing."""
    fields = {key: str(given[key]) for key in ("key", "operator", "value", "effect") if given.get(key)}
    try:
        return msgspec.convert(fields, Toleration)
    except msgspec.ValidationError:
        return Toleration(key="specon.io/none", operator="Equal")


def _requirement(given: Mapping[str, Any]) -> Requirement:
    """Return the requirement; one with an operator that is not known here holds nowhere."""
    operator = given.get("operator")
    values = given.get("values")
    if operator not in _REQUIREMENTS:
        return Requirement(key=str(given.get("key", "")), operator="In", values=())
    listed = tuple(str(value) for value in values) if isinstance(values, list) else ()
    return Requirement(key=str(given.get("key", "")), operator=operator, values=listed)
