"""What is counted of all replicas is the same whether it was kept and renewed, or is counted anew."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import Leaving, Phase, Replica
from specon_manager.model.overlay import Overlay, change_one, flat, lacking
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.survey import Survey, survey_records
from specon_sidecar.classify import Category
from support.decisions.snapshots import move_of

NAMES = [f"default/job-{number // 2}/worker/{number % 2}" for number in range(8)]
NODES = [None, "node-0", "node-1", "node-2"]
LEAVING = Leaving(purpose="preempt", since=0, deadline=1, reason="why")

records = st.builds(
    Replica,
    name=st.just(""),
    job=st.just(""),
    phase=st.sampled_from(Phase),
    node=st.sampled_from(NODES),
    holds=st.booleans(),
    leaving=st.sampled_from([None, LEAVING]),
    lost_at=st.sampled_from([None, 1.0]),
    requests=st.sampled_from([Resources(cpu=0.1), Resources(cpu=0.7, memory=1e9), Resources(gpu=1)]),
    progress=st.builds(
        Progress, category=st.sampled_from(Category), category_since=st.sampled_from([0.0, 1.0, 2.5])
    ),
)
changes = st.lists(
    st.tuples(
        st.sampled_from(["put", "lay", "drop", "flat", "anew", "back", "move"]),
        st.sampled_from(NAMES),
        records,
        st.sampled_from(NODES[1:]),
    ),
    max_size=40,
)


def put(replicas, name, record, *, laid):
    """Return the records with this one: laid over the others, or in a mapping of its own."""
    named = msgspec.structs.replace(record, name=name, job=name.rpartition("/worker/")[0])
    if not laid:
        return {**replicas, name: named}
    known = replicas if isinstance(replicas, Overlay) else Overlay(replicas, {})
    return change_one(known, name, named)


@given(changes)
def test_what_was_kept_and_renewed_is_what_a_look_at_every_replica_tells(steps):
    """Whatever was done to the records between two looks: also when they are those of before once more."""
    replicas, moving, former = {}, {}, [{}]
    for kind, name, record, node in steps:
        if kind in {"put", "lay"}:
            replicas = put(replicas, name, record, laid=kind == "lay")
        elif kind == "drop":
            replicas = lacking(replicas, [name])
        elif kind == "flat":
            replicas = flat(replicas)
        elif kind == "anew":  # in another order
            replicas = dict(reversed(flat(replicas).items()))
        elif kind == "back":
            replicas = former[len(former) // 2]
        elif name in moving:
            moving = {key: move for key, move in moving.items() if key != name}
        else:
            moving = {**moving, name: move_of(name, "node-0", node)}
        former.append(replicas)
        known = {key: move for key, move in moving.items() if key in replicas}
        assert survey_records(replicas, known).told() == Survey.of(replicas, known).told()


def test_a_report_alone_leaves_everything_as_it_was_counted():
    """So that thousands of them between two looks cost next to nothing."""
    replicas = {}
    for number, name in enumerate(NAMES):
        progress = Progress(category=Category.CONVERGED, category_since=number)
        record = Replica(name=name, job="", phase=Phase.RUNNING, node="node-0", progress=progress)
        replicas = put(replicas, name, record, laid=False)
    before = survey_records(replicas, {})
    settled = before.settled  # counted when it is asked for
    record = replicas[NAMES[0]]
    reported = msgspec.structs.replace(record, progress=msgspec.structs.replace(record.progress, step=5))
    after = survey_records({**replicas, NAMES[0]: reported}, {})
    assert after is not before
    assert after.on_node is before.on_node
    assert after.census is before.census
    assert after.settled is settled
