"""Gangs that are brought together in the simulator, where their pace depends on the nodes they are on."""

import msgspec
import pytest

from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.workload import Network
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate
from specon_manager.model.transactions import TransactionState
from support.lab.invariants import Invariants
from support.lab.simulations import VAE, job, nodes, workload

START, RESTORE, STOP = 5, 3, 1
HALF = Resources(gpu=2.0)


def gang(number, seconds, kind, step_bytes):
    """Return a job of two workers of half a node each: 0.6 s for a step, and 1 s more over the network."""
    network = Network(step_bytes=step_bytes, step_seconds=0.6, fixed_quota=True)
    spec = {"resizing": "none", "kind": kind}
    return job(
        number,
        at=float(number),
        seconds=seconds,
        workers=2,
        requests=HALF,
        spec=spec,
        network=network,
        steps=round(seconds / 0.6),
        curve=VAE,
        start_seconds=START,
        restore_seconds=RESTORE,
        stop_seconds=STOP,
    )


def run(defragment, *, step_bytes=1.25e8, kind="bert"):
    """Return the completion times of two gangs and all moves; the second gang starts on two nodes.

    A job of 500 s occupies half of each of these nodes then.
    """
    singles = [job(number, at=1.0, seconds=500, requests=HALF) for number in (1, 2)]
    given = workload(
        gang(0, 1200, "bert", step_bytes), *singles, gang(3, 3000, kind, step_bytes), on=nodes(3, gpu=4.0)
    )
    invariants, latest = Invariants(), []

    def look(moment):
        invariants(moment)
        latest[:] = [moment.after]

    settings = msgspec.structs.replace(settings_for(given), defragment=defragment, gate=Gate(horizon=600.0))
    outcome = simulate(given, "quota-fifo", settings=settings, check=look)
    assert [each.state for each in outcome.jobs] == ["completed"] * 4
    ended = {each.name: each.completion_seconds for each in outcome.jobs}
    moved = [each for each in latest[0].history if each.purpose == "faster"]
    return ended["default/job-0"], ended["default/job-3"], moved


def test_a_gang_that_is_brought_together_is_complete_sooner():
    """Once a node is half empty, all of it trains there at the pace of the other of its kind."""
    first, spread, none = run("off")
    same, together, (move,) = run("on")
    assert not none
    assert first == same
    assert (move.job, move.state) == ("default/job-3", TransactionState.SUCCEEDED)
    assert len({*move.after.values()}) == 1
    assert spread > 6000
    # Until its move it trains at its pace on two nodes, from its restart on at that on one.
    began = move.proposed_at - 3.0
    trained = (began - START) * 3000 / (spread - START)
    ended = move.ended_at - 3.0
    assert together == pytest.approx(ended + 3000 - trained, abs=5.0)
    assert together < 0.6 * spread


@pytest.mark.parametrize(
    "changes", [{"step_bytes": 1e3}, {"kind": "another"}], ids=["no faster", "not known"]
)
def test_where_nothing_is_known_to_be_gained_nothing_is_moved(changes):
    """The network costs nothing, or nothing of its kind was ever seen on one node."""
    assert run("on", **changes) == run("off", **changes)
    assert not run("on", **changes)[2]


def test_a_dry_run_leaves_everything_as_it_is():
    """What it would do is told alone."""
    assert run("dry-run") == run("off")
