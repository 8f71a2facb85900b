"""The snapshot: who waits, who runs, what room is open, and copies that agree with what they stand for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import Claimed, Leaving, Phase
from specon_manager.model.constraints import Constraints, Taint
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import Kind
from specon_manager.policies.preemption.victims import running_best_effort
from support.decisions.gangs import gang, on, server, with_gang, worker
from support.decisions.snapshots import move_of
from support.decisions.told import state_of

NOW = 1000.0
A, B, C = (f"default/{name}" for name in "abc")
PS, W0, W1, W2 = server("a"), *(worker("a", index) for index in range(3))
CPU4 = Resources(cpu=4, memory=8e9)


def told(purpose):
    return Leaving(purpose=purpose, since=NOW, deadline=NOW, reason="why")


def but(state, replica, **changes):
    return state.with_replica(msgspec.structs.replace(state.replicas[replica], **changes))


def names(records):
    return [record.name for record in records]


def running():
    """Job `a` runs with two of one to three workers, job `b` waits for one worker without a server."""
    state = with_gang(state_of(), gang("a", 2, most=3, fewest=1), on("node-0", PS, W1, W0))
    return with_gang(state, gang("b", 1, ps=0), {})


def test_the_members_of_a_job_are_all_that_it_may_ever_have():
    """In the order of its description; a job that has ended has none."""
    state = running()
    members = state.snapshot(NOW).members
    assert {job: names(replicas) for job, replicas in members.items()} == {
        A: [PS, W0, W1, W2],
        B: [worker("b")],
    }
    ended = state.with_job(msgspec.structs.replace(state.jobs[B], ended_at=NOW))
    assert list(ended.snapshot(NOW).members) == [A]


def test_workers_are_those_that_occupy_nodes_and_stay():
    """By index, starting ones included; servers apart from them."""
    state = but(running(), W1, phase=Phase.STARTING, incarnation=None)
    snapshot = state.snapshot(NOW)
    assert names(snapshot.workers(A)) == [W0, W1]
    assert names(snapshot.servers(A)) == [PS]
    assert names(but(state, W1, leaving=told("scale-in")).snapshot(NOW).workers(A)) == [W0]
    assert (snapshot.workers(B), snapshot.servers(B), snapshot.workers("default/z")) == ((), (), ())


@pytest.mark.parametrize(
    ("changes", "waits", "runs"),
    [
        ({}, [B], [A]),
        ({PS: {"leaving": told("scale-in")}}, [B], [A]),
        ({W0: {"leaving": told("preempt")}}, [B], []),
        ({PS: {"leaving": told("complete")}}, [B], []),
        ({PS: {"leaving": told("fail")}}, [B], []),
        ({worker("b"): {"phase": Phase.STARTING, "node": "node-1"}}, [], [A, B]),
        ({worker("b"): {"not_before": NOW + 0.1}}, [], [A]),
        ({worker("b"): {"not_before": NOW}}, [B], [A]),
        ({name: {"phase": Phase.PENDING} for name in (PS, W0, W1)}, [A, B], []),
        ({name: {"phase": Phase.PENDING} for name in (PS, W0)}, [B], [A]),
        (
            {
                PS: {"phase": Phase.PENDING},
                W0: {"phase": Phase.SUCCEEDED},
                W1: {"phase": Phase.SUCCEEDED},
            },
            [B],
            [],
        ),
    ],
)
def test_a_job_waits_or_runs_or_is_about_to_end(changes, waits, runs):
    """Waiting: wholly, unless it pauses or only its server is left. Running: in part, and not told to end."""
    state = running()
    for name, fields in changes.items():
        state = but(state, name, **fields)
    snapshot = state.snapshot(NOW)
    assert (names(snapshot.waiting), names(snapshot.running)) == (waits, runs)


def test_what_has_no_place_is_found_in_jobs_that_run_in_part_as_well():
    """Oldest job first, by name; not what pauses, moves, or waits for its peers to end."""
    state = but(running(), W1, phase=Phase.PENDING)
    assert names(state.snapshot(NOW).unplaced) == [W1, worker("b")]
    assert names(but(state, W1, not_before=NOW + 1).snapshot(NOW).unplaced) == [worker("b")]
    assert names(but(state, W0, leaving=told("preempt")).snapshot(NOW).unplaced) == [worker("b")]
    assert names(but(state, W0, leaving=told("scale-in")).snapshot(NOW).unplaced) == [W1, worker("b")]


def test_jobs_that_their_owners_place_neither_wait_nor_run_here():
    """What is awaited is no queue of ours, and what runs is not ours to end or scale; it fills its node."""
    spec = gang("o", 2, ps=0, placed_by="owner")
    state = with_gang(running(), spec, on("node-1", worker("o")))
    state = but(state, worker("o", 1), phase=Phase.AWAITED)
    snapshot = state.snapshot(NOW)
    assert (names(snapshot.waiting), names(snapshot.running)) == ([B], [A])
    assert names(snapshot.unplaced) == names(snapshot.pending) == [worker("b")]
    assert names(snapshot.on_node["node-1"]) == [worker("o")]
    candidates = running_best_effort(snapshot)
    assert [each.name for each in candidates] == [A]


def test_a_node_is_ruled_out_by_its_labels_and_taints():
    """The words are those of the constraints; copies of the snapshot give the same answer."""
    spec = gang("s", 1, ps=0, constraints=Constraints(selector=(("disk", "ssd"),)))
    state = with_gang(running(), spec, {})
    tainted = msgspec.structs.replace(
        state.nodes["node-1"], labels={"disk": "ssd"}, taints=(Taint(key="gpu"),)
    )
    state = msgspec.structs.replace(state, nodes={**state.nodes, "node-1": tainted})
    snapshot = state.snapshot(NOW)
    assert snapshot.objection_to("node-0", A) is None
    for _ in range(2):
        assert snapshot.objection_to("node-0", "default/s") == (
            "node-0 has no label disk, not ssd as the node selector asks"
        )
        assert "gpu:NoSchedule" in (snapshot.objection_to("node-1", A) or "")
        snapshot = snapshot.with_starts({worker("s"): "node-0"})


def test_jobs_wait_in_the_order_of_their_submission():
    """Not by name, nor in the order of the records."""
    state = state_of()
    for name in ("c", "a", "b"):
        state = with_gang(state, gang(name, 1, ps=0), {})
    assert names(state.snapshot(NOW).waiting) == [C, A, B]


def test_a_node_is_full_until_what_leaves_it_is_gone():
    """Room is what nobody has requested, whether it is told to end or not."""
    state = running()
    assert state.snapshot(NOW).room("node-0") == Resources(cpu=1, memory=8e9)
    assert but(state, W1, leaving=told("preempt")).snapshot(NOW).room("node-0").cpu == 1
    assert but(state, W1, phase=Phase.ABSENT, incarnation=None).snapshot(NOW).room("node-0").cpu == 2


@pytest.mark.parametrize(
    ("until", "claimant", "job", "cpu"),
    [
        (NOW + 1, B, None, 2),
        (NOW + 1, B, A, 2),
        (NOW + 1, B, B, 4),
        (NOW, B, A, 4),  # it has expired
        (NOW + 1, "default/forgotten", A, 4),
    ],
)
def test_room_is_open_to_whoever_has_the_claim(until, claimant, job, cpu):
    """And to nobody else, until it expires or its job is no more."""
    state = with_gang(state_of(), gang("a", 1), {})
    state = with_gang(state, gang("b", 2, ps=0), {})
    placement = tuple(on("node-0", worker("b"), worker("b", 1)).items())
    claim = Claimed(placement=placement, until=until, reason="why")
    snapshot = msgspec.structs.replace(state, claims={claimant: claim}).snapshot(NOW)
    assert snapshot.open_room("node-0", job).cpu == cpu
    assert snapshot.room("node-0").cpu == 4
    assert snapshot.open_room("node-1", job) == CPU4


def test_more_may_be_claimed_than_there_is():
    """Room that is still to become free: nothing is open then, and nothing is below zero."""
    state = with_gang(state_of(), gang("b", 5, ps=0, cpu=2.0), {})
    placement = tuple(on("node-0", *(worker("b", index) for index in range(5))).items())
    claim = Claimed(placement=placement, until=NOW + 1, reason="why")
    snapshot = msgspec.structs.replace(state, claims={B: claim}).snapshot(NOW)
    assert snapshot.open_room("node-0") == Resources(cpu=0, memory=8e9)


def described(snapshot):
    """Return all that a policy may ask."""
    return {
        "on_node": {node: sorted(names(found)) for node, found in snapshot.on_node.items()},
        "census": {
            node: msgspec.structs.replace(snapshot.census(node), requests=Resources())
            for node in snapshot.nodes
        },
        "room": {node: snapshot.room(node) for node in snapshot.nodes},
        "open": {(n, j): snapshot.open_room(n, j) for n in snapshot.nodes for j in snapshot.jobs},
        "members": snapshot.members,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "unplaced": snapshot.unplaced,
        "workers": {job: snapshot.workers(job) for job in snapshot.jobs},
        "servers": {job: snapshot.servers(job) for job in snapshot.jobs},
        "busy": snapshot.busy,
        "ready": snapshot.ready_nodes,
        "rest": (snapshot.served, snapshot.changed_at, snapshot.reweight, snapshot.now),
    }


def afresh(snapshot):
    """Return a snapshot of the same records that has counted nothing yet."""
    return Snapshot(
        now=snapshot.now,
        nodes=snapshot.nodes,
        jobs=snapshot.jobs,
        replicas=dict(snapshot.replicas),
        transactions=dict(snapshot.transactions),
        claims=dict(snapshot.claims),
        served=snapshot.served,
        changed_at=snapshot.changed_at,
        queues=snapshot.queues,
        withheld=snapshot.withheld,
        settings=snapshot.settings,
    )


def changed(snapshot, kind, index, node):
    """Return a copy with one change; what cannot be changed so is left as it is."""
    replica = list(snapshot.replicas.values())[index % len(snapshot.replicas)]
    if kind == "start" and not replica.active:
        return snapshot.with_starts({replica.name: node})
    if kind == "tell" and replica.active:
        return snapshot.with_records([msgspec.structs.replace(replica, leaving=told("preempt"))])
    if kind == "absent" and replica.phase is Phase.PENDING:
        return snapshot.with_records([msgspec.structs.replace(replica, phase=Phase.ABSENT)])
    if kind == "claim":
        claim = Claimed(placement=((replica.name, node),), until=NOW + 1, reason="why")
        return snapshot.with_claim(replica.job, claim)
    if kind == "give up":
        return snapshot.with_claim(replica.job, None)
    if kind == "move" and replica.active and replica.name not in snapshot.moving:
        return snapshot.with_transaction(move_of(replica.name, replica.node, node))
    members = [snapshot.replicas[name] for name in snapshot.jobs[replica.job].spec.replicas]
    active = {each.name: each.node for each in members if each.active}
    if kind == "preempt" and active and not any(name in snapshot.moving for name in active):
        preemption = msgspec.structs.replace(
            move_of(replica.name, "", ""), kind=Kind.PREEMPT, before=active, after={}, whole=True
        )
        return snapshot.with_transaction(preemption)
    return snapshot


kinds = st.sampled_from(["start", "tell", "absent", "claim", "give up", "move", "preempt"])


@given(st.lists(st.tuples(kinds, st.integers(0, 20), st.sampled_from(["node-0", "node-1"])), max_size=8))
def test_a_copy_agrees_with_a_snapshot_computed_afresh(changes):
    """Whatever is changed one after the other, and whatever was asked in between; the originals stay."""
    snapshot = with_gang(running(), gang("c", 2), {}).snapshot(NOW)
    before = described(snapshot)
    copies = [snapshot]
    for kind, index, node in changes:
        copies.append(changed(copies[-1], kind, index, node))
        assert described(copies[-1]) == described(afresh(copies[-1]))
    for copy in copies:
        assert described(copy) == described(afresh(copy))
    assert described(snapshot) == before
