"""Whether the gate of a Workload is opened, closed again, or waits for checkpoints of likely victims. Pure.

| the Workload | the action |
|---|---|
| has not our gate, has its quota, is over or inactive | nothing |
| waits, and Kueue would not preempt for it | nothing: it may start where there is room |
| would preempt, and a likely victim was not asked yet | that one is asked for a checkpoint |
| would preempt, and a likely victim is saving | it waits |
| would preempt, and each has saved, or said why it cannot | the gate is opened |
| has waited for `patience` since it was blocked | the gate is opened; a warning tells who has not saved |
| has an open gate for `REOPENED` seconds, and still waits | the gate is closed: the checkpoints are old |
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from specon_manager.backends.kube.kueue.facts import Workload, seconds
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.transactions import SAVED, Transaction
from specon_sidecar.counts import format_count

REOPENED: Final = 600.0
_NAMED: Final = 3


class PreemptionGateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether Workloads of Kueue wait for checkpoints of those whom they would preempt."""

    enabled: bool = False
    patience: Annotated[float, Meta(ge=0, le=86400)] = 600.0
    """After so many seconds the gate opens, even if some have not saved."""
    cluster_queues: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...], Meta(max_length=1000)
    ] = ()
    """Whose Workloads get the gate; empty: those of all ClusterQueues."""

    def covers(self, cluster_queue: str) -> bool:
        """Whether Workloads of this ClusterQueue get the gate."""
        return not self.cluster_queues or cluster_queue in self.cluster_queues


class Victim(Struct, frozen=True):
    """A replica that is likely to be ended, and whether its checkpoint is there."""

    replica: str
    standing: Literal["unasked", "saving", "saved", "unsaved"]
    words: str = ""
    """Why it has not saved."""


class Ask(Struct, frozen=True):
    """These are to be asked for checkpoints."""

    victims: tuple[Victim, ...]


class SetGate(Struct, frozen=True):
    """The gate is to be opened, or closed."""

    open: bool
    words: str
    warning: bool = False


def decide(
    workload: Workload, victims: Sequence[Victim], now: float, patience: float, *, known: bool = True
) -> Ask | SetGate | None:
    """Return the action for a Workload; None: no action, for now.

    `known` says whether its victims are: the queues were seen, and its turn has come. Else nobody is asked.
    """
    if not workload.gated or not workload.is_pending:
        return None
    gate = workload.gate
    if gate is not None and gate.open:
        if now - (seconds(gate.since) or 0.0) < REOPENED:
            return None
        return SetGate(open=False, words=f"nothing was preempted in {REOPENED:g} s: the checkpoints are old")
    since = victims_asked_since(workload)
    if since is None:
        return None
    if now - since >= patience:
        late = [each for each in victims if each.standing in {"unasked", "saving"}]
        return SetGate(open=True, words=f"after {patience:g} s: {_describe(victims)}", warning=bool(late))
    if not known:
        return None
    if unasked := tuple(each for each in victims if each.standing == "unasked"):
        return Ask(unasked)
    if any(each.standing == "saving" for each in victims):
        return None
    return SetGate(open=True, words=_describe(victims))


def victims_asked_since(workload: Workload) -> float | None:
    """Return since when victims of a Workload are to save: it was blocked, or its gate was closed again."""
    if workload.blocked_since is None:
        return None
    gate = workload.gate
    closed = 0.0 if gate is None or gate.open else seconds(gate.since) or 0.0
    return max(workload.blocked_since, closed)


def request_of(workload: Workload, replica: str) -> str:
    """Return the id under which a replica is asked for its checkpoint: the same for each look."""
    digest = sha256(f"{workload.uid}\n{replica}".encode()).hexdigest()[:12]
    return f"kueue-{digest}-{int(victims_asked_since(workload) or 0)}"


def replicas_asked(job: Job, state: State) -> list[str]:
    """Return who is asked so that all that runs of a job saves: one for all that trains as one."""
    running = [
        name
        for name in job.spec.worker_names
        if name in state.replicas and state.replicas[name].phase is Phase.RUNNING
    ]
    return running[:1] if job.spec.coupled else running


def judge_standing(replica: str, request: str, state: State, now: float) -> Victim:
    """Return whether a replica has saved for this request, or for another one a moment ago."""
    if state.transaction_of(replica) is not None:
        return Victim(replica, "saving")
    for over in reversed(state.history):
        if over.id == request:
            return _judge_ended(replica, over)
        if _is_fresh(over, replica, state, now):
            return Victim(replica, "saved")
    return Victim(replica, "unasked")


def _is_fresh(over: Transaction, replica: str, state: State, now: float) -> bool:
    """Whether what runs now has saved a moment ago; a save of an incarnation before it does not count."""
    age = now - (over.ended_at or 0.0)
    if any(
        (found := state.replicas.get(name)) is None or found.incarnation != witness.incarnation
        for name, witness in over.witnesses.items()
    ):
        return False
    return over.note == SAVED and replica in over.concerned and age <= state.settings.deadlines.checkpoint_age


def _judge_ended(replica: str, over: Transaction) -> Victim:
    return Victim(replica, "saved") if over.note == SAVED else Victim(replica, "unsaved", over.note)


def _describe(victims: Iterable[Victim]) -> str:
    """Return who has saved and who has not, in words."""
    every = list(victims)
    if not every:
        return "no likely victim is a job of ours"
    left = [each for each in every if each.standing != "saved"]
    text = (
        f"{len(every) - len(left)} of {format_count(len(every), 'likely victim')} saved a verified checkpoint"
    )
    why = [f"{each.replica}: {each.words or 'it has not saved in time'}" for each in left[:_NAMED]]
    more = [f"and {len(left) - _NAMED} more"] if len(left) > _NAMED else []
    return "; ".join([text, *why, *more])
