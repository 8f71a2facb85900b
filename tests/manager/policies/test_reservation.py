"""Room for the job that has waited too long: where, for whom, and when it is given up."""

import msgspec
import pytest
from hypothesis import given

from specon_manager.model.actions import AdmitGang, Claim
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import NOTHING
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.idle import Idle
from specon_manager.policies.placement import readmissions
from specon_manager.policies.reservation import Reservation, find_awaited_nodes
from support.decisions.expected import left, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, said, spec_of


def everybody(job):
    return True


def reservation_of(snapshot, starves=everybody, choice="best-fit"):
    expected = Expectation(snapshot, prior_seconds=600.0)
    return Reservation(snapshot, expected, Idle(snapshot, choice=choice), starves)


def reserved(layout, job, proposals=()):
    """Return where room is kept for a job, in short, or None."""
    snapshot = layout.snapshot
    found = reservation_of(snapshot)
    found.keep(snapshot.jobs[f"default/{job}"], (), proposals)
    return None if found.claim is None else said([found.claim])[0][2]


def full(*seconds, workers=4):
    """Return nodes of four GPUs, each with a job that has so much left."""
    layout = Layout(nodes_of(len(seconds)))
    for node, has in enumerate(seconds):
        layout.add(spec_of(f"old-{node}", workers), " ".join([str(node)] * workers))
        left(layout, f"old-{node}", has)
    return layout


def test_room_is_kept_where_it_is_expected_first():
    """The reserved node of three is the one with the job that has the least left."""
    assert reserved(full(500.0, 100.0, 300.0).add(spec_of("j", 2)), "j") == "worker/0@1 worker/1@1"


def test_room_that_is_free_already_counts():
    """One GPU is free on each node; the job that ends first frees the other three."""
    assert reserved(full(500.0, 100.0, workers=3).add(spec_of("j", 4)), "j") == " ".join(
        f"worker/{index}@1" for index in range(4)
    )


def test_a_gang_over_several_nodes_waits_for_as_many_as_it_takes():
    """Six on nodes of four: for the two that are over first."""
    where = reserved(full(500.0, 100.0, 300.0).add(spec_of("j", 6)), "j")
    assert {place[-1] for place in where.split()} == {"1", "2"}


def test_only_the_fewest_workers_have_room_kept():
    """The rest join if there is room by then."""
    assert reserved(full(500.0, 100.0).add(spec_of("j", 4, min_workers=1)), "j") == "worker/0@1"


def test_a_trial_has_room_kept_for_all_that_its_owner_asked_for():
    """It starts at that size only."""
    layout = full(500.0, 100.0).add(spec_of("t", 3, most=4, min_workers=1, job_class="trial"))
    assert reserved(layout, "t") == "worker/0@1 worker/1@1 worker/2@1"


def test_no_room_is_kept_for_what_never_fits():
    """Not even an empty cluster would do."""
    assert reserved(full(500.0).add(spec_of("j", 5)), "j") is None


def test_what_starts_in_this_call_runs_too():
    """Node 2 is empty, and somebody who takes ten minutes was just given it."""
    layout = full(500.0, 100.0)
    layout.state = msgspec.structs.replace(layout.state, nodes=nodes_of(3))
    layout.add(spec_of("new", 4)).add(spec_of("j", 4))
    start = AdmitGang(
        job="default/new", placement={f"default/new/worker/{k}": "node-2" for k in range(4)}, reason="test"
    )
    assert {place[-1] for place in reserved(layout, "j", [start]).split()} == {"1"}


def test_room_that_others_have_a_claim_to_is_not_counted():
    """The node that is over first is another's."""
    layout = full(500.0, 100.0).add(spec_of("first", 4)).add(spec_of("j", 4))
    layout.claim("first", {f"default/first/worker/{k}": "node-1" for k in range(4)})
    snapshot = layout.snapshot
    found = reservation_of(snapshot, lambda job: job.name == "default/j")
    found.keep(snapshot.jobs["default/j"])
    assert set(found.claim.placement.values()) == {"node-0"}


def test_room_claimed_in_this_call_is_not_counted():
    """As that of a trial which has just chosen a victim."""
    layout = full(500.0, 100.0).add(spec_of("trial", 4)).add(spec_of("j", 4))
    claim = Claim(
        job="default/trial",
        placement={f"default/trial/worker/{k}": "node-1" for k in range(4)},
        reason="test",
    )
    assert {place[-1] for place in reserved(layout, "j", [claim]).split()} == {"0"}


def test_room_is_kept_for_one_at_a_time():
    """Neither for two in one call, nor for another while one has its claim."""
    layout = full(500.0, 100.0).add(spec_of("j", 4)).add(spec_of("k", 4))
    snapshot = layout.snapshot
    found = reservation_of(snapshot)
    for name in ("j", "k"):
        found.keep(snapshot.jobs[f"default/{name}"])
    assert found.claim.job == "default/j"
    layout.claim("k", {f"default/k/worker/{index}": "node-1" for index in range(4)})
    assert reserved(layout, "j") is None


def test_who_does_not_starve_has_no_room_kept_and_keeps_nobody_from_it():
    """A claim for which others shrink is another matter."""
    layout = full(500.0, 100.0).add(spec_of("j", 4)).add(spec_of("k", 1))
    layout.claim("k", {"default/k/worker/0": "node-1"})
    snapshot = layout.snapshot
    found = reservation_of(snapshot, lambda job: job.name == "default/j")
    found.keep(snapshot.jobs["default/k"])
    assert found.claim is None
    found.keep(snapshot.jobs["default/j"])
    assert set(found.claim.placement.values()) == {"node-0"}


@pytest.mark.parametrize("lost", ["expired", "node"])
def test_a_claim_that_is_over_or_on_a_lost_node_is_made_anew(lost):
    """In the same call, so that nobody takes what became free meanwhile."""
    layout = full(500.0, 100.0).add(spec_of("j", 4))
    layout.claim("j", {f"default/j/worker/{k}": "node-1" for k in range(4)})
    assert reserved(layout, "j") is None
    if lost == "expired":
        snapshot = layout.state.snapshot(NOW + 200)
    else:
        lost_node = msgspec.structs.replace(layout.state.nodes["node-1"], ready=False)
        nodes = {**layout.state.nodes, "node-1": lost_node}
        layout.state = msgspec.structs.replace(layout.state, nodes=nodes)
        snapshot = layout.snapshot
    found = reservation_of(snapshot)
    found.keep(snapshot.jobs["default/j"])
    assert set(found.claim.placement.values()) == ({"node-1"} if lost == "expired" else {"node-0"})


def test_what_is_reserved_is_closed_to_others_at_once():
    """One GPU is free, and kept."""
    layout = full(100.0, workers=3).add(spec_of("j", 4))
    snapshot = layout.snapshot
    idle = Idle(snapshot, choice="best-fit")
    found = Reservation(snapshot, Expectation(snapshot, prior_seconds=1.0), idle, everybody)
    assert idle.open("node-0").gpu == 1
    found.keep(snapshot.jobs["default/j"])
    assert idle.open("node-0").gpu == 0


def crashed(*, claim):
    """Return a gang of two with one crashed, and a job that waits for the whole node."""
    layout = Layout(nodes_of(1)).add(spec_of("gang", 2), "0 0", trains_since=None).add(spec_of("j", 4))
    layout.change("gang/worker/1", phase=Phase.PENDING, crashes=1)
    if claim:
        layout.claim("j", {f"default/j/worker/{k}": "node-0" for k in range(4)})
    return layout.snapshot


def test_room_is_given_up_for_a_crashed_replica_without_which_it_would_never_become_free():
    """The gang holds a part of it, and does not train until its peer has room."""
    snapshot = crashed(claim=True)
    admits = list(readmissions(snapshot))
    assert not admits
    assert said(reservation_of(snapshot).give_way(admits)) == [("Claim", "j", "")]


def test_no_room_is_given_up_where_the_crashed_replica_has_some():
    """Or where none was kept."""
    snapshot = crashed(claim=False)
    admits = list(readmissions(snapshot))
    assert len(admits) == 1
    assert list(reservation_of(snapshot).give_way(admits)) == []


def test_a_node_is_awaited_while_somebody_must_end_for_its_claim():
    """Not once those that leave, or what is free, suffice."""
    layout = full(100.0, 100.0).add(spec_of("j", 2))
    layout.claim("j", {f"default/j/worker/{k}": "node-0" for k in range(2)})

    def found():
        return find_awaited_nodes(layout.snapshot, Idle(layout.snapshot, choice="best-fit"))

    assert found() == {"node-0"}
    layout.leave("old-0/worker/3")
    assert found() == {"node-0"}
    layout.leave("old-0/worker/2")
    assert found() == set()


@given(worlds())
def test_claims_together_never_exceed_a_node(layout):
    """Else two that wait would keep each other from starting: claims that are live, and the new one."""
    snapshot = layout.snapshot
    found = reservation_of(snapshot)
    for job in snapshot.waiting:
        found.keep(job)
    if found.claim is None:
        return
    for node in set(found.claim.placement.values()):
        claimed = [
            snapshot.replicas[replica].requests
            for job, claim in snapshot.claims.items()
            if job != found.claim.job
            for replica, where in claim.placement
            if where == node
        ] + [snapshot.replicas[r].requests for r, where in found.claim.placement.items() if where == node]
        assert sum(claimed, NOTHING).fits(snapshot.nodes[node].capacity)
