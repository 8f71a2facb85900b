"""Owners who asked for turns read whether their pods take any, once for each answer."""

from specon_manager.backends.kube.reporting.share_news import words_of_turns
from specon_manager.model.slices import NOT_YET

A = "default/a/worker/0"


def told(before, after):
    return [(note.reason, note.text, note.warning) for note in words_of_turns(before, after)]


def test_a_reason_is_told_when_it_is_new():
    """Why not; or that it does now, which is no warning."""
    why = {A: "its GPUs are shared by MPS"}
    expected = ("TakesNoTurns", "it takes no turns on its GPUs: its GPUs are shared by MPS", True)
    assert told({}, why) == [expected]
    assert told(why, why) == []
    assert told(why, {A: ""}) == [("TakesTurns", "it takes turns on its GPUs", False)]


def test_what_passes_by_itself_is_no_news():
    """A pod that only starts, or a sidecar that was not heard yet."""
    for reason in NOT_YET:
        assert told({}, {A: reason}) == []
