"""Proposals about whole jobs, judged one after the other: ranks, room for all of a placement, claims."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.orders import order
from specon_manager.core.plan import _carry_out, plan
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    EvictReplica,
    Migrate,
    Preempt,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
)
from specon_manager.model.cluster import Claimed
from support.decisions.gangs import gang, on, server, with_gang, worker
from support.decisions.told import state_of

NOW = 1000.0
A, B, C = (f"default/{name}" for name in "abc")


def refusals(state, *proposals, now=NOW):
    """Return what became of each proposal, in the order of their judgement."""
    verdicts = plan(state, proposals, now)
    return [(v.proposal, None if v.objection is None else v.objection.refusal) for v in verdicts]


def admit(job, *replicas, node="node-0"):
    return AdmitGang(job=f"default/{job}", placement=on(node, *replicas), reason="why")


def claim(job, *replicas, node="node-0"):
    return Claim(job=f"default/{job}", placement=on(node, *replicas), reason="why")


def claiming(state, job, *replicas, node="node-0", until=NOW + 1):
    kept = Claimed(placement=tuple(on(node, *replicas).items()), until=until, reason="why")
    return msgspec.structs.replace(state, claims={**state.claims, f"default/{job}": kept})


def two_waiting(cpu=2.0):
    """Job `a` and job `b` want two workers each; each node has four cores."""
    state = with_gang(state_of(), gang("a", ps=0, cpu=cpu), {})
    return with_gang(state, gang("b", ps=0, cpu=cpu), {})


A0, A1, B0, B1 = (worker(job, index) for job in "ab" for index in range(2))


def test_the_least_disruptive_is_judged_first():
    """Stay, weigh, start (alone or as a gang), grow, move, shrink, preempt, claim; then as proposed."""
    state = with_gang(state_of(), gang("a"), on("node-0", server("a"), A0, A1))
    state = with_gang(state, gang("b", ps=0), {})
    stay = Stay(replica=A0, purpose="migrate", reason="why")
    weigh = Reweight(replica=A0, weight=2.0, reason="why")
    one, both = Admit(replica=B0, node="node-1", reason="why"), admit("b", B0, B1)
    grow = ScaleOut(job=A, placement={}, reason="why")
    move = Migrate(replica=A0, target="node-1", purpose="migrate", reason="why")
    shrink = ScaleIn(job=A, replicas=(A1,), reason="why")
    preempt, keep = Preempt(job=A, reason="why"), claim("b", B0, B1)
    proposals = [keep, preempt, shrink, move, grow, one, both, weigh, stay]
    judged = [verdict.proposal for verdict in plan(state, proposals, NOW)]
    assert judged == [stay, weigh, one, both, grow, move, shrink, preempt, keep]
    judged = [verdict.proposal for verdict in plan(state, [both, *proposals], NOW)]
    assert judged == [stay, weigh, both, one, both, grow, move, shrink, preempt, keep]


def test_room_is_judged_for_the_whole_placement():
    """Each of two workers would fit beside what is there, both do not; on two nodes they do."""
    state = two_waiting(cpu=3.0)
    assert refusals(state, admit("a", A0, A1)) == [(admit("a", A0, A1), Refusal.NO_ROOM)]
    apart = AdmitGang(job=A, placement={A0: "node-0", A1: "node-1"}, reason="why")
    assert refusals(state, apart) == [(apart, None)]


def test_of_two_gangs_for_one_room_the_second_is_refused():
    """The second proposal sees the first."""
    first, second = admit("a", A0, A1), admit("b", B0, B1)
    assert refusals(two_waiting(), first, second) == [(first, None), (second, Refusal.NO_ROOM)]


def test_what_is_told_to_end_holds_its_room_until_it_is_gone():
    """A preemption or a smaller job makes no room in the same plan."""
    spec = gang("a", ps=0, cpu=2.0, fewest=1)
    state = with_gang(state_of(nodes=1), spec, on("node-0", A0, A1))
    state = with_gang(state, gang("b", 1, ps=0, cpu=2.0), {})
    for proposal in (Preempt(job=A, reason="why"), ScaleIn(job=A, replicas=(A1,), reason="why")):
        (accepted,) = plan(state, [proposal], NOW)
        after, _ = order(state, [accepted.proposal], NOW)
        assert refusals(after, admit("b", B0)) == [(admit("b", B0), Refusal.NO_ROOM)]


@pytest.mark.parametrize(
    "proposal",
    [
        AdmitGang(job=B, placement=on("node-0", B0, B1), reason="why"),
        Admit(replica=B0, node="node-0", reason="why"),
        ScaleOut(job=C, placement=on("node-0", worker("c", 1)), reason="why"),
        Migrate(replica=worker("c"), target="node-0", purpose="migrate", reason="why"),
    ],
    ids=lambda proposal: type(proposal).__name__,
)
def test_room_that_another_job_has_a_claim_to_is_not_taken(proposal):
    """Neither by a gang, a single replica, a growing job nor a move; without the claim each may have it."""
    spec = gang("c", 1, ps=0, most=2, cpu=2.0)
    state = with_gang(two_waiting(), spec, on("node-1", worker("c")))
    mover = state.replicas[worker("c")]
    known = msgspec.structs.replace(mover.progress, step=1)
    state = state.with_replica(msgspec.structs.replace(mover, progress=known))
    assert refusals(state, proposal) == [(proposal, None)]
    claimed = claiming(state, "a", A0, A1)
    assert refusals(claimed, proposal) == [(proposal, Refusal.NO_ROOM)]
    expired = claiming(state, "a", A0, A1, until=NOW)
    assert refusals(expired, proposal) == [(proposal, None)]


def test_a_job_takes_the_room_that_it_has_a_claim_to():
    """All of it, on the claimed node; the claim is spent by that, and holds nothing beside."""
    state = claiming(two_waiting(cpu=1.0), "a", A0, A1)
    first, second = admit("a", A0, A1), admit("b", B0, B1)
    assert refusals(state, first, second) == [(first, None), (second, None)]


def test_a_claim_that_is_accepted_is_no_reason_to_refuse_what_starts_now():
    """It is judged last: it keeps what is left, and what becomes free."""
    first, second = claim("a", A0, A1), admit("b", B0, B1)
    assert refusals(two_waiting(), first, second) == [(second, None), (first, None)]


def test_a_claim_is_kept_given_up_and_taken_place_of():
    """It has the room until its deadline; another takes its place; an empty one gives it up."""
    state = two_waiting()
    state, actions = order(state, [claim("a", A0, A1)], NOW)
    kept = Claimed(placement=((A0, "node-0"), (A1, "node-0")), until=NOW + 100, reason="why")
    assert (dict(state.claims), actions) == ({A: kept}, [])
    elsewhere, _ = order(state, [claim("a", A0, node="node-1")], NOW + 50)
    other = Claimed(placement=((A0, "node-1"),), until=NOW + 150, reason="why")
    assert dict(elsewhere.claims) == {A: other}
    given_up, _ = order(elsewhere, [claim("a")], NOW)
    assert dict(given_up.claims) == {}


def test_a_worker_that_got_no_place_in_its_gang_is_not_started_beside_it():
    """The gang as it was proposed is what starts: a pending worker without a place is absent then."""
    state = with_gang(state_of(), gang("a", ps=0, fewest=1), {})
    single = Admit(replica=A1, node="node-1", reason="why")
    assert refusals(state, admit("a", A0), single) == [(admit("a", A0), None), (single, Refusal.NOT_PENDING)]


names = st.sampled_from("abc")
nodes = st.sampled_from(["node-0", "node-1", "node-2"])
workers = st.lists(st.tuples(names, st.integers(0, 3), nodes), max_size=5)


def _proposal(kind, job, chosen):
    mine = {worker(job, index): node for _, index, node in chosen}
    placement = {server(job): "node-0", **mine}
    return {
        "gang": AdmitGang(job=f"default/{job}", placement=placement, reason="why"),
        "grow": ScaleOut(job=f"default/{job}", placement=mine, reason="why"),
        "shrink": ScaleIn(job=f"default/{job}", replicas=tuple(mine), reason="why"),
        "preempt": Preempt(job=f"default/{job}", reason="why"),
        "claim": Claim(job=f"default/{job}", placement=mine, reason="why"),
        "admit": Admit(replica=next(iter(mine), server(job)), node="node-1", reason="why"),
        "weigh": Reweight(replica=worker(job), weight=3.0, reason="why"),
    }[kind]


kinds = st.sampled_from(["gang", "grow", "shrink", "preempt", "claim", "admit", "weigh"])
proposals = st.lists(st.builds(_proposal, kinds, names, workers), max_size=8)


@given(proposals, st.lists(st.sampled_from([0, 2, 3, 4]), min_size=3, max_size=3), st.booleans())
def test_the_plan_sees_what_the_orders_will_do(proposed, running, kept):
    """The copy on which the next proposal is judged agrees with the state in which the orders are given."""
    state = state_of()
    for job, count in zip("abc", running, strict=True):
        members = [server(job), *(worker(job, index) for index in range(count))] if count else []
        placement = on("node-0" if job == "a" else "node-1", *members)
        state = with_gang(state, gang(job, 2, most=4, fewest=1, cpu=0.5), placement)
    if kept and not running[2]:
        state = claiming(state, "c", server("c"), worker("c"))
    accepted = [verdict.proposal for verdict in plan(state, proposed, NOW) if verdict.objection is None]
    copy = state.snapshot(NOW)
    for proposal in accepted:
        copy = _carry_out(proposal, copy)
    after, actions = order(state, accepted, NOW)
    snapshot = after.snapshot(NOW)
    for name in after.nodes:
        assert copy.room(name) == snapshot.room(name)
        for job in ("a", "b", "c"):
            assert copy.open_room(name, f"default/{job}") == snapshot.open_room(name, f"default/{job}")
    assert {r.name: (r.phase, r.leaving is None) for r in copy.replicas.values()} == {
        r.name: (r.phase, r.leaving is None) for r in snapshot.replicas.values()
    }
    assert [job.name for job in copy.waiting] == [job.name for job in snapshot.waiting]
    assert [job.name for job in copy.running] == [job.name for job in snapshot.running]
    assert [replica.name for replica in copy.unplaced] == [replica.name for replica in snapshot.unplaced]
    told = [action.replica for action in actions if isinstance(action, EvictReplica)]
    assert sorted(told) == sorted(r.name for r in after.replicas.values() if r.leaving is not None)
