"""Lines of a known layout are read exactly as the general way reads them."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.layout import Layouts
from specon_sidecar.formats.parser import FormatOptions

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())

TEMPLATES = [
    b"2026-11-20 23:00:00,123 INFO step=#/# epoch=# loss=#.# lr=#.# mem=#",
    b"# step=# loss=#.#",
    b"#: step=# loss=#.#",
    b"[#] step=# loss_#=#.# loss=#",
    b"[rank#]: step=# loss=#",
    b"Epoch # val: step=# loss=#.#",
    b"Epoch [#/#], Step [#/#], Loss: #.#",
    b"epoch #.# total_loss: #e-# loss: -#.# loss_scale: #",
    b"step #.# loss: #",
    b"iter #,# loss: #,#",
    b"2026-11-20T23:00:#Z loss=# step=#",
    b"abc# | step=# loss=#.#",
    b"epoch=#/# batch #/# loss #=#.# loss=#",
    b"trainer# INFO: step=# global_step=# loss: tensor(#.#)",
    b"total_steps=# it=# loss: #%",
]
number = st.integers(min_value=0, max_value=99) | st.integers(min_value=0, max_value=10**17)
digits = number.map(lambda one: b"%d" % one) | st.sampled_from([b"00", b"007", b"000000"])


def same(lines, metric=None):
    """Read with and without layouts; return the samples, and how many lines were of a known layout."""
    quick, general = KeyValue(FormatOptions(metric=metric)), KeyValue(FormatOptions(metric=metric))
    known = sum(
        [_same_line(quick, general, line) for line in lines],
    )
    assert quick.choice.verdict == general.choice.verdict
    return known


def _same_line(quick, general, line):
    known = quick._layouts.read(line) is not None
    assert repr(quick.parse(line)) == repr(general._parse(line))
    return known


@st.composite
def logs(draw):
    """Return lines of a few layouts, with any numbers in them."""
    templates = draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3))
    return [
        re.sub(rb"#", lambda _: draw(digits), draw(st.sampled_from(templates)))
        for _ in range(draw(st.integers(min_value=2, max_value=12)))
    ]


@given(lines=logs(), metric=st.sampled_from([None, "loss", "loss_1", "step", "total_loss"]))
@example(lines=[b"1234567: step=1 loss=2", b"123: step=1 loss=2"], metric=None)
@example(lines=[b"Epoch 1234567 val: step=1 loss=2", b"Epoch 1 val: step=1 loss=2"], metric=None)
@example(lines=[b"step=1 loss_1=2 loss=3", b"step=1 loss_2=2 loss=3"], metric="loss_1")
def test_any_numbers(lines, metric):
    """Whatever the numbers are, the samples are those of the general way, in each order of layouts."""
    same(lines, metric)


@given(data=st.data())
def test_mutated_lines(data):
    """A line of a sample file with some bytes changed is read as the general way reads it."""
    lines = data.draw(st.sampled_from(SAMPLES)).read_bytes().splitlines()
    changed = []
    for line in lines * 2:
        at = data.draw(st.integers(min_value=0, max_value=len(line)))
        piece = data.draw(
            st.sampled_from([b"", b"1", b",", b" ", b".", b"rank ", b"9" * 16, b"e", b"\x1b[m"])
        )
        changed.append(line[:at] + piece + line[at + data.draw(st.integers(0, 2)) :])
    same(lines + changed)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda one: one.name)
def test_samples(path):
    """The sample files, read twice over, give the same samples either way."""
    same(path.read_bytes().splitlines() * 2)


def test_the_usual_line_has_a_layout():
    """From the second line on only the numbers are looked at, however many digits they have."""
    line = b"2026-11-20 23:00:00,123 INFO step=%d/400000 epoch=3 loss=2.%d lr=0.0003"
    assert same([line % (number**3, number**2) for number in range(100)]) == 99


def test_layouts_are_bounded():
    """However many layouts a log has, few are kept and few are made."""
    parser = KeyValue(FormatOptions())
    for number in range(300):
        parser.parse(b"x" * number + b" step=1 loss=2")
    assert len(parser._layouts._kept) <= 4
    assert not parser._layouts.wanted
    assert Layouts().wanted
