"""What is true of the manager's state after every event, and of whatever it orders."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from specon_manager.core.state import State, unwanted_key
from specon_manager.model.actions import Action, EvictReplica, PlaceJob, SetWeight, StartReplica
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.rooms import Rooms, rooms
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.survey import Survey, survey_records
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.preemption.running import EquivalenceClass, Kinds, Running, kinds
from specon_manager.policies.preemption.victims import length_of, running_best_effort
from specon_manager.policies.prospects import Left, varies
from support.decisions import transaction_invariants


def check(
    before: State,
    after: State,
    actions: Sequence[Action],
    *,
    crowded: Collection[str],
    now: float,
    whole: bool,
) -> None:
    """Check one step; `crowded` are the nodes on which something runs that was ordered elsewhere.

    `whole`: whether the policy starts jobs that wait as a whole only.
    """
    for number, action in enumerate(actions):
        if isinstance(action, EvictReplica):
            _check_eviction(after, action)
        elif isinstance(action, StartReplica):
            _check_start(after, action, actions[number + 1 :])
        elif isinstance(action, SetWeight):
            assert action.incarnation == after.replicas[action.replica].incarnation
        elif isinstance(action, PlaceJob):
            job = after.jobs.get(action.job)
            assert job is None or job.owned
    weights = {action.replica: action.weight for action in actions if isinstance(action, SetWeight)}
    assert all(after.replicas[name].weight == weight for name, weight in weights.items())
    _check_told(before, after, actions, now)
    check_survey(after, now)
    transaction_invariants.check(before, after, actions, now)
    _check_replicas(after)
    _check_jobs(before, after, now, whole=whole)
    _check_claims(after)
    _check_capacity(after, crowded)
    _check_budgets(after)
    flat = after.flatten()
    assert msgspec.json.decode(msgspec.json.encode(flat), type=State) == flat


def _check_eviction(state: State, action: EvictReplica) -> None:
    """Evict what is wanted only where it was told to end; by a transaction, only with checkpoints."""
    replica = state.replicas[action.replica]
    assert not state.jobs[replica.job].owned, f"{action}: its owner ends it"
    if unwanted_key(action.replica, action.incarnation or "") in state.unwanted:
        return
    if replica.incarnation is None or action.incarnation not in {None, replica.incarnation}:
        return
    assert replica.leaving is not None, f"{action}, which was not told to end"
    transaction = state.transaction_of(action.replica)
    if transaction is not None:
        transaction_invariants.check_permitted(state, transaction)


def _check_start(state: State, action: StartReplica, following: Sequence[Action]) -> None:
    """Start only what is awaited now, and nothing that was told to end before."""
    replica = state.replicas[action.replica]
    assert not state.jobs[replica.job].owned, f"{action}: its owner starts it"
    assert replica.phase is Phase.STARTING, f"{action} while {replica.phase}"
    assert (replica.node, replica.starts) == (action.node, action.start)
    told = any(isinstance(other, EvictReplica) and other.replica == replica.name for other in following)
    assert replica.leaving is None or told, f"{action}, which is to end"
    assert not action.gang or action.replica in action.gang


def _check_told(before: State, after: State, actions: Sequence[Action], now: float) -> None:
    """See that whatever is told to end gets the order, now or with the next Tick."""
    evicted = {action.replica for action in actions if isinstance(action, EvictReplica)}
    for replica in after.replicas.values():
        if replica.leaving is None or after.jobs[replica.job].owned:
            continue
        known = before.replicas.get(replica.name)
        if known is None or known.leaving != replica.leaving:
            soon = replica.leaving.deadline <= now and after.transaction_of(replica.name) is None
            waits = known is not None and known.leaving is not None  # it was told, for another purpose
            assert soon or waits or replica.name in evicted, f"{replica.name} is not told"


def _check_replicas(state: State) -> None:
    for replica in state.replicas.values():
        assert (replica.incarnation is not None) == (replica.phase is Phase.RUNNING), replica
        owned = state.jobs[replica.job].owned
        assert owned or not replica.active or replica.node in state.nodes
        assert replica.ended == (replica.ended_at is not None)
        assert replica.leaving is None or replica.active, f"{replica.name} leaves while {replica.phase}"
        assert replica.phase is not Phase.ABSENT or replica.role != "ps", f"{replica.name} is absent"
        _check_room(state, replica)
        if owned:
            _check_owned(state, replica)
        else:
            assert replica.phase is not Phase.AWAITED
    for job in state.jobs.values():
        present = _present(state, job)
        assert present or job.owned, f"nothing of {job.name} is left"
        over = bool(present) and all(replica.ended for replica in present)
        assert over == (job.ended_at is not None)


def _check_room(state: State, replica: Replica) -> None:
    """See that nothing takes room for nothing: an order has a deadline, and a job goes on."""
    flying = state.transaction_of(replica.name)
    if replica.phase is Phase.STARTING:
        assert flying is not None or replica.deadline is not None or replica.leaving is not None, replica
    if replica.holds:
        assert replica.phase in {Phase.PENDING, Phase.AWAITED}, replica
        assert replica.lost_at is not None, replica
        assert replica.node is not None
        members = (state.replicas[name] for name in state.jobs[replica.job].spec.replicas)
        goes_on = any(member.active for member in members) or state.transactions_of(replica.job)
        assert goes_on, f"{replica.name} keeps room for a job without a replica on a node"


def _check_owned(state: State, replica: Replica) -> None:
    """Check that only a transaction ends a replica that its owner places, and that none is left over."""
    job = state.jobs[replica.job]
    assert (replica.name in job.spec.replicas) != (replica.name in job.dropped), replica.name
    assert replica.phase is not Phase.FAILED, "its owner counts crashes, not we"
    if replica.leaving is not None:
        flying = state.transaction_of(replica.name) or state.whole_transaction_of(job.name)
        assert flying is not None, f"{replica.name} leaves for nothing"
    if not job.spec.adjustable:
        assert replica.phase is not Phase.PENDING
        assert replica.phase is not Phase.ABSENT or job.spec.present is not None


def _check_jobs(before: State, after: State, now: float, *, whole: bool) -> None:
    """See that gangs train whole, wait whole, end whole, and that what they trained is counted once."""
    for job in after.jobs.values():
        known = before.jobs.get(job.name)
        if job.owned and not (known is not None and known.spec.held):
            counted = 0 if known is None else known.preemptions
            assert job.preemptions == counted, f"{job.name} is preempted, and its owner names no queue"
        present = _present(after, job)
        active = [replica for replica in present if replica.active]
        trains = bool(active) and transaction_invariants.trains(after, job, present)
        assert (job.trains_since is not None) == trains, f"{job.name} trains: {trains}"
        workers = [replica for replica in present if replica.role != "ps"]
        if trains and not job.owned:
            assert len(workers) >= job.spec.fewest_workers, f"{job.name} trains with {len(workers)} workers"
        if job.owned:
            continue
        if job.ended_at is None and not active and not after.transactions_of(job.name):
            wanted = {*job.spec.ps, *job.spec.worker_names[: job.spec.wanted_workers]}
            waits = {replica.name for replica in present if not replica.ended}
            ended = {replica.name for replica in present if replica.ended}
            assert waits == wanted - ended, f"{job.name} waits with {sorted(waits)}"
        if any(r.phase is Phase.FAILED for r in present) or (
            workers and all(r.phase is Phase.SUCCEEDED for r in workers)
        ):
            assert all(r.ended or r.leaving is not None for r in present), f"{job.name} lives on in part"
        if known is not None:
            assert job.preemptions - known.preemptions in {0, 1}
            assert job.attained(now) >= known.attained(now) - 1e-6, f"{job.name} has trained less than before"
        if whole and active and known is not None:
            waited = not any(before.replicas[name].active for name in job.spec.replicas)
            waited = waited and not before.transactions_of(job.name)
            parts = [replica.name for replica in present if replica.phase is Phase.PENDING]
            assert not (waited and parts), f"{job.name} was started without {parts}"
    over = {name for name, job in after.jobs.items() if job.ended_at is not None and not job.owned}
    assert set(after.ended_jobs) == over
    assert len(after.ended_jobs) == len(over)
    ends = [after.jobs[name].ended_at or 0.0 for name in after.ended_jobs]
    assert all(first <= second for first, second in pairwise(ends))


def _present(state: State, job: Job) -> list[Replica]:
    members = [state.replicas[name] for name in job.spec.replicas]
    return [replica for replica in members if replica.phase is not Phase.ABSENT]


def _check_claims(state: State) -> None:
    """Room is claimed by jobs that wait, for their own replicas."""
    for name, claim in state.claims.items():
        job = state.jobs[name]
        assert job.ended_at is None, f"{name} has ended and has a claim"
        assert state.whole_transaction_of(name) is None, f"{name} is changed and has a claim"
        assert not any(state.replicas[replica].active for replica in job.spec.replicas)
        assert claim.placement
        assert {replica for replica, _ in claim.placement} <= set(job.spec.replicas)


def _check_capacity(state: State, crowded: Collection[str]) -> None:
    """Every replica fits where it is, where a transaction will bring it, and where it must go back to."""
    places: dict[str, list[Replica]] = {name: [] for name in state.nodes}
    for replica in state.replicas.values():
        nodes = {replica.node} if replica.occupies else set()
        transaction = state.transaction_of(replica.name)
        if transaction is not None:
            nodes.add(transaction.wanted.get(replica.name))
            if transaction.keeps_way_back:
                nodes.add(transaction.before.get(replica.name))
        for node in nodes & places.keys():
            places[node].append(replica)
    for node in state.nodes.values():
        if node.name in crowded:
            continue
        for what in ("cpu", "memory", "gpu"):
            total = sum(getattr(replica.requests, what) for replica in places[node.name])
            assert total <= getattr(node.capacity, what) + 1e-9, f"{node.name} holds {total} {what}"


def _check_budgets(state: State) -> None:
    budgets = state.settings.budgets
    snapshot = state.snapshot(0.0)
    assert len(snapshot.moves) <= budgets.moves_at_once
    busy = Counter(node for move in snapshot.moves for node in move.nodes)
    assert all(count <= budgets.moves_at_once_per_node for count in busy.values()), busy
    assert all(replica.moves <= budgets.moves_per_replica for replica in state.replicas.values())
    for job in state.jobs.values():
        assert job.hang_restarts <= budgets.hang_restarts_per_job, job.name
        since = max(job.preempted_at, default=0.0) - budgets.preemption_window
        assert sum(at > since for at in job.preempted_at) <= budgets.preemptions_per_job, job.name


def check_survey(state: State, now: float) -> None:
    """Assert that what is counted from one event to the next is what a look at every replica tells."""
    moving = state.snapshot(now).moving
    told, counted = survey_records(state.replicas, moving).told(), Survey.of(state.replicas, moving).told()
    assert told == counted, f"{told} was counted, and there is {counted}"
    census = survey_records(state.replicas, moving).census
    kept, anew = rooms(state.nodes, census), Rooms(state.nodes, census)
    for each in ("ready", "capacity", "free", "parts", "count"):
        assert getattr(kept, each) == getattr(anew, each)
        assert list(getattr(kept, each)) == list(getattr(anew, each))
    for each in ("largest", "rank", "sharing", "total", "whole"):
        assert getattr(kept, each) == getattr(anew, each)
    snapshot = state.snapshot(now)
    check_order(snapshot)
    kept, anew = kinds(snapshot), Kinds(snapshot)
    assert kept.at == anew.at
    assert {kind: names for kind, names in kept.kinds.items() if names} == anew.kinds


def check_kinds(snapshot: Snapshot) -> None:
    """Assert that the kind of each best-effort job is that of the job as a candidate, looked at alone."""
    anew = Kinds(snapshot)
    running = Running(snapshot)
    alone = {each.name: each for each in running_best_effort(snapshot)}
    assert {name for name in anew.at if running.candidate(name) is not None} == alone.keys()
    for name, each in alone.items():
        freed = each.frees[0][1] if len(each.frees) == 1 else None
        assert anew.at[name] == EquivalenceClass(length_of(each.shares), each.job.spec.grace_seconds, freed)
    assert running.kinds().keys() == {anew.at[name] for name in alone}


def check_order(snapshot: Snapshot) -> None:
    """Assert that the jobs come in the order of what each of them has left, asked one by one."""
    expected = Expectation(snapshot, prior_seconds=600.0, size_power=0.5, objective="balanced")
    jobs = [snapshot.jobs[name] for name in snapshot.active_jobs]
    measured = [
        Left(job, expected.work(job), expected.remaining(job)) for job in jobs if expected.measured(job)
    ]
    measured.sort(key=lambda each: (-each.work, each.job.order))
    assert list(expected.most_work()) == measured
    assert list(expected.most_work(100.0)) == [each for each in measured if each.remaining > 100.0]
    elastic = sorted(
        (job for job in jobs if job.spec.elastic), key=lambda job: (expected.remaining(job), job.order)
    )
    assert list(expected.longest_elastic()) == elastic[::-1]
    varying = [job for job in elastic if varies(job, snapshot.active_jobs[job.name])]
    assert sorted(expected.varying(), key=lambda job: (expected.remaining(job), job.order)) == varying
