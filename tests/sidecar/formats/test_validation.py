"""The counterpart of validation is read beside the followed metric, from the formats that print it."""

from pathlib import Path

import pytest

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.formats.validation import ValidationSeries

SAMPLES = Path(__file__).parent / "samples"


def read(text, format_="auto", **options):
    reader = make_reader(format_, FormatOptions(**options))
    samples = reader.read([line for line in text.encode().splitlines() if line])
    samples += reader.finish()
    return samples, [(one.name, one.value) for one in reader.validation()]


LIGHTNING = "epoch,step,train_loss,val_loss\n" + "".join(
    f"{epoch},{10 * epoch + 4},{3 - epoch / 10},\n{epoch},{10 * epoch + 9},,{4 - epoch}\n"
    for epoch in range(3)
)
LOGS = {
    "csv": (LIGHTNING, "val_loss"),
    "json-lines": (
        "".join(
            f'{{"step": {n}, "train": {{"loss": {3 - n}}}, "val": {{"loss": {4 - n}}}}}\n' for n in range(3)
        ),
        "val/loss",
    ),
    "key-value": ("".join(f"step={n} loss={3 - n} val_loss={4 - n}\n" for n in range(3)), "val_loss"),
    "keras": (
        "".join(
            f"Epoch {n + 1}/3\n 9/10 [=====>..] - ETA: 0s - loss: 3.5\n"
            f"10/10 [======] - 1s 9ms/step - loss: {3 - n}.5 - val_loss: {4 - n}.0\n"
            for n in range(3)
        ),
        "val_loss",
    ),
    "hugging-face": (
        "".join(
            f"{{'loss': {3 - n}.5, 'epoch': {n}.5}}\n"
            f"{{'eval_loss': {4 - n}.0, 'eval_runtime': 9.5, 'epoch': {n}.9}}\n"
            for n in range(3)
        ),
        "eval_loss",
    ),
    "xgboost": (
        "".join(f"[{n}]\ttrain-logloss:{3 - n}.5\tvalid-logloss:{4 - n}.0\n" for n in range(3)),
        "valid-logloss",
    ),
    "lightgbm": (
        "".join(f"[{n}]\ttraining's l2: {3 - n}.5\tvalid_1's l2: {4 - n}.0\n" for n in range(3)),
        "valid_1's l2",
    ),
    "nanogpt": (
        "".join(
            f"iter {n}: loss {3 - n}.5, time 9.5ms\nstep {n}: train loss 3.3, val loss {4 - n}.0\n"
            for n in range(3)
        ),
        "val loss",
    ),
    "pytorch-mnist": (
        "".join(
            f"Train Epoch: {n} [640/60000 (1%)]\tLoss: {3 - n}.5\n"
            f"Test set: Average loss: {4 - n}.0, Accuracy: 9426/10000 (94%)\n"
            for n in range(3)
        ),
        "test/Average loss",
    ),
}


@pytest.mark.parametrize("format_", LOGS)
def test_the_values_of_validation_are_delivered(format_):
    """On the same line or on lines of their own, they come beside the samples, and are none themselves."""
    text, name = LOGS[format_]
    samples, validation = read(text, format_)
    assert [value for _, value in validation] == [4.0, 3.0, 2.0]
    assert {one for one, _ in validation} == {name}
    assert name not in {one.name for one in samples}


@pytest.mark.parametrize("format_", ["csv", "json-lines", "key-value"])
def test_a_detected_format_delivers_those_of_the_head_too(format_):
    """Nothing is lost while the format is not decided."""
    _, validation = read(LOGS[format_][0])
    assert len(validation) == 3


def test_a_table_that_is_written_anew_gives_each_value_once():
    """Lightning writes its file again when a column appears."""
    assert read(LIGHTNING + LIGHTNING, "csv")[1] == read(LIGHTNING, "csv")[1]


def test_a_trainer_state_gives_each_value_once():
    """The file holds all earlier evaluations again at each checkpoint."""
    record = '    {{\n      "epoch": {0},\n      "{1}": {2},\n      "step": {3}\n    }},\n'
    records = "".join(
        record.format(n, "loss", 3 - n, n) + record.format(n, "eval_loss", 4 - n, n) for n in range(3)
    )
    document = '{\n  "log_history": [\n' + records + "  ],\n}\n"
    assert [value for _, value in read(document * 2, "trainer-state")[1]] == [4.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step={} loss=1.5 best_val_loss={}.5", 0),
        ("step={} loss=1.5 eval_runtime={}.5", 0),
        ("step={} loss=1.5 val_accuracy={}.5", 0),
        ("step={} accuracy=0.5 val_accuracy={}.5", 3),
        ("step={} train_loss=1.5 test_loss={}.5", 3),
        ("step={} train_loss=1.5 valid/loss={}.5", 3),
        ("step={} loss=1.5 eval_loss=0.5 n={}", 1),
    ],
)
def test_what_counts_as_counterpart(line, expected):
    """The same measure on other data; a value that only repeats itself counts once."""
    text = "\n".join(line.format(number, number) for number in range(3))
    assert len(read(text, "key-value")[1]) == expected


def test_a_line_about_validation_counts_by_its_heading():
    """`val: loss=0.5` is of validation; the progress within one is of a part of the data."""
    text = "step=1 loss=3\nval: loss=0.5\nval: [1/9] loss=0.7\nvalid: 10%|# | loss=0.8\n"
    assert read(text, "key-value")[1] == [("val/loss", 0.5)]


def test_a_named_metric_has_its_counterpart():
    """A metric that was named is followed beside its own counterpart, not that of a loss."""
    text = "".join(f"step={n} loss=1 acc=0.{n} val_loss={n} val_acc=0.{n}\n" for n in range(3))
    assert [name for name, _ in read(text, "key-value", metric="acc")[1]] == ["val_acc"] * 3
    assert read(text, "key-value", metric="val_acc")[1] == []


def test_validation_comes_before_test():
    """Of two counterparts the one of validation is kept, and never both."""
    text = "".join(f"step={n} loss=1 test_loss={n} val_loss={n + 5}\n" for n in range(3))
    assert read(text, "key-value")[1] == [("val_loss", 5.0), ("val_loss", 6.0), ("val_loss", 7.0)]


def test_the_memory_of_what_nobody_asks_for_is_bounded():
    """The oldest values go."""
    series = ValidationSeries()
    for number in range(10_000):
        series.take({"val_loss": float(number)})
    values = series.drain()
    assert (len(values), values[-1].value, series.drain()) == (4096, 9999.0, [])


LINES = [
    *(b"step=%d loss=%d.5 val_loss=%d.25" % (n, n, n) for n in range(5)),
    *(b"[rank1] step=%d loss=%d.5 val_loss=%d.75" % (n, n, n) for n in range(5)),
    *(b"step=%d val_loss=%d.125" % (n, n) for n in range(5)),
    *(b"step=%d loss=1 val_loss=nan test_loss=%d" % (n, n) for n in range(3)),
    *(b"val: step=%d loss=%d" % (n, n) for n in range(3)),
]


@pytest.mark.parametrize("lines", [LINES, LINES[::-1], LINES[::2] + LINES[1::2]])
def test_lines_of_a_known_layout_give_the_same_values(lines):
    """The quick way delivers what the general one does."""
    quick, general = KeyValue(FormatOptions()), KeyValue(FormatOptions())
    for line in lines:
        assert repr(quick.parse(line)) == repr(general._parse(line))
    values = quick.choice.validation.drain()
    assert len(values) > 4
    assert repr(values) == repr(general.choice.validation.drain())


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_real_logs_give_one_series_at_most(sample):
    """The values of a log are all of one name, and never that of the followed metric."""
    samples, validation = read(sample.read_text("utf-8", "replace"))
    names = {name for name, _ in validation}
    assert len(names) <= 1
    assert names.isdisjoint({samples[-1].name} if samples else ())
