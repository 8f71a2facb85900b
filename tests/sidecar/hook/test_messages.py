"""What a trainer's helper says: bounded, finite, and nothing else."""

import pytest

from specon_sidecar.hook.messages import MAX_LINE, Progress, Saved, decode


def test_messages_of_the_helper_are_read():
    """Each kind is what it says; unknown keys and kinds are no mistake."""
    assert decode(
        b'{"report": {"step": 3, "values": {"loss": 0.5, "x": null}, "later": 1}}'
    ).report == Progress(3, values={"loss": 0.5, "x": None})
    assert decode(b'{"saved": {"path": "/c", "step": 3, "request": null}}').saved == Saved("/c", 3)
    unknown = decode(b'{"later": {}}')
    assert unknown is not None
    assert unknown.report is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"\xff",
        b'{"report": {"step": NaN}}',
        b'{"report": {"step": 1, "values": {"loss": Infinity}}}',
        b'{"report": {"step": -1}}',
        b'{"report": {"step": 1e999}}',
        b'{"report": {"step": 1, "values": {' + b",".join(b'"%d": 1' % n for n in range(65)) + b"}}}",
        b'{"saved": {"path": "relative", "step": 1}}',
        b'{"saved": {"path": "/a\\u0000", "step": 1}}',
        b'{"saved": {"path": "/c", "step": 1, "request": "no such letters!"}}',
        b'{"x":' * 100_000,
        b'{"x": "' + b"y" * MAX_LINE + b'"}',
    ],
)
def test_nonsense_is_no_message(line):
    """What is not of the protocol, deep, long or not finite, is none."""
    assert decode(line) is None
