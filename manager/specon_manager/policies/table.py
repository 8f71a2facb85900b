"""Every policy by name: what it is, what can be set, and the function that proposes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import round_robin, specon


class Policy(Struct, frozen=True, kw_only=True):
    """One strategy: a pure function over a snapshot, with typed settings."""

    name: str
    summary: str
    settings: type[Struct]
    propose: Callable[[Snapshot, Any], Iterable[Proposal]]
    source: str = ""
    """Where it was published."""
    clairvoyant: bool = False
    """Whether it must be told how long every job takes: a bound for simulations, of no use elsewhere."""


POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Policy(
                name="specon",
                summary="round robin first; converged jobs move to the node with the lowest score (SpeCon)",
                settings=specon.SpeConSettings,
                propose=specon.propose,
                source="Mao et al., arXiv 2010.11307, algorithms 2 and 3",
            ),
            Policy(
                name="round-robin",
                summary="placement only: job k on node k mod |W|, and there it stays",
                settings=round_robin.RoundRobinSettings,
                propose=round_robin.propose,
                source="the initial placement of SpeCon's experiments, section VI-A",
            ),
        )
    }
)


def policy_named(name: str) -> Policy:
    """Return the policy; raises ValueError naming the known ones."""
    try:
        return POLICIES[name]
    except KeyError:
        raise ValueError(f"policy: {name!r} is not one of {', '.join(sorted(POLICIES))}") from None


def settings_of(policy: Policy, parameters: Mapping[str, Any]) -> Struct:
    """Return the typed settings; raises ValueError naming the parameter and the policy."""
    try:
        return msgspec.convert(dict(parameters), policy.settings)
    except msgspec.ValidationError as error:
        raise ValueError(f"parameters of policy {policy.name}: {error}") from error
