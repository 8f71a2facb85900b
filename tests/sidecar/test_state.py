import msgspec

from specon_sidecar.classify import Category, Judgement
from specon_sidecar.classify.curve import CurveState, Point
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.observing.state import State

STATE = State(
    incarnation="a",
    format="key-value",
    place=FilePosition(1, 2, 3, 4),
    curve=CurveState(points=(Point(1, 2.0),), step=1, total_steps=9, epoch=1.5, total_epochs=3),
    goal="max",
    judgement=Judgement(
        category=Category.CONVERGED, since=5.0, confidence=0.9, share=0.01, share_error=0.02, verdict_best=1.0
    ),
)


def test_a_state_is_read_as_it_was_written():
    """Curve and verdict come back whole."""
    assert msgspec.json.decode(msgspec.json.encode(STATE), type=State) == STATE


def test_a_state_without_the_newer_fields_is_read():
    """A sidecar is upgraded in the middle of a job: what an older one did not know yet has its default."""
    written = msgspec.to_builtins(STATE)
    for field in ("confidence", "share", "share_error", "verdict_best", "confirmed", "intervals"):
        del written["judgement"][field]
    for field in ("epoch", "total_epochs"):
        del written["curve"][field]
    del written["goal"], written["validation"]
    state = msgspec.convert(written, State)
    assert state.goal is None
    assert state.validation.values == ()
    assert state.judgement.category is Category.CONVERGED
    assert state.judgement.verdict_best is None
    assert state.curve.total_steps == 9
