"""Results of finished models are no training; scores without a place are those of one where they rise."""

import random

import pytest

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader

# Each line is written 60 times with another score in the place of `#`.
RESULTS = {
    "of each patient": "Patient TCGA_HT_7616: Accuracy = #, DSC = #",
    "of each file": "file index:3, cost:0.26 min, Acc:#, Precision:#, F1:#",
    "of each sentence": "Prediction:['HH EH N D'] ---> Reference:['HH EH'] (PER: 0.5 and Accuracy: #)",
    "of each trial": "Trial 7 Finished. Final Validation Accuracy: #",
    "of each image": "Class index: 4, pixAcc: #, mIoU: #",
    "of each benchmark": "Accuracy: #",
    "of each model": "Average accuracy: #",
}


def read(lines, **options):
    """Return the samples of a whole log."""
    reader = make_reader("auto", FormatOptions(**options))
    return reader.read([line.encode() for line in lines]) + reader.finish()


def scores(count=60):
    chance = random.Random(7)
    return [f"{chance.uniform(0.2, 0.98):.4f}" for _ in range(count)]


@pytest.mark.parametrize("form", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("count", [10, 60, 400])
def test_results_are_no_training(form, count):
    """Scores in no order and without a step or an epoch give no series."""
    assert read(form.replace("#", one) for one in scores(count)) == []


def test_score_that_rises_is_a_training():
    """Most values of a training are the best so far, even where each second one is of other data."""
    lines = [
        f"accuracy: {100 - 90 / (1 + n) - other:.2f}%; precision: 1.00%"
        for n in range(40)
        for other in (0, 0.3)
    ]
    assert len(read(lines)) == 80


def test_score_that_was_named_is_followed():
    """Who names a score wants it followed, whatever it does."""
    assert len(read((f"Accuracy: {one}" for one in scores()), metric="accuracy")) == 60


def test_score_below_headings_is_a_training():
    """The heading of an epoch is a place."""
    lines = [text for n, one in enumerate(scores(20)) for text in (f"Epoch {n}/40", f"Accuracy: {one}")]
    assert read(lines)[-1].epoch == 19
