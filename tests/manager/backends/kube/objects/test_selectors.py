"""Label selectors: read as kubectl reads them, and what they mean."""

import pytest

from specon_manager.backends.kube.objects.selectors import read_selector, selects


@pytest.mark.parametrize(
    ("text", "labels", "meant"),
    [
        ("app=train", {"app": "train"}, True),
        ("app==train", {"app": "web"}, False),
        ("app!=train", {}, True),
        ("app in (train, tune)", {"app": "tune"}, True),
        ("app notin (train,tune)", {"app": "tune"}, False),
        ("example.org/app", {"example.org/app": ""}, True),
        ("!app", {"app": "train"}, False),
        (" app = train , team=a,!old ", {"app": "train", "team": "a"}, True),
        ("app=", {"app": ""}, True),
    ],
)
def test_a_selector_means_what_kubectl_takes_it_for(text, labels, meant):
    """Each operator, and several terms, which must all hold."""
    assert selects(read_selector(text), labels, unknown=False) is meant


@pytest.mark.parametrize("text", ["", "  ", "app train", "app in train", "=x", "a=b=c", "app in (a", "-a"])
def test_what_is_no_selector_is_named(text):
    """The term that cannot be read is in the error."""
    with pytest.raises(ValueError, match="is no term of a label selector"):
        read_selector(text)


@pytest.mark.parametrize("unknown", [True, False])
def test_what_an_operator_of_the_future_means_is_the_callers_to_say(unknown):
    """A budget too many is harmless, a tenant too many is not."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}
    assert selects(selector, {"a": "b"}, unknown=unknown) is unknown
