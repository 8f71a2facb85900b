"""LRTP: the longest remaining time is preempted first, until a trial has room."""

from specon_manager.model.actions import Claim, Preempt
from specon_manager.policies.lrtp import LrtpSettings, propose
from support.decisions.jobs import NOW, Line, snapshot_of_jobs

TWO = {"node-0": (8.0, 8.0, 8.0), "node-1": (8.0, 8.0, 8.0)}


def victims(lines, settings=None):
    """Return who is preempted, in the order of the proposals, and where trials get a claim."""
    proposals = list(propose(snapshot_of_jobs(lines, nodes=TWO), settings or LrtpSettings()))
    chosen = [p.job.removeprefix("default/") for p in proposals if isinstance(p, Preempt)]
    return chosen, [tuple(p.placement.values()) for p in proposals if isinstance(p, Claim)]


def test_the_longest_go_until_some_node_has_room():
    """Also those whose end is of no use for the trial: that is what FitGpp avoids."""
    lines = [
        Line(name="a", gpu=4, node="node-0", remaining=900.0),
        Line(name="b", gpu=4, node="node-1", remaining=800.0),
        Line(name="c", gpu=4, node="node-0", remaining=700.0),
        Line(name="d", gpu=4, node="node-1", remaining=600.0),
        Line(name="t", gpu=8, trial=True),
    ]
    assert victims(lines) == (["a", "b", "c"], [("node-0",)])


def test_a_report_counts_down_and_a_declaration_stands_in_for_one():
    """Reported 500 s ago: 800 - 500; declared 1,400 s and trained for 1,000 s: 400 left."""
    lines = [
        Line(name="reported", gpu=8, node="node-0", remaining=800.0, reported_at=NOW - 500),
        Line(name="declared", gpu=8, node="node-1", declared=1400.0),
        Line(name="t", gpu=8, trial=True),
    ]
    assert victims(lines)[0] == ["declared"]
    lines[1].declared = 1250.0
    assert victims(lines)[0] == ["reported"]


def test_of_whom_nothing_is_known_goes_last():
    """No estimate is no reason to be preempted before others."""
    lines = [
        Line(name="unknown", gpu=8, node="node-0"),
        Line(name="known", gpu=8, node="node-1", remaining=1.0),
        Line(name="t", gpu=8, trial=True),
    ]
    assert victims(lines)[0] == ["known"]


def test_the_cap_holds_here_too():
    """P applies to all preemptive policies (Table 3 of the FitGpp paper)."""
    lines = [
        Line(name="long", gpu=8, node="node-0", remaining=900.0, preemptions=1),
        Line(name="short", gpu=8, node="node-1", remaining=100.0),
        Line(name="t", gpu=8, trial=True),
    ]
    assert victims(lines)[0] == ["short"]
    assert victims(lines, LrtpSettings(max_preemptions=2))[0] == ["long"]


def test_two_trials_never_choose_the_same_victim():
    """The second goes on where the first one stopped, and a third finds nobody."""
    lines = [
        Line(name="a", gpu=8, node="node-0", remaining=900.0),
        Line(name="b", gpu=8, node="node-1", remaining=800.0),
        *(Line(name=f"t{number}", gpu=8, trial=True) for number in range(3)),
    ]
    assert victims(lines) == (["a", "b"], [("node-0",), ("node-1",)])


def test_where_all_together_are_not_enough_nobody_ends():
    """Room is made for a trial or not at all."""
    lines = [
        Line(name="old", gpu=1, node="node-0", trial=True),
        Line(name="other", gpu=1, node="node-1", trial=True),
        Line(name="b", gpu=7, node="node-0", remaining=900.0),
        Line(name="t", gpu=8, trial=True),
    ]
    assert victims(lines) == ([], [])
