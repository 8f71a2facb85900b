"""What somebody else is about to end saves first, where it is: nothing is moved. Pure.

It is asked for a checkpoint as if it were to yield its node: it pauses once it has saved, where its trainer
can, and trains on where nobody ends it meanwhile. Neither budgets of moves nor whether it can be moved count.
"""

from specon_manager.core import dry_run
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.requested_moves import is_known, record_refusal
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import begin
from specon_manager.model import events as ev
from specon_manager.model.actions import Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.standing import in_flight_objection, trains_as_one
from specon_manager.model.transactions import SAVING, Request

POLICY = "save"


def save_requested(state: State, event: ev.SaveRequested, now: float) -> Step:
    """Ask for the checkpoint, or close the request with the objection as its note.

    While something of it is in flight nothing comes of the request: it may be made again.
    """
    if is_known(state, event.id):
        return state, []
    snapshot = state.snapshot(now)
    replica = state.replicas.get(event.replica)
    request = Request(id=event.id, replica=event.replica, reason=event.reason, at=now)
    if replica is None:
        return record_refusal(state, request, f"there is no replica {event.replica}", now), []
    job = state.jobs[replica.job]
    objection = objection_while_paused(state) or objection_to_saving(replica, job, state)
    if objection is None:
        whole = trains_as_one(job, snapshot)
        busy = in_flight_objection(job, snapshot) if whole else in_flight_objection(job, snapshot, replica)
        if busy is not None:
            return state, []
        move = _in_place(state, replica, job, event.reason, whole=whole)
        objection = dry_run.objection(move, state.settings)
        if objection is None:
            return begin(state, move, now, name=event.id, policy=POLICY)
    return record_refusal(state, request, objection.text, now), []


def objection_to_saving(replica: Replica, job: Job, state: State) -> Objection | None:
    """Return why no checkpoint of it can be had, or none that is needed."""
    spec = job.spec
    if spec.checkpointing == "none":
        return Objection(Refusal.NO_CHECKPOINT, "its trainer writes no checkpoints")
    if spec.checkpointing == "on-termination":
        return Objection(Refusal.NO_CHECKPOINT, "its trainer saves when it is told to end, not before")
    members = (state.replicas[name] for name in spec.replicas) if spec.coupled else (replica,)
    absent = {Phase.ABSENT, Phase.SUCCEEDED}
    down = next(
        (each for each in members if each.phase is not Phase.RUNNING and each.phase not in absent), None
    )
    if down is not None:
        return Objection(Refusal.NOT_RUNNING, f"{down.name} is {down.phase}, not running")
    if replica.phase is not Phase.RUNNING:
        return Objection(Refusal.NOT_RUNNING, f"it is {replica.phase}, not running")
    return None


def _in_place(state: State, replica: Replica, job: Job, reason: str, *, whole: bool) -> Migrate | MigrateGang:
    if not whole:
        return Migrate(replica=replica.name, target=replica.node or "", purpose=SAVING, reason=reason)
    members = (state.replicas[name] for name in job.spec.replicas)
    here = {each.name: each.node or "" for each in members if each.active}
    return MigrateGang(job=job.name, placement=here, purpose=SAVING, reason=reason)
