"""Which replicas a move helped and which it hurt, by what they really do in a second."""

import msgspec
import pytest

from specon_manager.model.transactions import Kind
from specon_manager.runtime.speed_metrics import TICKS
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import change
from support.decisions.cluster import SETTINGS
from support.decisions.gangs import gang, with_gang, worker
from support.decisions.observed import Observed

PARTS = ("moved", "source", "target")
EFFECTS = ("helped", "hurt", "unchanged", "unknown")


class Training(Observed):
    """Replicas that train at a speed of their own."""

    def __init__(self):
        # A tick that is asked for, and none that the policy uses to move somebody else.
        super().__init__(
            settings=msgspec.structs.replace(SETTINGS, tick=1.0, parameters={"rebalance": False})
        )
        self.steps = {}
        self.speeds = {}
        self.categories = {}

    def train(self, seconds):
        for _ in range(seconds):
            self.tick()
            self.carry_out()
            for replica in list(self.live):
                self.steps[replica] = self.steps.get(replica, 0.0) + self.speeds.get(replica, 1.0)
                category = self.categories.get(replica, Category.PROGRESSING)
                self.report(replica, category, step=int(self.steps[replica]))

    @property
    def effects(self):
        found = {
            (part, effect): self.value("specon_move_effects_total", part=part, effect=effect)
            for part in PARTS
            for effect in EFFECTS
        }
        return {key: count for key, count in found.items() if count}


def trained(speeds_after, seconds=2 * TICKS + 2):
    """Train a and c on one node until a has moved to the node of d, and go on with other speeds."""
    cluster = Training()
    a, b, c, d = cluster.run("a", "b", "c", "d")
    cluster.train(2 * TICKS)
    cluster.die(b, 0)
    cluster.categories[a] = Category.CONVERGED
    for _ in range(20):
        cluster.train(1)
        if cluster.state.history:
            break
    assert [move.replica for move in cluster.state.history] == [a]
    cluster.speeds = dict(zip((a, c, d), speeds_after, strict=True))
    cluster.train(seconds)
    return cluster


def test_speeds_before_and_after_are_compared():
    """The one that moved, the one that stayed, and the one that got a neighbour."""
    cluster = trained((1.0, 2.0, 0.5))
    assert cluster.effects == {("moved", "unchanged"): 1, ("source", "helped"): 1, ("target", "hurt"): 1}


def test_nothing_is_told_before_it_was_measured():
    """A measurement takes so many ticks."""
    assert trained((1.0, 1.0, 1.0), seconds=TICKS // 2).effects == {}


def test_what_ends_before_it_was_measured_is_unknown():
    """And is told as such, not left out."""
    cluster = trained((1.0, 1.0, 1.0), seconds=2)
    cluster.die("default/c/worker/0", 0)
    cluster.train(2 * TICKS + 2)
    assert cluster.effects == {
        ("moved", "unchanged"): 1,
        ("source", "unknown"): 1,
        ("target", "unchanged"): 1,
    }


def test_what_stands_still_is_given_up():
    """Without steps no speed can be told, and nothing waits for it without end."""
    cluster = trained((1.0, 0.0, 1.0))
    assert ("source", "unknown") not in cluster.effects
    cluster.train(30 * TICKS)
    assert cluster.effects["source", "unknown"] == 1


@pytest.mark.parametrize("part", PARTS)
def test_every_series_is_there_from_the_start(part):
    """An increase is seen only in a series that was there before."""
    cluster = Training()
    assert [cluster.value("specon_move_effects_total", part=part, effect=effect) for effect in EFFECTS] == [
        0
    ] * 4


def test_what_stays_beside_a_gang_is_not_touched():
    """Its replicas have moved, those that start anew where they were as well; neighbours there have not."""
    cluster = Training()
    first, second = worker("g"), worker("g", 1)
    spec = gang("g", ps=0, resizing="none")
    state = with_gang(cluster.state, spec, {first: "node-0", second: "node-1"})
    (a, b) = cluster.run("a", "b")
    known = msgspec.structs.replace(cluster.state, jobs={**cluster.state.jobs, **state.jobs})
    for name in (first, second):
        known = known.with_replica(state.replicas[name])
    move = change(
        Kind.MOVE,
        job="g",
        before={first: "node-0", second: "node-1"},
        after={first: "node-2", second: "node-1"},
    )
    touched = cluster.metrics._speeds._touch(move, known)
    homes = {cluster.state.replicas[name].node: name for name in (a, b)}
    assert {name: part for name, (part, _) in touched.items()} == {
        first: "moved",
        second: "moved",
        homes["node-0"]: "source",
    }
