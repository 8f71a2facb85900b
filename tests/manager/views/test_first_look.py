"""The report of an observer: what is held by whom, what would have been ordered, what stood against it."""

import msgspec
import pytest

from specon_manager.core.state import State
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.views.first_look import Looking, describe_look
from specon_sidecar.classify import Category
from support.decisions.cluster import replica_of

A, B = replica_of("a"), replica_of("b")


def state_with(**categories):
    state = State()
    for name, category in categories.items():
        spec = JobSpec(name=f"default/{name}", replicas=(replica_of(name),))
        state = state.with_job(Job(spec=spec, order=0, submitted_at=0.0))
        replica = Replica(
            name=replica_of(name),
            job=spec.name,
            phase=Phase.RUNNING,
            node="node-0",
            requests=Resources(cpu=4, gpu=1),
            progress=Progress(category=category),
        )
        state = state.with_replica(replica)
    return state


def decided(state, at, about, *, refusal, text="", proposal="Migrate node-1"):
    decision = Decision(
        at=at, replica=about, policy="specon", proposal=proposal, reason=text, refusal=refusal
    )
    return msgspec.structs.replace(state, verdicts={**state.verdicts, about: decision})


def test_what_converged_jobs_hold_is_summed_over_time():
    """The sum covers the time in which they were converged, within the whole time looked at."""
    looking, state = Looking(0.0), state_with(a=Category.CONVERGED, b=Category.PROGRESSING)
    looking.observe(state, state, 1800.0)
    report = looking.report(state, 3600.0)
    assert (report.converged_cpu_hours, report.cpu_hours) == (pytest.approx(4), pytest.approx(8))
    assert (report.converged_gpu_hours, report.gpu_hours) == (pytest.approx(1), pytest.approx(2))
    assert report.categories == {"converged": 1, "progressing": 1}


def test_what_would_have_been_ordered_is_told_once():
    """The policy proposes it again at each Tick; to another target it is another thing."""
    looking, state = Looking(0.0), state_with(a=Category.CONVERGED)
    for at, target in ((1.0, "node-1"), (2.0, "node-1"), (3.0, "node-2")):
        text = f"would be ordered: move {A} to {target} (it has converged)"
        after = decided(state, at, A, refusal=Refusal.DRY_RUN, text=text, proposal=f"Migrate {target}")
        looking.observe(state, after, at)
        state = after
    report = looking.report(state, 4.0)
    assert [each.what for each in report.would] == [
        f"move {A} to node-1 (it has converged)",
        f"move {A} to node-2 (it has converged)",
    ]
    assert "Would have been ordered (2):" in describe_look(report)


def test_reasons_are_counted_by_whom_they_concern():
    """With one example each, the commonest first; leaving a job where it is, is nothing to report."""
    looking, state = Looking(0.0), state_with(a=Category.CONVERGED, b=Category.CONVERGED)
    after = decided(state, 1.0, A, refusal=Refusal.NO_GAIN, text="no gain")
    after = decided(after, 1.0, B, refusal=Refusal.NO_GAIN, text="none here")
    after = decided(after, 1.0, "default/b", refusal=Refusal.QUOTA, text="none left")
    looking.observe(state, after, 1.0)
    stays = decided(
        after, 2.0, A, refusal=Refusal.DRY_RUN, text="would be ordered: leave it", proposal="Stay"
    )
    looking.observe(after, stays, 2.0)
    report = looking.report(stays, 3.0)
    assert [(each.refusal, each.jobs) for each in report.against] == [("no-gain", 2), ("quota", 1)]
    assert report.would == ()
    assert "Nothing would have been ordered so far." in describe_look(report)
