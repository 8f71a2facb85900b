"""Where a replica may run: the rules of Kubernetes for selectors, affinities, taints and tolerations.

Only required rules are here; a preferred one excludes no node.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

NAME: Final = "metadata.name"
"""The key by which a requirement means the name of the node (`matchFields`)."""

_DIGITS: Final = 40  # more than any 64-bit integer has, leading zeros included
_EXCLUDING: Final = frozenset({"NoSchedule", "NoExecute"})


class Requirement(Struct, frozen=True, kw_only=True):
    """One comparison of a node's label with values; `values` holds one integer for Gt and Lt."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the requirement in words."""
        key = "name" if self.key == NAME else f"label {self.key}"
        match self.operator:
            case "In":
                return f"{key} in ({', '.join(self.values)})"
            case "NotIn":
                return f"{key} not in ({', '.join(self.values)})"
            case "Exists":
                return f"{key} present"
            case "DoesNotExist":
                return f"{key} absent"
            case "Gt":
                return f"{key} > {', '.join(self.values)}"
            case "Lt":
                return f"{key} < {', '.join(self.values)}"


Terms = tuple[tuple[Requirement, ...], ...]
"""Alternatives: one must hold as a whole. An empty alternative matches no node.

No alternatives mean no rule: an API server refuses an affinity without terms.
"""


class Taint(Struct, frozen=True, kw_only=True):
    """What keeps replicas off a node that do not tolerate it; only PreferNoSchedule keeps none off."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"

    def __str__(self) -> str:
        """Return the taint as kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Struct, frozen=True, kw_only=True):
    """Which taints a replica tolerates; without a key those of every key, and so with effects."""

    key: str = ""
    operator: Literal["Equal", "Exists", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""

    def covers(self, taint: Taint) -> bool:
        """Whether the taint is tolerated."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "Exists":
                return True
            case "Equal":
                return self.value == taint.value
            case "Lt" | "Gt":
                return _compares(self.operator, taint.value, self.value)


class Constraints(Struct, frozen=True, kw_only=True):
    """What a node must have for a replica to run there; all parts of it must hold."""

    selector: tuple[tuple[str, str], ...] = ()
    """Labels with their values."""
    terms: Terms = ()
    """The required node affinity."""
    volumes: tuple[Terms, ...] = ()
    """The node affinities of its volumes; all must hold."""
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE: Final = Constraints()
"""Every node without an excluding taint."""


def objection(
    labels: Mapping[str, str], name: str, taints: tuple[Taint, ...], constraints: Constraints
) -> str | None:
    """Return what rules the node out, naming the label or taint, or None where nothing does."""
    for taint in taints:
        if taint.effect in _EXCLUDING and not any(each.covers(taint) for each in constraints.tolerations):
            return f"{name} has the taint {taint}, which is not tolerated"
    for key, value in constraints.selector:
        if labels.get(key) != value:
            return f"{name} has {_label(key, labels)}, not {value} as the node selector asks"
    if not _any_holds(constraints.terms, labels, name):
        return f"{name} does not match the node affinity: {_words(constraints.terms, labels, name)}"
    for terms in constraints.volumes:
        if not _any_holds(terms, labels, name):
            return f"{name} cannot reach a volume: {_words(terms, labels, name)}"
    return None


def _any_holds(terms: Terms, labels: Mapping[str, str], name: str) -> bool:
    if not terms:
        return True
    return any(term and all(_holds(each, labels, name) for each in term) for term in terms)


def _holds(requirement: Requirement, labels: Mapping[str, str], name: str) -> bool:
    value = name if requirement.key == NAME else labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":  # a label that is not there is not among them
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(requirement.values) != 1:
                return False
            return _compares(requirement.operator, value, requirement.values[0])


def _compares(operator: Literal["Gt", "Lt"], value: str, bound: str) -> bool:
    """Whether value > bound or value < bound as integers; a text that is no integer never does."""
    left, right = _integer(value), _integer(bound)
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    """Return the signed 64-bit integer that the text is, or None."""
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _label(key: str, labels: Mapping[str, str]) -> str:
    return f"the label {key}={labels[key]}" if key in labels else f"no label {key}"


def _words(terms: Terms, labels: Mapping[str, str], name: str) -> str:
    """Return what does not hold of each alternative."""
    missing = []
    for term in terms:
        failing = next((each for each in term if not _holds(each, labels, name)), None)
        missing.append("an empty term, which matches no node" if failing is None else f"no {failing}")
    return "; ".join(missing)
