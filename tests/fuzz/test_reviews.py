"""Reviews of evictions with anything in them: each is answered or refused, and names nothing too long."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.admission.review import NoReviewError
from specon_manager.backends.kube.interception.eviction import Answer, answer_eviction, read_eviction
from specon_manager.backends.kube.interception.facts import budget_facts, node_facts, pod_facts
from specon_manager.backends.kube.interception.wish import wish_name, wish_object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("uid", "namespace", "name", "operation", "resource", "subResource", "object", "userInfo", "dryRun")
USUAL = {"resource": {"resource": "pods"}, "subResource": "eviction", "operation": "CREATE", "uid": "r"}
OBJECT = st.dictionaries(st.sampled_from(("metadata", "deleteOptions", "kind")), JSON, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON | OBJECT, max_size=9), st.booleans())
def test_a_hostile_review_is_answered_or_refused(request, usual):
    """Nothing else comes of it."""
    asked = {**request, **(USUAL if usual else {})}
    try:
        found = read_eviction(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        )
    except NoReviewError:
        return
    if found is not None:
        assert max(map(len, (found.namespace, found.name, found.uid))) <= 253
        assert len(found.user) <= 1024
        assert answer_eviction(found.review, Answer(verdict="wait", words="w" * 10_000))


HOLDER = st.dictionaries(st.sampled_from(("metadata", "spec", "status")), JSON, max_size=3)
METADATA = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("name", "namespace", "uid", "labels", "annotations", "ownerReferences"), JSON),
)


@settings(max_examples=200, deadline=None)
@given(HOLDER, METADATA, st.text(max_size=2000))
def test_a_hostile_object_is_slimmed_and_wished_for_in_bounds(found, metadata, user):
    """What a tenant writes into its pod names no wish that is too long."""
    item = {**found, "metadata": metadata}
    node_facts(item)
    budget_facts(item)
    pod = pod_facts(item)
    name = wish_name(pod, 3)
    if name is not None:
        assert len(name.name) <= 63
        assert len(wish_object(pod, name, user)["spec"]["reason"]) < 1024
