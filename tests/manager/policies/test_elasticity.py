"""When elastic jobs shrink for those that wait, and grow into what nobody wants."""

import msgspec
import pytest
from hypothesis import given

from specon_manager.model.actions import Admit, AdmitGang, Claim, Preempt, ScaleIn, ScaleOut
from specon_manager.model.resources import Resources
from specon_manager.policies.elasticity import resize
from specon_manager.policies.expectation import Expectation
from support.decisions.expected import left, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, said, spec_of

IDLE = {"changed_at": NOW - 61.0}


def resized(layout, *stranded, proposals=(), ratio=0.5):
    snapshot = layout.snapshot
    return said(
        resize(
            snapshot,
            Expectation(snapshot, prior_seconds=600.0),
            proposals,
            [snapshot.jobs[f"default/{name}"] for name in stranded],
            resize_seconds=60.0,
            shrink_ratio=ratio,
        )
    )


def grown(name="j", *, workers=1, most=4, places="0", seconds=1000.0, layout=None, **changes):
    """Return a cluster with an elastic job that has so much left."""
    layout = Layout(nodes_of(2), **IDLE) if layout is None else layout
    spec = spec_of(name, workers, most=most, min_workers=1, **changes)
    linear = {size: 1.0 / size for size in range(1, most + 1)}
    known = {**layout.state.paces, f"{spec.name}\n": linear}
    layout.state = msgspec.structs.replace(layout.state, paces=known)
    return left(layout.add(spec, places), name, seconds)


def test_a_job_grows_where_it_is_into_what_nobody_wants():
    """Three more beside the first."""
    assert resized(grown()) == [("ScaleOut", "j", "worker/1@0 worker/2@0 worker/3@0")]


@pytest.mark.parametrize(("seconds", "grows"), [(160.0, False), (161.0, True)])
def test_growing_must_gain_twice_what_it_costs(seconds, grows):
    """From one to four workers saves three quarters of the time; 120 s is the least that counts."""
    assert bool(resized(grown(seconds=seconds))) is grows


def test_nobody_grows_shortly_after_a_change():
    """A job that was just admitted or scaled is to train for a while first; what befell others counts not."""
    layout = grown()
    job = layout.state.jobs["default/j"]
    for since, grows in ((59.0, False), (61.0, True)):
        young = msgspec.structs.replace(job, trains_since=NOW - since)
        layout.state = layout.state.with_job(young)
        assert bool(resized(layout)) is grows


def test_who_has_least_left_grows_first():
    """It frees what it has soonest."""
    layout = grown("long", seconds=2000.0, layout=Layout(nodes_of(1), **IDLE))
    layout = grown("short", seconds=900.0, layout=layout)
    assert resized(layout) == [("ScaleOut", "short", "worker/1@0 worker/2@0")]


def test_a_job_with_servers_grows_beside_its_workers_only():
    """Elsewhere a worker waits for the network; without servers it may go anywhere."""
    for ps, where in (
        (1, "worker/1@0 worker/2@0"),
        (0, "worker/1@0 worker/2@0 worker/3@0 worker/4@1 worker/5@1"),
    ):
        layout = grown(ps=ps, most=6, places="0 0" if ps else "0", ps_requests=Resources(gpu=1.0))
        assert resized(layout) == [("ScaleOut", "j", where)]


def test_nobody_grows_while_a_job_waits_that_could_ever_fit():
    """No job holds back for a job that is larger than the cluster."""
    assert resized(grown().add(spec_of("waits", 8)), "waits") == []
    assert resized(grown().add(spec_of("never", 9)), "never") != []


def test_while_a_job_waits_others_grow_as_far_as_their_owners_asked_for():
    """Two are wanted beside the server: one more, not a third, which would fit. Without servers: nothing."""
    for ps, expected in ((1, [("ScaleOut", "j", "worker/1@0")]), (0, [])):
        places = "0 0" if ps else "0"
        layout = grown(workers=2, seconds=1000.0, ps=ps, places=places, ps_requests=Resources(gpu=1.0))
        assert resized(layout.add(spec_of("old", 3), "1 1 1").add(spec_of("w", 4)), "w") == expected


def test_growth_takes_nothing_that_was_promised_or_claimed():
    """What this call starts, starts again or claims, and the claims that are there."""
    layout = grown().add(spec_of("new", 1)).add(spec_of("back", 1))
    new, back = "default/new/worker/0", "default/back/worker/0"
    three = ("worker/1@0 worker/2@0", [AdmitGang(job="default/new", placement={new: "node-0"}, reason="")])
    again = ("worker/1@0 worker/2@0", [Admit(replica=back, node="node-0", reason="")])
    kept = ("worker/1@0 worker/2@0", [Claim(job="default/new", placement={new: "node-0"}, reason="")])
    for where, proposals in (three, again, kept):
        (scaled,) = resized(layout, proposals=proposals)
        assert scaled[2].startswith(where)
        assert "worker/3@0" not in scaled[2]
    (scaled,) = resized(layout.claim("new", {new: "node-0"}))
    assert "worker/3@0" not in scaled[2]


def test_a_job_that_is_preempted_in_this_call_neither_grows_nor_shrinks():
    """It would not be preempted then."""
    preempt = [Preempt(job="default/j", reason="")]
    assert resized(grown(), proposals=preempt) == []
    full = left(grown(workers=4, places="0 0 0 0", layout=Layout(nodes_of(1))).add(spec_of("w")), "w", 10.0)
    assert resized(full, "w", proposals=preempt) == []
    assert resized(full, "w") != []


@pytest.mark.parametrize(("seconds", "shrinks"), [(500.0, True), (501.0, False)])
def test_a_job_shrinks_for_one_with_at_most_half_of_its_time(seconds, shrinks):
    """One of 1000 s, for one that waits."""
    layout = grown(workers=4, places="0 0 0 0", layout=Layout(nodes_of(1))).add(spec_of("w", 2))
    found = resized(left(layout, "w", seconds), "w")
    if shrinks:
        assert found == [("ScaleIn", "j", "worker/3 worker/2"), ("Claim", "w", "worker/0@0 worker/1@0")]
    else:
        assert found == []


def test_without_a_ratio_nobody_shrinks():
    """`shrink_ratio: 0`."""
    layout = grown(workers=4, places="0 0 0 0", layout=Layout(nodes_of(1))).add(spec_of("w"))
    assert resized(left(layout, "w", 1.0), "w", ratio=0.0) == []


def test_who_has_most_left_gives_first_and_nobody_below_its_minimum():
    """Three are needed: the longest has two to give, the next one gives the third."""
    layout = Layout(nodes_of(2))
    grown("next", workers=4, places="0 0 0 0", seconds=900.0, layout=layout)
    layout.add(spec_of("longest", 4, min_workers=2), "1 1 1 1")
    left(layout, "longest", 2000.0).add(spec_of("w", 3))
    found = resized(left(layout, "w", 1.0), "w")
    assert [item[:2] for item in found if item[0] == "ScaleIn"] == [
        ("ScaleIn", "longest"),
        ("ScaleIn", "next"),
    ]
    assert {name: len(who.split()) for _, name, who in found[:2]} == {"longest": 2, "next": 1}


def test_room_is_made_for_one_at_a_time():
    """Those behind one who has a claim wait, also where this call has given it."""
    layout = grown(workers=4, places="0 0 0 0", layout=Layout(nodes_of(1)))
    layout.add(spec_of("first")).add(spec_of("second"))
    left(left(layout, "first", 10.0), "second", 10.0)
    name = "default/first/worker/0"
    assert [item[1] for item in resized(layout, "first", "second")] == ["j", "first"]
    claim = Claim(job="default/first", placement={name: "node-0"}, reason="")
    assert resized(layout, "first", "second", proposals=[claim]) == []
    assert resized(layout.claim("first", {name: "node-0"}), "first", "second") == []


def test_who_has_too_much_left_is_passed_over_for_the_next():
    """Nobody is to shrink for the first, somebody is for the second."""
    layout = grown(workers=4, places="0 0 0 0", layout=Layout(nodes_of(1)))
    layout.add(spec_of("first")).add(spec_of("second"))
    left(left(layout, "first", 900.0), "second", 10.0)
    assert [item[1] for item in resized(layout, "first", "second")] == ["j", "second"]


def test_no_claim_is_given_where_nobody_must_shrink():
    """There is room, so it was left for another reason; kept, it would be idle for an hour."""
    layout = grown(workers=2, places="0 0", most=2, layout=Layout(nodes_of(1))).add(spec_of("w"))
    assert resized(left(layout, "w", 10.0), "w") == []


@given(worlds())
def test_the_planner_lets_everything_through(layout):
    """Nobody below the minimum, no first worker, no more than fits; one direction in a call."""
    snapshot = layout.snapshot
    for stranded in ((), snapshot.waiting):
        found = list(
            resize(
                snapshot,
                Expectation(snapshot, prior_seconds=600.0),
                (),
                stranded,
                resize_seconds=60.0,
                shrink_ratio=0.5,
            )
        )
        assert layout.refused(found) == []
        kinds = {type(proposal) for proposal in found}
        assert not {ScaleIn, ScaleOut} <= kinds
