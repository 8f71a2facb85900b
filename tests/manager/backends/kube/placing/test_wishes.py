"""What the object of a job is to say for an order, and what a gated pod is to say: tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE, PINNED
from specon_manager.backends.kube.objects.job_patch import job_patch, workers_of
from specon_manager.backends.kube.owners.context import EditedError, RefusedError
from specon_manager.backends.kube.placing.gates import release_patch
from specon_manager.backends.kube.placing.wishes import Circumstances, wish
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec

JOB = "default/train"
ANY = dict.fromkeys((f"{JOB}/worker/{index}" for index in range(8)), None)


def _object(workers, *, suspend=False, **annotations):
    marks = {f"specon.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"completionMode": "Indexed", "completions": workers, "parallelism": workers, "suspend": suspend}
    return {"metadata": {"resourceVersion": "7", "annotations": marks}, "spec": spec}


def _order(change, workers):
    placement = {f"{JOB}/worker/{index}": None for index in range(workers)}
    return PlaceJob(job=JOB, transaction=change, placement=placement, grace_seconds=30.0, reason="test")


def _known(ours, *, held=True, resizing="live", headroom=None, **known):
    spec = JobSpec(
        name=JOB,
        replicas=tuple(ANY),
        held=held,
        resizing=resizing,
        unscalable="no",
        headroom=headroom,
        no_headroom="its queue is full",
        placed_by="owner",
    )
    return Circumstances(spec=spec, ours=ours, **{"stops": False, "admitting": False, "runs": True, **known})


def _said(obj, order, known):
    """Return what the object says in the end: suspended, workers, mark, scaled."""
    wished = wish("Job", obj, order, known)
    patch = None if wished is None else job_patch("Job", obj, wished)
    if patch is None:
        return None
    assert patch.body["metadata"]["resourceVersion"] == "7"
    marks = patch.body["metadata"].get("annotations", {})
    spec = patch.body.get("spec", {})
    return (
        spec.get("suspend"),
        spec.get("completions"),
        marks.get("specon.io/suspended-for", ""),
        marks.get("specon.io/scaled", ""),
    )


TABLE = {
    "held back": (_object(3), _order("c", 0), _known({3}, stops=True), (True, None, "held-c", "")),
    "stopped to start anew": (
        _object(3),
        _order("c", 0),
        _known({3}, held=False, stops=True),
        (True, None, "c", ""),
    ),
    "suspended by its user already": (
        _object(3, suspend=True),
        _order("c", 0),
        _known({3}, stops=True),
        None,
    ),
    "held for another change": (
        _object(3, suspend=True, suspended_for="held-b"),
        _order("c", 0),
        _known({3}, stops=True),
        (None, None, "held-c", ""),
    ),
    "resumed with more": (
        _object(3, suspend=True, suspended_for="c"),
        _order("c", 5),
        _known({3}, resizing="restart"),
        (False, 5, None, "3:5"),
    ),
    "admitted": (
        _object(3, suspend=True),
        _order("c", 3),
        _known({3}, admitting=True),
        (False, None, "", ""),
    ),
    "as ordered": (_object(3), _order("c", 3), _known({3}), None),
    "more": (_object(3), _order("c", 4), _known({3}), (None, 4, "", "3:4")),
    "more still": (_object(4, scaled="3:4"), _order("c", 5), _known({4}), (None, 5, "", "3:5")),
    "more, as far as its queue has room": (
        _object(3),
        _order("c", 4),
        _known({3}, headroom=1),
        (None, 4, "", "3:4"),
    ),
    "fewer, whatever room its queue has": (
        _object(4, scaled="3:4"),
        _order("c", 3),
        _known({4}, headroom=0),
        (None, 3, "", None),
    ),
    "fewer, of what Kueue has suspended meanwhile": (
        _object(4, suspend=True, scaled="3:4"),
        _order("c", 3),
        _known({4}, in_kueue=True, headroom=0),
        (None, 3, "", None),
    ),
    "as its user asked": (_object(4, scaled="3:4"), _order("c", 3), _known({4}), (None, 3, "", None)),
    "stopped for a move": (
        _object(1),
        _order("m", 0),
        _known((), stops=True, moves=True),
        (True, None, "held-m", ""),
    ),
    "resumed by its user while it moves": (
        _object(1, suspended_for="held-m"),
        _order("m", 0),
        _known((), stops=True, moves=True),
        None,
    ),
    "one of several comes back, the number is none of the move's business": (
        _object(3, suspend=True, suspended_for="m"),
        _order("m", 1),
        _known((), moves=True, resizing="none"),
        (False, None, None, ""),
    ),
    "over": (_object(3, suspend=True, suspended_for="c"), _order("", 3), _known(()), (False, None, None, "")),
    "over, the number stays": (
        _object(5, suspend=True, suspended_for="c", scaled="3:5"),
        _order("", 3),
        _known(()),
        (False, None, None, ""),
    ),
    "over, suspended by its user": (_object(3, suspend=True), _order("", 3), _known(()), None),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_object_says_what_the_order_wants(case):
    obj, order, known, expected = TABLE[case]
    assert _said(obj, order, known) == expected


@pytest.mark.parametrize(
    ("obj", "known", "words"),
    [
        (_object(3, suspend=True), _known({3}), "someone else suspended it"),
        (_object(3), _known({3}, resizing="none"), "no"),
        (_object(3), _known({3}, resizing="restart"), "while it runs"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(obj, known, words):
    with pytest.raises(RefusedError, match=words):
        wish("Job", obj, _order("c", 5), known)


@given(st.integers(1, 8), st.integers(1, 8), st.sets(st.integers(1, 8)))
def test_a_number_that_is_neither_ours_nor_wanted_is_never_overwritten(present, wanted, ours):
    obj, order, known = _object(present), _order("c", wanted), _known(ours)
    if present == wanted or present in ours:
        said = _said(obj, order, known)
        assert (workers_of("Job", obj) if said is None else said[1]) == wanted
    else:
        with pytest.raises(EditedError, match=str(present)):
            wish("Job", obj, order, known)


def _pod(gates, selector=None, **metadata):
    spec = {"schedulingGates": [{"name": gate} for gate in gates], "nodeSelector": selector}
    return {"metadata": {"name": "p", "resourceVersion": "9", **metadata}, "spec": spec}


def test_gate_and_node_are_one_patch_of_the_version_that_was_read():
    patch = release_patch(_pod([ADMISSION_GATE, "other"], {"zone": "a"}), "host-1")
    assert patch == {
        "metadata": {"resourceVersion": "9", "annotations": {PINNED: "host-1"}},
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": ADMISSION_GATE}],
            "nodeSelector": {"kubernetes.io/hostname": "host-1"},
        },
    }


@pytest.mark.parametrize("selected", [None, "host-1"])
def test_a_node_that_its_owner_chose_is_not_called_ours(selected):
    selector = None if selected is None else {"kubernetes.io/hostname": selected}
    patch = release_patch(_pod([ADMISSION_GATE], selector), selected)
    assert patch is not None
    assert (PINNED in str(patch), "nodeSelector" in patch["spec"]) == (False, False)


@pytest.mark.parametrize(
    "pod", [_pod(["other"]), _pod([ADMISSION_GATE], deletionTimestamp="2026-01-01T00:00:00Z")]
)
def test_a_pod_without_our_gate_or_on_its_way_out_is_left_alone(pod):
    assert release_patch(pod, "host-1") is None


def test_a_pod_that_asks_for_another_node_is_refused():
    with pytest.raises(RefusedError, match="asks for the node host-2"):
        release_patch(_pod([ADMISSION_GATE], {"kubernetes.io/hostname": "host-2"}), "host-1")


def _workload(*, active=True, mark=""):
    about = {"resourceVersion": "7", "annotations": {"specon.io/suspended-for": mark} if mark else {}}
    return {"metadata": about, "spec": {"active": active, "queueName": "team"}}


def _at_once(**known):
    spec = JobSpec(name=JOB, replicas=(f"{JOB}/worker/0",), placed_by="owner")
    usual = {"moves": True, "stops": True, "admitting": False, "ours": (), "runs": True}
    return Circumstances(spec=spec, **{**usual, **known})


@pytest.mark.parametrize(
    ("obj", "known", "active", "mark"),
    [
        (_workload(), _at_once(), False, "m-1"),
        (_workload(active=False, mark="m-1"), _at_once(stops=False), True, None),
        (_workload(active=False, mark="m-0"), _at_once(against="another waits"), None, "m-1"),
    ],
)
def test_a_workload_of_kueue_says_in_one_patch_that_it_is_away_and_for_what(obj, known, active, mark):
    """So that a manager that takes over knows who deactivated it."""
    patch = job_patch("Workload", obj, wish("Workload", obj, _order("m-1", 1), known))
    metadata = {"annotations": {"specon.io/suspended-for": mark}, "resourceVersion": "7"}
    said = {"metadata": metadata} if active is None else {"spec": {"active": active}, "metadata": metadata}
    assert (patch.body, patch.resizes) == (said, False)


def test_a_workload_is_left_alone_that_is_its_users_or_for_whose_quota_somebody_waits():
    """What its user deactivated he activates; what came between is said before anything ends."""
    assert wish("Workload", _workload(active=False), _order("m-1", 1), _at_once()) is None
    with pytest.raises(RefusedError, match="another waits"):
        wish("Workload", _workload(), _order("m-1", 1), _at_once(against="another waits"))
