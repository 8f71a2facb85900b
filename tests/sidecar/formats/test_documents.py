"""A file that is one document of JSON."""

import json

import pytest

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.documents import Documents
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader

HISTORY = {"acc": [n / 20 for n in range(20)], "loss": [3 - n / 10 for n in range(20)]}
RECORDS = [{"epoch": n, "loss": 3.1 - n / 10} for n in range(1, 21)]


def read(text):
    reader, splitter = make_reader("auto", FormatOptions()), LineSplitter()
    samples = reader.read(splitter.feed(text.encode()))
    rest = splitter.flush()
    return reader, [*samples, *reader.read([] if rest is None else [rest]), *reader.finish()]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (HISTORY, "loss"),
        ({"config": {"lr": 0.1, "layers": [64, 64]}, "history": HISTORY}, "history/loss"),
        (HISTORY | {"epoch": list(range(1, 21)), "val_loss": [2.5, 2.0, 1.5]}, "loss"),
        ({"train_losses": HISTORY["loss"], "val_accuracies": HISTORY["acc"]}, "train_loss"),
        (RECORDS, "loss"),
        ({"best": 0.5, "log": RECORDS}, "loss"),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_lists_are_series(document, name, indent):
    """A list for each metric, or of records, is read on one line and on many."""
    _, samples = read(json.dumps(document, indent=indent))
    assert [(one.name, one.epoch) for one in samples] == [(name, n) for n in range(1, 21)]
    assert samples[-1].value == pytest.approx(1.1)


def test_file_that_is_written_again():
    """Each time it has more; what it had before counts once."""
    shorter = {name: values[:-5] for name, values in HISTORY.items()}
    for indent in (None, 2):
        reader, samples = read(json.dumps(shorter, indent=indent) + "\n" + json.dumps(HISTORY, indent=indent))
        assert [one.epoch for one in samples] == list(range(1, 21))
        assert reader.restarts == 0


def test_rewards_of_episodes():
    """They are placed by the number of the episode."""
    _, samples = read(json.dumps({"episode_rewards": [n * 1.5 for n in range(20)], "seed": 7}))
    assert (samples[-1].step, samples[-1].value) == (20, 28.5)


@pytest.mark.parametrize(
    "head",
    [
        *('{\n  "lr": 0.1,\n  "layers": [64, 64]\n}\n', "{\nnot a document\n", "[\n" * 20, "[2026] loss\n"),
        *('{"lr": 0.1}\n', '{"a": [1, 2]}\n', "{\n  'lr': 0.1\n}\n", "[[1, 2], [3, 4]]\n"),
    ],
)
def test_what_is_no_document_is_read_as_it_is(head):
    """The lines held back come all the same, in their order."""
    documents = Documents()
    lines = [*head.encode().splitlines(), b"epoch 1 loss 2.5", b"{", b"}"]
    assert [one for line in lines for one in documents.take(line)] + documents.finish() == lines
    text = "".join(f"epoch {n} loss {3 - n / 10}\n" for n in range(1, 21))
    assert len(read(head + text)[1]) == 20


def test_document_without_an_end():
    """What was held back of it is given at the end of the log, and what is too long at once."""
    documents = Documents()
    assert [one for line in (b"{", b'  "loss": [', b"  0.5,") for one in documents.take(line)] == []
    assert documents.finish() == [b"{", b'  "loss": [', b"  0.5,"]
    documents = Documents()
    given = [one for line in (b"{", *[b'  "loss": [0.5],'] * 70_000) for one in documents.take(line)]
    assert len(given) == 70_001


def test_deep_document():
    """No depth makes it raise."""
    for text in (b"[" * 50_000, b'{"a":' * 950 + b"1" + b"}" * 950, b'[{"a":' * 300 + b"1" + b"}]" * 300):
        assert Documents().take(text) == [text]
