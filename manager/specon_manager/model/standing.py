"""What stands against moving, preempting or scaling a job now: one answer for policies and the plan.

A policy that chose what the plan refuses would choose it again at the next Tick, and forever.
"""

import math
from collections.abc import Mapping
from typing import Final

from specon_manager.model.actions import Objection, Refusal
from specon_manager.model.cluster import Job, Node, Phase, Replica
from specon_manager.model.renewal import Chosen
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import Kind
from specon_sidecar.counts import format_count, format_times

UNHEARD_SECONDS: Final = 30.0
"""So long after its start nothing is concluded from it that no step of a trainer is known."""


def trains_as_one(job: Job, snapshot: Snapshot) -> bool:
    """Whether none of its replicas can be moved alone: it has several at present, which train as one."""
    if not job.spec.coupled or len(job.spec.replicas) == 1:
        return False
    return sum(snapshot.replicas[name].phase is not Phase.ABSENT for name in job.spec.replicas) > 1


def move_objection(replica: Replica, snapshot: Snapshot) -> Objection | None:
    """Return what rules a move of this replica out, whatever it would gain and wherever it would go.

    One of a job whose replicas train as one moves with all of it, or not at all.
    """
    if may_move(replica, snapshot):
        return None
    job = snapshot.jobs[replica.job]
    if trains_as_one(job, snapshot):
        return gang_move_objection(job, snapshot) or resting(job, snapshot)
    return (
        _forbidden_to_move(job, replica)
        or (Objection(Refusal.NO_CHECKPOINT, _NO_CHECKPOINTS) if job.spec.checkpointing == "none" else None)
        or _not_running(replica)
        or in_flight_objection(job, snapshot, replica)
        or _unprovable(replica, snapshot)
    )


def may_move(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether nothing that `move_objection` tells is against a move, of the only replica of an ordinary job.

    Thousands are asked about at each Tick: this comes to the same without looking for words.
    """
    progress = replica.progress
    return (
        replica.phase is Phase.RUNNING
        and replica.leaving is None
        and progress.step is not None
        and (progress.step_interval is None or progress.step_interval < snapshot.settings.deadlines.verify)
        and replica.job not in snapshot.particular
        and replica.name not in snapshot.moving
        and replica.job not in snapshot.changing
    )


def may_go(replica: Replica, target: str, snapshot: Snapshot) -> bool:
    """Whether the manager would order this move now: a refused one would keep all others from being tried."""
    return (
        move_objection(replica, snapshot) is None
        and not replica.unproven
        and replica.cooldown_until <= snapshot.now
        and replica.requests.fits(snapshot.open_room(target, replica.job))
        and snapshot.objection_to(target, replica.job) is None
    )


def gang_move_objection(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return what rules out a move of a whole job, in which all replicas end and start again."""
    spec = job.spec
    if not spec.transacted:
        return Objection(Refusal.COUPLED, "its replicas train as one, and are started one by one")
    members = [snapshot.replicas[name] for name in spec.replicas]
    present = [replica for replica in members if replica.phase is not Phase.ABSENT]
    if not present:
        return Objection(Refusal.NOT_RUNNING, "no replica occupies a node")
    if len(present) > 1 and not spec.coupled:
        return Objection(Refusal.COUPLED, "its replicas train by themselves: each is moved alone")
    forbidden = (_forbidden_to_move(job, replica) for replica in present)
    if (against := next((each for each in forbidden if each is not None), None)) is not None:
        return against
    if spec.checkpointing == "none":
        return Objection(Refusal.NO_CHECKPOINT, _NO_CHECKPOINTS)
    if spec.checkpointing == "on-termination" and spec.savers == "all":
        text = "its workers save a part each when they are told to end: the parts may be of different steps"
        return Objection(Refusal.NO_CHECKPOINT, text)
    missing = (_not_running(replica) for replica in present)
    if (against := next((each for each in missing if each is not None), None)) is not None:
        return against
    if (objection := in_flight_objection(job, snapshot)) is not None:
        return objection
    lead = snapshot.replicas[spec.worker_names[0]]  # it logs the steps of all
    return _not_settled(job, snapshot) or _unprovable(lead, snapshot)


def preemption_objection(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return why a job is not preempted now, who gains from it."""
    spec, budgets = job.spec, snapshot.settings.budgets
    if job.owned and not spec.held:
        return Objection(Refusal.PLACED_BY_OWNER, "its owner places it: it names no queue")
    if spec.unpreemptible:
        return Objection(Refusal.FORBIDDEN, spec.unpreemptible)
    if spec.checkpointing == "none":
        return Objection(Refusal.NO_CHECKPOINT, _NO_CHECKPOINTS)
    if (objection := in_flight_objection(job, snapshot)) is not None:
        return objection
    members = [snapshot.replicas[name] for name in spec.replicas]
    if not [replica for replica in members if replica.active]:
        return Objection(Refusal.NOT_RUNNING, "no replica occupies a node")
    if [replica for replica in members if replica.leaving is not None]:
        return Objection(Refusal.IN_FLIGHT, "a part of the job is about to leave")
    recent = _recent_preemptions(job, snapshot)
    if recent >= budgets.preemptions_per_job:
        window = budgets.preemption_window
        text = f"it was preempted {format_times(recent)} in the last {window:g} s, which is its budget"
        return Objection(Refusal.PREEMPTION_BUDGET, text)
    if not spec.transacted:
        return None
    return resting(job, snapshot) or _not_saving(job, members)


_preempted: Final = Chosen[Job](lambda job: bool(job.preempted_at))


def preemptions_left(snapshot: Snapshot) -> int:
    """Return how many more jobs the cluster's budget lets be preempted now for others than trials."""
    budgets = snapshot.settings.budgets
    recent = sum(_recent_preemptions(snapshot.jobs[name], snapshot) for name in _preempted(snapshot.jobs))
    return max(0, math.ceil(budgets.preemptions_per_node * len(snapshot.ready_nodes)) - recent)


def _recent_preemptions(job: Job, snapshot: Snapshot) -> int:
    if not job.preempted_at:
        return 0
    since = snapshot.now - snapshot.settings.budgets.preemption_window
    return sum(at > since for at in job.preempted_at)


def resizing_objection(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return why the number of workers of a job cannot be changed now."""
    spec = job.spec
    if spec.resizing == "none":
        return Objection(Refusal.NOT_ELASTIC, spec.unscalable or "its number of workers is fixed")
    if job.owned and spec.resizing == "at-once":
        return Objection(Refusal.PLACED_BY_OWNER, spec.unscalable or "its owner places it")
    if (objection := in_flight_objection(job, snapshot)) is not None:
        return objection
    if not spec.transacted:
        return None
    if spec.checkpointing == "none":
        return Objection(Refusal.NO_CHECKPOINT, _NO_CHECKPOINTS)
    return resting(job, snapshot) or _not_settled(job, snapshot)


def unready(node: str, name: str, nodes: Mapping[str, Node]) -> str | None:
    """Return that a replica cannot start on a node, which is gone or not ready; None where it is."""
    known = nodes.get(node)
    if known is not None and known.ready:
        return None
    return f"node {node}, where {name} is to run, {'is gone' if known is None else 'is not ready'}"


def no_node(node: str, nodes: Mapping[str, Node]) -> Objection | None:
    """Return that nothing can be put on a node, which is not there or not ready; None where it can."""
    known = nodes.get(node)
    if known is not None and known.ready:
        return None
    words = f"there is no node {node}" if known is None else f"node {node} is not ready"
    return Objection(Refusal.NODE_NOT_READY, words)


def in_flight_objection(job: Job, snapshot: Snapshot, replica: Replica | None = None) -> Objection | None:
    """Return the transaction in flight that excludes any other for the job, or for one of its replicas."""
    whole = snapshot.changing.get(job.name)
    if whole is not None:
        return Objection(Refusal.IN_FLIGHT, f"{whole.id} of its job is in flight")
    if replica is not None:
        moving = snapshot.moving.get(replica.name)
        return None if moving is None else Objection(Refusal.IN_FLIGHT, f"{moving.id} is in flight")
    if snapshot.moving and any(name in snapshot.moving for name in job.spec.replicas):
        return Objection(Refusal.IN_FLIGHT, "a replica of it moves")
    return None


def change_budget_objection(snapshot: Snapshot) -> Objection | None:
    """Return that as many scalings and preemptions are in flight as the cluster may have."""
    uncounted = {Kind.ADMIT, Kind.MOVE, Kind.PUT_BACK, Kind.RESTART}
    flying = sum(each.counts and each.kind not in uncounted for each in snapshot.transactions.values())
    if flying < snapshot.settings.budgets.changes_at_once:
        return None
    text = f"{format_count(flying, 'change is', 'changes are')} in flight, which is the cluster's budget"
    return Objection(Refusal.CHANGE_BUDGET, text)


_NO_CHECKPOINTS = "its trainer writes no checkpoints"


def _forbidden_to_move(job: Job, replica: Replica) -> Objection | None:
    if replica.name in job.dropped:
        return Objection(Refusal.FORBIDDEN, "its job wants this replica no more")
    if not job.spec.migratable:
        return Objection(Refusal.FORBIDDEN, "its owner forbids moves")
    if job.spec.immovable:
        return Objection(Refusal.FORBIDDEN, job.spec.immovable)
    return None


def _not_running(replica: Replica) -> Objection | None:
    if replica.phase is not Phase.RUNNING:
        return Objection(Refusal.NOT_RUNNING, f"it is {replica.phase}, not running")
    if replica.leaving is not None:
        return Objection(Refusal.IN_FLIGHT, f"it was told to end: {replica.leaving.reason}")
    return None


def _unprovable(replica: Replica, snapshot: Snapshot) -> Objection | None:
    """Return why nobody could show in time that it has resumed."""
    progress, patience = replica.progress, snapshot.settings.deadlines.verify
    if progress.step is None and progress.metric is None:
        since = snapshot.jobs[replica.job].trains_since
        if since is not None and snapshot.now - since < UNHEARD_SECONDS:
            return Objection(Refusal.JUST_STARTED, "it has just started, and no step of it is known yet")
        return Objection(Refusal.NO_STEPS, "its log is not understood, so a resume could not be proven")
    if progress.step is None:
        return Objection(Refusal.NO_STEPS, "its log names no steps, so a resume could not be proven")
    if progress.step_interval is not None and progress.step_interval >= patience:
        text = (
            f"its log names a step every {progress.step_interval:.0f} s,"
            f" and a resume has to be proven within {patience:.0f} s"
        )
        return Objection(Refusal.NO_STEPS, text)
    return None


def resting(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return for how long nothing of the whole job is begun but what a person asks for; None: it may be."""
    if job.cooldown_until <= snapshot.now:
        return None
    left = job.cooldown_until - snapshot.now
    return Objection(Refusal.COOLDOWN, f"cooling down for {left:.0f} s more")


def _not_saving(job: Job, members: list[Replica]) -> Objection | None:
    """Return why checkpoints that stand for all of what runs of the job cannot be had now."""
    if starting := [each.name for each in members if each.phase is Phase.STARTING]:
        return Objection(Refusal.NOT_RUNNING, f"{starting[0]} is only starting")
    if job.spec.checkpointing != "asked" or not job.spec.coupled:
        return None
    lead = next(each for each in members if each.name == job.spec.worker_names[0])
    if lead.phase is not Phase.RUNNING:
        return Objection(Refusal.NOT_RUNNING, f"{lead.name}, which would save for it, is {lead.phase}")
    return None


def _not_settled(job: Job, snapshot: Snapshot) -> Objection | None:
    """Return why the number of workers of the job is not what a change of it could start from."""
    members = [snapshot.replicas[name] for name in job.spec.replicas]
    if job.trains_since is None:
        return Objection(Refusal.NOT_RUNNING, "not every replica trains")
    if ended := [each.name for each in members if each.ended]:
        return Objection(Refusal.NOT_ELASTIC, f"{ended[0]} has ended already: it is about to be over")
    here = sum(each.active and each.role != "ps" for each in members)
    if job.owned and job.spec.present is not None and job.spec.present != here:
        text = f"its owner asks for {format_count(job.spec.present, 'worker')} by now, and {here} run"
        return Objection(Refusal.IN_FLIGHT, text)
    return None
