"""`step(state, event, now) -> (state, actions)`: the one function of the product.

Pure: no I/O, clock or randomness. The controller, the simulator and `replay` are drivers around it. Actions
may be carried out more than once; events may come late, twice or not at all.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from specon_manager.core import (
    defragment,
    early_leave,
    fair_shares,
    faster,
    lifecycle,
    node_events,
    owned_jobs,
    pause,
    requested_moves,
    saving,
)
from specon_manager.core.admission_gate import prepare
from specon_manager.core.gang import prune_ended
from specon_manager.core.orders import order, order_end, order_weight, start_order
from specon_manager.core.overdue import catch_up
from specon_manager.core.paces import learn_pace
from specon_manager.core.plan import Ruling, plan
from specon_manager.core.proposals import proposals
from specon_manager.core.reports import learn
from specon_manager.core.restarts import eviction
from specon_manager.core.settle import settle
from specon_manager.core.state import State, Step
from specon_manager.core.transaction import answers
from specon_manager.core.transaction.orders import release_order
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    DEFRAGMENT,
    Action,
    Admit,
    AdmitGang,
    Decision,
    Migrate,
    Refusal,
    subject,
)
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.renewal import forget_compared
from specon_manager.model.transactions import TransactionState

_DECISIONS: Final = 300


def step(state: State, event: ev.Event, now: float) -> Step:
    """Return the state after the event and the orders because of it.

    `now` is seconds on a clock that never goes back; it is not before that of the last call.
    """
    later = isinstance(event, ev.Tick | ev.ManagerStarted)
    before = state.flatten() if later else state
    state, actions = _HANDLERS[type(event)](before, event, now)
    state, followed = settle(before, state, now, later=later)
    actions += followed
    if isinstance(event, ev.Tick):
        before = state
        state, decided = _decide(before, now)
        state, followed = settle(before, state, now)
        state = state.flatten()
        actions += decided + followed
        forget_compared()
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


def frees_what_waits(before: State, after: State) -> bool:
    """Whether a step ended a transaction whose budget something waits for: a Tick is to follow, too.

    What waits is a request, a node to be emptied, or the rest of a plan that makes room. Of policies the
    next Tick is soon enough; so it is after a failure where nothing rests after one, which would begin again
    and again at one moment.
    """
    if before.transactions is after.transactions:
        return False
    ended = before.transactions.keys() - after.transactions.keys()
    if not after.settings.budgets.retry_cooldown:
        ended = {e.id for e in after.history if e.id in ended and e.state is TransactionState.SUCCEEDED}
    if not ended:
        return False
    return bool(after.requests or after.making_room.job) or early_leave.awaits_budget(after)


def _tick(state: State, event: ev.Tick, now: float) -> Step:
    """Look at overdue replicas and jobs."""
    del event
    state, actions = catch_up(state, now)
    return prune_ended(state), actions


def _decide(state: State, now: float) -> Step:
    """Ask the policy, and order what the plan accepts of its proposals; requests that wait go first."""
    state, actions = requested_moves.try_requests(state, now)
    state, ordered = early_leave.leave_early(state, now)
    actions += ordered
    claims = {job: claim for job, claim in state.claims.items() if claim.until > now}
    if len(claims) < len(state.claims):
        state = msgspec.structs.replace(state, claims=claims)
    state = fair_shares.count_use(state, now)
    state, snapshot = prepare(state, now)
    before = state.claims
    turn = fair_shares.next_turn(state, snapshot, ())
    seen = snapshot if turn is None else turn.seen(snapshot)
    state, ordered = _carry_out(state, plan(state, proposals(seen), now, seen, turn), now)
    if turn is not None and not turn.last:
        state, more = _other_turns(state, now, turn.queue)
        ordered += more
    actions += ordered
    if state.settings.defragment == "off" or state.pause is not None:
        return state, actions
    changed = bool(ordered) or state.claims is not before
    if snapshot.waiting:
        state, snapshot = prepare(state, now) if changed else (state, snapshot)
        state, verdicts = defragment.judge_room_making(state, snapshot, now)
        state, ordered = _carry_out(state, verdicts, now, DEFRAGMENT)
        actions += ordered
        changed = bool(verdicts)
    if state.setup_paces:
        state, verdicts = faster.judge_faster_move(state, state.snapshot(now) if changed else snapshot, now)
        state, ordered = _carry_out(state, verdicts, now, DEFRAGMENT)
        actions += ordered
    return state, actions


def _other_turns(state: State, now: float, first: str) -> Step:
    """Let the policy admit jobs of the queues after the first one; all else was decided with the first."""
    actions = list[Action]()
    done = [first]
    while True:
        state, snapshot = prepare(state, now)
        turn = fair_shares.next_turn(state, snapshot, done)
        if turn is None:
            return state, actions
        seen = turn.seen(snapshot)
        admissions = [each for each in proposals(seen) if isinstance(each, Admit | AdmitGang)]
        state, ordered = _carry_out(state, plan(state, admissions, now, seen, turn), now)
        actions += ordered
        done.append(turn.queue)


def _carry_out(state: State, verdicts: Iterable[Ruling], now: float, policy: str = "") -> Step:
    """Remember the decisions, of this policy or the one that is set, and order the accepted proposals."""
    state = _remember(state, verdicts, now, policy or state.settings.policy)
    accepted = [verdict.proposal for verdict in verdicts if verdict.objection is None]
    return order(state, accepted, now, policy=policy) if accepted else (state, [])


def _remember(state: State, verdicts: Iterable[Ruling], now: float, policy: str) -> State:
    """Keep each decision unless it says the same as the last one on that replica."""
    fresh: dict[str, Decision] = {}
    known = state.verdicts
    for verdict in verdicts:
        proposal, objection = verdict.proposal, verdict.objection
        refusal = None if objection is None else objection.refusal
        name = subject(proposal)
        last = known.get(name)
        # A refusal for the same reason is no news, though the target may be another one by now.
        same = refusal is not None and last is not None and last.refusal is refusal
        if same and refusal is not Refusal.DRY_RUN:
            continue
        target = proposal.target if isinstance(proposal, Migrate) else getattr(proposal, "node", "")
        said = f"{type(proposal).__name__} {target}".strip()
        if same and last is not None and last.proposal == said:
            continue
        fresh[name] = Decision(
            at=now,
            replica=name,
            policy=policy,
            proposal=said,
            reason=str(proposal.reason) if objection is None else objection.text,
            refusal=refusal,
        )
    if not fresh:
        return state
    return msgspec.structs.replace(
        state,
        verdicts={**known, **fresh},
        decisions=(*state.decisions, *fresh.values())[-_DECISIONS:],
    )


def _manager_started(state: State, event: ev.ManagerStarted, now: float) -> Step:
    """Order again whatever was in flight; a deadline that passed while nobody watched is set again."""
    state = msgspec.structs.replace(state, settings=event.settings)
    if event.settings.queues:
        queues = {queue.name: queue for queue in event.settings.queues}
        state = msgspec.structs.replace(state, queues=queues)
    state, actions = answers.order_again(state, now)
    actions += [
        eviction(state, state.replicas[known.replica], known.incarnation, "it was not wanted before either")
        for known in state.unwanted.values()
        if known.replica in state.replicas
    ]
    actions += [release_order(state, job) for job in state.jobs.values() if _may_be_held_back(state, job)]
    flying = {name for each in state.transactions.values() for name in each.concerned}
    for replica in list(state.replicas.values()):
        if replica.leaving is not None and replica.active:
            if replica.name not in flying and not state.jobs[replica.job].owned:
                state, ordered = order_end(state, replica, now)
                actions += ordered
            continue
        if replica.weighed and replica.incarnation is not None:
            actions.append(order_weight(replica, "set before the manager was started again"))
        ours = replica.name not in flying and not state.jobs[replica.job].owned
        if replica.phase is Phase.STARTING and ours:
            waited = msgspec.structs.replace(replica, deadline=now + state.settings.deadlines.start)
            state = state.with_replica(waited)
            if not state.has_unwanted(replica.name):
                actions.append(start_order(state, waited, "ordered before the manager was started again"))
    return state, actions


def _may_be_held_back(state: State, job: Job) -> bool:
    """Whether an owner may not have heard that its job is to run: the manager was killed as it said so."""
    if not job.owned or job.ended_at is not None or state.transactions_of(job.name):
        return False
    if job.release_due is not None:
        return True
    if not job.spec.adjustable or (job.spec.held and not job.admitted):
        return False
    return any(state.replicas[name].phase is Phase.AWAITED for name in job.spec.replicas)


def _report_received(state: State, event: ev.ReportReceived, now: float) -> Step:
    learnt = learn(state, event.report, now)
    if learnt is None:
        return state, []
    name = event.report.replica
    before = state.replicas[name]
    learnt = learn_pace(learnt, before, learnt.replicas[name])
    return answers.take_report(learnt, event.report, now, before.progress), []


def _queues_observed(state: State, event: ev.QueuesObserved, now: float) -> Step:
    """Take note of the queues with their quotas; what runs already is not touched."""
    queues = {queue.name: queue for queue in event.queues}
    state = fair_shares.restore_means(state, event.shares, now)
    return (state, []) if queues == state.queues else (msgspec.structs.replace(state, queues=queues), [])


_HANDLERS: Final[dict[type, Callable[[State, Any, float], Step]]] = {
    ev.ManagerStarted: _manager_started,
    ev.Tick: _tick,
    ev.NodeObserved: node_events.node_observed,
    ev.NodeGone: node_events.node_gone,
    ev.JobSubmitted: lifecycle.job_submitted,
    ev.JobObserved: owned_jobs.job_observed,
    ev.JobGone: owned_jobs.job_gone,
    ev.ReplicaStarted: lifecycle.replica_started,
    ev.ReplicaWarned: early_leave.replica_warned,
    ev.StartRefused: lifecycle.start_refused,
    ev.ReplicaGone: lifecycle.replica_gone,
    ev.ReportReceived: _report_received,
    ev.InstructionDelivered: answers.note_delivered,
    ev.InstructionAcknowledged: answers.take_answer,
    ev.EvictionRefused: answers.eviction_refused,
    ev.JobRefused: answers.job_refused,
    ev.OrderExpired: answers.note_expired,
    ev.SidecarMissing: answers.note_sidecar_missing,
    ev.QueuesObserved: _queues_observed,
    ev.MoveRequested: requested_moves.move_requested,
    ev.SaveRequested: saving.save_requested,
    ev.RequestWithdrawn: requested_moves.request_withdrawn,
    ev.Paused: pause.set_pause,
    ev.RoomHeld: answers.room_held,
    ev.RoomRefused: answers.room_refused,
}

__all__ = ["Step", "step"]
