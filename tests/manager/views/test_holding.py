"""What converged replicas hold, and what moves of them give back."""

import msgspec
import pytest

from specon_manager.model.resources import NOTHING, Resources
from specon_manager.views.headline import headline
from specon_manager.views.holding import Holding
from specon_sidecar.classify import Category
from support.watching.watched import WatchedCluster


def held_in(cluster, holding):
    return headline(cluster.state, holding.held, cluster.now - holding.began)


def watched(nodes=2):
    cluster = WatchedCluster(nodes=nodes)
    holding = Holding(cluster.now)
    cluster.observers.append(lambda each: holding.observe(each.before, each.after, each.now))
    return cluster, holding


def started(cluster, **changes):
    changes = changes or {"requests": Resources(cpu=1)}
    replica = cluster.submit("a", **changes)
    cluster.tick()
    cluster.carry_out()
    return replica


def later(cluster, replica, seconds, **changes):
    for _ in range(seconds):
        cluster.tell(replica, 0.2, step=1000 + int(cluster.now), **changes)


def test_a_move_of_a_converged_job_frees_what_it_requests():
    """From its success, for as long as it runs; it goes on holding as much elsewhere."""
    cluster, holding = watched()
    a = started(cluster)
    later(cluster, a, 10)
    later(cluster, a, 101, category=Category.CONVERGED)
    found = held_in(cluster, holding)
    assert (found.converged, found.running) == (1, 1)
    assert found.held == (pytest.approx(100.0), 0.0)
    assert found.freed == (0.0, 0.0)
    cluster.move(a, "node-1")
    cluster.carry_out()
    later(cluster, a, 1, category=Category.CONVERGED)  # proves that it trains on
    later(cluster, a, 50, category=Category.CONVERGED)
    found = held_in(cluster, holding)
    assert found.freed[0] == pytest.approx(50.0)
    assert found.held[0] >= 150.0


def test_a_move_of_a_growing_job_frees_nothing():
    """It needed its node, and has another one like it."""
    cluster, holding = watched()
    a = started(cluster)
    later(cluster, a, 10)
    cluster.move(a, "node-1")
    cluster.carry_out()
    later(cluster, a, 1)
    later(cluster, a, 51, category=Category.CONVERGED)
    found = held_in(cluster, holding)
    assert found.freed == (0.0, 0.0)
    assert found.held[0] == pytest.approx(50.0)


def test_moves_from_before_a_manager_began_count_from_its_beginning():
    """They are in the history that it takes over."""
    cluster, _ = watched()
    a = started(cluster)
    later(cluster, a, 10, category=Category.CONVERGED)
    cluster.move(a, "node-1")
    cluster.carry_out()
    later(cluster, a, 1, category=Category.CONVERGED)
    taken_over = Holding(cluster.now)
    cluster.observers.append(lambda each: taken_over.observe(each.before, each.after, each.now))
    later(cluster, a, 20, category=Category.CONVERGED)
    assert taken_over.held.freed.cpu == pytest.approx(20.0)


@pytest.mark.parametrize(("owner", "cores"), [("manager", 4.0), ("owner", 0.0)])
def test_a_job_that_requests_nothing_holds_its_share_of_a_node_that_is_ours(owner, cores):
    """Beside what others run on a node of a cluster nobody knows what its share is."""
    cluster, holding = watched()
    a = started(cluster, requests=NOTHING)
    later(cluster, a, 10, category=Category.CONVERGED)
    job = cluster.state.jobs["default/a"]
    spec = msgspec.structs.replace(job.spec, placed_by=owner)
    cluster.state = cluster.state.with_job(msgspec.structs.replace(job, spec=spec))
    assert held_in(cluster, holding).cores == (cores, 8.0)


def test_nothing_is_known_of_time_that_nobody_measured():
    """A manager sees one course of things: it does not say what another one would have saved."""
    cluster, holding = watched()
    assert held_in(cluster, holding).saved is None
