"""Worlds that are drawn: what is known of durations and arrivals, and what is made of their starts."""

import math
from random import Random
from statistics import NormalDist

import msgspec
import pytest

from specon_lab.engine.run import settings_for
from specon_lab.forecasts.arrivals import draw_arrivals, latest_arrivals, newcomer
from specon_lab.forecasts.chance import Chance
from specon_lab.forecasts.knowledge import Knowledge
from specon_lab.forecasts.start import Budget, expected_starts
from specon_lab.forecasts.starts import Bounds, interval, play_forward, starts
from specon_lab.forecasts.worlds import Worlds
from specon_lab.workloads.records import equal_nodes
from specon_lab.workloads.workload import Workload
from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_jobs
from specon_manager.model.cluster import Job, JobSpec, Served
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from support.lab.simulations import job
from support.lab.states import state_at


def workload(*jobs, count=1):
    return Workload(name="test", nodes=equal_nodes(count, Resources(cpu=8.0)), jobs=jobs)


def queued(seconds=400.0, behind=2):
    """Return a state in which one job runs on the one node, and others wait behind it."""
    whole = Resources(cpu=8.0)
    jobs = [job(index, at=float(index), seconds=seconds, requests=whole) for index in range(behind + 1)]
    made = workload(*jobs)
    settings = msgspec.structs.replace(settings_for(made), policy="fifo")
    state, now = state_at(120.0, made, "fifo", settings=settings)
    known = Served(jobs=3, mean_seconds=seconds, latest=(seconds,) * 3)
    return msgspec.structs.replace(state, served={"best-effort": known}), now


def test_nineteen_equally_likely_times_have_their_extremes_as_interval():
    """Each place among 20 is as likely as any other, so 90 of 100 lie between the first and the last."""
    assert interval(range(19)) == (9, 0, 18)
    assert interval(range(39)) == (19, 1, 37)
    assert interval([1.0] * 18 + [math.inf])[2] == math.inf


def test_the_interval_of_draws_from_one_distribution_holds_what_it_says():
    """If truths are drawn like the worlds, 87 to 93 of 100 lie within the interval."""
    rng = Random(0)
    inside = 0
    for _ in range(3000):
        _, earliest, latest = interval([rng.expovariate(1.0) for _ in range(19)])
        inside += earliest <= rng.expovariate(1.0) <= latest
    assert 0.87 < inside / 3000 < 0.93


def test_who_comes_after_a_measured_job_starts_when_that_ends():
    """The first of those that wait: at the end of the one that runs, about as surely as its sidecar says."""
    state, now = queued()
    names = [each.name for each in waiting_jobs(state)]
    found = starts(Worlds(state, now, seed=0), names, 19, Bounds(work=1e6), lambda: True)
    first = found.by_job["default/job-1"]
    assert first.median == pytest.approx(400.0 - now, rel=0.1)
    assert first.earliest < first.median < first.latest
    assert found.by_job["default/job-2"].median > first.median + 200.0


def test_the_same_seed_draws_the_same_world():
    """And another one another world."""
    state, now = queued()
    one, same, other = (Worlds(state, now, seed=seed).draw(3, until=1e4) for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_a_world_is_played_no_further_than_its_bounds():
    """Virtual time, work and the patience of the caller bound it."""
    state, now = queued()
    world = Worlds(state, now, seed=0).draw(0, until=1e4)
    names = ["default/job-1", "default/job-2"]
    assert set(play_forward(world, names, Bounds(work=1e6), lambda: True).starts) == set(names)
    assert not play_forward(world, names, Bounds(work=1.0), lambda: True).starts
    assert not play_forward(world, names, Bounds(horizon=10.0, work=1e6), lambda: True).starts
    with pytest.raises(TimeoutError):
        play_forward(world, names, Bounds(work=1e6), lambda: False)


def under(policy, state, **changes):
    settings = msgspec.structs.replace(state.settings, policy=policy)
    return msgspec.structs.replace(state, settings=settings, **changes)


def test_work_that_short_worlds_leave_goes_to_those_that_are_long():
    """So one long world of 19 takes no job its interval."""
    state, now = queued()
    durations = Served(jobs=64, latest=(60.0,) * 60 + (20_000.0,) * 4)
    state = msgspec.structs.replace(state, served={"best-effort": durations})
    worlds, names = Worlds(state, now, seed=0), ["default/job-1", "default/job-2"]
    whole = [
        play_forward(worlds.draw(n, until=1e6), names, Bounds(work=1e6), lambda: True) for n in range(19)
    ]
    mean = sum(play.work for play in whole) / 19
    assert max(play.work for play in whole) > 2 * mean, "they differ"
    cut = play_forward(worlds.draw(0, until=1e6), names, Bounds(work=0.5 * whole[0].work), lambda: True)
    assert cut.cut
    assert not whole[0].cut
    found = starts(worlds, names, 19, Bounds(work=2 * mean), lambda: True)
    assert all(math.isfinite(each.latest) for each in found.by_job.values())


def test_what_starts_beyond_what_was_played_starts_after_that():
    """Its interval has no end, but nobody need look for it before."""
    state, now = queued()
    names = ["default/job-1", "default/job-2"]
    mean = (
        40.0
        + sum(
            play_forward(
                Worlds(state, now, seed=0).draw(n, until=1e6), names[:1], Bounds(work=1e6), lambda: True
            ).work
            for n in range(19)
        )
        / 19
    )
    found = starts(Worlds(state, now, seed=0), names, 19, Bounds(work=mean), lambda: True)
    first, second = (found.by_job[name] for name in names)
    assert math.isinf(second.latest)
    assert second.surely_after > 0.0
    assert second.surely_after >= first.surely_after
    told = expected_starts(state, now, names, Budget(work=19 * mean, seconds=60.0))[names[1]]
    assert (told.in_seconds, told.latest_seconds) == (None, None)
    assert told.earliest_seconds == pytest.approx(second.surely_after, abs=0.1)
    assert told.why.startswith("it does not start in each of 19 simulations")


def test_what_waits_beyond_the_horizon_starts_after_it():
    """A simulation of a week tells of a job that waits for longer that it waits for a week."""
    state, now = queued(seconds=4e6, behind=1)
    found = starts(Worlds(state, now, seed=0), ["default/job-1"], 19, Bounds(work=1e6), lambda: True)
    assert found.by_job["default/job-1"].surely_after == Bounds(work=1e6).horizon
    told = expected_starts(state, now, ["default/job-1"], Budget(work=19e6, seconds=60.0))["default/job-1"]
    assert told.earliest_seconds == Bounds(work=1e6).horizon
    assert told.why.endswith("the simulation was ended after 604800 s")


def test_under_a_policy_in_order_nobody_waits_for_who_came_later():
    """So those are not played: the starts are the same, and a world takes less work."""
    state, now = queued(behind=40)
    first = ["default/job-1"]
    whole, part = Worlds(state, now, seed=0), Worlds(state, now, seed=0, asked=first)
    assert [job.spec.name for job in part.draw(0, until=1e4).workload.jobs] == [
        "default/job-0",
        "default/job-1",
    ]
    assert len(whole.draw(0, until=1e4).workload.jobs) == 41
    plays = [
        play_forward(each.draw(0, until=1e4), first, Bounds(work=1e6), lambda: True) for each in (whole, part)
    ]
    assert plays[0].starts == plays[1].starts
    assert plays[1].work < plays[0].work
    assert "do not matter" in part.arrivals


def test_where_order_may_turn_everybody_is_played():
    """Another policy, quotas of queues, and moves that make room let a later job go first."""
    state, now = queued(behind=4)
    queues = {"team": Queue(name="team")}
    for other in (under("srpt", state), under("progress", state), under("fifo", state, queues=queues)):
        worlds = Worlds(other, now, seed=0, asked=["default/job-1"])
        assert len(worlds.draw(0, until=1e4).workload.jobs) == 5


def test_assumptions_say_who_is_taken_to_come():
    """Three jobs are too few to tell the rate at which others come."""
    state, now = queued()
    state = under("srpt", state)
    told = expected_starts(state, now, ["default/job-1"])["default/job-1"]
    assert "nothing else arrives: too few came to say who will" in told.assumptions
    assert any(each.startswith("later jobs may go first") for each in told.assumptions)
    assert "jobs converge as their sidecars say, else as others of their kind did" in told.assumptions
    assert not any(each.startswith("a job that is converged stays so") for each in told.assumptions)
    ours = expected_starts(under("progress", state), now, ["default/job-1"])["default/job-1"]
    assert set(told.assumptions) - set(ours.assumptions) == {
        "later jobs may go first, and how often intervals hold was measured under progress alone"
    }
    assert told.assumptions[0] == "how long jobs still train is learnt, measured"


def submitted(count, every=10.0, **changes):
    jobs = [
        Job(
            spec=JobSpec(name=f"default/j{index}", replicas=(f"default/j{index}/worker/0",)),
            order=index,
            submitted_at=every * index,
        )
        for index in range(count)
    ]
    return State(jobs={each.name: each for each in jobs}, job_count=count, **changes)


def test_newcomers_come_at_the_rate_of_the_latest():
    """Over a long time as many as came in as long a time; none where too few came."""
    latest = latest_arrivals(submitted(20), 200.0)
    drawn = draw_arrivals(latest, Random(0), until=10_000.0, most=10_000)
    assert len(drawn) == pytest.approx(1000, rel=0.02)
    assert [at for at, _ in drawn] == sorted(at for at, _ in drawn)
    assert len(draw_arrivals(latest, Random(0), until=10_000.0, most=7)) == 7
    assert latest_arrivals(submitted(7), 200.0) == ()


def test_submissions_that_were_forgotten_count_in_the_rate():
    """Every second job ended and is not remembered any more: twice as many come as are remembered."""
    state = submitted(40)
    kept = {name: each for name, each in state.jobs.items() if each.order % 2 == 0}
    latest = latest_arrivals(msgspec.structs.replace(state, jobs=kept), 400.0)
    assert len(draw_arrivals(latest, Random(0), until=4000.0, most=1000)) == pytest.approx(400, rel=0.05)


def test_a_newcomer_has_names_of_its_own():
    """It stands beside the one whose pattern it is."""
    spec = newcomer(submitted(1).jobs["default/j0"].spec, 4)
    assert (spec.name, spec.replicas) == (
        "default/specon-newcomer-4",
        ("default/specon-newcomer-4/worker/0",),
    )


def test_durations_are_those_of_the_kind_and_now_and_then_another():
    """The more are known the rarer is another, which is like its own; what outlived all goes on."""
    served = {"a": Served(jobs=9, latest=(1.0,) * 9), "b": Served(jobs=1, latest=(50.0,))}
    known = Knowledge(State(served=served), 0.0, ())
    drawn = [known.whole("a", Chance(0, number)) for number in range(2000)]
    assert drawn.count(1.0) / 2000 == pytest.approx(0.9, abs=0.02)
    assert 50.0 not in drawn
    outlived = [known.whole("a", Chance(0, number), 2000.0) for number in range(500)]
    assert min(outlived) >= 2000.0
    assert max(outlived) <= 40_000.0
    assert known.enough


def test_a_kind_of_which_nobody_is_complete_may_take_much_longer():
    """What is known of others is no bound for it, though 20 times the longest is."""
    known = Knowledge(State(served={"a": Served(jobs=9, latest=(10.0,) * 9)}), 0.0, ())
    drawn = sorted(known.whole("new", Chance(0, number)) for number in range(500))
    assert drawn[250] == pytest.approx(10.0, rel=0.3)
    assert drawn[-20] > 100.0
    assert drawn[-1] == pytest.approx(200.0)


def test_kinds_that_differ_widely_let_a_new_one_be_longer_than_all():
    """Kinds count, and not their jobs: many short jobs of one do not hide that others take long."""
    served = {
        "short": Served(jobs=60, latest=(46.0,) * 60),
        "middle": Served(jobs=3, latest=(826.0,) * 3),
        "long": Served(jobs=1, latest=(3500.0,)),
    }
    known = Knowledge(State(served=served), 0.0, ())
    drawn = sorted(known.whole("new", Chance(0, number)) for number in range(1900))
    assert 200.0 < drawn[950] < 1200.0
    assert sum(each > 3500.0 for each in drawn) > 190


def test_jobs_of_a_kind_that_is_new_are_long_or_short_together():
    """In one world, so that a queue of them is as uncertain as one is."""
    served = {"a": Served(jobs=40, latest=(10.0,) * 40), "b": Served(jobs=40, latest=(1000.0,) * 40)}
    known = Knowledge(State(served=served), 0.0, ())
    for number in range(20):
        chance = Chance(0, number)
        first, second = (known.whole("new", chance) for _ in range(2))
        assert 0.2 < first / second < 5.0


def test_nineteen_worlds_take_each_twentieth_once_of_what_is_uncertain():
    """So no luck makes the interval of one measured end too narrow; two ends take different orders."""
    drawn = [[Chance(7, number).deviate(what) for number in range(19)] for what in ("one", "other")]
    assert sorted(drawn[0]) == sorted(drawn[1]) == [NormalDist().inv_cdf(k / 20) for k in range(1, 20)]
    assert drawn[0] != drawn[1]


def test_a_sidecar_is_taken_to_err_as_little_as_in_recorded_runs():
    """It says 4 % at least and its deviation is 1.7 %: the extremes of 19 worlds lie 2.8 % off."""
    state, now = queued()
    worlds = Worlds(state, now, seed=0)
    (told,) = (each for each in worlds.expected.remaining if not each.waits)
    assert told.uncertainty == pytest.approx(0.04 * told.seconds, rel=0.01)
    drawn = [
        training.seconds - world.beginning.jobs["default/job-0"].done_seconds
        for world in (worlds.draw(number, until=1e4) for number in range(19))
        for training in (world.workload.jobs[0].training,)
    ]
    assert max(drawn) / told.seconds == pytest.approx(1.028, abs=0.002)
    assert min(drawn) / told.seconds == pytest.approx(1 / 1.028, abs=0.002)


def test_a_start_takes_as_long_as_those_that_were_seen():
    """From its admission until it trains, or what a complete job did not train; restarts tell nothing."""
    known = submitted(5)
    changes = {
        "default/j0": {"admitted_at": 10.0, "ended_at": 140.0, "attained_seconds": 100.0},
        "default/j1": {"admitted_at": 20.0, "trains_since": 50.0},
        "default/j2": {"admitted_at": 20.0, "trains_since": 500.0, "preemptions": 1},
        "default/j3": {"admitted_at": 20.0, "trains_since": 500.0, "attained_seconds": 9.0},
    }
    jobs = {name: msgspec.structs.replace(job, **changes.get(name, {})) for name, job in known.jobs.items()}
    found = Knowledge(msgspec.structs.replace(known, jobs=jobs), 600.0, ())
    assert {found.start_seconds(Chance(0, number), 100.0) for number in range(19)} == {30.0}
    assert found.start_seconds(Chance(0, 0), 12.0) == 12.0
    assert Knowledge(known, 600.0, ()).start_seconds(Chance(0, 0), 100.0) == 0.0


def test_who_has_just_begun_will_be_measured():
    """Its log names its last step, only its pace is not known yet: in no world is it a guess to its end."""
    whole = Resources(cpu=8.0)
    made = workload(*(job(index, seconds=900.0, requests=whole) for index in range(2)))
    state, now = state_at(30.0, made, "fifo", settings=settings_for(made))
    known = Served(jobs=3, mean_seconds=400.0, latest=(400.0,) * 3)
    state = msgspec.structs.replace(state, served={"best-effort": known})
    worlds = Worlds(state, now, seed=0)
    runs = next(each for each in worlds.expected.remaining if not each.waits)
    assert runs.basis == "learnt"
    name = f"{runs.job}/worker/0"
    assert worlds.draw(0, until=1e4).workload.jobs[0].training.prints_total
    silent = msgspec.structs.replace(state.replicas[name].progress, step=7, total_steps=None)
    state = state.with_replica(msgspec.structs.replace(state.replicas[name], progress=silent)).flatten()
    assert not Worlds(state, now, seed=0).draw(0, until=1e4).workload.jobs[0].training.prints_total


def test_who_is_preempted_starts_again_as_slowly_as_others_start():
    """A move is as fast as moves were; jobs that run are there at once, whatever a start takes."""
    state, now = queued()
    ended = Job(
        spec=JobSpec(name="default/done", replicas=()),
        order=9,
        submitted_at=0.0,
        admitted_at=0.0,
        ended_at=100.0,
        attained_seconds=60.0,
    )
    state = msgspec.structs.replace(state, jobs={**state.jobs, ended.name: ended})
    worlds = Worlds(state, now, seed=0)
    drawn = [each.training for n in range(19) for each in worlds.draw(n, until=1e4).workload.jobs]
    assert {each.move_seconds for each in drawn} == {5.0}
    # One job took 40 s to start, another one no time; what goes on from a checkpoint takes as long as a move.
    assert {(each.start_seconds, each.restore_seconds) for each in drawn} == {(40.0, 0.0), (0.0, 5.0)}
    runs = [worlds.draw(n, until=1e4).workload.jobs[0].training.start_seconds for n in range(19)]
    assert set(runs) == {0.0, 40.0}
    plain = starts(Worlds(queued()[0], now, seed=0), ["default/job-1"], 19, Bounds(work=1e6), lambda: True)
    found = starts(worlds, ["default/job-1"], 19, Bounds(work=1e6), lambda: True)
    assert found.by_job["default/job-1"].median == pytest.approx(
        plain.by_job["default/job-1"].median, rel=0.02
    )
