"""Whether a gang waits for room for all its workers: only where that is expected to end it clearly sooner."""

import pytest

from specon_manager.policies.backfill import gang_of
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.fuller_start import FullerStart
from specon_manager.policies.idle import Idle
from support.decisions.expected import left
from support.decisions.gang_worlds import Layout, nodes_of, spec_of


def waits(layout, *, workers, late=False):
    """Say whether `j` waits rather than start with so few workers."""
    snapshot = layout.snapshot
    expected = Expectation(snapshot, prior_seconds=600.0)
    judge = FullerStart(snapshot, Idle(snapshot), expected, lambda job: late)
    return judge(gang_of(snapshot.jobs["default/j"], snapshot), workers)


def layout_of(seconds, *, old=(), **changes):
    """Return a node of four GPUs with jobs (GPUs, seconds left) on it, and `j` that wants all four of it."""
    layout = Layout(nodes_of(1))
    for number, (gpus, rest) in enumerate(old):
        layout = left(layout.add(spec_of(f"old-{number}", gpus), " ".join("0" * gpus)), f"old-{number}", rest)
    return left(layout.add(spec_of("j", 4, ps=1, min_workers=1, **changes)), "j", seconds)


@pytest.mark.parametrize(("rest", "expected"), [(74.0, True), (75.0, False)])
def test_it_waits_at_most_for_a_quarter_of_what_it_saves(rest, expected):
    """With one of four workers 100 s become 400: 300 are saved."""
    assert waits(layout_of(100.0, old=[(3, rest)]), workers=1) is expected


def test_the_more_workers_it_could_have_now_the_shorter_it_waits():
    """With two of four it saves 100 s."""
    layout = layout_of(100.0, old=[(2, 30.0)])
    assert not waits(layout, workers=2)
    assert waits(layout, workers=1)


def test_one_node_must_hold_all_of_it_by_then():
    """What the last of those in the way has left counts; on two nodes there is no such room."""
    assert waits(layout_of(100.0, old=[(2, 10.0), (1, 70.0)]), workers=1)
    assert not waits(layout_of(100.0, old=[(2, 10.0), (1, 80.0)]), workers=1)
    spread = Layout(nodes_of(2, gpu=3.0)).add(spec_of("old", 2), "0 0")
    spread = left(left(spread, "old", 1.0).add(spec_of("j", 4, ps=1, min_workers=1)), "j", 100.0)
    assert not waits(spread, workers=1)


def test_who_is_late_waits_for_nothing():
    """The bound on waiting holds."""
    assert not waits(layout_of(100.0, old=[(3, 1.0)]), workers=1, late=True)
