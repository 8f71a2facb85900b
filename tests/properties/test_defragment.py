"""Random clusters whose free room is scattered: a job that waits starts wherever allowed moves make room.

Whether any moves would is found out by trying all of them, in `support.decisions.every_move`.
"""

import msgspec
import pytest
from hypothesis import Phase as Part
from hypothesis import event, given, settings
from hypothesis import strategies as st

from specon_manager.core.admission_gate import prepare
from specon_manager.core.defragment_picture import Scene
from specon_manager.model import events as ev
from specon_manager.model.actions import HoldRoom
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate
from specon_manager.model.transactions import TransactionState
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.every_move import least_price
from support.decisions.gangs import gang

# The limit is that of a hang: 30 s on an idle machine, four times that beside others.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
CPUS = 4.0
QUICK = (Part.explicit, Part.generate)
"""A world takes long to make smaller."""
POLICIES = ("fifo", "progress", "quota-fifo", "fitgpp")
single = st.fixed_dictionaries(
    {"cpu": st.sampled_from([1.0, 2.0, 3.0]), "migratable": st.sampled_from([True] * 4 + [False])}
)
pair = st.fixed_dictionaries({"cpu": st.sampled_from([1.0, 2.0]), "workers": st.sampled_from([2, 2, 3])})


def trains(cluster, rounds, until=lambda: False):
    """Let all that runs train and all that is ordered come about, so many times or until that holds."""
    for _ in range(rounds):
        cluster.carry_out()
        if until():
            return
        for replica in sorted(cluster.live):
            step = cluster.state.replicas[replica].progress.step or 0
            cluster.report(replica, step=step + 10)
        cluster.tick()


def scattered(data, policy, budgets):
    """Return a cluster on which jobs ran; some have ended."""
    chosen = msgspec.structs.replace(
        SETTINGS, policy=policy, defragment="on", budgets=budgets, gate=Gate(horizon=1e6)
    )
    cluster = Cluster(nodes=data.draw(st.integers(2, 3)), cpus=CPUS, settings=chosen)
    for number in range(data.draw(st.integers(3, 7))):
        given_one = data.draw(single)
        requests = Resources(cpu=given_one["cpu"])
        cluster.submit(f"s{number}", requests=requests, migratable=given_one["migratable"])
    if data.draw(st.booleans()):
        found = data.draw(pair)
        cluster.post(ev.JobSubmitted(gang("g", found["workers"], ps=0, cpu=found["cpu"], resizing="none")))
    cluster.tick()
    trains(cluster, 3)
    for replica in sorted(cluster.live):
        if "/s" in replica and data.draw(st.booleans()):
            cluster.die(replica, 0)
    trains(cluster, 4)
    return cluster


def too_large(cluster):
    """Return what has no room though what is free together would do: how many workers, of what size."""
    snapshot = cluster.state.snapshot(cluster.now)
    free = [snapshot.room(node.name).cpu for node in snapshot.ready_nodes]
    return [
        (workers, cpu)
        for workers in (1, 2, 3)
        for cpu in (2.0, 3.0, 4.0)
        if workers * cpu <= sum(free) and sum(room // cpu for room in free) < workers
    ]


def running(cluster, job):
    members = [cluster.state.replicas[name] for name in cluster.state.jobs[f"default/{job}"].spec.replicas]
    return all(member.phase is Phase.RUNNING for member in members)


@settings(max_examples=150, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_a_job_that_waits_starts_where_moves_make_room(data):
    """Moves are allowed and worth it, so whatever order of moves there is, the job trains in the end."""
    policy = data.draw(st.sampled_from(POLICIES))
    budgets = Budgets(
        cooldown=0,
        retry_cooldown=1,
        moves_per_replica=100,
        moves_at_once=data.draw(st.sampled_from([1, 4])),
        moves_at_once_per_node=data.draw(st.sampled_from([1, 4])),
    )
    cluster = scattered(data, policy, budgets)
    if cluster.state.snapshot(cluster.now).waiting:
        return  # another would be served first
    sizes = too_large(cluster)
    if not sizes:
        return  # nothing is scattered
    workers, cpu = data.draw(st.sampled_from(sizes))
    cluster.whole = True
    cluster.post(ev.JobSubmitted(gang("w", workers, ps=0, cpu=cpu, resizing="none")))
    state, snapshot = prepare(cluster.state, cluster.now)
    (job,) = snapshot.waiting
    scene = Scene(snapshot, state)
    least = least_price(scene.picture(job)) if scene.would_do(job) else None
    before = len(cluster.state.history)
    trains(cluster, 60, lambda: running(cluster, "w"))
    event("moves make room" if least else "no moves make room")
    moved = [each for each in cluster.state.history[before:] if each.purpose == "defragment"]
    assert running(cluster, "w") == (least is not None), f"least price: {least}"
    assert bool(moved) == bool(least)
    assert all(each.state is TransactionState.SUCCEEDED for each in moved)
    if not before:  # else a move has been measured, and costs another price
        assert 10.0 * sum(len(each.before) for each in moved) == (least or 0.0)


@settings(max_examples=60, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_it_comes_to_rest(data):
    """Jobs wait for which no moves can be made, or only some: nothing is moved for ever."""
    cluster = scattered(
        data,
        data.draw(st.sampled_from(POLICIES)),
        Budgets(cooldown=0, retry_cooldown=1, moves_per_replica=10**6),
    )
    for number in range(data.draw(st.integers(1, 3))):
        workers, cpu = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([2.0, 3.0, 4.0]))
        cluster.post(ev.JobSubmitted(gang(f"w{number}", workers, ps=0, cpu=cpu, resizing="none")))
    trains(cluster, 60)
    before = len(cluster.state.history)
    trains(cluster, 20)
    assert len(cluster.state.history) == before
    assert not cluster.state.transactions


def befalls(cluster, trouble, number):
    """Let one thing go wrong, or only a part of what is ordered come about."""
    live = sorted(cluster.live)
    if trouble == "crash" and live:
        cluster.die(live[number % len(live)], 1)
    elif trouble == "manager":
        cluster.restart_manager()
    elif trouble == "refused":
        for order in [each for each in cluster.orders if isinstance(each, HoldRoom)]:
            cluster.orders.remove(order)
            cluster.post(ev.RoomRefused(transaction=order.transaction, replica=order.replica, reason="full"))
    elif trouble == "silence":
        cluster.sidecars_answer = not cluster.sidecars_answer
    elif trouble == "slow" and cluster.orders:
        cluster.carry_out_one(cluster.orders[0])
    elif trouble == "late":
        cluster.tick(float(number))


@settings(max_examples=120, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_whatever_goes_wrong_on_the_way_the_job_starts_in_the_end(data):
    """Crashes, refused room, dead managers and trainers that do not save: moves come in the end."""
    budgets = Budgets(cooldown=0, retry_cooldown=1, moves_per_replica=10**6, moves_at_once_per_node=2)
    cluster = scattered(data, data.draw(st.sampled_from(POLICIES)), budgets)
    sizes = too_large(cluster)
    if cluster.state.snapshot(cluster.now).waiting or not sizes:
        return
    workers, cpu = data.draw(st.sampled_from(sizes))
    cluster.post(ev.JobSubmitted(gang("w", workers, ps=0, cpu=cpu, resizing="none", restarts=1000)))
    kinds = st.sampled_from(["crash", "manager", "refused", "silence", "slow", "slow", "late", "on", "on"])
    for trouble, number in data.draw(st.lists(st.tuples(kinds, st.integers(1, 20)), min_size=3, max_size=20)):
        befalls(cluster, trouble, number)
        trains(cluster, 1) if trouble == "on" else cluster.tick()
    cluster.sidecars_answer = True
    trains(cluster, 250, lambda: running(cluster, "w"))
    over = cluster.state.jobs["default/w"].ended_at is not None
    event(f"{sum(each.purpose == 'defragment' for each in cluster.state.history)} moves")
    if running(cluster, "w") or over:
        return
    state, snapshot = prepare(cluster.state, cluster.now)
    jobs = [job for job in snapshot.waiting if job.name == "default/w"]
    scene = Scene(snapshot, state)
    assert not jobs or not scene.would_do(jobs[0]) or least_price(scene.picture(jobs[0])) is None
    assert not cluster.state.claims
