"""A patch leads from one value to the other, and is empty where there is nothing to do."""

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.admission.json_patch import json_patch
from support.kube.pods import patched

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("a/~-", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def applied(before, patch):
    return patched(before, {"response": {"patch": base64.b64encode(json.dumps(patch).encode())}})


@given(VALUES, VALUES)
def test_applied_it_gives_the_other_value(before, after):
    """Whatever the two are, with any characters in keys."""
    assert (
        json.dumps(applied(before, json_patch(before, after))) == json.dumps(after)
        or applied(before, json_patch(before, after)) == after
    )


@given(VALUES)
def test_nothing_changed_is_no_operation(value):
    """An empty patch is left out of the answer."""
    assert json_patch(value, value) == []


def test_what_is_appended_is_added_at_the_end():
    """So that what another webhook put into the list meanwhile stays."""
    assert json_patch({"a": [1]}, {"a": [1, 2]}) == [{"op": "add", "path": "/a/-", "value": 2}]
