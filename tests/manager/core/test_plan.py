"""The plan: which proposals are refused and why, in which order they are judged, and what each sees."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.core.state import Pause
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    Preempt,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
)
from specon_manager.model.cluster import Leaving, Phase
from specon_manager.model.constraints import Constraints
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import TransactionState
from support.decisions.cluster import replica_of
from support.decisions.gangs import gang, on, server, with_gang, worker
from support.decisions.snapshots import NOW, cluster_of, move_of

OPEN = Settings(
    policy="specon", gate=Gate(enabled=False), budgets=Budgets(moves_at_once=4, moves_at_once_per_node=4)
)


def state_of(layout=None, budgets=None, **changes):
    settings = OPEN if budgets is None else msgspec.structs.replace(OPEN, budgets=budgets)
    return cluster_of(layout or {"node-0": "pc", "node-1": "", "node-2": ""}, settings=settings, **changes)


def unheard(state, *, since):
    """Let the job train since then, and nothing be known of its log."""
    job = msgspec.structs.replace(state.jobs["default/c1"], trains_since=since)
    return changed(state.with_job(job), progress=Progress())


def changed(state, name="c1", **changes):
    replica = state.replicas[replica_of(name)]
    return state.with_replica(msgspec.structs.replace(replica, **changes))


def with_spec(state, name="c1", **changes):
    job = state.jobs[f"default/{name}"]
    spec = msgspec.structs.replace(job.spec, **changes)
    return msgspec.structs.replace(
        state, jobs={**state.jobs, job.name: msgspec.structs.replace(job, spec=spec)}
    )


def while_paused(state):
    return msgspec.structs.replace(state, pause=Pause(since=NOW, reason="the storage is serviced"))


def with_labels(state, node, **labels):
    labelled = msgspec.structs.replace(state.nodes[node], labels=labels)
    return msgspec.structs.replace(state, nodes={**state.nodes, node: labelled})


def migrate(name="c1", target="node-1"):
    return Migrate(replica=replica_of(name), target=target, purpose="migrate", reason="why")


def admit(name="c1", node="node-1"):
    return Admit(replica=replica_of(name), node=node, reason="why")


def in_flight(state, name, target, source="node-0", *, state_of_move=TransactionState.PROPOSED, index=0):
    return state.with_transaction(move_of(worker(name, index), source, target, state=state_of_move))


def refused(state, proposal, now=NOW):
    (verdict,) = plan(state, [proposal], now)
    return None if verdict.objection is None else verdict.objection.refusal


def full(state, node):
    return msgspec.structs.replace(
        state,
        nodes={**state.nodes, node: msgspec.structs.replace(state.nodes[node], capacity=Resources(cpu=0.5))},
    )


WAITING = {"phase": Phase.PENDING, "node": None, "incarnation": None}
G = "default/g"
PS, W0, W1, W2, W3 = server("g"), *(worker("g", index) for index in range(4))
LEAVING = Leaving(purpose="preempt", since=NOW, deadline=NOW, reason="why")


def admit_gang(*replicas, job=G, node="node-0"):
    return AdmitGang(job=job, placement=on(node, *replicas), reason="why")


def scale_out(*replicas, job=G, node="node-1"):
    return ScaleOut(job=job, placement=on(node, *replicas), reason="why")


def scale_in(*replicas, job=G):
    return ScaleIn(job=job, replicas=replicas, reason="why")


def preempt(job=G):
    return Preempt(job=job, reason="why")


def claim(*replicas, job=G, node="node-1"):
    return Claim(job=job, placement=on(node, *replicas), reason="why")


def reweight(weight, replica=W0):
    return Reweight(replica=replica, weight=weight, reason="why")


def idle(spec=None, reweight=False, **changes):
    """Three nodes of four cores; job `g` of a parameter server and two to four workers waits."""
    settings = msgspec.structs.replace(OPEN, reweight=reweight)
    state = cluster_of({"node-0": "", "node-1": "", "node-2": ""}, settings=settings)
    return with_gang(state, spec or gang("g", 3, most=4, fewest=2), {}, **changes)


def trains(*replicas, spec=None, reweight=False, **changes):
    """Job `g` trains on node-0, with these replicas, or with those that its owner asked for."""
    state = idle(spec, reweight)
    spec = state.jobs[G].spec
    return with_gang(state, spec, on("node-0", *(replicas or (PS, W0, W1, W2))), **changes)


def owned(state):
    """Let the owner of job `g` place it."""
    spec = msgspec.structs.replace(state.jobs[G].spec, placed_by="owner")
    return state.with_job(msgspec.structs.replace(state.jobs[G], spec=spec))


def but(state, replica, **changes):
    return state.with_replica(msgspec.structs.replace(state.replicas[replica], **changes))


def stepping(state, replica=W1):
    """Let the log of this replica name steps."""
    return but(state, replica, progress=Progress(step=100))


def over(state):
    """All of job `g` has succeeded."""
    for name in state.jobs[G].spec.replicas:
        state = but(state, name, phase=Phase.SUCCEEDED, incarnation=None, ended_at=NOW)
    return state.with_job(msgspec.structs.replace(state.jobs[G], ended_at=NOW, trains_since=None))


GANGS = {
    "a whole gang": (idle(), admit_gang(PS, W0, W1, W2), None),
    "with the fewest workers": (idle(), admit_gang(PS, W0, W1), None),
    "with more workers than were asked for": (
        idle(gang("g", 2, most=3, fewest=2)),
        admit_gang(PS, W0, W1, W2),
        None,
    ),
    "an unknown job to admit": (idle(), admit_gang(PS, job="default/h"), Refusal.UNKNOWN_JOB),
    "an unknown job to grow": (idle(), scale_out(W3, job="default/h"), Refusal.UNKNOWN_JOB),
    "an unknown job to shrink": (idle(), scale_in(W2, job="default/h"), Refusal.UNKNOWN_JOB),
    "an unknown job to preempt": (idle(), preempt("default/h"), Refusal.UNKNOWN_JOB),
    "an unknown job to claim for": (idle(), claim(job="default/h"), Refusal.UNKNOWN_JOB),
    "a job that has ended": (over(trains()), admit_gang(PS, W0, W1), Refusal.UNKNOWN_JOB),
    "an ended job to claim for": (over(trains()), claim(PS, W0), Refusal.UNKNOWN_JOB),
    "a job that runs already": (trains(), admit_gang(PS, W0, W1), Refusal.NOT_WAITING),
    "a job that is being preempted": (
        but(trains(), PS, leaving=LEAVING),
        admit_gang(PS, W0, W1),
        Refusal.NOT_WAITING,
    ),
    "a gang that pauses after a crash": (
        but(idle(), W1, not_before=NOW + 0.1, crashes=1),
        admit_gang(PS, W0, W1),
        Refusal.NOT_WAITING,
    ),
    "a gang whose pause is over": (
        but(idle(), W1, not_before=NOW, crashes=1),
        admit_gang(PS, W0, W1),
        None,
    ),
    "a gang without its server": (idle(), admit_gang(W0, W1, W2), Refusal.PARTIAL_GANG),
    "a gang of too few workers": (idle(), admit_gang(PS, W0), Refusal.PARTIAL_GANG),
    "a gang that may not shrink": (idle(gang("g", 3)), admit_gang(PS, W0, W1), Refusal.PARTIAL_GANG),
    "a gang of nothing": (idle(), admit_gang(), Refusal.PARTIAL_GANG),
    "a gang with another job's replica": (
        with_gang(idle(), gang("h"), {}),
        admit_gang(PS, W0, W1, worker("h")),
        Refusal.UNKNOWN_REPLICA,
    ),
    "a gang one of which is done": (
        but(idle(), W2, phase=Phase.SUCCEEDED, ended_at=1.0),
        admit_gang(PS, W0),
        None,
    ),
    "a gang whose workers are done": (
        but(idle(gang("g", 1)), W0, phase=Phase.SUCCEEDED, ended_at=1.0),
        admit_gang(PS),
        Refusal.NOT_WAITING,
    ),
    "a gang whose server is done": (
        but(idle(), PS, phase=Phase.SUCCEEDED, ended_at=1.0),
        admit_gang(W0),
        Refusal.PARTIAL_GANG,
    ),
    "a replica that is done, in a gang": (
        but(idle(), W2, phase=Phase.SUCCEEDED, ended_at=1.0),
        admit_gang(PS, W0, W1, W2),
        Refusal.NOT_PENDING,
    ),
    "a gang without room for all of it": (
        idle(gang("g", 3, cpu=1.5)),
        admit_gang(PS, W0, W1, W2),
        Refusal.NO_ROOM,
    ),
    "a gang that just fits": (idle(gang("g", 3)), admit_gang(PS, W0, W1, W2), None),
    "a gang on a node that is not ready": (
        idle(),
        admit_gang(PS, W0, W1, node="node-9"),
        Refusal.NODE_NOT_READY,
    ),
    "one more worker": (trains(), scale_out(W3), None),
    "growth of a job that waits": (idle(), scale_out(W3), Refusal.NOT_RUNNING),
    "growth of a job that only starts": (trains(trains_since=None), scale_out(W3), Refusal.NOT_RUNNING),
    "growth by what is there": (trains(), scale_out(W2), Refusal.NOT_ELASTIC),
    "growth by another job's replica": (
        with_gang(trains(), gang("h"), {}),
        scale_out(worker("h")),
        Refusal.UNKNOWN_REPLICA,
    ),
    "growth by nothing": (trains(), scale_out(), Refusal.PARTIAL_GANG),
    "growth without room": (trains(), scale_out(W3, node="node-0"), Refusal.NO_ROOM),
    "growth on an unknown node": (trains(), scale_out(W3, node="node-9"), Refusal.NODE_NOT_READY),
    "one worker less": (trains(), scale_in(W2), None),
    "fewer than the fewest": (trains(), scale_in(W1, W2), Refusal.BELOW_MINIMUM),
    "a worker twice is one worker": (trains(), scale_in(W2, W2), None),
    "fewer workers of a job of fixed size": (
        trains(spec=gang("g", 3)),
        scale_in(W2),
        Refusal.BELOW_MINIMUM,
    ),
    "the first worker": (trains(), scale_in(W0), Refusal.NOT_ELASTIC),
    "a parameter server": (trains(), scale_in(PS), Refusal.NOT_ELASTIC),
    "a worker that is absent": (trains(), scale_in(W3), Refusal.NOT_RUNNING),
    "a worker that is told already": (
        but(trains(), W2, leaving=msgspec.structs.replace(LEAVING, purpose="scale-in")),
        scale_in(W2),
        Refusal.NOT_RUNNING,
    ),
    "fewer while another leaves": (
        but(trains(), W2, leaving=msgspec.structs.replace(LEAVING, purpose="scale-in")),
        scale_in(W1),
        Refusal.BELOW_MINIMUM,
    ),
    "a worker that moves": (
        in_flight(trains(), "g", "node-1", index=2),
        scale_in(W2),
        Refusal.IN_FLIGHT,
    ),
    "no worker at all": (trains(), scale_in(), Refusal.UNKNOWN_REPLICA),
    "another job's worker": (trains(), scale_in(worker("h")), Refusal.UNKNOWN_REPLICA),
    "a worker that never saves": (
        trains(spec=gang("g", 3, fewest=2, checkpointing="none")),
        scale_in(W2),
        Refusal.NO_CHECKPOINT,
    ),
    "preempted": (trains(), preempt(), None),
    "preempted before all of it runs": (
        but(trains(trains_since=None), W1, phase=Phase.STARTING, incarnation=None),
        preempt(),
        None,
    ),
    "a job that waits cannot be preempted": (idle(), preempt(), Refusal.NOT_RUNNING),
    "a job is preempted once at a time": (but(trains(), W1, leaving=LEAVING), preempt(), Refusal.IN_FLIGHT),
    "a part of it moves": (in_flight(trains(), "g", "node-1"), preempt(), Refusal.IN_FLIGHT),
    "it would lose everything": (
        trains(spec=gang("g", 3, checkpointing="none")),
        preempt(),
        Refusal.NO_CHECKPOINT,
    ),
    "it was preempted often": (trains(preempted_at=(NOW - 3599,) * 4), preempt(), Refusal.PREEMPTION_BUDGET),
    "that was an hour ago": (trains(preempted_at=(NOW - 3600,) * 4), preempt(), None),
    "it may be preempted once more": (trains(preempted_at=(NOW,) * 3), preempt(), None),
    "a gang on a node of another kind": (
        idle(gang("g", 3, constraints=Constraints(selector=(("disk", "ssd"),)))),
        admit_gang(PS, W0, W1, W2),
        Refusal.NOT_ELIGIBLE,
    ),
    "a gang that its owner places": (owned(idle()), admit_gang(PS, W0, W1, W2), Refusal.PLACED_BY_OWNER),
    "growth of what its owner places": (owned(trains()), scale_out(W3), Refusal.PLACED_BY_OWNER),
    "shrinking of what its owner places": (owned(trains()), scale_in(W2), Refusal.PLACED_BY_OWNER),
    "preemption of what its owner places": (owned(trains()), preempt(), Refusal.PLACED_BY_OWNER),
    "a claim of what its owner places": (owned(idle()), claim(PS, W0), Refusal.PLACED_BY_OWNER),
    "a weight of what its owner places": (
        owned(trains(reweight=True)),
        reweight(2.5),
        Refusal.NOT_REWEIGHTABLE,
    ),
    "the cluster is busy with changes": (
        msgspec.structs.replace(
            trains(spec=gang("g", 3, most=4, fewest=2, resizing="live")),
            settings=msgspec.structs.replace(OPEN, budgets=Budgets(changes_at_once=0)),
        ),
        scale_in(W2),
        Refusal.CHANGE_BUDGET,
    ),
    "a claim": (idle(), claim(PS, W0, W1), None),
    "a claim that is given up": (idle(), claim(), None),
    "a claim of a job that runs": (trains(), claim(PS, W0), Refusal.NOT_WAITING),
    "a claim for another job's replica": (
        with_gang(idle(), gang("h"), {}),
        claim(worker("h")),
        Refusal.UNKNOWN_REPLICA,
    ),
    "a claim on an unknown node": (idle(), claim(PS, node="node-9"), Refusal.NODE_NOT_READY),
    "a replica of a job that is to leave": (
        but(but(trains(), PS, leaving=LEAVING), W1, **WAITING),
        Admit(replica=W1, node="node-1", reason="why"),
        Refusal.IN_FLIGHT,
    ),
    "a replica of a job that shrinks": (
        but(
            but(trains(), W2, leaving=msgspec.structs.replace(LEAVING, purpose="scale-in")),
            W1,
            **WAITING,
        ),
        Admit(replica=W1, node="node-1", reason="why"),
        None,
    ),
    "an absent worker": (trains(), Admit(replica=W3, node="node-1", reason="why"), Refusal.NOT_PENDING),
    "a weight": (trains(reweight=True), reweight(2.5), None),
    "a weight that nobody can set": (trains(), reweight(2.5), Refusal.NOT_REWEIGHTABLE),
    "no weight": (trains(reweight=True), reweight(0.0), Refusal.NOT_REWEIGHTABLE),
    "a weight that is no number": (trains(reweight=True), reweight(float("nan")), Refusal.NOT_REWEIGHTABLE),
    "a weight beyond bounds": (trains(reweight=True), reweight(1e7), Refusal.NOT_REWEIGHTABLE),
    "a weight of what does not run": (trains(reweight=True), reweight(2.5, W3), Refusal.NOT_RUNNING),
    "a weight of what leaves": (
        but(trains(reweight=True), W0, leaving=LEAVING),
        reweight(2.5),
        Refusal.NOT_RUNNING,
    ),
    "a weight of what is unknown": (
        trains(reweight=True),
        reweight(2.5, worker("h")),
        Refusal.UNKNOWN_REPLICA,
    ),
}
"""Proposals about whole jobs; in `CASES` those about single replicas."""

CASES = {
    "a move during a pause": (while_paused(state_of()), migrate(), Refusal.PAUSED),
    "a start during a pause": (while_paused(changed(state_of(), **WAITING)), admit(), Refusal.PAUSED),
    "accepted": (state_of(), migrate(), None),
    "an unknown replica": (state_of(), migrate("c9"), Refusal.UNKNOWN_REPLICA),
    "an unknown replica to admit": (state_of(), admit("c9"), Refusal.UNKNOWN_REPLICA),
    "an unknown node": (state_of(), migrate(target="node-9"), Refusal.NODE_NOT_READY),
    "an unknown node to start on": (changed(state_of(), **WAITING), admit(node="n"), Refusal.NODE_NOT_READY),
    "a node that is not ready": (state_of(not_ready="node-1"), migrate(), Refusal.NODE_NOT_READY),
    "no room": (
        full(changed(state_of(), requests=Resources(cpu=1)), "node-1"),
        migrate(),
        Refusal.NO_ROOM,
    ),
    "no room to start": (
        full(changed(state_of(), requests=Resources(cpu=1), **WAITING), "node-1"),
        admit(),
        Refusal.NO_ROOM,
    ),
    "admitted": (changed(state_of(), **WAITING), admit(), None),
    "it runs already": (state_of(), admit(), Refusal.NOT_PENDING),
    "it has ended": (changed(state_of(), phase=Phase.FAILED), admit(), Refusal.NOT_PENDING),
    "it only starts": (changed(state_of(), phase=Phase.STARTING), migrate(), Refusal.NOT_RUNNING),
    "it waits": (changed(state_of(), **WAITING), migrate(), Refusal.NOT_RUNNING),
    "it has a move": (in_flight(state_of(), "c1", "node-2"), migrate(), Refusal.IN_FLIGHT),
    "a node of another kind": (
        with_spec(state_of(), constraints=Constraints(selector=(("disk", "ssd"),))),
        migrate(),
        Refusal.NOT_ELIGIBLE,
    ),
    "a node of the right kind": (
        with_spec(
            with_labels(state_of(), "node-1", disk="ssd"),
            constraints=Constraints(selector=(("disk", "ssd"),)),
        ),
        migrate(),
        None,
    ),
    "a start on a node of another kind": (
        changed(with_spec(state_of(), constraints=Constraints(selector=(("disk", "ssd"),))), **WAITING),
        admit(),
        Refusal.NOT_ELIGIBLE,
    ),
    "it cannot be moved": (with_spec(state_of(), immovable="on an emptyDir"), migrate(), Refusal.FORBIDDEN),
    "a start of what its owner places": (
        changed(with_spec(state_of(), placed_by="owner"), phase=Phase.AWAITED, node=None, incarnation=None),
        admit(),
        Refusal.PLACED_BY_OWNER,
    ),
    "a move of what its owner places": (with_spec(state_of(), placed_by="owner"), migrate(), None),
    "its owner forbids it": (with_spec(state_of(), migratable=False), migrate(), Refusal.FORBIDDEN),
    "it never saves": (with_spec(state_of(), checkpointing="none"), migrate(), Refusal.NO_CHECKPOINT),
    "it shows no steps": (
        changed(
            state_of(),
            progress=msgspec.structs.replace(state_of().replicas[replica_of("c1")].progress, step=None),
        ),
        migrate(),
        Refusal.NO_STEPS,
    ),
    "it began to train a moment ago": (
        unheard(state_of(), since=NOW - 29.0),
        migrate(),
        Refusal.JUST_STARTED,
    ),
    "it has trained for a while and shows nothing": (
        unheard(state_of(), since=NOW - 30.0),
        migrate(),
        Refusal.NO_STEPS,
    ),
    "it moved a moment ago": (changed(state_of(), cooldown_until=NOW + 0.1), migrate(), Refusal.COOLDOWN),
    "its pause is over": (changed(state_of(), cooldown_until=NOW), migrate(), None),
    "it moved often": (changed(state_of(), disrupted=4), migrate(), Refusal.REPLICA_BUDGET),
    "its last move was no success": (
        changed(state_of(), unproven="it started from the beginning"),
        migrate(),
        Refusal.UNPROVEN,
    ),
    "others wait on it": (
        trains(),
        Migrate(replica=W1, target="node-1", purpose="migrate", reason="why"),
        Refusal.COUPLED,
    ),
    "others train without it": (
        stepping(trains(spec=gang("g", 3, coupled=False))),
        Migrate(replica=W1, target="node-1", purpose="migrate", reason="why"),
        None,
    ),
    "it is there already": (state_of(), migrate(target="node-0"), Refusal.SAME_NODE),
    "no moves at all": (state_of(budgets=Budgets(moves_at_once=0)), migrate(), Refusal.CLUSTER_BUDGET),
    "the cluster is busy": (
        in_flight(state_of(budgets=Budgets(moves_at_once=1)), "p0", "node-2"),
        migrate(),
        Refusal.CLUSTER_BUDGET,
    ),
    "its node is busy": (
        in_flight(state_of(budgets=Budgets(moves_at_once_per_node=1)), "p0", "node-2"),
        migrate(),
        Refusal.NODE_BUDGET,
    ),
    "the target is busy": (
        in_flight(
            state_of({"node-0": "pc", "node-1": "", "node-2": "p"}, Budgets(moves_at_once_per_node=1)),
            "p2",
            "node-1",
            "node-2",
        ),
        migrate(),
        Refusal.NODE_BUDGET,
    ),
}


ALL = {**CASES, **GANGS}


@pytest.mark.parametrize(("state", "proposal", "expected"), ALL.values(), ids=ALL.keys())
def test_a_proposal_is_judged_with_its_reason(state, proposal, expected):
    """Every refusal has its code, and words that a person understands."""
    (verdict,) = plan(state, [proposal], NOW)
    assert (None if verdict.objection is None else verdict.objection.refusal) == expected
    assert verdict.proposal == proposal
    assert verdict.objection is None or verdict.objection.text


def test_every_refusal_has_a_case():
    """A new reason to refuse must be shown to refuse; the gate, quotas and the like have their own."""
    elsewhere = {Refusal.WORSE_LOADED, Refusal.NO_GAIN}
    elsewhere |= {Refusal.QUOTA, Refusal.STARVATION, Refusal.PRIORITY, Refusal.DRY_RUN}
    assert {expected for _, _, expected in ALL.values()} - {None} == set(Refusal) - elsewhere


def test_the_least_disruptive_is_judged_first():
    """Staying, then starting, then moving; the policy's own order within each."""
    state = changed(state_of({"node-0": "pcc", "node-1": "", "node-2": ""}), **WAITING)
    stay = Stay(replica=replica_of("p0"), purpose="migrate", reason="why")
    proposals = [migrate("c2"), migrate("p0"), admit("c1"), stay]
    assert [verdict.proposal for verdict in plan(state, proposals, NOW)] == [
        stay,
        admit("c1"),
        migrate("c2"),
        migrate("p0"),
    ]


def test_a_start_takes_the_room_that_a_later_move_wanted():
    """Each is judged on a copy in which those accepted before it are carried out."""
    state = state_of({"node-0": "pcc", "node-1": ""}, cpus=4.0)
    for name in ("c1", "c2"):
        state = changed(state, name, requests=Resources(cpu=3))
    state = changed(state, "c1", **WAITING)
    first, second = plan(state, [migrate("c2"), admit("c1")], NOW)
    assert first.objection is None
    assert second.objection is not None
    assert second.objection.refusal is Refusal.NO_ROOM
    assert refused(state, migrate("c2")) is None


def test_of_two_starts_for_one_place_the_second_is_refused():
    """The second proposal sees the first."""
    state = state_of({"node-0": "", "node-1": "cc"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1), **WAITING)
    verdicts = plan(state, [admit("c0", "node-0"), admit("c1", "node-0")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NO_ROOM]


def test_one_replica_is_neither_started_nor_moved_twice():
    """However often a policy proposes it."""
    state = state_of()
    verdicts = plan(state, [migrate(), migrate(target="node-2")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.IN_FLIGHT]
    waiting = changed(state, **WAITING)
    verdicts = plan(waiting, [admit(), admit(node="node-2")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NOT_PENDING]


@pytest.mark.parametrize(("budget", "accepted"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_the_budget_of_the_cluster_counts_what_is_accepted_now(budget, accepted):
    """Three proposals, so many moves."""
    layout = {"node-0": "ccc", "node-1": "", "node-2": ""}
    state = state_of(layout, Budgets(moves_at_once=budget, moves_at_once_per_node=9))
    verdicts = plan(state, [migrate("c0"), migrate("c1"), migrate("c2", "node-2")], NOW)
    assert sum(verdict.objection is None for verdict in verdicts) == accepted


def test_the_budget_of_a_node_counts_it_as_source_and_as_target():
    """One move at a time of each node, but unrelated nodes move at the same time."""
    layout = {"node-0": "cc", "node-1": "", "node-2": "c", "node-3": ""}
    state = state_of(layout, Budgets(moves_at_once=9, moves_at_once_per_node=1))
    proposals = [migrate("c0", "node-1"), migrate("c1", "node-3"), migrate("c2", "node-3")]
    verdicts = plan(state, proposals, NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NODE_BUDGET, None]


@pytest.mark.parametrize("progress", list(TransactionState)[:6])
def test_a_move_holds_room_on_both_of_its_nodes_until_it_ends(progress):
    """Nothing takes the target, nor the place on the source to which a failed restore goes back."""
    state = state_of({"node-0": "c", "node-1": "", "node-2": "c"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1))
    if progress in {TransactionState.COMING, TransactionState.VERIFYING}:
        state = changed(state, "c0", node="node-1")
    moving = in_flight(state, "c0", "node-1", state_of_move=progress)
    assert refused(moving, migrate("c1", "node-1")) is Refusal.NO_ROOM
    assert refused(moving, migrate("c1", "node-0")) is Refusal.NO_ROOM


def test_on_the_way_back_the_target_is_full_until_nothing_is_left_on_it():
    """A second attempt evicts from the target first: its room is not free before that."""
    state = state_of({"node-0": "c", "node-1": "", "node-2": "c"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1))
    back = in_flight(
        changed(state, "c0", node="node-1"), "c0", "node-1", state_of_move=TransactionState.LEAVING
    )
    back = back.with_transaction(msgspec.structs.replace(back.transaction_of(replica_of("c0")), attempt=2))
    assert refused(back, migrate("c1", "node-1")) is Refusal.NO_ROOM
    restoring = changed(back, "c0", node="node-0")
    assert refused(restoring, migrate("c1", "node-1")) is None


def test_nothing_is_planned_where_nothing_is_proposed():
    """No proposal, no verdict."""
    assert plan(state_of(), [], NOW) == ()
