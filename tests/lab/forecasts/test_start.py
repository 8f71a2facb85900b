"""When waiting jobs may start: bounded, whatever the state."""

import msgspec
import pytest

from specon_lab.forecasts.start import Budget, expected_starts
from specon_manager.model.cluster import Served
from specon_manager.model.settings import Settings
from support.decisions.changed_jobs import NOW, elastic, nodes
from support.decisions.gangs import gang, with_gang

JOB = "default/w"
KNOWN = {"other": Served(jobs=4, mean_seconds=100.0, latest=(50.0, 100.0, 100.0, 150.0))}


def waiting(spec=None):
    """Return a state in which one job waits, with durations of completed jobs."""
    state = with_gang(nodes(), elastic("w") if spec is None else spec, {})
    return msgspec.structs.replace(state, served=KNOWN)


def start_of(state, **options):
    budget = options.get("budget", Budget(work=20_000, seconds=60.0))
    return expected_starts(state, NOW, [JOB], budget)[JOB]


def test_a_forecast_is_bounded_and_breaks_nothing():
    """Too long, a state that cannot be simulated, a job that never fits: each is said."""
    state = waiting()
    assert start_of(state).in_seconds is not None
    late = start_of(state, budget=Budget(work=1e6, seconds=-1.0))
    assert (late.in_seconds, late.why) == (None, "0 of the 19 simulations that it takes were over after -1 s")
    assert start_of(msgspec.structs.replace(state, nodes={})).why == "nodes: there is none that is ready"
    large = start_of(waiting(gang("w", 1, ps=0, cpu=64.0)))
    assert (large.in_seconds, large.earliest_seconds, large.worlds) == (None, None, 19)
    assert large.why == "default/w/worker/0 asks for 64 cores: no node has as much"
    unknown = msgspec.structs.replace(state, settings=Settings(policy="nonsense"))
    assert "nonsense" in start_of(unknown).why


def test_owned_jobs_are_forecast_as_the_others():
    """A job that its owner places and that is held waits in the simulation as any other."""
    start = start_of(waiting(elastic("w", placed_by="owner", held=True, queue="team")))
    assert start.in_seconds is not None
    assert start.in_seconds < 10


def test_where_nothing_is_known_nothing_is_told():
    """No number is made up: neither measured nor declared, and nobody has completed."""
    free = with_gang(nodes(count=1), elastic("w"), {})
    assert start_of(free).in_seconds == 0.0, "it starts whatever is known"
    runs = gang("v", 1, ps=0, cpu=4.0)
    full = with_gang(nodes(count=1), runs, {"default/v/worker/0": "node-0"})
    start = start_of(with_gang(full, elastic("w"), {}))
    assert start.in_seconds is None
    assert start.why.startswith("nothing is known of how long default/v trains")


def test_a_job_that_does_not_wait_has_no_start():
    """A late request gets that as its answer."""
    assert (
        expected_starts(waiting(), NOW, ["default/gone"])["default/gone"].why == "it does not wait any more"
    )


def test_the_same_state_has_the_same_forecast():
    """What is drawn depends on the state and on nothing else."""
    assert start_of(waiting()) == start_of(waiting())


@pytest.mark.parametrize("work", [0.0, 1.0])
def test_what_lies_beyond_the_work_has_no_numbers(work):
    """A world that was played for a moment says nothing of what comes after it."""
    never = waiting(gang("w", 1, ps=0, cpu=64.0))
    assert start_of(never, budget=Budget(work=work, seconds=60.0)).in_seconds is None


@pytest.mark.parametrize("policy", ["progress", "fifo"])
def test_an_interval_is_as_the_worlds_make_it(policy):
    """Where a job starts at once in every world it is a moment: on traces it holds without being wider."""
    state = waiting()
    state = msgspec.structs.replace(state, settings=msgspec.structs.replace(state.settings, policy=policy))
    told = start_of(state)
    assert (told.in_seconds, told.earliest_seconds, told.latest_seconds) == (0.0, 0.0, 0.0)
