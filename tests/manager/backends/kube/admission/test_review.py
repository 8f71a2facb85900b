"""AdmissionReview in, AdmissionReview out."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.admission import review as admission
from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import NoReviewError, review
from support.kube.pods import (
    CLAIM,
    MOUNT,
    annotated,
    job_pod,
    kubeflow_pod,
    mesh_pod,
    patched,
    pod,
    review_of,
    stateful_pod,
    trainer,
)

SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://specon:443", ca_bundle="PEM\n")


def answer(manifest, entry="inject", pins=None, **changes):
    return review(review_of(manifest, **changes), SETTINGS, pins or {}, entry)


def test_the_answer_is_a_review_with_the_same_uid():
    """As admission.k8s.io/v1 wants it."""
    said = answer(pod("mnist"), uid="8a1f")
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert said["response"].pop("patch")
    assert said["response"] == {"uid": "8a1f", "allowed": True, "patchType": "JSONPatch"}


def test_the_patch_makes_the_pod_with_its_sidecar():
    """Applied as RFC 6902 says, on what the API server has."""
    made = patched(pod("mnist"), answer(pod("mnist")))
    assert [one["name"] for one in made["spec"]["initContainers"]] == ["specon-sidecar"]
    assert made["metadata"]["labels"] == {"specon.io/sidecar": "injected"}


@pytest.mark.parametrize(
    "manifest",
    [pod(annotations={}), pod(annotations=annotated(inject="false")), pod(annotations=None) | {"spec": None}],
    ids=["none", "false", "no spec"],
)
def test_who_did_not_ask_gets_nothing(manifest):
    """Admitted as it is, without a patch."""
    if manifest["spec"] is None:
        manifest["metadata"]["annotations"] = {}
    assert answer(manifest)["response"] == {"uid": "review-1", "allowed": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "UPDATE"},
        {"resource": {"group": "", "version": "v1", "resource": "services"}},
        {"subResource": "eviction"},
    ],
)
def test_only_new_pods_are_looked_at(changes):
    """Whatever else a configuration sends is admitted untouched."""
    assert answer(pod("mnist"), **changes)["response"] == {"uid": "review-1", "allowed": True}


def test_wrong_annotations_are_denied_with_every_mistake():
    """In the words that kubectl shows."""
    response = answer(pod(annotations=annotated(goal="up", logpath="/x")))["response"]
    assert response == {
        "uid": "review-1",
        "allowed": False,
        "status": {
            "code": 422,
            "reason": "Invalid",
            "message": "specon.io/goal: 'up' is not one of min, max; specon.io/logpath: is not known; did "
            "you mean specon.io/log-path?",
        },
    }


def test_a_pod_without_a_volume_is_denied():
    """At both entries: nobody would ever see its log."""
    for entry in ("inject", "gate"):
        response = answer(pod(annotations=annotated(log_path="/tmp/x")), entry)["response"]
        assert not response["allowed"]
        assert response["status"]["message"].startswith("specon.io/log-path: '/tmp/x' is on no volume")


GATE = {"name": "specon.io/admission"}


def queued(manifest, **options):
    """Return the pod with the annotation that names a queue."""
    manifest["metadata"]["annotations"] |= annotated(queue="team-a", **options)
    return manifest


def test_a_pod_in_a_queue_is_gated_by_the_entry_that_must_not_be_missed():
    """The other one, which pods may pass by, injects only."""
    manifest = queued(job_pod("r", 4))
    assert patched(manifest, answer(manifest, "gate"))["spec"]["schedulingGates"] == [GATE]
    assert "schedulingGates" not in patched(manifest, answer(manifest))["spec"]


def test_a_gated_pod_has_its_sidecar():
    """Also where the entry that injects was let pass because nobody answered: nobody else would know it."""
    manifest = queued(job_pod("r", 4))
    made = patched(manifest, answer(manifest, "gate"))
    assert [one["name"] for one in made["spec"]["initContainers"]] == ["specon-sidecar"]
    assert made["metadata"]["labels"]["specon.io/sidecar"] == "injected"


def test_a_pod_without_a_queue_is_never_gated():
    """The caller of that entry does not matter."""
    made = patched(job_pod("r", 4), answer(job_pod("r", 4), "gate"))
    assert "schedulingGates" not in made["spec"]


def test_a_pod_that_asked_for_no_sidecar_is_never_gated():
    """Nobody would hear of it, and nobody would release it."""
    manifest = queued(job_pod("r", 4), inject="false")
    assert answer(manifest, "gate")["response"] == {"uid": "review-1", "allowed": True}


def test_a_replica_that_a_change_brings_about_goes_to_its_node_at_once():
    """By the selector of the pin, without a gate."""
    manifest = queued(job_pod("r", 4))
    made = patched(manifest, answer(manifest, "gate", {"ml/r/worker/4": "node-3"}))
    assert made["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-3"}
    assert made["metadata"]["annotations"]["specon.io/pinned"] == "node-3"
    assert "schedulingGates" not in made["spec"]


def test_a_pod_that_is_not_held_says_why():
    """Once: the other entry, which is asked too, keeps quiet about it."""
    manifest = queued(stateful_pod())
    (said,) = answer(manifest, "gate")["response"]["warnings"]
    assert said == (
        "specon.io/queue: the pod is not held until its job is admitted: a StatefulSet is not held; those "
        "that are: Job, JobSet, MPIJob, PyTorchJob, TFJob, TrainJob"
    )
    assert "warnings" not in answer(manifest)["response"]


def test_what_does_nothing_is_said_once():
    """By the entry that every pod comes through."""
    manifest = pod("mnist", annotations=annotated(max_workers="4", checkpoint="none"))
    (said,) = answer(manifest)["response"]["warnings"]
    assert said == (
        "specon.io/max-workers: the number of workers changes only after a verified checkpoint, and "
        "specon.io/checkpoint is none"
    )
    assert "warnings" not in answer(manifest, "gate")["response"]


def test_the_namespace_is_that_of_the_request():
    """Pods of controllers arrive without one."""
    manifest = job_pod("resnet")
    del manifest["metadata"]["namespace"]
    made = patched(manifest, answer(manifest, namespace="research"))
    assert made["metadata"]["annotations"]["specon.io/replica"] == "research/resnet/worker/0"
    assert "namespace" not in made["metadata"]


def test_our_own_error_stops_nobody_but_at_the_gate(monkeypatch):
    """Admitted with a warning, or denied as an internal error."""

    def broken(*_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(admission, "inject", broken)
    response = answer(pod("mnist"))["response"]
    assert response == {
        "uid": "review-1",
        "allowed": True,
        "warnings": ["specon: internal error: ZeroDivisionError: oops; the pod has no sidecar"],
    }
    response = answer(pod("mnist"), "gate")["response"]
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (500, "InternalError")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "kind: 'None' is not AdmissionReview"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}, "apiVersion: "),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}, "request.uid: is missing"),
        ({**review_of({}), "request": {"uid": 7}}, "request.uid: is missing"),
    ],
)
def test_what_is_no_review_has_no_answer(given, said):
    """The text names the field."""
    with pytest.raises(NoReviewError, match=said):
        review(given, SETTINGS, {})


# -- generated pods ---------------------------------------------------------------------------

_STRANGE = st.dictionaries(st.sampled_from(["newField", "runtimeClassName"]), st.text(max_size=3), max_size=2)


@st.composite
def pods(draw):
    """Pods of all kinds of owners, with whatever else may be in a pod."""
    made = copy.deepcopy(
        draw(
            st.sampled_from(
                [pod("mnist"), pod("", generateName="run-"), job_pod("r"), job_pod("r", 4), stateful_pod(),
                 kubeflow_pod(), kubeflow_pod("TFJob", "t", "ps", 0, "tensorflow"), mesh_pod(),
                 mesh_pod(native=False)]
            )
        )
    )  # fmt: skip
    made["metadata"]["annotations"] |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "specon.io/checkpoint": st.sampled_from(["periodic", "file:/data/x", "signal:USR1", "none"]),
                "specon.io/log-path": st.sampled_from(["/data/a.log", "/tmp/b.log"]),
                "specon.io/queue": st.just("a"),
                "specon.io/goal": st.sampled_from(["min", "wrong"]),
                "specon.io/replica": st.just("ml/other/worker/0"),
            },
        )
    )
    spec = made["spec"]
    spec |= draw(_STRANGE)
    for key, values in (
        ("nodeName", ["node-1"]),
        ("nodeSelector", [{}, {"kubernetes.io/hostname": "node-1"}, None]),
        ("schedulingGates", [None, [], [{"name": "example.com/mine"}], [dict(GATE)]]),
        ("securityContext", [{}, {"runAsUser": 0}, {"runAsUser": 5}, None]),
        ("initContainers", [None, [], [{"name": "i", "image": "i"}]]),
    ):
        if draw(st.booleans()):
            spec[key] = copy.deepcopy(draw(st.sampled_from(values)))
    if draw(st.booleans()):
        spec["containers"].append({"name": "second", "image": "x", **draw(_STRANGE)})
    return made


@settings(max_examples=150, deadline=None)
@given(
    pods(),
    st.sampled_from([{}, {"ml/mnist/worker/0": "node-3", "ml/r/worker/4": "node-3"}]),
    st.lists(st.sampled_from(["inject", "gate"]), min_size=1, max_size=3),
)
def test_admission_is_idempotent_and_adds_only(manifest, pins, entries):
    """A second call (reinvocation) changes nothing; nothing that was there is lost or changed."""
    made = manifest
    for entry in entries:
        said = answer(made, entry, pins=pins)
        if not said["response"]["allowed"]:
            assert made == manifest, "the first one denies, or none"
            return
        made = patched(made, said)
    for entry in entries:
        again = answer(made, entry, pins=pins)["response"]
        assert again["allowed"]
        assert "patch" not in again
    for key, value in manifest["spec"].items():
        if key not in {"initContainers", "volumes", "nodeSelector", "containers", "schedulingGates"}:
            assert made["spec"][key] == value
    names = [gate["name"] for gate in made["spec"].get("schedulingGates") or []]
    assert len(names) == len(set(names))
    given_names = {gate["name"] for gate in manifest["spec"].get("schedulingGates") or []}
    assert given_names - {GATE["name"]} <= set(names)
    if GATE["name"] in names and GATE["name"] not in given_names:
        assert "gate" in entries
        assert "specon.io/queue" in manifest["metadata"]["annotations"]
    for key in ("initContainers", "volumes"):
        before = manifest["spec"].get(key) or []
        assert made["spec"][key][: len(before)] == before
    if "nodeName" in manifest["spec"]:
        assert (made["spec"].get("nodeSelector") or {}) == (manifest["spec"].get("nodeSelector") or {})


def test_the_patch_of_a_large_pod_is_small():
    """It names what is added, and does not repeat the megabyte that is there."""
    environment = [{"name": f"V{index}", "value": "x" * 1000} for index in range(1000)]
    manifest = pod(spec={"containers": [trainer(env=environment, volumeMounts=[MOUNT])], "volumes": [CLAIM]})
    response = answer(manifest)
    assert len(msgspec.json.encode(response)) < 10_000
