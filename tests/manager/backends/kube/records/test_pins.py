"""Where the next pod of a replica is pinned, as Migrations and TrainingJobs say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.records.external import ChangeState
from specon_manager.backends.kube.records.pins import arriving, glance, job_glance, job_pins_of, pins_of
from specon_manager.core.state import State
from specon_manager.model.transactions import TransactionState
from support.kube.custom_resources import a_move, migration_of

R = "default/mnist/worker/0"
PINNED = {TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING}


def pins(*moves, hostname="host-1"):
    items = [
        migration_of(m, None, now=float(at), state=State(), hostname=hostname)
        for at, m in enumerate(moves, 1)
    ]
    return pins_of(map(glance, items))


@pytest.mark.parametrize("state", list(TransactionState))
def test_a_replica_is_pinned_from_its_eviction_until_it_has_proven_itself(state):
    """Before that nothing is decided, after it its owner may place it anywhere."""
    assert pins(a_move(state=state)) == ({R: "host-1"} if state in PINNED else {})


def test_a_pod_that_was_told_to_end_has_its_successor_pinned_while_a_new_checkpoint_is_asked_for():
    """Its end may be under way: what its owner creates then would run anywhere."""
    assert pins(a_move(state=TransactionState.CHECKPOINTING, changing_at=1.0)) == {R: "host-1"}


@pytest.mark.parametrize("state", list(TransactionState))
def test_a_move_awaits_the_next_pod_until_it_runs(state):
    """What comes while it has to prove itself has been handed its room already."""
    item = migration_of(a_move(state=state), None, now=1.0, state=State(), hostname="host-1")
    awaited = state in {TransactionState.LEAVING, TransactionState.COMING}
    assert arriving([glance(item)]) == ({R} if awaited else set())


def test_it_is_pinned_to_the_label_of_the_node_and_not_to_its_name():
    """The two may differ; where the label is not known the name is the best there is."""
    assert pins(a_move(state=TransactionState.COMING)) == {R: "host-1"}
    assert pins(a_move(state=TransactionState.COMING), hostname=None) == {R: "node-1"}
    assert pins(a_move(state=TransactionState.COMING, attempt=2), hostname=None) == {R: "node-0"}


def test_of_two_migrations_the_one_that_was_written_last_pins():
    """Only nonsense has two; the answer is the same every time."""
    first, second = (
        a_move(state=TransactionState.LEAVING),
        a_move("move-2", TransactionState.LEAVING, target="node-2"),
    )
    assert pins(first, second, hostname=None) == {R: "node-2"}


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(json, json)
def test_nonsense_pins_nothing(spec, status):
    """And raises nothing: the admission of every pod goes through here."""
    item = {"metadata": {"namespace": "default", "name": "x", "uid": "u"}, "spec": spec, "status": status}
    assert pins_of([glance(item)]) == {}


# -- of TrainingJobs --------------------------------------------------------------------------

PIN = {"replica": R, "hostname": "host-1"}


def training_job(state, *pins, name="mnist", namespace="default"):
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
        "spec": {"job": f"{namespace}/{name}"},
        "status": {"change": {"id": "change-1", "kind": "admit", "state": str(state)}, "pins": list(pins)},
    }


def job_pins(*items):
    return job_pins_of(map(job_glance, items))


@pytest.mark.parametrize("state", list(ChangeState))
def test_replicas_of_a_job_are_pinned_while_a_change_brings_them_about(state):
    """Before that nothing is to start, after it their owner may place them anywhere.

    A record has pins while something leaves only where all of it starts anew.
    """
    at_work = state in {ChangeState.LEAVING, ChangeState.COMING, ChangeState.VERIFYING}
    assert job_pins(training_job(state, PIN)) == ({R: "host-1"} if at_work else {})


@pytest.mark.parametrize(
    ("kind", "state", "awaited"),
    [
        ("move", "Coming", True),
        ("preempt", "Coming", True),  # a move, as the first schema has it: nothing comes when it is preempted
        ("move", "Leaving", True),
        ("move", "Verifying", False),
        ("admit", "Coming", False),
        ("scale-out", "Coming", False),
        ([], "Coming", False),
    ],
)
def test_the_next_pods_of_a_gang_are_awaited_while_it_moves(kind, state, awaited):
    """Nobody keeps room for what is admitted or scaled."""
    item = training_job(state, PIN)
    item["status"]["change"]["kind"] = kind
    assert arriving([job_glance(item)]) == ({R} if awaited else set())


def test_a_training_job_without_a_change_pins_nothing():
    """What is left of an earlier one is old."""
    item = training_job("Coming", PIN)
    del item["status"]["change"]
    assert job_pins(item) == {}


@pytest.mark.parametrize(
    "pin",
    [
        {"replica": "other/mnist/worker/0", "hostname": "host-1"},
        {"replica": "nonsense", "hostname": "host-1"},
        {"replica": R, "hostname": ""},
        {"replica": R, "hostname": "h" * 64},
        {"replica": R},
        "nonsense",
    ],
    ids=["other namespace", "no replica", "no hostname", "no label", "missing", "no object"],
)
def test_pins_that_cannot_be_obeyed_are_passed_over(pin):
    """Those beside them count; of other namespaces nobody decides here."""
    good = {"replica": "default/mnist/worker/1", "hostname": "host-2"}
    assert job_pins(training_job("Coming", pin, good)) == {"default/mnist/worker/1": "host-2"}


@given(json, json)
def test_nonsense_in_a_training_job_pins_nothing(spec, status):
    """And raises nothing."""
    item = {"metadata": {"namespace": "default", "name": "x", "uid": "u"}, "spec": spec, "status": status}
    assert job_pins_of([job_glance(item)]) == {}
    nested = {**item, "status": {"change": {"state": "Coming"}, "pins": status}}
    assert job_pins_of([job_glance(nested)]) == {}
