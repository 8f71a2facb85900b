"""What disruption budgets say of pods that leave together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube import selectors
from specon_manager.backends.kube.owners.budgets import disrupted_uids, objection_to, objections, selects
from specon_manager.backends.kube.owners.disruption_ledger import Grants

LABELS = {"app": "training", "team": "a"}
LENIENT, STRICT = "AlwaysAllow", "IfHealthyBudget"


def _budget(allowed=1, expected=3, desired=2, name="keep", **more):
    """Return a budget over all training pods; `more` are other values of its status."""
    spec = {"selector": {"matchLabels": {"app": "training"}}}
    policy = more.pop("policy", None)
    if policy is not None:
        spec["unhealthyPodEvictionPolicy"] = policy
    status = {
        "observedGeneration": 4,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "currentHealthy": desired + allowed,
        "desiredHealthy": desired,
        **more,
    }
    return {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 4}, "spec": spec, "status": status}


def _pod(uid="p", *, ready=True, phase="Running", deleting=False, labels=LABELS):
    metadata = {"uid": uid, "labels": labels}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {}, "matchExpressions": []}, True),
        ({"matchLabels": {"app": "training"}}, True),
        ({"matchLabels": {"app": "training", "team": "b"}}, False),
        ({"matchLabels": {"other": "training"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "other", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}, True),
        (
            {
                "matchLabels": {"app": "training"},
                "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}],
            },
            False,
        ),
        ({"matchExpressions": [{"key": "other", "operator": "Unheard", "values": ["a"]}]}, True),
    ],
)
def test_a_selector_means_the_pods_that_kubernetes_takes_it_to_mean(selector, expected):
    """All of it has to hold; an empty one selects all, none at all nobody, an unknown operator all."""
    assert selects(selector, LABELS, unknown=True) is expected


_words = st.sampled_from(["a", "b", "c"])
_expressions = st.fixed_dictionaries(
    {
        "key": _words,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(_words, min_size=1, max_size=2),
    }
)


@given(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": st.dictionaries(_words, _words, max_size=2),
            "matchExpressions": st.lists(_expressions, max_size=2),
        },
    ),
    st.dictionaries(_words, _words, max_size=3),
)
def test_selectors_mean_what_they_mean_to_the_api_server(selector, labels):
    """As the API server of these tests has it, which was compared with a real one."""
    assert selects(selector, labels, unknown=True) == selectors.by_object(selector)(labels)


@pytest.mark.parametrize(
    ("pod", "budget", "counts"),
    [
        (_pod(), _budget(), True),
        (_pod(labels={"app": "web"}), _budget(), False),
        (_pod(deleting=True), _budget(), False),
        (_pod(phase="Pending", ready=False), _budget(), False),
        (_pod(phase="Succeeded", ready=False), _budget(), False),
        (_pod(phase="Failed", ready=False), _budget(), False),
        (_pod(), _budget(policy=LENIENT), True),
        (_pod(ready=False), _budget(allowed=0, currentHealthy=1, policy=LENIENT), False),
        (_pod(ready=False), _budget(allowed=0, currentHealthy=1, policy=STRICT), True),
        (_pod(ready=False), _budget(allowed=0, currentHealthy=2, policy=STRICT), False),
        (_pod(ready=False), _budget(allowed=0, currentHealthy=2), False),
        (_pod(ready=False), _budget(allowed=0, currentHealthy=1), True),
        (_pod(ready=False), _budget(allowed=0, desired=0, currentHealthy=0), True),
        (_pod(ready=False), _budget(currentHealthy=3, policy="Unheard"), True),
    ],
)
def test_only_pods_that_count_for_a_budget_take_from_it(pod, budget, counts):
    """Not those that end, have ended or not begun; the unready as its unhealthyPodEvictionPolicy has it."""
    assert disrupted_uids(budget, [pod]) == (frozenset({"p"}) if counts else frozenset())


@pytest.mark.parametrize(
    ("budget", "going", "fields", "words"),
    [
        (_budget(allowed=0), 0, {}, ""),
        (_budget(), 1, {}, ""),
        (_budget(allowed=3, desired=0), 3, {"whole": True}, ""),
        (
            _budget(),
            3,
            {"whole": True},
            "its disruption budget keep lets 1 of its 3 pods go at a time; it is changed as a whole",
        ),
        (
            _budget(allowed=0, desired=3),
            1,
            {"whole": True},
            "its disruption budget keep never lets a pod go",
        ),
        (
            _budget(),
            2,
            {},
            "its disruption budget keep lets 1 go at a time, and 2 pods would go together",
        ),
        (
            _budget(allowed=0, expected=6, desired=3),
            3,
            {"whole": True},
            "its disruption budget keep lets none go now, and 3 pods would go together",
        ),
        (
            _budget(allowed=3, expected=6, desired=3),
            2,
            {"taken": 2},
            "keep lets 1 go now, 2 of others being on the way, and 2 pods would go together",
        ),
        (
            _budget(allowed=3, desired=0, observedGeneration=3),
            1,
            {},
            "its disruption budget keep lets no pod go before its controller has looked at it",
        ),
        (_budget(allowed=-1, expected=6), 1, {}, "keep lets none go now, and 1 pod would go"),
    ],
)
def test_a_budget_lets_go_together_what_it_allows_and_says_else_why_not(budget, going, fields, words):
    """With its name, how many it lets go and how many would; what never can be is said as such."""
    found = objection_to(budget, going, **fields)
    assert found.endswith(words)
    assert bool(found) == bool(words)


def test_a_budget_that_nobody_has_looked_at_lets_nobody_go():
    """Without any status it is new."""
    budget = {"metadata": {"name": "new", "generation": 1}, "spec": {"selector": {}}}
    assert "before its controller has looked at it" in objection_to(budget, 1)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_what_is_let_go_never_exceeds_what_is_allowed(allowed, going, taken, whole):
    """With what others use already."""
    words = objection_to(_budget(allowed=allowed, expected=9), going, taken=taken, whole=whole)
    assert bool(words) == (going > 0 and going + taken > allowed)


def test_every_budget_that_objects_is_named_in_order():
    """Those that guard other pods, or let go what goes, say nothing."""
    pods = [_pod(str(number)) for number in range(2)]
    other = _budget(allowed=0, name="other")
    other["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    budgets = [_budget(name="b"), other, _budget(name="a"), _budget(allowed=2, desired=1, name="c")]
    found = objections(budgets, pods, {})
    assert [words.split()[3] for words in found] == ["a", "b"]
    assert [words.split()[3] for words in objections(budgets, pods, {"uid-c": 1})] == ["a", "b", "c"]


def test_what_others_were_let_go_is_remembered_for_a_while():
    """By budget, without the pods that ask again themselves; a status shows it by then."""
    now = [100.0]
    grants = Grants(lambda: now[0])
    grants.grant("one", ["p", "q"])
    grants.grant("two", ["p"])
    assert grants.count_taken([]) == {"one": 2, "two": 1}
    assert grants.count_taken(["p"]) == {"one": 1}
    now[0] += 9.0
    grants.grant("two", ["r"])
    now[0] += 1.5
    assert grants.count_taken([]) == {"two": 1}
