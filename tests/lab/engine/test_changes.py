"""Jobs that are changed as a whole by transactions, in the simulator: checkpoint, end, start, proof."""

import msgspec
import pytest

from specon_lab.engine.run import settings_for, simulate
from specon_manager.model.transactions import Kind, TransactionState
from support.lab.invariants import Invariants
from support.lab.simulations import job, nodes, workload


def run(policy, *jobs, parameters=None):
    """Return what came of the jobs on two nodes of 4 CPUs, and the changes that ended."""
    given, invariants, latest = workload(*jobs, on=nodes(2, cpu=4.0)), Invariants(), []

    def look(moment):
        invariants(moment)
        latest[:] = [moment.after]

    settings = msgspec.structs.replace(settings_for(given), tick=1.0)
    outcome = simulate(given, policy, parameters=parameters, settings=settings, check=look)
    assert [each.state for each in outcome.jobs] == ["completed"] * len(jobs)
    return outcome, latest[0].history


def light(resizing):
    spec = {"min_workers": 2, "resizing": resizing}
    times = {"start_seconds": 5, "restore_seconds": 3, "save_seconds": 2, "stop_seconds": 1}
    return job(0, seconds=1000, workers=6, spec=spec, resize_seconds=2, **times)


def heavy(resizing, **spec):
    return job(1, at=200, seconds=300, workers=4, spec={"resizing": resizing, **spec}, start_seconds=5)


@pytest.mark.parametrize("resizing", ["live", "restart"])
def test_a_job_is_scaled_in_and_out_by_changes_that_are_proven(resizing):
    """Every scaling has a verified checkpoint and a later step; both jobs end."""
    outcome, changes = run("kod2", light(resizing), heavy(resizing))
    scalings = [each for each in changes if each.kind in {Kind.SCALE_IN, Kind.SCALE_OUT}]
    assert [each.kind for each in sorted(scalings, key=lambda each: each.proposed_at)] == [
        Kind.SCALE_OUT,
        Kind.SCALE_IN,
        Kind.SCALE_OUT,
    ]
    for each in changes:
        assert each.state is TransactionState.SUCCEEDED
    for each in scalings:
        assert each.checkpoint.verified
        (witness,) = each.witnesses.values()
        assert witness.proven
        repeated = (witness.step_gap or 0) if each.restart else 0  # its log may begin with its last line
        assert each.first_step_after > each.checkpoint.step - repeated
    assert (outcome.jobs[0].scale_outs, outcome.jobs[0].scale_ins, outcome.jobs[0].lost_seconds) == (2, 1, 0)


def test_a_restart_costs_what_ending_and_starting_takes():
    """In place of the pause of a job that is scaled while it trains."""
    lively, _ = run("kod2", light("live"), heavy("live"))
    restarted, changes = run("kod2", light("restart"), heavy("restart"))
    # Three scalings, each with an end (1 s), a start (5 s) and a restore (3 s), in place of a pause of 2 s.
    assert restarted.jobs[0].paused_seconds - 5 == pytest.approx(3 * 9)
    assert lively.jobs[0].paused_seconds - 5 == pytest.approx(3 * 2)
    assert all(each.restart for each in changes if each.kind is Kind.SCALE_IN)


def test_the_others_train_on_while_a_worker_joins():
    """A live scale-out costs its pause alone, not the start of the new worker."""
    alone = job(
        0, seconds=600, workers=2, most=4, spec={"min_workers": 1, "resizing": "live"}, start_seconds=50
    )
    outcome, (_, grown) = run("dragon", alone, parameters={"idle_for": 10})
    assert grown.kind is Kind.SCALE_OUT
    assert outcome.jobs[0].paused_seconds == pytest.approx(50)
    assert grown.ended_at - grown.proposed_at >= 50


@pytest.mark.parametrize("resizing", ["live", "restart"])
def test_a_preempted_job_goes_on_from_its_checkpoint(resizing):
    """Nothing is trained twice, and it is counted as one preemption."""
    outcome, changes = run(
        "fitgpp",
        job(0, seconds=1000, workers=6, spec={"resizing": resizing}, stop_seconds=1, save_seconds=2),
        heavy(resizing, job_class="trial"),
    )
    assert [each.kind for each in changes] == [
        Kind.ADMIT,
        Kind.PREEMPT,
        Kind.ADMIT,
        Kind.ADMIT,
    ]
    assert (outcome.jobs[0].preemptions, outcome.jobs[0].lost_seconds) == (1, 0)
    assert changes[1].beneficiary == "default/job-1"


def test_jobs_that_are_scaled_at_once_have_no_transactions():
    """The papers' simulations are as they were."""
    _, changes = run("kod2", light("at-once"), heavy("at-once"))
    assert changes == ()
