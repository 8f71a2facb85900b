"""Every policy by name: what it is, what can be set, and the function that proposes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import (
    default_scheduler,
    dragon,
    fifo,
    fitgpp,
    kod2,
    kubeflow,
    lrtp,
    progress,
    quota_fifo,
    rand,
    round_robin,
    specon,
    srpt,
)


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
    in_order: bool = False
    """Whether jobs start in the order of their submission, so that none waits for one that came later."""


POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Policy(
                name="progress",
                summary="specon's own: least expected work first, as sidecars measure; weights, then moves",
                settings=progress.ProgressSettings,
                propose=progress.propose,
                source="docs/results/ours.md",
            ),
            Policy(
                name="specon",
                summary="round robin first; converged jobs move to the node with the lowest score",
                settings=specon.SpeConSettings,
                propose=specon.propose,
                source="Mao et al., arXiv 2010.11307, algorithms 2 and 3",
            ),
            Policy(
                name="kod2",
                summary="gangs by weight; shrinks lighter jobs for heavier ones, grows into idle room",
                settings=kod2.KOD2Settings,
                propose=kod2.propose,
                source="Jeong, Yu, KTCCS 11(7), 2022, algorithms 1 to 3",
            ),
            Policy(
                name="dragon",
                summary="gangs on the fewest nodes; shrinks for a job that waited long, grows where idle",
                settings=dragon.DragonSettings,
                propose=dragon.propose,
                source="Lin, Yeh, Chou, CLOSER 2019, section 3.3",
            ),
            Policy(
                name="dragon-locality",
                summary="gangs on the fewest nodes in order of arrival, never scaled: DRAGON's baseline",
                settings=dragon.LocalitySettings,
                propose=dragon.propose_locality,
                source="Lin, Yeh, Chou, CLOSER 2019, section 5",
            ),
            Policy(
                name="fitgpp",
                summary="trials at once, in place of a small best-effort job with a short grace period",
                settings=fitgpp.FitGppSettings,
                propose=fitgpp.propose,
                source="Yabuuchi, Taniwaki, Omura, arXiv 1902.01613, equations 1 to 5",
            ),
            Policy(
                name="lrtp",
                summary="trials at once, in place of the job with the longest remaining time",
                settings=lrtp.LrtpSettings,
                propose=lrtp.propose,
                source="Yabuuchi, Taniwaki, Omura, arXiv 1902.01613, section 4",
                clairvoyant=True,
            ),
            Policy(
                name="rand",
                summary="trials at once, in place of a random best-effort job",
                settings=rand.RandSettings,
                propose=rand.propose,
                source="Yabuuchi, Taniwaki, Omura, arXiv 1902.01613, section 4",
            ),
            Policy(
                name="fifo",
                summary="one queue in order of arrival whose head blocks it, no preemption",
                settings=fifo.FifoSettings,
                propose=fifo.propose,
                source="Yabuuchi, Taniwaki, Omura, arXiv 1902.01613, section 4",
                in_order=True,
            ),
            Policy(
                name="kubeflow",
                summary="queue by utility; gangs on one node, scaled down for a job of more utility",
                settings=kubeflow.KubeflowSettings,
                propose=kubeflow.propose,
                source="Bestari, 2020, the article's five listings",
            ),
            Policy(
                name="default-scheduler",
                summary="pod by pod in order of arrival, spread over nodes; partial gangs hold their room",
                settings=default_scheduler.DefaultSchedulerSettings,
                propose=default_scheduler.propose,
                source="kube-scheduler's default profile, as the papers' baselines use it",
            ),
            Policy(
                name="quota-fifo",
                summary="whole gangs in order of arrival within the quotas of their queues, as Kueue admits",
                settings=quota_fifo.QuotaFifoSettings,
                propose=quota_fifo.propose,
                source="Kueue's admission: StrictFIFO and BestEffortFIFO",
            ),
            Policy(
                name="round-robin",
                summary="placement only: job k on node k mod |W|, and there it stays",
                settings=round_robin.RoundRobinSettings,
                propose=round_robin.propose,
                source="the initial placement of SpeCon's experiments, section VI-A",
            ),
            Policy(
                name="srpt",
                summary="shortest remaining time first with perfect knowledge and free preemption: the bound",
                settings=srpt.SrptSettings,
                propose=srpt.propose,
                source="Schrage, Operations Research 16(3), 1968",
                clairvoyant=True,
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
