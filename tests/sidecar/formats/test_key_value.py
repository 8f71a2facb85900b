"""Lines as training scripts print them."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import FormatOptions


def parse(line, metric=None):
    return KeyValue(FormatOptions(metric=metric)).parse(line)


# The line; name, value, step, epoch and total that it holds.
LINES = [
    (b"step=12/400 loss=0.5", ("loss", 0.5, 12, None, 400)),
    (b"INFO:tensorflow:loss = 0.60067755, step = 100 (0.089 sec)", ("loss", 0.60067755, 100, None, None)),
    (
        b" iteration       20/    1000 | per iteration (ms): 1 | lm loss: 1.2E+01 | loss scale: 32768.0 |",
        ("lm loss", 12.0, 20, None, 1000),
    ),
    (
        b"2020-06-20 09:05:05,412 trainer INFO: eta: 4:44:47  iter: 20  loss: 2.2191 (3.9)  loss_cls: 0.9556",
        ("loss", 2.2191, 20, None, None),
    ),
    (b"{'loss': 2.2822, 'learning_rate': 0.0009, 'epoch': 0.23}", ("loss", 2.2822, None, 0.23, None)),
    (b"{'loss': '1.109e+04', 'grad_norm': '0.79', 'epoch': '0.2326'}", ("loss", 11090.0, None, 0.2326, None)),
    (b"step:3488/6200 train_loss:3.5359 train_time:752582ms", ("train_loss", 3.5359, 3488, None, 6200)),
    (b"[365]\ttrain-logloss:0.00775\teval-logloss:0.04367", ("train-logloss", 0.00775, None, None, None)),
    (b"Epoch 3 loss=0.1", ("loss", 0.1, None, 3.0, None)),
    (b"[Epoch 0 Batch 800/34064] loss=10.3670, ppl=31793.0480", ("loss", 10.367, 800, 0.0, None)),
    (b"Epoch 3 iteration 0250/3766: training loss: 0.115", ("training loss", 0.115, 7782, 3.0, None)),
    (b"epoch: [1/400], global_step: 20, lr: 0.0001, loss: 3.915", ("loss", 3.915, 20, 1.0, None)),
    (
        b"completed step: 10, seconds: 13.360, total_weights: 12582912, loss: 10.565",
        ("loss", 10.565, 10, None, None),
    ),
    (b"Train Epoch: 1 [640/1347 (45%)]\tLoss: 2.249400", ("Loss", 2.2494, None, 1.0, None)),
    (b"loss=1,234.5, step=2,", ("loss", 1234.5, 2, None, None)),
    (b'"step": 12,345, "loss": "1e-05",', ("loss", 1e-05, 12345, None, None)),
    (b"total_steps=100 step=5 loss=-.5", ("loss", -0.5, 5, None, 100)),
    (b"loss=0.5 batch=3 step=7 global_step=9", ("loss", 0.5, 7, None, None)),
    (b"\x1b[1mstep\x1b[0m=4 \x1b[32mloss\x1b[0m: 2.5\x1b[0m", ("loss", 2.5, 4, None, None)),
    (b"step: 1 loss: 9.0\b\b\b\b\bstep: 2 loss: 8.0\b\b\b", ("loss", 8.0, 2, None, None)),
    (b"stdout F loss=inf", ("loss", math.inf, None, None, None)),
    ("43/43 ━━━━━━━ loss: 2.5 • val_loss: 3".encode(), ("loss", 2.5, None, None, None)),
    (b"loss: -Infinity", ("loss", -math.inf, None, None, None)),
    (b"Epoch [3/40], Step [100/600], Loss: 0.3", ("Loss", 0.3, 1300, 3.0, 24000)),
    (b"Epoch [3/40], Iter [100/600], Loss: 0.3", ("Loss", 0.3, 1300, 3.0, 24000)),
    (b"step 3 loss: tensor(0.3, grad_fn=<Nll>)", ("loss", 0.3, 3, None, None)),
    (b"step 3 loss: tensor([2.5e-03], device='cuda:0')", ("loss", 0.0025, 3, None, None)),
    (b"step 3 loss=np.float32(0.5)", ("loss", 0.5, 3, None, None)),
    (b"step 3 train_loss tensor(16.5469, device='cuda:0')", ("train_loss", 16.5469, 3, None, None)),
    (b"step 3 loss np.float32(0.5)", ("loss", 0.5, 3, None, None)),
    (b"Step 450: Cross entropy = 1.89", ("Cross entropy", 1.89, 450, None, None)),
    (b"epoch 3 3D loss: 2.3e-01", ("3D loss", 0.23, None, 3.0, None)),
    (b"epoch 3 2d_loss: 0.5", ("2d_loss", 0.5, None, 3.0, None)),
    (b"layer 0, epoch 3, cost  0.2", ("cost", 0.2, None, 3.0, None)),
    (b"epoch 3, minibatch 9/9, validation error 5.7 %", ("validation error", 5.7, None, 3.0, None)),
    (b"epoch=2 i=10/50 total loss=2.5", ("total loss", 2.5, 60, 2.0, None)),
    (b"step 3 train accuracy: 46%", ("train accuracy", 46.0, 3, None, None)),
    (b"\xff\xfe loss=0.25 \xff", ("loss", 0.25, None, None, None)),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_line(line, expected):
    """Name, value, step, epoch and total are those that the line prints."""
    sample = parse(line)
    assert sample is not None
    assert (sample.name, sample.value, sample.step, sample.epoch, sample.total_steps) == expected


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"loss scale: 8388608.0 step=3",
            b"step=3710, skipped=70, loss_scale=4",
            b"setting loss scale to: 64.0",
        ),
        *(
            b"Test set: Average loss: 2.1",
            b"val[ 0/40] Loss: 3",
            b"validation loss at iteration 100 | lm loss value: 8.09E+00 |",
        ),
        *(
            b"loss=abc",
            b"loss=",
            b"loss: 1.2.3",
            b"loss: 3rd",
            b"loss",
            b"no metric here: 5",
            b"loss=4:44:47x"[:5],
        ),
        b"glossary: 5",
    ],
)
def test_line_without_sample(line):
    """What is no training loss, or no number, gives nothing."""
    assert parse(line) is None


def test_nan_is_a_sample():
    """NaN is reported: the run diverged."""
    sample = parse(b"step 3 loss: nan")
    assert sample is not None
    assert math.isnan(sample.value)


def test_configured_metric():
    """A configured name is taken exactly, a validation loss too."""
    line = b"step=1 loss=0.5 val_loss=0.7 RCNN_CrossEntropy=1.5"
    assert parse(line, "val_loss").value == 0.7
    assert parse(line, "rcnn_crossentropy").value == 1.5
    assert parse(line, "accuracy") is None


def test_stamp_with_zone_is_the_time():
    """A stamp is the time only where its zone is printed."""
    assert parse(b"2026-11-20T23:00:00.5Z stdout F loss=2").time == 1795215600.5
    assert parse(b"[2026-11-21 00:00:00,500+0100] loss=2").time == 1795215600.5
    assert parse(b"2026-11-20 23:00:00,123 INFO loss=2").time is None


@given(
    value=st.floats(allow_nan=False),
    step=st.integers(min_value=0, max_value=10**12),
    more=st.integers(min_value=0, max_value=10**6),
    form=st.sampled_from(
        [
            b"step=%d/%d loss=%b",
            b"step: %d / %d, loss: '%b',",
            b"it %d/%d loss = %b;",
            b"{'step':%d/%d,'loss':%b}",
        ]
    ),
)
def test_round_trip(value, step, more, form):
    """A value is read as it was printed, whatever stands around it."""
    sample = parse(form % (step, step + more, repr(value).encode()))
    assert (sample.value, sample.step, sample.total_steps) == (value, step, step + more)


@pytest.mark.parametrize(
    "piece",
    [
        b"loss ",
        b"loss:",
        b"loss=1,",
        b"step ",
        b"a.",
        b"9",
        b"1,234",
        b"loss=1e",
        b"'",
        b"\x1b[",
        b"\b",
        b"( ",
    ],
)
def test_hostile_line_costs_no_more_than_its_length(piece):
    """A line at the cap, repeated against the patterns, is read in well under a second."""
    line = b"loss=" + piece * (65_530 // len(piece))
    taken = []
    for _ in range(3):  # a collection of all that other tests have left behind may fall into one of them
        started = time.process_time()
        parse(line)
        taken.append(time.process_time() - started)
    assert min(taken) < 0.5


def test_steps_that_grow_over_epochs_are_those_of_the_training():
    """Beside `Epoch 2/3`, steps that do not start again are taken as they are from then on."""
    parser = KeyValue(FormatOptions())
    lines = [b"Epoch %d/3 step %d/30 loss: 1" % (step // 10 + 1, step) for step in (5, 9, 15, 19, 25)]
    samples = [parser.parse(line) for line in lines]
    assert [(one.step, one.total_steps) for one in samples[2:]] == [(15, 30), (19, 30), (25, 30)]
