"""Random clusters with a gang that is spread: it is brought together exactly where measured paces say so.

What pays, and where it has room, is worked out here once more: by the formula, and by trying every placement.
"""

from itertools import combinations, product
from math import sqrt

import msgspec
import pytest
from hypothesis import Phase as Part
from hypothesis import event, given, settings
from hypothesis import strategies as st

from specon_manager.core.state import Measured
from specon_manager.model.paces import ENOUGH, KindPaces, Pace, Setup
from specon_manager.model.settings import Budgets, Gate
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.gangs import gang, worker
from support.decisions.spread import go_on, moves, nodes_of, running, starts

pytestmark = pytest.mark.long
QUICK = (Part.explicit, Part.generate)
"""A world takes long to make smaller."""
WEIGHTS = {Category.CONVERGED: 1.0, Category.WATCHING: 1.5, Category.PROGRESSING: 2.0}
SAMPLES = st.sampled_from([50] * 6 + [ENOUGH, ENOUGH - 1])
VARIANCES = st.sampled_from([0.0, 0.0001, 0.0001, 0.04])
gates = st.builds(
    Gate,
    horizon=st.sampled_from([10.0, 60.0, 600.0]),
    margin=st.sampled_from([0.5, 1.0, 3.0]),
    enabled=st.sampled_from([True, True, True, False]),
)


def world(data, **changes):
    """Return a cluster of three or four nodes on which the gang `g` is spread beside jobs that stay."""
    chosen = msgspec.structs.replace(
        SETTINGS, **{"policy": "quota-fifo", "defragment": "on", "gate": data.draw(gates), **changes}
    )
    cluster = Cluster(nodes=data.draw(st.integers(3, 4)), cpus=4.0, settings=chosen)
    nodes = list(cluster.state.nodes)
    places = [*nodes[:2], *data.draw(st.lists(st.sampled_from(nodes), max_size=2))]
    workers = len(places)
    spec = gang("g", workers, ps=0, resizing="none", kind="vae")
    starts(cluster, spec, {worker("g", index): node for index, node in enumerate(places)})
    for number, node in enumerate(nodes):
        if taken := min(data.draw(st.sampled_from([0, 0, 1, 2, 4])), 4 - places.count(node)):
            other = gang(f"s{number}", 1, ps=0, cpu=float(taken), resizing="none", migratable=False)
            starts(cluster, other, {worker(f"s{number}"): node})
    left = data.draw(st.sampled_from([None, None, 30.0, 300.0]))
    remaining = None if left is None else Estimate(value=left, uncertainty=1.0)
    category = data.draw(st.sampled_from(sorted(WEIGHTS)))
    cluster.report(worker("g"), category, step=20, remaining_seconds=remaining)
    now = Setup(workers=workers, nodes=len({*places}))
    setups = {now, *(Setup(workers=w, nodes=n) for w in (workers, workers + 1) for n in range(1, now.nodes))}
    known = tuple(
        Pace(
            setup=setup,
            seconds=data.draw(st.sampled_from([1.0, 1.0, 2.0] if setup == now else [0.5, 0.8, 0.95, 1.1])),
            variance=data.draw(VARIANCES),
            samples=data.draw(SAMPLES),
        )
        for setup in sorted(setups, key=lambda each: (each.workers, each.nodes))
        if setup == now or data.draw(st.sampled_from([True, True, False]))
    )
    found = {"vae": KindPaces(paces=known, jobs={"default/g": now})}
    measured = data.draw(st.sampled_from([Measured(), Measured(moves=3, downtime=8.0)]))
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces=found, measured=measured)
    return cluster, now, known


def has_room(cluster, count):
    """Whether the gang has room on just so many nodes: every placement is tried."""
    state = cluster.state
    snapshot = state.snapshot(cluster.now)
    members = [state.replicas[name] for name in state.jobs["default/g"].spec.replicas]
    room = {
        node: snapshot.room(node).cpu + sum(each.requests.cpu for each in members if each.node == node)
        for node in state.nodes
    }
    return any(
        all(places.count(node) <= room[node] for node in chosen)
        for chosen in combinations(state.nodes, count)
        for places in product(chosen, repeat=len(members))
        if len({*places}) == count
    )


def pays(cluster, now, known):
    """Return the numbers of nodes on which it has room, and to come there is worth the price."""
    state, gate = cluster.state, cluster.state.settings.gate
    lead = state.replicas[worker("g")].progress
    members = [state.replicas[name] for name in state.jobs["default/g"].spec.replicas]
    weights = sum(WEIGHTS.get(member.progress.category, 2.0) for member in members)
    ahead = min(gate.horizon, lead.remaining_seconds.value if lead.remaining_seconds else gate.horizon)
    downtime = state.measured.downtime if state.measured.moves else gate.expected_downtime
    (spread,) = (pace for pace in known if pace.setup == now)
    found = set()
    for pace in known:
        if pace.setup.workers != now.workers or pace.setup.nodes >= now.nodes:
            continue
        if min(pace.samples, spread.samples) < ENOUGH:
            continue
        slowest, quickest = (
            pace.seconds + 2 * sqrt(pace.variance / 9),
            spread.seconds - 2 * sqrt(spread.variance / 9),
        )
        gain, price = weights * ahead * (1 - slowest / quickest), weights * downtime
        enough = gain > 0 and (not gate.enabled or gain > gate.margin * price)
        if enough and has_room(cluster, pace.setup.nodes):
            found.add(pace.setup.nodes)
    return found


@settings(max_examples=200, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_a_gang_moves_exactly_where_measured_paces_say_that_it_pays(data):
    """To one of the numbers of nodes for which that holds, as a whole, and it trains there."""
    cluster, now, known = world(data, budgets=Budgets(cooldown=0, moves_at_once_per_node=1))
    expected = pays(cluster, now, known)
    cluster.tick()
    begun = [each for each in cluster.state.transactions.values() if each.purpose == "faster"]
    event("pays" if expected else "does not pay")
    assert bool(begun) == bool(expected), known
    if begun:
        assert len({*begun[0].after.values()}) in expected
        go_on(cluster, 4)
        assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]
        assert len(nodes_of(cluster, "g")) in expected
        assert running(cluster, "g")


@settings(max_examples=50, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_it_comes_to_rest_whatever_the_paces_really_are(data):
    """It may have been told wrong; it is moved for that once or twice, never again and again."""
    cluster, _, _ = world(data, budgets=Budgets(cooldown=0, retry_cooldown=1, moves_per_replica=10**6))
    real = dict(enumerate(data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=4, max_size=4)), 1))
    go_on(cluster, 40, real.__getitem__)
    before = len(moves(cluster))
    event(f"{before} moves")
    assert before <= 2
    go_on(cluster, 15, real.__getitem__)
    assert len(moves(cluster)) == before
    assert running(cluster, "g")


@settings(max_examples=50, deadline=None, derandomize=True, phases=QUICK)
@given(data=st.data())
def test_a_dry_run_and_off_order_nothing(data):
    """Whatever would pay."""
    setting = data.draw(st.sampled_from(["off", "dry-run"]))
    cluster, now, known = world(data, defragment=setting)
    expected = pays(cluster, now, known)
    go_on(cluster, 3)
    assert not cluster.state.transactions
    assert not moves(cluster)
    told = [each for each in cluster.state.decisions if each.refusal == "dry-run"]
    assert bool(told) >= (bool(expected) and setting == "dry-run")
    assert setting == "dry-run" or not told
