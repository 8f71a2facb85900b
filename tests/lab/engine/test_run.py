"""Whole simulations: properties of any workload, and the settings that fit one."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specon_lab.engine.outcome import Outcome
from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.workload import NodeFailure, Submission, Workload
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate
from support.lab.invariants import Invariants
from support.lab.simulations import VAE, job, nodes, workload

SECONDS = st.floats(0.0, 30.0).map(lambda value: round(value, 1))


@st.composite
def submissions(draw: st.DrawFn, number: int) -> Submission:
    shares = draw(st.booleans())
    return job(
        number,
        at=draw(st.floats(0, 300)),
        seconds=draw(st.floats(1, 200)),
        workers=draw(st.integers(1, 3)),
        ps=draw(st.integers(0, 1)),
        requests=Resources() if shares else Resources(cpu=draw(st.sampled_from([1.0, 2.0, 3.0, 9.0]))),
        demand=8.0 if shares else 0.0,
        curve=draw(st.sampled_from([None, VAE])),
        prints_total=draw(st.booleans()),
        start_seconds=draw(SECONDS),
        save_seconds=draw(SECONDS),
        restore_seconds=draw(SECONDS),
        stop_seconds=draw(SECONDS),
        checkpoint_seconds=draw(st.floats(0, 100)),
        spec={
            "checkpointing": draw(st.sampled_from(["asked", "on-termination", "none"])),
            "restarts": draw(st.integers(0, 3)),
        },
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(1, 6))
    failures = draw(
        st.lists(
            st.builds(
                NodeFailure,
                node=st.sampled_from(["node-0", "node-1", "node-2"]),
                at=st.floats(0, 400),
                seconds=st.floats(0, 200),
            ),
            max_size=3,
        )
    )
    jobs = [draw(submissions(number)) for number in range(count)]
    return workload(
        *jobs, on=nodes(3), contention=draw(st.sampled_from([0.0, 0.1])), failures=tuple(failures)
    )


def check_times(simulated: Workload, outcome: Outcome) -> None:
    """See that the times of each job add up, and that no work is missing or done twice."""
    assert len(outcome.jobs) == len(simulated.jobs)
    for submission, done in zip(simulated.jobs, outcome.jobs, strict=True):
        assert done.name == submission.spec.name
        assert 0 <= outcome.used <= outcome.allocated + 1e-9 <= 1 + 2e-9
        if done.state == "cannot-run":
            assert done.reason
            continue
        if done.ended_at is None:
            assert done.state == "unfinished"
            assert done.reason
            continue
        spent = done.trained_seconds + done.paused_seconds + done.waited_seconds
        assert spent == pytest.approx(done.ended_at - done.submitted_at, abs=1e-6)
        if done.state == "completed":
            assert done.slowdown is not None
            assert done.slowdown >= 1 - 1e-9
            assert done.trained_seconds + 1e-6 >= done.ideal_seconds + done.lost_seconds
            if not submission.training.demand:
                assert done.trained_seconds == pytest.approx(done.ideal_seconds + done.lost_seconds)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(simulated=workloads(), policy=st.sampled_from(["specon", "round-robin"]), ticks_only=st.booleans())
def test_whatever_happens_holds_the_invariants(simulated, policy, ticks_only):
    """Any small workload with failures and moves ends, accounts for every job, and breaks no invariant."""
    chosen = settings_for(simulated)
    chosen = type(chosen)(
        tick=chosen.tick,
        deadlines=chosen.deadlines,
        gate=Gate(enabled=False),
        budgets=Budgets(cooldown=0, retry_cooldown=1),
    )
    outcome = simulate(
        simulated, policy, settings=chosen, ticks_only=ticks_only, check=Invariants(), limit=20000
    )
    check_times(simulated, outcome)


@settings(max_examples=10, deadline=None)
@given(simulated=workloads())
def test_any_simulation_can_be_repeated(simulated):
    """The same workload and policy give the same outcome."""
    assert simulate(simulated, "specon", stays=True, limit=5000) == simulate(
        simulated, "specon", stays=True, limit=5000
    )


def test_use_is_bounded_and_keeps_its_mean():
    """However long a simulation, the course of the use has a few thousand points; its mean stays right."""
    jobs = [job(i, at=3.0 * i, seconds=2.0) for i in range(3000)]
    outcome = simulate(workload(*jobs, on=nodes(1, cpu=2.0)), "round-robin")
    assert len(outcome.use) < 4100
    assert outcome.used == pytest.approx(3000 * 2 / 2 / outcome.makespan)
    ends = [point.at for point in outcome.use[1:]] + [outcome.use[-1].at]
    area = math.fsum((end - point.at) * point.used for point, end in zip(outcome.use, ends, strict=True))
    assert area / outcome.makespan == pytest.approx(outcome.used)


def test_settings_fit_the_workload():
    """What takes long in a workload is given the time for it, and long jobs get longer ticks."""
    slow = workload(job(0, seconds=6000, start_seconds=300.0, restore_seconds=300.0, save_seconds=500.0))
    fitting = settings_for(slow)
    assert fitting.deadlines.start > 600
    assert fitting.deadlines.checkpoint > 500
    assert fitting.tick == 50
    assert settings_for(workload()).tick == 5
    assert simulate(slow, "round-robin").jobs[0].state == "completed"


def test_empty_workload_is_over_at_once():
    """Without jobs there is nothing to tell."""
    outcome = simulate(workload(), "round-robin")
    assert (outcome.jobs, outcome.makespan, outcome.used) == ((), 0.0, 0.0)
