"""A cluster whose policy proposes what a test tells it to, and nothing else."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, AdmitGang, Proposal
from specon_manager.model.cluster import JobSpec
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import table
from support.decisions.cluster import Cluster

NAME = "told"
SETTINGS = Settings(
    policy=NAME,
    tick=1.0,
    reweight=True,
    budgets=Budgets(cooldown=0, retry_cooldown=1, preemptions_per_job=2),
    gate=Gate(enabled=False),
    deadlines=Deadlines(
        start=10, hold=5, checkpoint=10, eviction_margin=5, verify=20, crash_backoff=1, claim=100
    ),
)


class NoSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """None."""


@contextmanager
def registered(
    propose: Callable[[Snapshot, Any], Iterable[Proposal]], settings: type[Struct] = NoSettings
) -> Iterator[None]:
    """Let the table of policies have one more, for as long as a test needs it."""
    policy = table.Policy(name=NAME, summary="a test's", settings=settings, propose=propose)
    with patch.object(table, "POLICIES", {**table.POLICIES, NAME: policy}):
        yield


class Told(Cluster):
    """A cluster whose next Tick proposes what it is told; register its `proposed` as the policy."""

    proposals: tuple[Proposal, ...] = ()

    def proposed(self, snapshot: Snapshot, settings: Any) -> Iterable[Proposal]:
        del snapshot, settings
        return self.proposals

    def propose(self, *proposals: Proposal, seconds: float = 1.0) -> list[Action]:
        """Let time pass and the policy propose; return what was ordered."""
        self.proposals = proposals
        try:
            return self.tick(seconds)
        finally:
            self.proposals = ()

    def admit(self, spec: JobSpec, placement: Mapping[str, str]) -> list[Action]:
        """Submit a job, have it admitted as a whole, and let everything that was ordered come about."""
        self.post(ev.JobSubmitted(spec))
        actions = self.propose(AdmitGang(job=spec.name, placement=placement, reason="room"))
        self.carry_out()
        return actions

    def again(self, job: str, placement: Mapping[str, str]) -> list[Action]:
        """Admit a job that waits again."""
        actions = self.propose(AdmitGang(job=job, placement=placement, reason="again"))
        self.carry_out()
        return actions


def state_of(settings: Settings = SETTINGS, nodes: int = 2, cpus: float = 4.0) -> State:
    """Return the state of a cluster with nothing on it."""
    return Cluster(nodes, cpus, settings).state
