"""When jobs converge, as far as a state shows it, and that worlds are told."""

import msgspec
import pytest

from specon_lab.engine.run import settings_for
from specon_lab.forecasts.chance import Chance
from specon_lab.forecasts.convergence import Convergence
from specon_lab.forecasts.worlds import Worlds
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.progress import Progress
from specon_sidecar.classify import Category
from support.lab.simulations import job, nodes, workload
from support.lab.states import state_at


def heard(name, *, kind="vae", part=0.5, admitted_at=0.0, **told):
    """Return a job, and its worker whose sidecar has told of `part` of 100 steps."""
    spec = JobSpec(name=f"ns/{name}", replicas=(f"ns/{name}/worker/0",), kind=kind)
    progress = Progress(**({"step": int(100 * part), "total_steps": 100} | told))
    record = Job(spec=spec, order=0, submitted_at=0.0, admitted_at=admitted_at, attained_seconds=1000 * part)
    return record, Replica(name=spec.replicas[0], job=spec.name, progress=progress)


def known_of(*pairs, now=500.0):
    jobs, replicas = {one.name: one for one, _ in pairs}, {one.name: one for _, one in pairs}
    return Convergence(State(jobs=jobs, replicas=replicas), now)


def test_what_its_sidecar_says_of_a_job_counts():
    """A fifth of the second half: at 60 %; who has converged has, whatever others did."""
    progressing = heard("a", category=Category.PROGRESSING, until_converged=0.2)
    converged = heard("b", category=Category.CONVERGED, category_since=400.0)
    known = known_of(progressing, converged)
    assert known.draw(progressing[0], Chance(0, 0), 0.5) == pytest.approx(0.6)
    assert known.draw(converged[0], Chance(0, 0), 0.5) == 0.0


def test_of_others_their_kind_is_drawn():
    """One converged when 400 of its 1000 s were over; one whose log cannot be judged never tells."""
    one = heard("a", category=Category.CONVERGED, category_since=400.0)
    known = known_of(one, heard("b", kind="silent"))
    assert known.draw_kind("vae", Chance(0, 0)) == pytest.approx(0.4)
    assert known.draw_kind("silent", Chance(0, 0)) is None
    drawn = [known.draw_kind("new", Chance(0, number)) for number in range(40)]
    assert None in drawn
    assert {each for each in drawn if each is not None} == {known.draw_kind("vae", Chance(0, 0))}
    assert known.draw_kind("vae", Chance(0, 0), done=0.7) == 1.0, "it outlived the others, and converges late"
    assert known_of().draw_kind("vae", Chance(0, 0)) is None


@pytest.mark.parametrize(("policy", "told"), [("progress", True), ("fifo", False)])
def test_worlds_of_policies_that_rank_by_it_have_it(policy, told):
    """In order of submission nobody asks: what was drawn for `fifo` stays as it was."""
    given = workload(job(0, seconds=900.0), job(1), on=nodes(1, cpu=1.0))
    state, now = state_at(200.0, given, policy, settings=settings_for(given))
    name = "default/job-0/worker/0"
    progress = msgspec.structs.replace(
        state.replicas[name].progress, category=Category.PROGRESSING, until_converged=0.5
    )
    state = state.with_replica(msgspec.structs.replace(state.replicas[name], progress=progress)).flatten()
    settings = msgspec.structs.replace(state.settings, policy=policy)
    world = Worlds(msgspec.structs.replace(state, settings=settings), now, seed=0).draw(0, until=1e4)
    converges = world.workload.jobs[0].training.converges
    assert (converges is not None) == told
    if told:
        assert progress.step is not None
        done = progress.step / progress.total_steps
        assert converges == pytest.approx(done + 0.5 * (1 - done)), "half of the rest, as it was last heard"


def test_where_others_make_way_ticks_stay_close():
    """A job is preempted at a Tick, also where nothing else happens then: five minutes would be too rare."""
    given = workload(job(0, seconds=90_000.0), job(1), on=nodes(1, cpu=1.0))
    for policy, tick in (("progress", 60.0), ("fifo", 300.0)):
        state, now = state_at(200.0, given, policy, settings=settings_for(given))
        settings = msgspec.structs.replace(state.settings, policy=policy, tick=5.0)
        world = Worlds(msgspec.structs.replace(state, settings=settings), now, seed=0).draw(0, until=1e4)
        assert world.settings.tick == tick
        assert (world.workload.report_seconds == tick) == (policy == "fifo")
