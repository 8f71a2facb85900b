"""The bound on waiting: room is kept for the job that waits longest, and nobody else takes it."""

import msgspec
import pytest

from specon_manager.core import starvation
from specon_manager.core.admission_gate import prepare
from specon_manager.core.plan import plan
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import Admit, AdmitGang, Claim, Migrate, Refusal, ScaleOut, StartReplica
from specon_manager.model.cluster import Claimed, Phase
from specon_manager.model.resources import Resources
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.told import SETTINGS, registered, state_of

NOW = 1000.0
STARVING = msgspec.structs.replace(SETTINGS, starvation=100.0)


def workers(job, count):
    return [worker(job, index) for index in range(count)]


def cluster(*running, settings=STARVING, nodes=2):
    """Return a cluster of nodes with 4 CPUs; `running` are (job, workers, node)."""
    state = state_of(settings, nodes)
    for job, count, node in running:
        state = with_gang(state, gang(job, count, ps=0), on(node, *workers(job, count)))
    return state


def waiting(state, job, count, waits, **changes):
    return with_gang(state, gang(job, count, ps=0, **changes), {}, queued_at=NOW - waits)


def firm(state, now=NOW):
    """Return the head with the nodes on which room is kept for it."""
    state, snapshot = prepare(state, now)
    found = starvation.head(snapshot)
    if found is None:
        return None
    name, claim = found
    return name.removeprefix("default/"), sorted({node for _, node in claim.placement})


FULL = cluster(("r", 3, "node-0"), ("s", 4, "node-1"))


def test_room_is_kept_from_the_moment_at_which_a_job_starves():
    """On the nodes on which most is free already, as if they were empty."""
    assert firm(waiting(FULL, "g", 2, 99)) is None
    assert firm(waiting(FULL, "g", 2, 100)) == ("g", ["node-0"])
    assert firm(waiting(FULL, "g", 6, 100)) == ("g", ["node-0", "node-1"])


def test_nothing_is_kept_where_there_is_no_bound_or_nothing_is_ordered():
    """Simulations of the papers have no bound; a dry run keeps nothing."""
    for changes in ({"starvation": None}, {"dry_run": True}):
        settings = msgspec.structs.replace(STARVING, **changes)
        state = msgspec.structs.replace(waiting(FULL, "g", 2, 100), settings=settings)
        claim = Claimed(placement=((worker("g"), "node-0"),), until=NOW + 9, reason="once", firm=True)
        held = msgspec.structs.replace(state, claims={"default/g": claim})
        assert prepare(held, NOW)[0].claims == {}


def test_the_one_that_waits_longest_comes_first_and_stays_first():
    """The job with the room keeps it until it is admitted, even if one appears that has waited longer."""
    state = waiting(waiting(FULL, "young", 2, 100), "old", 2, 200)
    assert firm(state) == ("old", ["node-0"])
    state, _ = prepare(waiting(FULL, "young", 2, 100), NOW)
    state = waiting(state, "old", 2, 200)
    assert firm(state) == ("young", ["node-0"])


def test_what_would_not_fit_empty_nodes_does_not_hold_anybody_up():
    """It would wait for ever, and so would all others."""
    state = waiting(waiting(FULL, "huge", 9, 300), "g", 1, 200)
    assert firm(state) == ("g", ["node-0"])
    assert firm(waiting(waiting(FULL, "huge", 9, 300), "huger", 10, 200)) is None


def test_room_is_kept_elsewhere_when_its_node_is_lost():
    """And where the job needs another number of workers by now."""
    state, _ = prepare(waiting(FULL, "g", 2, 100), NOW)
    lost = msgspec.structs.replace(state.nodes["node-0"], ready=False)
    moved = msgspec.structs.replace(state, nodes={**state.nodes, "node-0": lost})
    assert firm(moved) == ("g", ["node-1"])


def test_a_kept_room_lasts_for_as_long_as_the_job_waits():
    """It is renewed; nothing else of it changes, so that the set of nodes is fixed."""
    state, _ = prepare(waiting(FULL, "g", 2, 100), NOW)
    first = state.claims["default/g"]
    for hours in range(1, 50):
        state, snapshot = prepare(state, NOW + 3600 * hours)
        assert starvation.head(snapshot)[1].placement == first.placement
    assert state.claims["default/g"].until > NOW + 50 * 3600


@pytest.mark.parametrize(
    "proposal",
    [
        AdmitGang(job="default/small", placement=on("node-0", worker("small")), reason="room"),
        Admit(replica=worker("small"), node="node-0", reason="room"),
        ScaleOut(job="default/e", placement=on("node-0", worker("e", 1)), reason="idle"),
        Migrate(replica=worker("s"), target="node-0", purpose="p", reason="better"),
        Claim(job="default/g", placement={}, reason="given up"),
        Claim(job="default/g", placement=on("node-1", worker("g")), reason="another"),
    ],
)
def test_nobody_takes_the_room_and_no_policy_gives_it_up(proposal):
    """Neither by an admission nor by growth, nor by a move; beside it there is room for others."""
    state = cluster(("r", 2, "node-0"), ("s", 1, "node-1"))
    state = with_gang(state, gang("e", 1, ps=0, most=2), on("node-1", worker("e")))
    started = state.replicas[worker("s")]
    progress = msgspec.structs.replace(started.progress, step=7)
    state = state.with_replica(msgspec.structs.replace(started, progress=progress))
    state = waiting(waiting(state, "small", 1, 1), "g", 8, 200)
    state, snapshot = prepare(state, NOW)
    (only,) = plan(state, [proposal], NOW, snapshot)
    assert only.objection.refusal is Refusal.STARVATION
    assert "default/g, which waits for 200 s" in only.objection.text or "already" in only.objection.text


def test_beside_what_is_kept_others_start():
    """Only the share of the node that the head needs is kept, not the node."""
    state = cluster(("r", 2, "node-0"), ("s", 4, "node-1"), nodes=3)
    state = waiting(waiting(state, "small", 1, 1), "g", 6, 200)
    assert firm(state) == ("g", ["node-0", "node-2"])
    state, snapshot = prepare(state, NOW)
    small = AdmitGang(job="default/small", placement=on("node-2", worker("small")), reason="room")
    (only,) = plan(state, [small], NOW, snapshot)
    assert only.objection.refusal is Refusal.STARVATION
    smaller = cluster(("r", 2, "node-0"), ("s", 4, "node-1"), nodes=3)
    smaller = waiting(waiting(smaller, "small", 1, 1), "g", 5, 200)
    state, snapshot = prepare(smaller, NOW)
    nodes = [node for _, node in state.claims["default/g"].placement]
    assert (nodes.count("node-2"), nodes.count("node-0")) == (4, 1)
    beside = AdmitGang(job="default/small", placement=on("node-0", worker("small")), reason="room")
    (only,) = plan(state, [beside], NOW, snapshot)
    assert only.objection is None


def test_the_policy_sees_the_head_alone_once_it_can_start():
    """Whatever the order of the policy, it admits that; before, it sees all of them."""
    state = waiting(waiting(FULL, "small", 1, 1), "g", 2, 200)
    _, snapshot = prepare(state, NOW)
    assert [job.name for job in snapshot.waiting] == ["default/small", "default/g"]
    free = waiting(waiting(cluster(("s", 4, "node-1")), "small", 1, 1), "g", 2, 200)
    _, snapshot = prepare(free, NOW)
    assert [job.name for job in snapshot.waiting] == ["default/g"]
    assert "default/g goes first: it waits for 200 s" in snapshot.withheld["default/small"]


def test_the_manager_admits_it_where_the_policy_does_not():
    """The bound does not depend on the policy."""
    state = waiting(cluster(("s", 4, "node-1")), "g", 2, 200)
    with registered(lambda _snapshot, _settings: ()):
        state, actions = step(state, ev.Tick(), NOW)
    started = {action.replica: action.node for action in actions if isinstance(action, StartReplica)}
    assert started == on("node-0", *workers("g", 2))
    assert state.claims == {}
    assert "the room that was kept for it is free" in state.verdicts["default/g"].reason


def test_a_claim_of_another_does_not_keep_the_head_waiting():
    """What a trial keeps for itself on the same node does not count against the head."""
    state = waiting(waiting(cluster(("s", 4, "node-1")), "t", 4, 1), "g", 2, 200)
    claim = Claimed(placement=tuple(on("node-0", *workers("t", 4)).items()), until=NOW + 50, reason="soon")
    state, snapshot = prepare(msgspec.structs.replace(state, claims={"default/t": claim}), NOW)
    assert starvation.may_start(snapshot)
    assert snapshot.open_room("node-0", "default/g") == Resources(cpu=4, memory=8e9)


def test_what_crashed_of_a_job_that_goes_on_is_not_held_up():
    """Else its job, and with it the room that it holds, would never come to an end."""
    state = cluster(("r", 4, "node-0"), ("s", 4, "node-1"))
    crashed = msgspec.structs.replace(state.replicas[worker("r", 3)], phase=Phase.PENDING, incarnation=None)
    state = waiting(state.with_replica(crashed), "g", 8, 200)
    state, snapshot = prepare(state, NOW)
    again = Admit(replica=crashed.name, node="node-0", reason="again")
    (only,) = plan(state, [again], NOW, snapshot)
    assert only.objection is None
