"""From a state to what is predicted of it: what is left of each job, where it is, and what comes of it."""

from __future__ import annotations

import msgspec
import pytest

from specon_lab.engine.run import simulate
from specon_lab.forecasts.forecast import forecast, verdicts_now
from specon_lab.forecasts.settled import settle_all
from specon_lab.workloads.table import workload_named
from specon_manager.core.state import Measured, State
from specon_manager.model.cluster import Leaving, Phase, Served
from specon_manager.model.events import Tick
from support.lab.invariants import Invariants
from support.lab.simulations import admit_all, job, nodes, scripted, sharing_job, workload
from support.lab.states import state_at


def predicted(state, now, policy, **options):
    found = forecast(state, now, prior_seconds=600.0)
    outcome = simulate(found.workload, policy, settings=found.settings, beginning=found.beginning, **options)
    return {each.name: each for each in outcome.jobs}


def left(state, now, *, prior=600.0):
    return {each.job: each for each in forecast(state, now, prior_seconds=prior).remaining}


def job_named(state, name, **changes):
    """Return the state with other fields in that job's description."""
    record = state.jobs[name]
    spec = msgspec.structs.replace(record.spec, **changes)
    return state.with_job(msgspec.structs.replace(record, spec=spec)).flatten()


def test_what_runs_goes_on_where_it_is_and_ends_when_it_would_have(monkeypatch):
    """With a true estimate the prediction is the truth; no policy has to place it anew."""
    policy = scripted(monkeypatch, lambda snapshot: admit_all(snapshot, "node-1"))
    given = workload(job(0, seconds=500.0), job(1, seconds=900.0))
    state, now = state_at(200.0, given, policy, oracle=True)
    idle = scripted(monkeypatch, lambda snapshot: ())
    found = predicted(state, now, idle, stays=True, oracle=True)
    assert found["default/job-0"].completion_seconds == pytest.approx(500.0 - now, abs=1e-3)
    assert found["default/job-1"].completion_seconds == pytest.approx(900.0 - now, abs=1e-3)
    expected = forecast(state, now, prior_seconds=600.0)
    outcome = simulate(
        expected.workload, idle, settings=expected.settings, beginning=expected.beginning, stays=True
    )
    assert {stay.node for stay in outcome.stays} == {"node-1"}


def test_what_waits_runs_once_there_is_room():
    """It has waited before; what it takes is learnt of nobody, and so assumed."""
    given = workload(job(0, seconds=400.0), job(1, seconds=50.0), on=nodes(1, cpu=1.0))
    state, now = state_at(100.0, given, "fifo")
    first, second = left(state, now)["default/job-0"], left(state, now)["default/job-1"]
    assert (second.basis, second.seconds) == ("assumed", 600.0)
    waited = predicted(state, now, "fifo")["default/job-1"]
    assert waited.waited_seconds == pytest.approx(first.seconds, abs=1)
    assert waited.completion_seconds == pytest.approx(first.seconds + 600.0, abs=1)


def test_each_estimate_says_what_it_rests_on():
    """A sidecar's measurement before an owner's word, that before the mean of others, that before a guess."""
    given = workload(
        job(0, seconds=400.0), job(1, spec={"kind": "vae"}), job(2), job(3), on=nodes(1, cpu=1.0)
    )
    state, now = state_at(100.0, given, "fifo")
    state = job_named(state, "default/job-2", declared_seconds=77.0)
    found = left(state, now)
    assert found["default/job-0"].basis == "measured"
    assert found["default/job-0"].seconds == pytest.approx(400.0 - now, rel=0.15)
    assert found["default/job-0"].uncertainty > 0
    assert (found["default/job-2"].basis, found["default/job-2"].seconds) == ("declared", 77.0)
    assert (found["default/job-3"].basis, found["default/job-3"].seconds) == ("assumed", 600.0)
    assert [each.waits for each in found.values()] == [False, True, True, True]
    learnt = msgspec.structs.replace(state, served={"vae": Served(jobs=5, mean_seconds=123.0)})
    found = left(learnt, now)
    assert (found["default/job-1"].basis, found["default/job-1"].seconds) == ("learnt", 123.0)
    assert (found["default/job-3"].basis, found["default/job-3"].seconds) == ("learnt", 123.0)


def test_what_is_left_of_a_gang_is_told_for_the_workers_it_asked_for(monkeypatch):
    """A gang that runs with half of its workers has half as much left once it has all of them."""
    policy = scripted(
        monkeypatch,
        lambda snapshot: (
            msgspec.structs.replace(each, placement=dict(list(each.placement.items())[:2]))
            for each in admit_all(snapshot)
        ),
    )
    given = workload(job(0, seconds=500.0, workers=4, spec={"min_workers": 1}))
    state, now = state_at(400.0, given, policy, oracle=True)
    found = left(state, now)["default/job-0"]
    assert found.seconds == pytest.approx(500.0 - now / 2, abs=1.0)
    active = [name for name, r in settle_all(state, now).replicas.items() if r.active]
    assert active == ["default/job-0/worker/0", "default/job-0/worker/1"]
    idle = scripted(monkeypatch, lambda snapshot: ())
    ends = predicted(state, now, idle, oracle=True)["default/job-0"].completion_seconds
    assert ends == pytest.approx(1000.0 - now, abs=1.0)


def test_those_that_share_processors_slow_each_other_down(monkeypatch):
    """A job that reserves nothing takes a node's processors when it can: two of them share it."""
    policy = scripted(monkeypatch, admit_all)
    given = workload(sharing_job(0, seconds=300.0), sharing_job(1, seconds=300.0), on=nodes(1))
    state, now = state_at(200.0, given, policy)
    found = left(state, now)
    assert found["default/job-0"].seconds == pytest.approx(300.0 - now / 2, rel=0.1)
    idle = scripted(monkeypatch, lambda snapshot: ())
    ends = [each.completion_seconds for each in predicted(state, now, idle).values()]
    assert max(ends) == pytest.approx(600.0 - now, rel=0.1)


def test_what_was_learnt_and_what_was_decided_before_is_kept():
    """Attained service, waits, preemptions and the durations of kinds go into the simulation."""
    given = workload(job(0, seconds=400.0), job(1), on=nodes(1, cpu=1.0))
    state, now = state_at(100.0, given, "fifo")
    state = msgspec.structs.replace(state, served={"vae": Served(jobs=2, mean_seconds=5.0)})
    first = msgspec.structs.replace(state.jobs["default/job-0"], preemptions=2)
    found = forecast(state.with_job(first), now, prior_seconds=600.0)
    seen = []
    options = {"beginning": found.beginning, "check": lambda moment: seen.append(moment.after)}
    simulate(found.workload, "fifo", **options)
    state = next(each for each in seen if each.served)
    assert state.served["vae"].jobs == 2
    assert state.jobs["default/job-0"].preemptions == 2
    assert state.jobs["default/job-0"].attained_seconds == pytest.approx(now)
    assert state.jobs["default/job-1"].queued_at == pytest.approx(-now)


def test_what_is_under_way_counts_as_done():
    """A preempted job waits, a scaled-in worker is absent, one on a lost node waits, an ended job is gone."""
    given = workload(job(0, workers=2), job(1), job(2, workers=3, spec={"min_workers": 1}))
    state, now = state_at(20.0, given, "fifo")

    def told(name, purpose):
        leaving = Leaving(purpose=purpose, since=now, deadline=now + 30, reason="")
        return msgspec.structs.replace(state.replicas[name], leaving=leaving)

    for name in ("default/job-0/worker/0", "default/job-0/worker/1"):
        state = state.with_replica(told(name, "preempt"))
    state = state.with_replica(told("default/job-2/worker/2", "scale-in"))
    lost = msgspec.structs.replace(state.replicas["default/job-1/worker/0"], node="nowhere")
    found = settle_all(state.with_replica(lost), now).replicas
    assert {name.removeprefix("default/"): replica.phase for name, replica in found.items()} == {
        "job-0/worker/0": Phase.PENDING,
        "job-0/worker/1": Phase.PENDING,
        "job-1/worker/0": Phase.PENDING,
        "job-2/worker/0": Phase.RUNNING,
        "job-2/worker/1": Phase.RUNNING,
        "job-2/worker/2": Phase.ABSENT,
    }
    completing = state.with_replica(told("default/job-1/worker/0", "complete"))
    assert "default/job-1" not in settle_all(completing, now).jobs


def test_a_restart_costs_what_moves_have_cost():
    """The mean downtime of moves, where there were any; else what the gate expects."""
    given = workload(job(0, seconds=400.0))
    state, now = state_at(100.0, given, "fifo")
    before = forecast(state, now, prior_seconds=1.0).workload.jobs[0].training
    assert before.restore_seconds == state.settings.gate.expected_downtime
    state = msgspec.structs.replace(state, measured=Measured(moves=3, downtime=42.0))
    after = forecast(state, now, prior_seconds=1.0)
    assert after.workload.jobs[0].training.restore_seconds == 42.0
    assert after.settings.deadlines.start > 42.0


def test_a_bound_is_told_the_estimates(monkeypatch):
    """Srpt cannot do without: it preempts the job that has more left for the one that has less."""
    given = workload(job(0, seconds=4000.0), job(1, seconds=50.0), on=nodes(1, cpu=1.0))
    state, now = state_at(100.0, given, "fifo")
    told = forecast(state, now, prior_seconds=600.0).remaining
    said = [type(each.proposal).__name__ for each in verdicts_now(state, now, "srpt", {}, told)]
    assert said == ["Preempt", "Claim"]
    assert verdicts_now(state, now, "fifo", {}, told) == ()


def test_nothing_of_a_template_travels():
    """It may hold secrets, and no decision looks at it."""
    given = workload(job(0, spec={"template": {"environment": {"TOKEN": "x"}}}))
    state, now = state_at(20.0, given, "fifo")
    assert forecast(state, now, prior_seconds=1.0).workload.jobs[0].spec.template == {}


def test_a_state_with_nothing_to_do_is_told():
    """No node that is ready, or no job that has not ended."""
    given = workload(job(0))
    state, now = state_at(20.0, given, "fifo")
    with pytest.raises(ValueError, match="nodes: there is none that is ready"):
        forecast(msgspec.structs.replace(state, nodes={}), now, prior_seconds=1.0)
    with pytest.raises(ValueError, match="jobs: all of them have ended"):
        forecast(State(nodes=state.nodes), now, prior_seconds=1.0)


@pytest.mark.parametrize(
    "policy", ["progress", "specon", "kod2", "dragon", "fitgpp", "srpt", "default-scheduler"]
)
def test_what_begins_in_the_middle_keeps_every_rule_of_a_simulation(policy):
    """No node is overfull, nothing lives twice, no work is lost, and every job ends."""
    given = workload_named("poisson:jobs=30,nodes=2", 3)
    state, now = state_at(6000.0, given, "quota-fifo")
    found = forecast(state, now, prior_seconds=600.0)
    outcome = simulate(
        found.workload, policy, settings=found.settings, beginning=found.beginning, check=Invariants()
    )
    assert len(outcome.jobs) > 10
    assert {each.state for each in outcome.jobs} == {"completed"}


def test_who_has_trained_for_long_may_be_preempted_at_once():
    """Its training counts from when it began, not from the forecast on; its preemptions count on."""
    given = workload(job(0, seconds=900.0), job(1), on=nodes(1, cpu=1.0))
    state, now = state_at(200.0, given, "fifo")
    before = msgspec.structs.replace(
        state.jobs["default/job-0"], preempted_at=(50.0,), cooldown_until=now + 40.0, failures=1
    )
    found = forecast(state.with_job(before), now, prior_seconds=600.0)
    seen = []
    simulate(found.workload, "fifo", limit=100.0, beginning=found.beginning, check=seen.append)
    later = next(each for each in seen if each.now > 0)
    record = later.before.jobs["default/job-0"]
    assert before.trains_since is not None
    assert record.trains_since == pytest.approx(before.trains_since - now)
    assert record.attained(later.now) == pytest.approx(before.attained(now) + later.now)
    assert record.preempted_at == (50.0 - now,)
    assert (record.cooldown_until, record.failures) == (pytest.approx(40.0), 1)


def test_a_forecast_ticks_when_a_job_may_be_preempted():
    """A minute after it began, though its regular Ticks are rarer; only where that is asked for."""
    given = workload(job(0, seconds=900.0), job(1), on=nodes(1, cpu=1.0))
    state, now = state_at(20.0, given, "fifo")
    found = forecast(state, now, prior_seconds=600.0)
    rare = msgspec.structs.replace(found.settings, tick=300.0)
    for wanted in (True, False):
        seen = []
        beginning = msgspec.structs.replace(found.beginning, looks_again=wanted)
        simulate(found.workload, "fifo", settings=rare, limit=200.0, beginning=beginning, check=seen.append)
        ticks = {each.now for each in seen if isinstance(each.event, Tick)}
        assert (pytest.approx(61.0 - now) in list(ticks)) == wanted
