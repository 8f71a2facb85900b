"""Lines that were wrapped by a container runtime."""

import json

from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.wrappers import Unwrapping

STAMP = b"2026-11-20T23:00:00.500000000Z"
TIME = 1795215600.5


def unwrap(*lines):
    unwrapping = Unwrapping()
    return [one for line in lines for one in unwrapping.unwrap(line)]


def test_cri():
    """The stamp is the time; parts are joined per stream."""
    lines = unwrap(
        STAMP + b" stdout F one",
        STAMP + b" stdout P loss: 3.",
        STAMP + b" stderr P warn",
        STAMP + b" stdout F 973",
        STAMP + b" stderr F ing",
    )
    assert lines == [(b"one", TIME), (b"loss: 3.973", TIME), (b"warning", TIME)]


def test_carriage_return_in_a_part():
    """What a carriage return cut off is a line of its own, and its last piece is still joined."""
    lines = unwrap(STAMP + b" stdout P a loss: 1", b"b loss: 2", b"c loss: 3.", STAMP + b" stdout F 97")
    assert lines == [(b"a loss: 1", None), (b"b loss: 2", None), (b"c loss: 3.97", TIME)]


def test_part_without_end_is_bounded():
    """A line that never ends is given up, and the next one is read."""
    parts = [STAMP + b" stdout P " + b"x" * 16_000] * 10
    assert unwrap(*parts, STAMP + b" stdout F end", STAMP + b" stdout F next") == [(b"next", TIME)]


def test_docker():
    """The text is joined up to its line end, and cut at carriage returns."""

    def line(text):
        return json.dumps(
            {"log": text, "stream": "stdout", "time": STAMP.decode()}, separators=(",", ":")
        ).encode()

    lines = unwrap(line("one\r\n"), line("loss: 3."), line("973\r"), line("\rtwo\n"), b"not wrapped")
    assert lines == [(b"one", TIME), (b"loss: 3.973", TIME), (b"two", TIME), (b"not wrapped", None)]


def test_kubectl():
    """Stamp and pod are taken off."""
    assert unwrap(STAMP + b" step,loss", b"[pod/a-0/main] " + STAMP + b" 1,2") == [
        (b"step,loss", TIME),
        (b"1,2", TIME),
    ]


def test_plain_log_is_soon_left_alone():
    """After the first lines nothing is looked at any more."""
    unwrapping = Unwrapping()
    assert [one for _ in range(20) for one in unwrapping.unwrap(b"step=1")] == [(b"step=1", None)] * 20
    assert not unwrapping.needed


@given(
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from(
            [STAMP + b" stdout P a", STAMP + b" stdout F ", b'{"log":"a"}', b'{"log":"\\ud800"}']
        )
    )
)
def test_any_bytes(lines):
    """No bytes make it raise."""
    assert all(isinstance(text, bytes) for text, _ in unwrap(*lines))
