"""RAND: random victims until a trial has room, the same ones for the same seed and time."""

from specon_manager.model.actions import Claim, Preempt
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.rand import RandSettings, propose
from support.decisions.jobs import Line, snapshot_of_jobs

NODES = {f"node-{number}": (8.0, 8.0, 8.0) for number in range(4)}
LINES = [
    *(Line(name=f"b{number}", gpu=4, node=f"node-{number // 2}") for number in range(8)),
    Line(name="t", gpu=8, trial=True),
]


def chosen(seed=0, now=0.0):
    """Return the victims in order, and the node where the trial gets a claim."""
    whole = snapshot_of_jobs(LINES, nodes=NODES)
    snapshot = Snapshot(now=now, nodes=whole.nodes, jobs=whole.jobs, replicas=whole.replicas)
    proposals = list(propose(snapshot, RandSettings(seed=seed)))
    (claim,) = [proposal for proposal in proposals if isinstance(proposal, Claim)]
    victims = tuple(p.job.removeprefix("default/") for p in proposals if isinstance(p, Preempt))
    return victims, claim.placement["default/t/worker/0"]


def test_victims_go_until_some_node_has_room():
    """The last one is the second of its node, and no node was emptied before."""
    for seed in range(10):
        victims, node = chosen(seed)
        nodes = [f"node-{int(name[1:]) // 2}" for name in victims]
        assert nodes[-1] == node
        assert nodes.count(node) == 2
        assert len(set(nodes[:-1])) == len(nodes) - 1


def test_the_same_seed_and_time_choose_the_same():
    """A run can be repeated."""
    assert chosen(3, now=7.0) == chosen(3, now=7.0)


def test_another_seed_or_another_time_chooses_others():
    """Every first victim occurs, and no more than is random: about as often as the others."""
    firsts = [chosen(seed)[0][0] for seed in range(400)]
    counts = {name: firsts.count(name) for name in set(firsts)}
    assert len(counts) == 8
    assert max(counts.values()) < 90
    assert len({chosen(0, now=float(now))[0] for now in range(20)}) > 10
