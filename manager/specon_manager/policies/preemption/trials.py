"""One call of a preemptive policy: trials first, in place of running best-effort jobs if need be."""

from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta, Struct

from specon_manager.model.actions import Claim, Preempt, Proposal
from specon_manager.model.cluster import Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle, NodeChoice
from specon_manager.policies.preemption.admission import admit_in_order, restart, start
from specon_manager.policies.preemption.claims import comes, find_freed_soon
from specon_manager.policies.preemption.queues import Queued, Queues
from specon_manager.policies.preemption.running import Running
from specon_manager.policies.preemption.victims import Choice, Strategy


class PreemptionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the preemptive policies have in common."""

    max_preemptions: Annotated[int, Meta(ge=0)] | None = 1
    """P: how often one job is preempted at most; None: as often as the budget of the manager allows."""
    node_choice: NodeChoice = "first-fit"
    """Of the nodes that have room: the first by name, or the one that the replica leaves least free."""


class TrialsFirstSettings(PreemptionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those, and how the queues are served."""

    literal: bool = False
    """The FIFO principle as printed: who waits holds back all behind it, preempted jobs are stacked."""


def trials_first(
    snapshot: Snapshot,
    settings: TrialsFirstSettings,
    strategy_of: Callable[[Running], Strategy],
) -> Iterator[Proposal]:
    """Propose everything that is to happen now.

    `strategy_of` gets the running best-effort jobs and is asked only when a trial lacks room. With `literal`
    nobody overtakes a trial that waits, not even for the room of its own victims (section 3: "built on the
    FIFO principle"), and of the jobs that were preempted the last is the first in its queue.
    """
    idle = Idle(snapshot, choice=settings.node_choice)
    if not idle.nodes:
        return
    queues = Queues(snapshot, stacked=settings.literal)
    yield from restart(snapshot, queues, idle)
    served = Trials(snapshot, queues, idle, strategy_of)
    for trial in queues.trials():
        yield from served.serve(trial)
        if settings.literal and served.waits:
            return
    if served.stranded:
        return
    yield from admit_in_order(queues.best_effort(), idle, snapshot)


class Trials:
    """The trials of one call, served one after the other."""

    def __init__(
        self,
        snapshot: Snapshot,
        queues: Queues,
        idle: Idle,
        strategy_of: Callable[[Running], Strategy],
    ) -> None:
        self._snapshot, self._queues, self._idle = snapshot, queues, idle
        self._strategy_of, self._running = strategy_of, Running(snapshot)
        self._strategy: Strategy | None = None
        self._too_much: list[Resources] = []
        self._hopeless: dict[int, list[Resources]] = {}
        """By priority: for one that ranks higher there are more victims."""
        self._leaving: dict[str, Resources] | None = None
        self.stranded = False
        """Whether a trial waits for which no room will be made."""
        self.waits = False
        """Whether the last one that was served did not start, though nodes are large enough for it."""

    def serve(self, trial: Queued) -> Iterator[Proposal]:
        """Start the trial, or keep room for it that becomes free, or make some."""
        snapshot, idle = self._snapshot, self._idle
        self.waits = False
        claimed = trial.name in snapshot.claims
        # With what fits nowhere nothing that is as large in every respect does: a long queue costs little.
        if not (claimed or self._is_known(trial, self._too_much)):
            if (proposal := start(trial, idle, snapshot)) is not None:
                yield proposal
                return
            self._learn(trial, self._too_much)
        elif claimed:
            if (proposal := start(trial, idle, snapshot)) is not None:
                self._forget()
                yield proposal
                return
            if self._is_awaited(trial):
                self.waits = True
                return
        # Room kept for it in vain is free for its own choice at once, for others at the next call: the
        # planner judges starts before it is told that the claim is given up.
        held = idle.release(trial.name) if claimed else {}
        hopeless = self._hopeless.setdefault(trial.job.spec.priority, [])
        choice = None if self._is_known(trial, hopeless) and not held else self._choose(trial)
        for node, amounts in held.items():
            idle.reserve(trial.name, node, amounts)
        if choice is None:
            if not held:
                self._learn(trial, hopeless)
            self.waits = idle.ever_hold(trial.replicas)
            self.stranded = self.stranded or self.waits
            if claimed:
                why = f"the room kept for trial {trial.name} will not become free"
                yield Claim(job=trial.name, placement={}, reason=why)
            return
        self.waits = True
        yield from self._carry_out(trial, choice)

    def _choose(self, trial: Queued) -> Choice | None:
        idle = self._idle
        if self._strategy is None:
            self._strategy = self._strategy_of(self._running)
        return self._strategy(trial, idle.unclaimed())

    def _carry_out(self, trial: Queued, choice: Choice) -> Iterator[Proposal]:
        idle = self._idle
        for candidate, why in choice.victims:
            reason = f"trial {trial.name} has no room; {why}"
            yield Preempt(job=candidate.name, reason=reason, beneficiary=trial.name)
        if not choice.placement:
            return
        for replica in trial.replicas:
            idle.reserve(trial.name, choice.placement[replica.name], replica.requests)
        names = ", ".join(candidate.name for candidate, _ in choice.victims)
        where = ", ".join(sorted(set(choice.placement.values())))
        yield Claim(
            job=trial.name, placement=choice.placement, reason=f"room on {where} as soon as {names} has ended"
        )

    def _is_awaited(self, trial: Queued) -> bool:
        """Whether the room that the trial has a claim to will be there when those who leave have left."""
        placement = dict(self._snapshot.claims[trial.name].placement)
        if any(replica.name not in placement for replica in trial.replicas):
            return False
        if self._leaving is None:
            self._leaving = find_freed_soon(self._snapshot)
        asked = {replica.name: placement[replica.name] for replica in trial.replicas}
        return comes(trial.name, asked, self._snapshot, self._idle, self._leaving)

    def _is_known(self, trial: Queued, failed: list[Resources]) -> bool:
        """Whether a trial that asked for no more than one replica of this one has failed in this call."""
        return any(_asks_as_much(replica, failed) for replica in trial.replicas)

    def _learn(self, trial: Queued, failed: list[Resources]) -> None:
        if len(trial.replicas) == 1 and not self._is_known(trial, failed):
            failed.append(trial.replicas[0].requests)

    def _forget(self) -> None:
        """Room has become free: who failed before might not now."""
        self._too_much.clear()
        self._hopeless.clear()


def _asks_as_much(replica: Replica, failed: list[Resources]) -> bool:
    wanted = replica.requests
    return any(less.fits(wanted) for less in failed)
