"""The book of idle room tells the same of a part that is tried on as of a book that was begun with that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies.claimed_room import ClaimedRoom
from specon_manager.policies.idle import Idle
from specon_manager.policies.known_fits import KnownFits
from specon_manager.policies.layer import Layer
from support.decisions.jobs import Line, snapshot_of_jobs

NODES = {f"node-{number}": (8.0, 8.0, 8.0) for number in range(4)}
amounts = st.sampled_from([Resources(gpu=1), Resources(gpu=3, cpu=0.1), Resources(cpu=0.7, memory=1.0)])
done = st.lists(
    st.tuples(
        st.sampled_from(["take", "give", "reserve", "release", "look"]),
        st.sampled_from(sorted(NODES)),
        amounts,
        st.sampled_from(["default/a", "default/b"]),
    ),
    max_size=12,
)


def carry_out(idle, steps, *, claims=True):
    """Do all of this, and look for room in between, so that what is found is remembered."""
    for kind, node, amount, job in steps:
        if kind == "take":
            idle.take(node, amount)
        elif kind == "give":
            idle.give(node, amount)
        elif kind == "reserve" and claims:
            idle.reserve(job, node, amount)
        elif kind == "release" and claims:
            idle.release(job)
        else:
            idle.find(amount)


@given(done, done, st.sampled_from(["first-fit", "best-fit"]))
def test_what_is_tried_on_is_what_each_node_has_left(before, after, choice):
    """What is claimed or taken is not idle there; and the book itself stays as it is."""
    idle = Idle(snapshot_of_jobs([Line(name="x", gpu=4, node="node-1")], nodes=NODES), choice=choice)
    carry_out(idle, before)
    left = {node: idle.open(node) for node in NODES}
    trial = idle.unclaimed()
    plain = Idle(snapshot_of_jobs([], nodes=NODES), choice=choice, emptied=True)
    for node, amount in left.items():
        plain.take(node, plain.open(node))
        plain.give(node, amount)
    carry_out(trial, after, claims=False)
    carry_out(plain, after, claims=False)
    for node in NODES:
        assert trial.open(node).gpu == pytest.approx(plain.open(node).gpu)
        assert trial.open(node).cpu == pytest.approx(plain.open(node).cpu)
    whole = Resources(gpu=2)  # whole numbers: nothing is rounded
    assert trial.roomy(whole) == [node for node in NODES if trial.open(node).gpu >= 2]
    assert trial.fitting(whole) == trial.roomy(whole)
    assert trial.find(whole) in (trial.fitting(whole) or [None])
    assert all(trial.most.gpu >= trial.open(node).gpu for node in NODES)
    assert {node: idle.open(node) for node in NODES} == left


@given(done)
def test_claims_are_the_same_by_node_and_by_job(steps):
    """Who has any, where, and how much others have there; also of a copy."""
    claims, known = ClaimedRoom(), {}
    for kind, node, amount, job in steps:
        if kind in {"take", "give", "reserve"}:
            claims.add(job, node, amount)
            known[job, node] = known.get((job, node), NOTHING) + amount
        else:
            held = {n: value for (owner, n), value in known.items() if owner == job}
            assert claims.pop(job) == held
            known = {key: value for key, value in known.items() if key[0] != job}
        claims = claims.copy()
        assert set(claims.nodes) == {n for _, n in known}
        for each in ("default/a", "default/b"):
            assert (each in claims) is any(owner == each for owner, _ in known)


parts = st.tuples(*[st.integers(0, 3).map(float)] * 3)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), parts), max_size=30))
def test_whatever_has_room_is_among_the_nodes_that_may_have_some(steps):
    """Of what was looked for, and of what is as large in every respect; in the order of the nodes."""
    names = [f"node-{number}" for number in range(200)]
    rank = {name: number for number, name in enumerate(names)}
    known, left = KnownFits(len(names), rank), dict.fromkeys(names, (0.0, 0.0, 0.0))
    for gives, number, amount in steps:
        if gives:
            node = names[40 * number]
            left[node] = tuple(map(sum, zip(left[node], amount, strict=True)))
            known.add(node)
            continue
        fits = [node for node in names if all(map(float.__le__, amount, left[node]))]
        found = known.among(amount)
        if found is not None:
            assert list(found) == sorted(found, key=rank.get)
            assert [node for node in found if node in fits] == fits
        known.learn(amount, fits)
        known = known.copy()


def test_a_layer_asks_for_a_value_once_and_leaves_what_is_below():
    """What is set on top is seen there alone."""
    below, asked = {"a": 1, "b": 2}, []
    layer = Layer(below, lambda key: asked.append(key) or 10 * below[key])
    layer["b"] = 7
    assert dict(layer) == {"a": 10, "b": 7}
    assert (layer["a"], asked, len(layer), "c" in layer) == (10, ["a"], 2, False)
    assert below == {"a": 1, "b": 2}
    with pytest.raises(TypeError, match="a is below"):
        del layer["a"]
