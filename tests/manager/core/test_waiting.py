"""What each waiting job is said to wait for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.queue_use import uses_of
from specon_manager.core.state import Pause
from specon_manager.core.waiting import KINDS, list_waits
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.cluster import Claimed, Phase
from specon_manager.model.constraints import Constraints
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from support.clocks.processor_time import least_seconds
from support.decisions.changed_jobs import NOW, change, nodes
from support.decisions.gangs import gang, on, with_gang, worker

GIB = 2.0**30


def waiting(state, job="w"):
    return list_waits(state, NOW)[f"default/{job}"]


def with_waiting(state, job="w", **spec):
    return with_gang(state, gang(job, **{"workers": 1, "ps": 0, **spec}), {})


def refused(state, refusal, reason, job="w"):
    name = f"default/{job}"
    decision = Decision(
        at=NOW, replica=name, policy="fifo", proposal="AdmitGang", reason=reason, refusal=refusal
    )
    return msgspec.structs.replace(state, verdicts={name: decision})


def test_positions_follow_the_order_of_submission_in_each_queue():
    """And over all; a job that came back after a preemption has its old place."""
    state = nodes()
    for name, queue in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "")):
        state = with_waiting(state, name, queue=queue)
    found = list_waits(state, NOW)
    places = {each.job[-1]: (each.queue, each.position, each.overall) for each in found.values()}
    assert places == {"a": ("x", 1, 1), "b": ("y", 1, 2), "c": ("x", 2, 3), "d": ("", 1, 4)}
    assert [each.job[-1] for each in found.values()] == list("abcd")


def test_who_waits():
    """Not what runs or starts, has ended, is being changed, or is for the scheduler of a cluster to place."""
    state = with_gang(nodes(), gang("runs", ps=0), on("node-0", worker("runs")))
    state = with_gang(state, gang("ended"), {}, ended_at=NOW)
    state = with_gang(state, gang("changed"), {}).with_transaction(change(job="changed"))
    state = with_gang(state, gang("foreign", placed_by="owner"), {})
    state = with_gang(state, gang("held", placed_by="owner", held=True, queue="x"), {})
    assert list(list_waits(state, NOW)) == ["default/held"]
    starting = state.replicas[worker("held")]
    state = state.with_replica(msgspec.structs.replace(starting, phase=Phase.STARTING, node="node-0"))
    assert list_waits(state, NOW) == {}


def test_room_is_told_with_its_numbers():
    """What one replica needs on one node, beside the most that is free on any that it may use."""
    state = with_gang(nodes(cpu=4.0), gang("r", 1, ps=0, cpu=1.5), on("node-0", worker("r")))
    state = with_gang(state, gang("s", 1, ps=0, cpu=3.0), on("node-1", worker("s")))
    found = waiting(with_waiting(state, cpu=4.0))
    assert (found.kind, found.text) == (
        "room",
        "it needs 4 CPU on one node; the most that is free on any node it may use is 2.5 CPU",
    )


def test_a_gang_is_told_how_many_of_it_find_room():
    """The number counts its fewest workers: it needs no more to start."""
    found = waiting(with_waiting(nodes(cpu=2.0), workers=4, fewest=3, cpu=1.5))
    assert found.kind == "room"
    assert "it needs 3 times 1.5 CPU, each on one node; 2 of them find room" in found.text
    assert waiting(with_waiting(nodes(cpu=2.0), workers=4, fewest=2, cpu=1.5)).kind == "held-back"


def test_what_is_short_comes_first():
    """A job that lacks memory is not told of processors first; units are those of people."""
    spec = msgspec.structs.replace(gang("w", 1, ps=0), requests=Resources(cpu=1.0, memory=16 * GIB))
    found = waiting(with_gang(nodes(), spec, {}))
    assert found.text.startswith("it needs 16 GiB, 1 CPU on one node; the most that is free")


def test_no_node_that_may_run_it():
    """Labels, taints and volumes may rule out all of them."""
    found = waiting(with_waiting(nodes(), constraints=Constraints(selector=(("disk", "fast"),))))
    assert found.kind == "room"
    assert "no node that is ready may run it" in found.text


def test_room_of_others_is_not_free_and_its_own_is_named():
    """A claim of another job takes room away; one of its own says where and for how long."""
    kept = Claimed(placement=((worker("w"), "node-1"),), until=NOW + 90, reason="it is next")
    state = with_waiting(nodes(count=2), cpu=4.0)
    state = with_waiting(state, "x", cpu=4.0)
    state = with_gang(state, gang("r", 1, ps=0, cpu=3.0), on("node-0", worker("r")))
    state = msgspec.structs.replace(state, claims={"default/w": kept})
    assert waiting(state).text == "room is kept for it on node-1, for 90 s more at most"
    assert waiting(state, "x").text.endswith("the most that is free on any node it may use is 1 CPU")


def test_pauses():
    """A job waits for the manager's pause, and for its own after a failed change or a crash."""
    state = with_waiting(nodes())
    paused = msgspec.structs.replace(state, pause=Pause(since=1.0, reason="the storage is serviced"))
    assert waiting(paused).text == "the manager is paused: the storage is serviced"
    assert waiting(paused).kind == "paused"
    job = msgspec.structs.replace(state.jobs["default/w"], cooldown_until=NOW + 30)
    assert waiting(state.with_job(job)).kind == "cooldown"
    assert "again in 30 s" in waiting(state.with_job(job)).text
    crashed = msgspec.structs.replace(state.replicas[worker("w")], not_before=NOW + 4)
    assert waiting(state.with_replica(crashed)).text == "it crashed; it is tried again in 4 s"


def test_quota_and_starvation_are_told_as_they_are_judged():
    """A job over its quota, and one that comes after a job that has waited too long."""
    queues = {"small": Queue(name="small", quota=Resources(cpu=1.0), borrow=False)}
    state = msgspec.structs.replace(nodes(), queues=queues)
    found = waiting(with_waiting(state, queue="small", cpu=2.0))
    assert found.kind == "quota"
    assert "queue small has no quota for 2 CPUs more" in found.text
    state = refused(with_waiting(nodes()), Refusal.STARVATION, "room on node-0 is kept for default/old")
    assert (waiting(state).kind, waiting(state).text) == (
        "starvation",
        "room on node-0 is kept for default/old",
    )
    state = refused(with_waiting(nodes()), Refusal.DRY_RUN, "would be ordered: admit default/w")
    assert waiting(state).kind == "dry-run"


def test_without_an_obstacle_others_come_first_or_the_policy_waits():
    """The first of a queue is held back by the policy; those behind it are told how many come before."""
    state = with_waiting(with_waiting(nodes(), "a", queue="x"), "b", queue="x")
    assert waiting(state, "a").kind == "held-back"
    assert "policy fifo has not let it start" in waiting(state, "a").text
    assert waiting(state, "b").kind == "head"
    assert waiting(state, "b").text.startswith("1 waiting before it in queue x, the first is default/a")


def test_a_thousand_jobs_on_a_large_cluster_take_no_time():
    """Linear: what nodes have free is looked at once for each kind of replica."""
    state = nodes(count=300)
    for number in range(1000):
        state = with_waiting(state, f"job-{number}", workers=2, cpu=100.0)
    state = state.flatten()
    assert least_seconds(lambda: list_waits(state, NOW), enough=2.0) < 2.0
    found = list_waits(state, NOW)
    assert len(found) == 1000
    assert found["default/job-999"].position == 1000


@pytest.mark.parametrize("borrow", [True, False])
def test_use_of_queues(borrow):
    """Quota queues as quotas count them, others by what runs; those of nobody's scheduler are of none."""
    queues = {"team": Queue(name="team", quota=Resources(cpu=2.0), borrow=borrow)}
    state = msgspec.structs.replace(nodes(), queues=queues)
    state = with_gang(state, gang("a", ps=0, queue="team"), on("node-0", worker("a", 0), worker("a", 1)))
    state = with_gang(state, gang("b", ps=0, queue="other"), on("node-0", worker("b", 0), worker("b", 1)))
    state = with_gang(state, gang("c", ps=0, placed_by="owner"), on("node-1", worker("c", 0)))
    state = with_waiting(state, "w", queue="team", cpu=8.0)
    uses = uses_of(state)
    assert {name: (use.used.cpu, use.running, use.waiting) for name, use in uses.items()} == {
        "team": (2.0, 1, 1),
        "other": (2.0, 1, 0),
    }


@given(
    cpus=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12),
    queues=st.lists(st.sampled_from(["", "x", "y"]), min_size=12, max_size=12),
    room=st.floats(0.0, 8.0),
)
def test_every_waiting_job_has_a_place_and_a_reason(cpus, queues, room):
    """Positions of a queue are 1, 2, 3 and so on, and each kind is one of those that metrics know."""
    state = msgspec.structs.replace(nodes(cpu=room), settings=Settings(policy="fifo", starvation=1.0))
    for number, (cpu, queue) in enumerate(zip(cpus, queues, strict=False)):
        state = with_waiting(state, f"j{number}", cpu=cpu, queue=queue)
    found = list(list_waits(state, NOW).values())
    assert len(found) == len(cpus)
    for queue in set(queues):
        assert [e.position for e in found if e.queue == queue] == [
            1 + number for number in range(sum(e.queue == queue for e in found))
        ]
    assert all(each.kind in KINDS and each.text for each in found)
