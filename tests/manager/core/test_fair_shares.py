"""Queues take turns: who has used least of its quota over time is asked first, and no room stays idle."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.fair_shares import count_use, next_turn, restore_means, share, weight
from specon_manager.core.step import step
from specon_manager.model.actions import AdmitGang, Refusal
from specon_manager.model.events import QueuesObserved, Tick
from specon_manager.model.queues import Queue, QueueShare
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.told import state_of

NOW = 1000.0
HALF_LIFE = 100.0
WORKERS = [worker("b10", number) for number in range(3)]
POLICIES = ("fifo", "progress", "kubeflow", "srpt")


def cluster(*, a=0.0, b=0.0, policy="fifo", quota=4, nodes=2, **settings):
    """Return two queues of the same quota with these means of their use, on nodes of four processors."""
    state = state_of(nodes=nodes, cpus=4.0)
    queues = {name: Queue(name=name, quota=Resources(cpu=quota)) for name in ("a", "b")}
    shares = {name: QueueShare(mean=mean, at=NOW) for name, mean in (("a", a), ("b", b))}
    settings = Settings(policy=policy, fair_shares=HALF_LIFE, **settings)
    return msgspec.structs.replace(state, settings=settings, queues=queues, shares=shares)


def waiting(state, count, *, queue, first=0, workers=1, **changes):
    """Add jobs that wait; `first` numbers them, and the lower ones wait for longer."""
    for number in range(first, first + count):
        spec = gang(f"{queue or 'none'}{number}", workers, ps=0, queue=queue, **changes)
        state = with_gang(state, spec, {}, queued_at=float(number))
    return state


def admitted(state):
    """Return how many jobs of each queue the next Tick admits."""
    after, _ = step(state, Tick(), NOW)
    starts = [each.job for each in after.replicas.values() if each.active]
    return tuple(sum(after.jobs[job].spec.queue == queue for job in starts) for queue in ("a", "b"))


@pytest.mark.parametrize("policy", POLICIES)
def test_two_queues_that_want_all_get_half_each(policy):
    """Though one of them was there first with all of its jobs, and in one Tick."""
    state = waiting(cluster(policy=policy), 10, queue="a")
    assert admitted(waiting(state, 10, queue="b", first=10)) == (4, 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_has_had_more_over_time_waits(policy):
    """What is free goes to the other one until both have had the same."""
    state = waiting(cluster(a=1.5, b=0.5, policy=policy), 10, queue="a")
    assert admitted(waiting(state, 10, queue="b", first=10)) == (2, 6)


def test_what_the_queue_ahead_cannot_use_goes_to_the_next_one_in_the_same_tick():
    """A gang that fits nowhere keeps no room idle."""
    state = waiting(cluster(a=9.0), 8, queue="a")
    assert admitted(waiting(state, 1, queue="b", first=10, workers=20)) == (8, 0)


def test_a_queue_that_waits_alone_gets_all():
    """There is nobody to share with."""
    assert admitted(waiting(cluster(a=9.0), 10, queue="a")) == (8, 0)


def test_a_queue_may_go_beyond_its_part_by_one_job():
    """Else a policy that wants a large job first would never start one of it."""
    state = waiting(waiting(cluster(nodes=1), 4, queue="a"), 2, queue="b", first=10, workers=3)
    snapshot = state.snapshot(NOW)
    turn = next_turn(state, snapshot, ())
    assert turn is not None
    turn = msgspec.structs.replace(turn, queue="b", most=0.25)
    large = AdmitGang(job="default/b10", placement=on("node-0", *WORKERS), reason="")
    assert turn.objection(large, snapshot) is None
    refused = turn.after(large, snapshot).objection(large, snapshot)
    assert refused is not None
    assert refused.refusal is Refusal.QUOTA


def test_trials_and_jobs_of_no_queue_wait_for_no_turn():
    """They are seen in each turn."""
    state = waiting(cluster(a=9.0, policy="fitgpp"), 1, queue="a", job_class="trial")
    state = waiting(state, 1, queue="", first=5)
    state = waiting(waiting(state, 20, queue="b", first=10), 1, queue="a", first=50)
    turn = next_turn(state, state.snapshot(NOW), ())
    assert turn is not None
    assert turn.queue == "b"
    assert set(turn.others) == {"default/a50"}
    assert admitted(state)[0] == 1


def test_a_job_that_starves_waits_for_no_turn():
    """What is kept for it is its own, whatever its queue has had."""
    state = waiting(cluster(a=9.0, nodes=1, starvation=500.0), 1, queue="a", workers=4)
    state = waiting(state, 4, queue="b", first=900)
    after, _ = step(state, Tick(), NOW)
    assert sum(each.active for each in after.replicas.values() if each.job == "default/a0") == 4


def test_without_the_setting_nothing_is_counted_and_nobody_waits_for_a_turn():
    """The first job gets everything, as before."""
    state = cluster(a=9.0)
    state = msgspec.structs.replace(state, settings=Settings(policy="fifo"))
    state = waiting(waiting(state, 10, queue="a"), 10, queue="b", first=10)
    assert count_use(state, NOW).shares == {}
    assert admitted(state) == (8, 0)


def test_half_of_the_past_is_forgotten_after_the_half_life():
    """The rest is what was used since then."""
    state = with_gang(cluster(), gang("r", 2, ps=0, queue="a"), on("node-0", worker("r", 0), worker("r", 1)))
    state = count_use(state, NOW)
    assert state.shares["a"] == QueueShare(mean=0.0, uses=0.5, at=NOW)
    after = count_use(state, NOW + HALF_LIFE).shares
    assert after["a"].mean == pytest.approx(0.25)
    assert after["b"].mean == 0.0


@given(st.lists(st.floats(0.1, 500), min_size=1, max_size=20), st.floats(0, 5), st.floats(0, 5))
def test_the_mean_does_not_depend_on_how_often_it_is_counted(steps, mean, uses):
    """The use stays the same in between."""
    known = QueueShare(mean=mean, uses=uses, at=NOW)
    state = msgspec.structs.replace(cluster(), shares={"a": known, "b": known})
    state = with_gang(state, gang("r", 4, ps=0, queue="a"), on("node-0", *(worker("r", n) for n in range(4))))
    state = msgspec.structs.replace(state, shares={"a": QueueShare(mean=mean, uses=1.0, at=NOW)})
    once, often, at = count_use(state, NOW + sum(steps)), state, NOW
    for seconds in steps:
        at += seconds
        often = count_use(often, at)
    assert often.shares["a"].mean == pytest.approx(once.shares["a"].mean)


def test_a_share_is_of_the_kind_of_which_it_is_most_and_borrowing_without_a_quota_is_dear():
    """In units of the quota; of what a queue has none of a hundredth of all counts as its own."""
    whole = Resources(cpu=10, gpu=2)
    quota = weight(Queue(name="a", quota=Resources(cpu=5)), whole)
    assert share(Resources(cpu=5), quota) == 1.0
    assert share(Resources(cpu=5, gpu=1), quota) == pytest.approx(50.0)


def test_a_new_leader_goes_on_from_what_was_written_down():
    """The leader trusts its own counts more than the record."""
    state = msgspec.structs.replace(cluster(a=0.5), shares={"a": QueueShare(mean=0.5, at=NOW)})
    queues = tuple(state.queues.values())
    after, _ = step(state, QueuesObserved(queues=queues, shares={"a": 3.0, "b": 2.0}), NOW)
    assert {name: each.mean for name, each in after.shares.items()} == {"a": 0.5, "b": 2.0}
    assert restore_means(after, {"a": 1.0}, NOW) is after


@pytest.mark.parametrize("policy", POLICIES)
def test_three_queues_get_what_their_quotas_say(policy):
    """A queue of twice the quota gets twice as much, when all of them want all."""
    state = cluster(policy=policy)
    queues = {
        name: Queue(name=name, quota=Resources(cpu=quota))
        for name, quota in zip("abc", (4, 2, 2), strict=True)
    }
    shares = {name: QueueShare(mean=0.0, at=NOW) for name in queues}
    state = msgspec.structs.replace(state, queues=queues, shares=shares)
    for place, name in enumerate(queues):
        state = waiting(state, 10, queue=name, first=10 * place)
    after, _ = step(state, Tick(), NOW)
    starts = [after.jobs[each.job].spec.queue for each in after.replicas.values() if each.active]
    assert [starts.count(name) for name in queues] == [4, 2, 2]


@given(st.floats(0, 1e9))
def test_a_queue_that_was_idle_for_long_takes_no_more_than_makes_it_even(idle):
    """What it did not use is no credit that grows: a mean is never below nothing, however long that was."""
    state = count_use(cluster(a=1.0, b=0.0), NOW)
    known = {"a": QueueShare(mean=1.0, uses=1.0, at=NOW), "b": QueueShare(mean=0.0, uses=0.0, at=NOW)}
    later = count_use(msgspec.structs.replace(state, shares=known), NOW + idle)
    even = {name: msgspec.structs.replace(each, at=NOW) for name, each in later.shares.items()}
    assert even["b"].mean == 0.0
    assert even["a"].mean <= 1.0
    state = waiting(msgspec.structs.replace(cluster(nodes=3), shares=even), 20, queue="a")
    starts = admitted(waiting(state, 20, queue="b", first=20))
    assert sum(starts) == 12
    assert starts[1] - starts[0] <= 4
