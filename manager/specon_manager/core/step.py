"""`step(state, event, now) -> (state, actions)`: the one function of the product.

Pure: no I/O, clock or randomness. The controller, the simulator and `replay` are drivers around it. Actions
may be carried out more than once; events may come late, twice or not at all.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from specon_manager.core import (
    change_events,
    changes,
    lifecycle,
    node_events,
    owned_jobs,
    pause,
    requested_moves,
    starvation,
    transaction,
)
from specon_manager.core.expectations import overdue_moves, overdue_replicas
from specon_manager.core.gang import gang_of, pruned, regrouped
from specon_manager.core.gathering import gathered
from specon_manager.core.orders import order, told_again, weighed
from specon_manager.core.plan import Verdict, plan
from specon_manager.core.reports import learn
from specon_manager.core.restarts import crashed, eviction, started_anywhere
from specon_manager.core.state import State
from specon_manager.core.withheld import prepared
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Decision, Migrate, Refusal, StartReplica, subject
from specon_manager.model.cluster import Phase
from specon_manager.model.moves import MoveOutcome
from specon_manager.policies.easing import ease
from specon_manager.policies.table import policy_named, settings_of

Step = tuple[State, list[Action]]

_DECISIONS: Final = 300


def step(state: State, event: ev.Event, now: float) -> Step:
    """Return the state after the event and what is ordered because of it.

    `now` is seconds on a clock that never goes back; it is not before that of the last call.
    """
    state, actions = _HANDLERS[type(event)](state, event, now)
    if state.changes:
        for job in change_events.concerned(state, event):
            state, ordered = changes.look(state, job, now)
            if job in state.jobs and state.jobs[job].owned:
                state = regrouped(state, job, now)  # whether it trains may hang on the change that ended
            actions = [*actions, *ordered]
    return state, actions


def calls_for_tick(event: ev.Event) -> bool:
    """Whether the driver should let a Tick follow soon, so that the policy is asked at once.

    Reports are not among these: thousands come, and a change of category can wait for the next Tick.
    """
    return isinstance(
        event,
        ev.ManagerStarted
        | ev.JobSubmitted
        | ev.ReplicaStarted
        | ev.ReplicaGone
        | ev.StartRefused
        | ev.JobRefused
        | ev.QueuesObserved
        | ev.Paused,
    )


def _tick(state: State, event: ev.Tick, now: float) -> Step:
    """Look at what is overdue, then ask the policy and order what the plan accepts of its proposals."""
    del event
    state = state.flattened()
    actions: list[Action] = []
    for move in overdue_moves(state, now):
        state, ordered = transaction.happened(state, move, MoveOutcome.OVERDUE, now)
        actions += ordered
    late_starts, late_ends = overdue_replicas(state, now)
    for replica in late_starts:
        if state.jobs[replica.job].owned:
            why = "it is still awaited after a move that failed"
            state, ordered = started_anywhere(state, replica, why, now, again=True)
            actions += ordered
            continue
        # Perhaps it did and nobody said so: nothing of it may live when the next one is started.
        why = "it did not start in time"
        actions.append(eviction(state, replica, None, why))
        state = crashed(state, replica, why, now)
    for replica in late_ends:
        state, ordered = told_again(state, replica, now)
        actions += ordered
    state, ordered = change_events.let_run_again(state, now)
    actions += ordered
    state = pruned(state)
    policy = policy_named(state.settings.policy)
    settings = settings_of(policy, state.settings.parameters)
    state, snapshot = prepared(state, now)
    proposals = [*ease(snapshot), *gathered(policy.propose(snapshot, settings), snapshot)]
    if (admission := starvation.admission(snapshot, proposals)) is not None:
        proposals.append(admission)
    verdicts = plan(state, proposals, now, snapshot)
    state = _remember(state, verdicts, now)
    accepted = [verdict.proposal for verdict in verdicts if verdict.objection is None]
    state, ordered = order(state, accepted, now) if accepted else (state, [])
    return state, actions + ordered


def _remember(state: State, verdicts: Iterable[Verdict], now: float) -> State:
    """Keep each decision unless it says the same as the last one on that replica."""
    fresh: dict[str, Decision] = {}
    for verdict in verdicts:
        proposal, objection = verdict.proposal, verdict.objection
        target = proposal.target if isinstance(proposal, Migrate) else getattr(proposal, "node", "")
        said = f"{type(proposal).__name__} {target}".strip()
        refusal = None if objection is None else objection.refusal
        name = subject(proposal)
        last = state.verdicts.get(name)
        # A refusal for the same reason is no news, though the target may be another one by now.
        same = refusal is not None and last is not None and last.refusal is refusal
        if same and (refusal is not Refusal.DRY_RUN or (last is not None and last.proposal == said)):
            continue
        fresh[name] = Decision(
            at=now,
            replica=name,
            policy=state.settings.policy,
            proposal=said,
            reason=str(proposal.reason) if objection is None else objection.text,
            refusal=refusal,
        )
    if not fresh:
        return state
    return msgspec.structs.replace(
        state,
        verdicts={**state.verdicts, **fresh},
        decisions=(*state.decisions, *fresh.values())[-_DECISIONS:],
    )


def _manager_started(state: State, event: ev.ManagerStarted, now: float) -> Step:
    """Order again whatever was in flight; a deadline that passed while nobody watched is set anew."""
    state = msgspec.structs.replace(state, settings=event.settings)
    if event.settings.queues:
        queues = {queue.name: queue for queue in event.settings.queues}
        state = msgspec.structs.replace(state, queues=queues)
    state, actions = change_events.renewed(state, now)
    actions += change_events.let_run(state)
    for move in list(state.moves.values()):
        renewed = transaction.renew(state, move, now)
        state = state.with_move(renewed)
        actions += transaction.current_orders(state, renewed)
    for replica in list(state.replicas.values()):
        if replica.job in state.changes:
            continue
        if replica.leaving is not None and replica.active and replica.name not in state.moves:
            state, ordered = told_again(state, replica, now)
            actions += ordered
        elif replica.weight != 1.0 and replica.incarnation is not None:
            actions.append(weighed(replica, "set before the manager was started again"))
        if (
            replica.phase is Phase.STARTING
            and replica.leaving is None
            and replica.name not in state.moves
            and (replica.node is not None or state.jobs[replica.job].owned)
        ):
            waited = msgspec.structs.replace(replica, deadline=now + state.settings.deadlines.start)
            state = state.with_replica(waited)
            actions.append(
                StartReplica(
                    replica=replica.name,
                    start=replica.starts,
                    node=replica.node,
                    template=state.jobs[replica.job].spec.template,
                    reason="ordered before the manager was started again",
                    gang=gang_of(state, state.jobs[replica.job]),
                )
            )
    return state, actions


def _report_received(state: State, event: ev.ReportReceived, now: float) -> Step:
    learnt = learn(state, event.report, now)
    if learnt is None:
        return state, []
    if learnt.changes:
        learnt = change_events.reported(learnt, event.report, now)
    move = learnt.moves.get(event.report.replica)
    if move is None or not transaction.resumed(move, event.report):
        return learnt, []
    return transaction.happened(learnt, move, MoveOutcome.PROGRESSED, now)


def _instruction_delivered(state: State, event: ev.InstructionDelivered, now: float) -> Step:
    move = state.moves.get(event.replica)
    if move is None or move.id != event.id or move.incarnation != event.incarnation:
        return state, []
    return transaction.happened(state, move, MoveOutcome.CHECKPOINT_ASKED, now)


def _acknowledged(state: State, event: ev.InstructionAcknowledged, now: float) -> Step:
    answer = event.acknowledgement
    move = state.moves.get(answer.replica)
    if move is None and state.changes:
        return change_events.answered(state, answer, now)
    if move is None or move.id != answer.id or move.incarnation != answer.incarnation:
        return state, []
    return transaction.answered(state, move, answer, now)


def _eviction_refused(state: State, event: ev.EvictionRefused, now: float) -> Step:
    """End the move whose eviction is refused; on the way back from a target it must be ended all the same."""
    move = state.moves.get(event.replica)
    if move is None or move.attempt > 1 or move.incarnation != event.incarnation:
        return state, []
    return transaction.happened(state, move, MoveOutcome.EVICTION_REFUSED, now, note=event.reason)


def _room_held(state: State, event: ev.RoomHeld, now: float) -> Step:
    move = next((move for move in state.moves.values() if move.id == event.move), None)
    if move is None:
        return state, []
    return transaction.happened(state, move, MoveOutcome.ROOM_HELD, now)


def _room_refused(state: State, event: ev.RoomRefused, now: float) -> Step:
    move = next((move for move in state.moves.values() if move.id == event.move), None)
    if move is None:
        return state, []
    return transaction.happened(state, move, MoveOutcome.ROOM_REFUSED, now, note=event.reason)


_HANDLERS: Final[dict[type, Callable[[State, Any, float], Step]]] = {
    ev.ManagerStarted: _manager_started,
    ev.Tick: _tick,
    ev.NodeObserved: node_events.node_observed,
    ev.NodeGone: node_events.node_gone,
    ev.JobSubmitted: lifecycle.job_submitted,
    ev.JobObserved: owned_jobs.job_observed,
    ev.JobGone: owned_jobs.job_gone,
    ev.ReplicaStarted: lifecycle.replica_started,
    ev.StartRefused: lifecycle.start_refused,
    ev.ReplicaGone: lifecycle.replica_gone,
    ev.ReportReceived: _report_received,
    ev.InstructionDelivered: _instruction_delivered,
    ev.InstructionAcknowledged: _acknowledged,
    ev.EvictionRefused: _eviction_refused,
    ev.JobRefused: change_events.job_refused,
    ev.QueuesObserved: change_events.queues_observed,
    ev.MoveRequested: requested_moves.move_requested,
    ev.Paused: pause.paused,
    ev.RoomHeld: _room_held,
    ev.RoomRefused: _room_refused,
}

__all__ = ["Step", "step"]
