"""Rules that hold for each declared family."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_sidecar.formats.families import FAMILIES
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_parser
from support.clocks.processor_time import least_seconds

PLACES = {"step", "total", "i", "n", "epoch", "epochs"}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_declaration(family):
    """Expressions compile, their groups are known, and needles are not empty."""
    for expression in (family.line, family.also, family.place, family.context[1] if family.context else ""):
        groups = {one.removeprefix("eval_") for one in re.compile(expression).groupindex}
        assert groups <= PLACES | {"name", "value"}
    assert family.needles
    assert all(family.needles)
    assert family.weight > 1
    for metric in family.metrics:
        re.compile(metric)


HOSTILE = [
    b" ",
    b"1/",
    b"[1]",
    b"loss: ",
    b"loss=1,",
    b"Epoch: [1][",
    b"9" * 50,
    b"- ",
    b"1: ",
    b"\t",
    b"'s ",
    b"|",
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_line_costs_no_more_than_its_length(family, piece):
    """A line at the cap that holds all needles is read in well under a second."""
    line = b"".join(family.needles) + piece * (65_000 // len(piece)) + b"".join(family.needles)
    parser = make_parser(family.name, FormatOptions())
    assert least_seconds(lambda: (parser.parse(line), parser.parse(line[20:])), enough=1.0) < 1.0


FORMS = {
    "nanogpt": "iter {step}: loss {value}, time 1ms",
    "modded-nanogpt": "step:{step}/99 train_loss:{value} train_time:1ms",
    "xgboost": "[{step}]\ttrain-logloss:{value}\teval-logloss:0.1",
    "lightgbm": "[{step}]\ttraining's l2: {value}\tvalid_1's l2: 3",
    "catboost": "{step}:\tlearn: {value}\ttotal: 1ms\tremaining: 2ms",
    "scikit-learn": "Iteration {step}, loss = {value}",
    "maxtext": "completed step: {step}, seconds: 1.0, loss: {value}",
    "tensorflow-1": "INFO:tensorflow:loss = {value}, step = {step} (0.1 sec)",
    "detectron2": "[11/18 18:14:12] d2.utils.events INFO:  eta: 1:00:00  iter: {step}  total_loss: {value}",
    "megatron": " iteration {step}/ 99 | consumed samples: 8 | lm loss: {value} | loss scale: 1.0 |",
}


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=50)
@given(value=st.floats(allow_nan=False), step=st.integers(min_value=0, max_value=10**15 - 1))
def test_round_trip(name, value, step):
    """Numbers are read as they were printed."""
    sample = make_parser(name, FormatOptions()).parse(
        FORMS[name].format(step=step, value=repr(value)).encode()
    )
    assert (sample.value, sample.step) == (value, step)


def test_long_epochs_of_a_bar():
    """A long epoch gives its running mean on the way, at each tenth or thousand steps; a short one not."""
    for n, steps in (
        (2000, list(range(200, 2001, 200))),
        (30_000, list(range(1000, 30_001, 1000))),
        (1000, [1000]),
    ):
        parser = make_parser("keras", FormatOptions())
        parser.parse(b"Epoch 1/9")
        lines = [b"%d/%d [==>...] - ETA: 1s - loss: 2.5" % (i, n) for i in range(1, n + 1)]
        lines.append(b"Epoch 2/9")  # until then a better state of the same place may come
        assert [one.step for line in lines if (one := parser.parse(line))] == steps
