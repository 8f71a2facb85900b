"""What the API server says becomes words that people read: short ones, with what matters in them."""

import pytest

from specon_manager.backends.kube.transport.errors import error_of

DUMPED = 'spec.replicatedJobs: Invalid value: [{"name":"node",' + "x" * 50_000 + "}]: field is immutable"


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500])
def test_a_dumped_object_is_cut_out_of_the_message(status):
    """Its beginning and its end stay: the server says at the end what is wrong."""
    causes = [{"reason": "X" * 10_000, "message": DUMPED}] * 50
    body = {"reason": "Invalid" * 1000, "message": DUMPED, "details": {"causes": causes}}
    error = error_of(status, body, "patch jobsets a/b", None)
    assert len(str(error)) < 1500
    assert "spec.replicatedJobs: Invalid value" in str(error)
    assert "field is immutable" in str(error)


@pytest.mark.parametrize(("status", "immutable"), [(422, True), (403, True), (400, True), (409, False)])
def test_what_cannot_be_changed_is_recognised(status, immutable):
    """From the server itself, or from an admission webhook, in a message however long."""
    assert error_of(status, {"reason": "Invalid", "message": DUMPED}, "patch", None).immutable is immutable
    assert not error_of(status, {"reason": "Invalid", "message": "no"}, "patch", None).immutable


def test_words_are_on_one_line():
    """They go into logs and statuses."""
    assert str(error_of(422, {"message": "a\n\tb  c"}, "patch", None)) == "422 Unknown: patch: a b c"
