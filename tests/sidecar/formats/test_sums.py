"""A bare `total` is the loss where the numbers beside it add up to it, and may be parts of one."""

import pytest

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.sums import name_summed_total


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"Step 50/3000 Total: 2.2005 | Recon: 1.5404 | KL: 0.6602", 2.2005),
        (b"Step 50/3000 Total: 3.06 | Recon: 2.13 | KL: 0.92", 3.06),
        (b"Iter 50 total=2.1663 rec=1.5164 kl=0.6499 lr=0.001", 2.1663),
        (b"Iter 50: rec 1.5252, kl 0.4358, adv 0.2179, total 2.1788", 2.1788),
    ],
)
@pytest.mark.parametrize("metric", [None, "total_of_parts"])
def test_the_total_is_followed_where_its_parts_stand_beside_it(line, value, metric):
    """Before or behind it, with a sign or without; also under the name that it was shown by."""
    sample = KeyValue(FormatOptions(metric=metric)).parse(line)
    assert (sample.name, sample.value, sample.step) == ("total_of_parts", value, 50)


def test_a_heading_says_that_it_is_a_loss():
    """Before a score among its parts."""
    sample = KeyValue(FormatOptions()).parse(b"iter 50: losses: total 2.1441, seg 1.5008, dice 0.6432")
    assert (sample.name, sample.value, sample.step) == ("total_loss", 2.1441, 50)


def test_parts_beside_their_weights_add_up_to_the_loss():
    """The printed weights say that it is a loss, whatever else a part may be called."""
    line = (
        b"[Adam] ep=   20  total=1.585e+00  PDE=1.000e-02 [colloc=0.000e+00, cfd=0.000e+00] (w=0.300)"
        b"  IN=1.574e-01 (w=1.353)  TB=2.812e-01 (w=1.623)  DATA=1.697e-01 (w=5.390)"
    )
    sample = KeyValue(FormatOptions()).parse(line)
    assert (sample.name, sample.value, sample.epoch) == ("total_of_parts", 1.585, 20)


def test_a_total_alone_behind_its_place_is_a_loss():
    """Visualisers that print the names of losses without the word."""
    sample = KeyValue(FormatOptions()).parse(b"[epoch: 3/40, iter: 25/600] total: 1.0132 ")
    assert (sample.name, sample.value, sample.step) == ("total_loss", 1.0132, 1225)


@pytest.mark.parametrize(
    "known", [b"train_loss=1.91", b"val_loss 1.91", b"mse 1.91", b"ppl 4.1", b"acc 0.46"]
)
def test_a_total_of_anything_displaces_no_metric(known):
    """It is followed where nothing else is, and given up for what comes."""
    parser, steps = KeyValue(FormatOptions()), range(300)
    for step in steps:
        first = parser.parse(b"step %d %s" % (step, known))
        beside = parser.parse(b"step %d total 4.50 one 3.00 other 1.50" % step)
    assert first is not None
    assert beside is None


def test_a_total_that_was_chosen_by_name_keeps_it():
    """As before, where an annotation names it."""
    sample = KeyValue(FormatOptions(metric="total")).parse(b"Iter 50 total=2.1663 rec=1.5164 kl=0.6499")
    assert (sample.name, sample.value) == ("total", 2.1663)


@pytest.mark.parametrize(
    "line",
    [
        b"iter 5 total: 0.3000 data: 0.1000 fwd: 0.2000",
        b"mem total: 15.78 used: 10.50 free: 5.28",
        b"step 5 Total 4.5000 fetch 3.0000 gemm 1.5000",
        b"epoch 3 timing (s): total 12.41 train 10.41 eval 2.00",
        b"step 3 total: 2.81 alive: 0.81 ctrl: 2.00",
        b"Episode 3 | Total: 4.05 | Survive: 0.05 | Other: 4.00",
        b"Iter 5 total=2.1788 rec=6.5365 kl=0.6536",
        b"total 3 rec 1 kl 2",
        b"total_time: 3.00 a: 1.00 b: 2.00",
        b"total=0.0000 rec=0.0000 kl=0.0000",
        b"ep=2 total=1.50 time=1.00 (w=2.0) data=0.50 (w=3.0)",
        b"ep=2 total=2.00 data=1.00 (w=2.0)",
        b"step 10 cls_loss: 1.3806 box_loss: 0.9204 total: 2.3010",
        b"Total: 2.20s Recon: 1.54s KL: 0.66s",
        b"Epoch 3 total: 2.2050",
        b"epoch 3, step 5, total: 2.2050 s",
    ],
    ids=[
        "times",
        "memory",
        "stages",
        "phases",
        "reward",
        "episode",
        "weighted",
        "counts",
        "another name",
        "nothing",
        "weights that do not add up",
        "one part",
        "named losses",
        "units",
        "without a step",
        "seconds",
    ],
)
def test_any_other_total_stays_what_it_is(line):
    """The name alone says nothing: it may be that of a time, of memory, or of a sum with weights."""
    assert name_summed_total(line) is line
