"""How far converged jobs are lowered for Kueue, how often that is written, and whom Kueue preempts by it."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.kueue.victims import victims
from specon_manager.backends.kube.reporting.boost_value import (
    HIGHEST,
    LOWEST,
    REST_SECONDS,
    STEADY,
    Worth,
    boost,
    boost_of_job,
    steady,
)
from specon_manager.backends.kube.reporting.boosts import Boosts
from specon_sidecar.classify import Category
from specon_sidecar.classify.remaining import Estimate
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST, replica_of
from support.decisions.snapshots import NOW, cluster_of
from support.kube.kueue_objects import queue, running, waiting

NOTHING = Worth(unsaved=0.0, gain=0.0, remaining=math.inf)
amounts = st.floats(0, 1e9) | st.just(math.inf)


@pytest.mark.parametrize(
    ("worth", "expected"),
    [
        ({}, -100),
        ({"unsaved": 60.0}, -91),
        ({"unsaved": 600.0}, -50),
        ({"unsaved": 6000.0}, -9),
        ({"unsaved": math.inf}, -1),
        ({"gain": 0.3}, -70),
        ({"remaining": 6000.0}, -91),
        ({"remaining": 600.0}, -50),
        ({"remaining": 0.0}, -1),
        ({"unsaved": 600.0, "gain": 0.3, "remaining": 600.0}, -18),
    ],
)
def test_what_costs_nothing_to_end_is_lowered_most(worth, expected):
    """What was just saved, has nothing to gain, and has long to go."""
    assert boost(msgspec.structs.replace(NOTHING, **worth)) == expected


@given(amounts, amounts, st.floats(0, 1), amounts)
def test_whoever_has_trained_on_unsaved_is_never_lowered_further(unsaved, more, gain, remaining):
    """And nobody is raised, whatever is reported."""
    one = boost(Worth(unsaved=unsaved, gain=gain, remaining=remaining))
    other = boost(Worth(unsaved=unsaved + more, gain=gain, remaining=remaining))
    assert LOWEST <= one <= other <= HIGHEST


@given(st.none() | st.integers(-300, 300), st.none() | st.integers(LOWEST, HIGHEST))
def test_a_boost_that_is_near_enough_stays(present, wanted):
    """What is out of bounds is no value of ours."""
    kept = steady(wanted, present)
    if wanted is None:
        assert kept is None
    elif kept != wanted:
        assert kept == present
        assert abs(present - wanted) < STEADY
        assert LOWEST <= present <= HIGHEST


def job_state(layout="c", *, saved=None, interval=10.0, left=None, until=0.0, step=100):
    """Return a state of one job on a node, and its name."""
    state = cluster_of({"node-0": layout})
    name = replica_of(f"{layout}0")
    replica = state.replicas[name]
    checkpoint = None if saved is None else Checkpoint(step=saved, path="/c", digest=DIGEST)
    progress = msgspec.structs.replace(
        replica.progress,
        step=step,
        step_interval=interval,
        step_gap=10,
        checkpoint=checkpoint,
        until_converged=until,
        remaining_seconds=None if left is None else Estimate(value=left, uncertainty=0.0),
        reported_at=NOW,
    )
    state = state.with_replica(msgspec.structs.replace(replica, progress=progress))
    job = state.jobs[replica.job]
    spec = msgspec.structs.replace(job.spec, placed_by="owner")
    return state.with_job(msgspec.structs.replace(job, spec=spec, trains_since=0.0)), job.name


def boost_in(state, name):
    return boost_of_job(state.jobs[name], state.snapshot(NOW))


def test_the_age_of_a_checkpoint_is_what_was_trained_since():
    """A hundred steps at a step per second; one that never saved is hardly lowered."""
    assert boost_in(*job_state(saved=100)) == -100
    assert boost_in(*job_state(saved=0)) == boost(msgspec.structs.replace(NOTHING, unsaved=100.0))
    assert boost_in(*job_state()) == HIGHEST


@pytest.mark.parametrize("layout", ["p", "w", "u", "s", "d"])
def test_what_still_grows_has_no_boost(layout):
    """Below zero its own peers could have it preempted."""
    assert boost_in(*job_state(layout, saved=100)) is None


class Writer:
    """Remembers what would be written."""

    def __init__(self):
        self.written = []

    async def write_workloads(self, namespace, uid, value):
        self.written.append((namespace, uid, value))
        return 1


def boosts(holds=True):
    made = Boosts(
        None, ["priority-boost"], lambda _: {"namespace": "default", "uid": "j"}, holds=lambda: holds
    )
    made._writer = Writer()
    return made, made._writer.written


async def test_it_is_written_seldom_and_taken_back_at_once():
    """However often it is looked at, and however far it has come meanwhile."""
    made, written = boosts()
    state, _ = job_state(saved=100)
    old, _ = job_state(saved=0, interval=60.0)
    grown, _ = job_state("c", saved=100)
    replica = grown.replicas[replica_of("c0")]
    progress = msgspec.structs.replace(replica.progress, category=Category.PROGRESSING)
    grown = grown.with_replica(msgspec.structs.replace(replica, progress=progress))
    for at in range(0, int(REST_SECONDS), 30):
        await made.keep(old if at else state, NOW + at)
    assert [value for *_, value in written] == [-100]
    await made.keep(old, NOW + REST_SECONDS)
    assert [value for *_, value in written] == [-100, -50]
    await made.keep(grown, NOW + REST_SECONDS + 1)
    await made.keep(grown, NOW + REST_SECONDS + 2)
    assert [value for *_, value in written] == [-100, -50, None]
    await made.keep(state, NOW + REST_SECONDS + 3)
    assert len(written) == 3
    await made.keep(state, NOW + 2 * REST_SECONDS)
    assert written[-1] == ("default", "j", -100)


async def test_who_does_not_lead_writes_nothing():
    """Two managers never write the same annotation."""
    made, written = boosts(holds=False)
    assert await made.keep(job_state(saved=100)[0], NOW) == 0
    assert written == []


def test_kueue_preempts_first_what_costs_the_least_to_end():
    """By its order of candidates, whatever was admitted last; and nothing that still grows for its peers."""
    jobs = {
        "grows": job_state("p", saved=0),
        "unsaved": job_state(),
        "ends-soon": job_state(saved=100, left=60.0),
        "saved-long-ago": job_state(saved=0, interval=60.0),
        "still-gains": job_state(saved=100, until=0.4),
        "costs-nothing": job_state(saved=100),
    }
    priority = {name: boost_in(*made) or 0 for name, made in jobs.items()}
    queues = {"team": queue("team", **{"default/cpu": len(jobs)})}
    order = ["costs-nothing", "still-gains", "saved-long-ago", "ends-soon", "unsaved", "grows"]
    for number in range(1, len(jobs)):
        runs = [
            running(name, "team", priority[name], reserved=order.index(name), **{"default/cpu": 1})
            for name in jobs
        ]
        gone = victims(waiting("in", cpu=number), "team", runs, queues, NOW)
        assert {each.name for each in gone} == set(order[:number])
    assert victims(waiting("in", cpu=len(jobs)), "team", runs, queues, NOW) == ()
