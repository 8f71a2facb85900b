"""The loop: virtual time, ticks, arrivals, and the end of what can never end."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.workload import LossCurve, NodeFailure
from specon_manager.model import events as ev
from specon_manager.model.actions import Admit, AdmitGang, Preempt
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Settings
from support.lab.invariants import Invariants
from support.lab.simulations import VAE, admit_all, job, nodes, scripted, sharing_job, workload


def test_lone_job_takes_its_seconds():
    """A job that is alone takes the time until it trains, and then exactly its seconds."""
    outcome = simulate(workload(job(0, at=7.5, seconds=100, start_seconds=3)), "round-robin")
    assert outcome.jobs[0].started_at == 10.5
    assert outcome.jobs[0].ended_at == 110.5
    assert outcome.jobs[0].trained_seconds == 100
    assert outcome.jobs[0].paused_seconds == 3
    assert outcome.jobs[0].waited_seconds == 0
    assert outcome.makespan == 103


def test_a_job_is_told_to_have_converged_when_its_curve_has():
    """At 98 % of its gain, not where its training ends; it may do so and never complete."""
    half_way = LossCurve(rate=2 * math.log(49))  # 1 - exp(-rate / 2) is 98 % of 1 - exp(-rate)
    simulated = workload(job(0, at=7.5, seconds=100, start_seconds=3, curve=half_way), job(1, seconds=400))
    outcome = simulate(simulated, "round-robin")
    assert outcome.jobs[0].converged_at == pytest.approx(60.5, abs=0.5)
    assert outcome.jobs[1].converged_at is None
    stopped = simulate(simulated, "round-robin", limit=90).jobs[0]
    assert (stopped.state, stopped.convergence_seconds) == ("unfinished", pytest.approx(53.0, abs=0.5))


def test_finish_time_fairness_is_completion_over_time_alone_and_mean_contention():
    """Three jobs that each want the whole node, all there at once: contention is 3, then 2, then 1."""
    whole = [job(number, seconds=100, requests=Resources(cpu=8.0)) for number in range(3)]
    done = simulate(workload(*whole, on=nodes(1)), "fifo").jobs
    assert [each.completion_seconds for each in done] == [100, 200, 300]
    assert [each.contention for each in done] == pytest.approx([3.0, 2.5, 2.0])
    assert [each.fairness for each in done] == pytest.approx([1 / 3, 2 / 2.5, 3 / 2.0])


def test_a_cluster_with_room_for_all_has_no_contention():
    """Half a cluster that is asked for is no advantage that a job would have to pay back."""
    alone = simulate(workload(job(0, seconds=100, requests=Resources(cpu=2.0)), on=nodes(1)), "fifo").jobs
    assert (alone[0].contention, alone[0].fairness) == (1.0, 1.0)


def test_two_jobs_share_a_node():
    """Two jobs that could each use the whole node train at half speed while both are there."""
    shared = workload(sharing_job(0), sharing_job(1, at=50.0), on=nodes(1))
    outcome = simulate(shared, "round-robin", check=Invariants())
    assert [done.ended_at for done in outcome.jobs] == [150, 200]
    assert outcome.used == pytest.approx(1.0)


def test_contention_slows_those_who_share():
    """With contention beta two sharers train at 1 / (2 (1 + beta))."""
    shared = workload(sharing_job(0), sharing_job(1), on=nodes(1), contention=0.25)
    outcome = simulate(shared, "round-robin")
    assert outcome.jobs[0].ended_at == pytest.approx(250)


def shared_by_hand(arrivals: list[tuple[float, float]], contention: float) -> list[float]:
    """Return when jobs (arrival, seconds) end that share one node evenly, counted event by event."""
    left: dict[int, float] = {}
    ends = [0.0] * len(arrivals)
    coming = sorted(range(len(arrivals)), key=lambda index: arrivals[index][0])
    now = 0.0
    while left or coming:
        speed = 1 / (len(left) * (1 + contention * (len(left) - 1))) if left else 1.0
        finish = now + min(left.values()) / speed if left else float("inf")
        arrival = arrivals[coming[0]][0] if coming else float("inf")
        then = min(finish, arrival)
        left = {index: rest - speed * (then - now) for index, rest in left.items()}
        now = then
        if arrival <= finish:
            index = coming.pop(0)
            left[index] = arrivals[index][1]
        for index in [index for index, rest in left.items() if rest <= 1e-9]:
            ends[index] = now
            del left[index]
    return ends


@given(
    arrivals=st.lists(st.tuples(st.floats(0, 500), st.floats(1, 200)), min_size=1, max_size=8),
    contention=st.sampled_from([0.0, 0.1, 0.5]),
)
@settings(max_examples=50, deadline=None)
def test_sharing_agrees_with_a_count_by_hand(arrivals, contention):
    """Jobs that come and go on one node end when even shares of its cores say so."""
    jobs = [sharing_job(i, at=at, seconds=seconds) for i, (at, seconds) in enumerate(arrivals)]
    outcome = simulate(workload(*jobs, on=nodes(1), contention=contention), "round-robin")
    ends = [done.ended_at for done in outcome.jobs]
    assert ends == pytest.approx(shared_by_hand(arrivals, contention), abs=1e-3)


def test_reserved_cores_are_not_shared():
    """A job that reserved its cores is not slowed by one that takes what is left, and the other one is."""
    mixed = workload(job(0, requests=Resources(cpu=6.0)), sharing_job(1), on=nodes(1))
    outcome = simulate(mixed, "round-robin")
    assert outcome.jobs[0].ended_at == 100
    assert outcome.jobs[1].ended_at == pytest.approx(100 + 75)  # a quarter of the cores for 100 s


def test_same_seed_same_bytes():
    """Two runs with the same arguments give the same outcome, byte for byte; another seed another one."""

    def run(seed: int) -> bytes:
        jobs = [
            sharing_job(i, at=20.0 * i, seconds=100 if i % 2 else 300, curve=VAE, start_seconds=1.0)
            for i in range(8)
        ]
        simulated = workload(*jobs, contention=0.1, seed=seed)
        return msgspec.json.encode(simulate(simulated, "specon", stays=True))

    assert run(3) == run(3)
    assert b'"seed":4' in run(4)


def test_too_large_a_job_is_reported():
    """A job that is larger than the cluster ever is cannot run, says why, and holds nobody up."""
    simulated = workload(
        job(0, requests=Resources(gpu=1.0)), job(1, requests=Resources(cpu=1.0)), job(2, workers=17)
    )
    outcome = simulate(simulated, "round-robin")
    assert [done.state for done in outcome.jobs] == ["cannot-run", "completed", "cannot-run"]
    assert "no node has as much" in outcome.jobs[0].reason
    assert "17 workers" in outcome.jobs[2].reason
    assert outcome.jobs[0].started_at is None


def test_pending_jobs_do_not_hang(monkeypatch):
    """Five thousand jobs that no policy starts are unfinished and say so, after few ticks."""
    policy = scripted(monkeypatch, lambda snapshot: ())
    outcome = simulate(workload(*[job(number) for number in range(5000)]), policy)
    assert {done.state for done in outcome.jobs} == {"unfinished"}
    assert "it waits" in outcome.jobs[0].reason
    assert outcome.decisions < 100


def test_partial_gangs_that_block_each_other_end(monkeypatch):
    """Two gangs that each hold what the other one needs are unfinished, not simulated for ever."""

    def first_workers(snapshot):
        for waiting in snapshot.waiting:
            yield Admit(replica=waiting.spec.worker_names[0], node="node-0", reason="first one")

    policy = scripted(monkeypatch, first_workers)
    outcome = simulate(workload(*[job(i, workers=2) for i in range(2)]), policy)
    assert {done.state for done in outcome.jobs} == {"unfinished"}
    assert "placed and does not train" in outcome.jobs[0].reason
    assert outcome.jobs[0].paused_seconds > 0


def test_nothing_to_do_takes_no_ticks():
    """While no job is there time jumps to the next arrival."""
    outcome = simulate(workload(job(0, seconds=10), job(1, at=1e7, seconds=10)), "round-robin")
    assert outcome.jobs[1].ended_at == 1e7 + 10
    assert outcome.decisions < 30


def test_limit_ends_a_simulation():
    """What has not ended by the limit is unfinished, also what had not arrived."""
    outcome = simulate(workload(job(0, seconds=100), job(1, at=900.0)), "round-robin", limit=50)
    assert [done.state for done in outcome.jobs] == ["unfinished", "unfinished"]
    assert "50 s" in outcome.jobs[0].reason
    assert outcome.jobs[0].trained_seconds <= 50


def test_ticks_only():
    """With regular ticks only, jobs start at multiples of the tick; else at once."""
    simulated = workload(job(0, at=7.0), job(1, at=130.0))
    minutes = Settings(policy="specon", tick=60.0)
    regular = simulate(simulated, "round-robin", settings=minutes, ticks_only=True)
    assert [done.started_at for done in regular.jobs] == [60, 180]
    at_once = simulate(simulated, "round-robin", settings=minutes)
    assert [done.started_at for done in at_once.jobs] == [7, 130]


def test_ticks_stay_regular_after_a_jump():
    """The ticks after a time without jobs are at multiples of the tick as well."""
    simulated = workload(job(0, seconds=30), job(1, at=100007.0))
    regular = simulate(
        simulated, "round-robin", settings=Settings(policy="specon", tick=60.0), ticks_only=True
    )
    assert regular.jobs[1].started_at == 100020


def test_restless_policy_does_not_stop_time(monkeypatch):
    """A policy that ends and starts a job without end, in no time, gets to the end of the simulation."""

    def restless(snapshot):
        yield from admit_all(snapshot)
        for running in snapshot.running:
            yield Preempt(job=running.name, reason="restless")

    policy = scripted(monkeypatch, restless)
    simulated = workload(job(0, seconds=1000, stop_seconds=0.0))
    patient = msgspec.structs.replace(settings_for(simulated), budgets=Budgets(preemptions_per_job=10**6))
    outcome = simulate(simulated, policy, settings=patient, limit=100, check=Invariants())
    assert outcome.jobs[0].preemptions > 100


def test_policy_is_asked_after_all_events_of_a_moment(monkeypatch):
    """Jobs that arrive at the same time are all there when the policy is asked."""
    seen = []

    def propose(snapshot):
        seen.append(len(snapshot.waiting))
        return admit_all(snapshot)

    policy = scripted(monkeypatch, propose)
    simulate(workload(*[job(number, at=10.0) for number in range(4)]), policy)
    assert seen[0] == 4


def test_quiet_policy_is_asked_soon_after_a_change(monkeypatch):
    """Though the ticks get rare while nothing changes, a node that comes back is used at once."""
    simulated = workload(job(0), on=nodes(1), failures=(NodeFailure(node="node-0", at=0.0, seconds=5000.0),))
    policy = scripted(monkeypatch, lambda s: admit_all(s) if s.ready_nodes else ())
    outcome = simulate(simulated, policy, settings=Settings(policy="specon", tick=5.0))
    assert outcome.jobs[0].started_at == 5000
    assert outcome.decisions < 100


def test_progress_is_told():
    """The part of the jobs that ended is told, rising to 1."""
    told = []
    simulate(workload(*[job(i, at=float(i)) for i in range(5)]), "round-robin", on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_oracle_tells_how_long_a_job_takes(monkeypatch):
    """A clairvoyant policy gets the true duration, and what is left of it; another one gets neither."""
    declared, left = [], []

    def propose(snapshot):
        declared.extend(known.spec.declared_seconds for known in snapshot.jobs.values())
        for replica in snapshot.replicas.values():
            progress = replica.progress
            if progress.remaining_seconds is not None and progress.reported_at is not None:
                left.append(progress.remaining_seconds.value - (snapshot.now - progress.reported_at))
        return admit_all(snapshot)

    policy = scripted(monkeypatch, propose)
    simulated = workload(job(0, seconds=40, prints_total=False))
    simulate(simulated, policy, oracle=True)
    assert set(declared) == {40}
    assert left == pytest.approx([40, 35, 30, 25, 20, 15, 10, 5])
    declared.clear()
    left.clear()
    simulate(simulated, policy, oracle=False)
    assert set(declared) == {None}
    assert not left


def test_checks_see_every_step():
    """A check is called with each event, and what it raises ends the simulation."""
    events = []
    simulate(workload(job(0)), "round-robin", check=lambda moment: events.append(type(moment.event)))
    assert events[:2] == [ev.NodeObserved, ev.NodeObserved]
    assert {ev.JobSubmitted, ev.Tick, ev.ReplicaStarted, ev.ReplicaGone} <= set(events)


def test_gang_starts_when_all_of_it_runs(monkeypatch):
    """A gang trains once its slowest part is up: here parts that are admitted one tick after the other."""

    def one_by_one(snapshot):
        for replica in snapshot.unplaced[:1]:
            yield Admit(replica=replica.name, node="node-0", reason="next one")

    policy = scripted(monkeypatch, one_by_one)
    simulated = workload(job(0, workers=2, ps=1, seconds=100))
    outcome = simulate(
        simulated, policy, settings=Settings(policy="specon", tick=10.0), ticks_only=True, check=Invariants()
    )
    assert outcome.jobs[0].started_at == 20
    assert outcome.jobs[0].ended_at == 120
    assert outcome.jobs[0].paused_seconds == 20


def test_smaller_gang_trains_slower(monkeypatch):
    """A job with half of its workers takes twice as long where the speedup is linear."""

    def half(snapshot):
        for waiting in snapshot.waiting:
            names = waiting.spec.worker_names[:2]
            yield AdmitGang(job=waiting.name, placement=dict.fromkeys(names, "node-0"), reason="half")

    policy = scripted(monkeypatch, half)
    simulated = workload(job(0, workers=4, seconds=100, spec={"min_workers": 2}))
    outcome = simulate(simulated, policy, check=Invariants())
    assert outcome.jobs[0].ended_at == 200


@pytest.mark.parametrize(
    ("simulated", "message"),
    [
        (workload(job(0), on=()), "nodes"),
        (workload(job(0), on=(*nodes(1), *nodes(1))), "node-0"),
        (workload(job(0), job(0)), "default/job-0"),
        (workload(job(0), failures=(NodeFailure(node="other", at=0.0, seconds=1.0),)), "other"),
        (workload(job(0, seconds=float("nan"))), "default/job-0"),
        (workload(job(0, at=float("inf"))), "default/job-0"),
    ],
)
def test_wrong_workloads_are_named(simulated, message):
    """What cannot be simulated is a ValueError that names it."""
    with pytest.raises(ValueError, match=message):
        simulate(simulated, "round-robin")


def test_unknown_policies_and_parameters_are_named():
    """A wrong policy or parameter is a ValueError before anything is simulated."""
    with pytest.raises(ValueError, match="nonsense"):
        simulate(workload(job(0)), "nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        simulate(workload(job(0)), "specon", parameters={"nonsense": 1})
