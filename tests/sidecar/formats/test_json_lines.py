"""JSON objects, one per line."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.json_lines import JsonLines
from specon_sidecar.formats.parser import FormatOptions


def parse(line, metric=None):
    return JsonLines(FormatOptions(metric=metric)).parse(line)


LINES = [
    (b'{"loss": 2.31, "epoch": 1, "iter": 10, "step": 12}', ("loss", 2.31, 12, 1.0, None)),
    (
        b'{"current_steps": 10, "total_steps": 11900, "loss": 3.5, "reward": null}',
        ("loss", 3.5, 10, None, 11900),
    ),
    (
        b'[x][train_inner][INFO] - {"epoch": 1, "loss": "9.276", "num_updates": "200"}',
        ("loss", 9.276, 200, 1.0, None),
    ),
    (
        b'{"iteration": 19, "loss_box_reg": 1.44, "total_loss": 156.05}',
        ("total_loss", 156.05, 19, None, None),
    ),
    (b'{"train": {"loss": 0.5}, "step": 4}', ("train/loss", 0.5, 4, None, None)),
    (b'{"trainer/global_step": 9, "train/loss": 1}', ("train/loss", 1.0, 9, None, None)),
    (b'{"loss": "1,234.5"}', ("loss", 1234.5, None, None, None)),
    (b'{"loss": -Infinity, "step": 3.0}', ("loss", -math.inf, 3, None, None)),
    (b'{"loss": 1e999}', ("loss", math.inf, None, None, None)),
    (b'{"loss": 1, "step": -4, "epoch": "x"}', ("loss", 1.0, None, None, None)),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_line(line, expected):
    """Name, value, step, epoch and total are those of the object."""
    sample = parse(line)
    assert sample is not None
    assert (sample.name, sample.value, sample.step, sample.epoch, sample.total_steps) == expected


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"loss 5",
            b"[1, 2, 3]",
            b'{"loss": true}',
            b'{"loss": null}',
            b'{"loss": [1]}',
        ),
        *(
            b'{"loss": 1',
            b'{"loss": "a\xff"}',
            b'{"loss":' + b"[" * 60_000,
            b'{"loss": 1' + b"0" * 5000 + b"}",
        ),
    ],
)
def test_line_without_sample(line):
    """What is no object, or has no number under the name, gives nothing."""
    assert parse(line) is None


def test_nan_is_a_sample():
    """NaN is reported though it is no JSON: the run diverged."""
    assert math.isnan(parse(b'{"loss": NaN, "step": 3}').value)


def test_time_is_wall_time_only():
    """A time in seconds, milliseconds or as a stamp with zone counts; a duration does not."""
    for time in ("1795215600", "1795215600000", '"2026-11-20T23:00:00+00:00"'):
        assert parse(f'{{"loss": 1, "time": {time}}}'.encode()).time == 1795215600
    for time in ("0.0086", '"2026-11-20T23:00:00"', '"2026-02-31T23:00:00Z"', "null"):
        assert parse(f'{{"loss": 1, "time": {time}}}'.encode()).time is None


def test_configured_nested_metric():
    """A path names a value one level down."""
    assert parse(b'{"eval": {"accuracy": 0.5}, "loss": 3}', "eval/accuracy").value == 0.5


@given(
    value=st.floats(allow_nan=False),
    step=st.integers(min_value=0, max_value=2**53 - 1),
    epoch=st.floats(min_value=0, max_value=1e6),
    others=st.dictionaries(st.text(), st.none() | st.booleans()),
    noise=st.text(),
)
def test_round_trip(value, step, epoch, others, noise):
    """What was written is read, whatever else the object holds that is no number under a place's name."""
    fields = {**others, "message": noise, "loss": value, "step": step, "epoch": epoch}
    line = json.dumps(fields).encode()
    sample = parse(line)
    assert (sample.name, sample.value, sample.step, sample.epoch) == ("loss", value, step, epoch)
