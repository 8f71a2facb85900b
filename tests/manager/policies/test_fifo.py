"""FIFO: one queue, nobody overtakes, nobody is preempted."""

from specon_manager.model.actions import AdmitGang
from specon_manager.policies.fifo import FifoSettings, propose
from support.decisions.jobs import Line, snapshot_of_jobs

NODES = {"node-0": (8.0, 8.0, 8.0)}


def started(lines):
    """Return who starts; nothing else may be proposed."""
    proposals = list(propose(snapshot_of_jobs(lines, nodes=NODES), FifoSettings()))
    assert all(isinstance(proposal, AdmitGang) for proposal in proposals)
    return [proposal.job.removeprefix("default/") for proposal in proposals]


def test_trials_wait_in_the_same_queue():
    """Submission alone decides."""
    lines = [Line(name="b0", gpu=4), Line(name="t0", gpu=4, trial=True), Line(name="b1", gpu=1)]
    assert started(lines) == ["b0", "t0"]


def test_the_head_blocks_also_trials():
    """A trial that would fit waits behind a best-effort job that does not, and preempts nobody."""
    lines = [
        Line(name="r", gpu=4, node="node-0"),
        Line(name="b", gpu=8),
        Line(name="t", gpu=1, trial=True),
    ]
    assert started(lines) == []


def test_without_a_ready_node_nothing_starts():
    """An empty cluster takes nobody."""
    snapshot = snapshot_of_jobs([Line(name="b")], nodes=NODES, not_ready=("node-0",))
    assert list(propose(snapshot, FifoSettings())) == []
