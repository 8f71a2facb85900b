"""What is remembered of jobs that ended is bounded."""

import msgspec
import pytest

from specon_manager.core.gang import prune_ended
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.resources import Resources
from support.decisions.gangs import gang, on, server, worker
from support.decisions.told import SETTINGS

NODE = ev.NodeObserved(node="node-0", capacity=Resources(cpu=64, memory=8e9), usage=Resources())


def lived(state: State, name: str, now: float) -> State:
    """Return the state after a job was submitted, started and complete, one Tick in between each."""
    spec = gang(name, 1, ps=0, kind="short")
    replica = worker(name)
    for event in (
        ev.JobSubmitted(spec),
        ev.Tick(),
        ev.ReplicaStarted(replica=replica, incarnation="1", node="node-0"),
        ev.ReplicaGone(replica=replica, incarnation="1", exit_code=0),
        ev.Tick(),
    ):
        state, _ = step(state, event, now)
    return state


@pytest.mark.parametrize(
    ("retention", "most", "count"), [(0, 64, 2_000), (10, 74, 10_000), (400, 500, 2_000)]
)
def test_the_state_stays_bounded_over_thousands_of_jobs(retention, most, count):
    """So many ended jobs are remembered, and some more, for many are forgotten at once."""
    settings = msgspec.structs.replace(SETTINGS, policy="round-robin", retention=retention)
    state, _ = step(State(settings=settings), NODE, 0.0)
    sizes = []
    for number in range(count):
        state = lived(state, f"j{number}", float(number))
        sizes.append(len(state.jobs))
    assert retention <= sizes[-1] <= max(sizes) <= most
    assert len(state.replicas) == len(state.ended_jobs) == sizes[-1]
    assert set(state.verdicts) <= {*state.replicas, *state.jobs}
    assert state.job_count == count
    assert state.served["short"].jobs == count
    # The latest are those that are remembered.
    assert state.ended_jobs == tuple(f"default/j{n}" for n in range(count - sizes[-1], count))


def test_a_job_that_has_not_ended_is_never_forgotten(told):
    """Nor any of its replicas, absent ones included, however many others come and go."""
    told.state = msgspec.structs.replace(
        told.state, settings=msgspec.structs.replace(told.state.settings, retention=0)
    )
    told.admit(gang("g", 1, most=2), on("node-0", server("g"), worker("g")))
    for number in range(70):
        name = f"j{number}"
        told.admit(gang(name, 1, ps=0), on("node-1", worker(name)))
        told.die(worker(name), 0)
    told.tick()
    assert "default/g" in told.state.jobs
    assert {name for name in told.state.replicas if "/g/" in name} == {
        server("g"),
        worker("g"),
        worker("g", 1),
    }
    assert len(told.state.jobs) < 70


def test_nothing_is_forgotten_before_there_is_enough_of_it(told):
    """The state is the same, and not a copy."""
    told.admit(gang("g", 1, ps=0), on("node-0", worker("g")))
    told.die(worker("g"), 0)
    assert prune_ended(told.state) is told.state


def test_news_of_a_forgotten_job_is_passed_over(told):
    """It comes late, by far."""
    settings = msgspec.structs.replace(SETTINGS, policy="round-robin", retention=0)
    state, _ = step(State(settings=settings), NODE, 0.0)
    for number in range(65):
        state = lived(state, f"j{number}", float(number))
    assert "default/j0" not in state.jobs
    for event in (
        ev.ReplicaGone(replica=worker("j0"), incarnation="1"),
        ev.ReplicaStarted(replica=worker("j0"), incarnation="1", node="node-0"),
        ev.StartRefused(replica=worker("j0"), start=1, reason="late"),
    ):
        assert step(state, event, 99.0) == (state, [])
