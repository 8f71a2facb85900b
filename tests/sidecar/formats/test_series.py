"""Which samples are of one series."""

from specon_sidecar.formats.epochs import Epochs
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.series import Series
from specon_sidecar.formats.table import make_reader


def admitted(*places, rewritten=False):
    series = Series(rewritten=rewritten)
    samples = [Sample("loss", value, step, epoch) for step, epoch, value in places]
    return [sample.value for sample in samples if series.admit(sample)], series.restarts


def test_same_place_at_once_is_a_repetition():
    """An epoch and step that come again at once count once, with another value too; later ones count."""
    assert admitted((1, 0.0, 5.0), (1, 0.0, 4.0), (2, 0.0, 3.0), (1, 0.0, 2.0)) == ([5, 3, 2], 1)


def test_same_epoch_needs_the_same_line():
    """With the epoch alone, two values at two places may have the same rounded epoch, and be the same."""
    assert admitted((None, 0.2, 5.0), (None, 0.2, 4.0), (None, 0.2, 4.0)) == ([5, 4, 4], 0)
    series = Series()
    sample = Sample("loss", 4.0, None, 0.2)
    assert [series.admit(sample, again=again) for again in (False, True)] == [True, False]
    assert admitted((None, None, 5.0), (None, None, 5.0)) == ([5, 5], 0)


def test_summaries_have_no_step():
    """Beside values with steps, those without are left out, until there are no others any more."""
    values, _ = admitted((1, 1.0, 5.0), (None, 1.0, 9.0), (2, 1.0, 4.0), *[(None, None, 7.0)] * 102)
    assert values == [5, 4, 7, 7]


def test_results_have_no_epoch():
    """Beside values with epochs, those of a finished training have none and are left out."""
    values, _ = admitted((None, 1.0, 5.0), (None, 2.0, 4.0), (None, 3.0, 3.0), (None, None, 3.1))
    assert values == [5, 4, 3]
    assert admitted((None, 1.0, 5.0), *[(None, None, 7.0)] * 10)[0] == [5, 7, 7]


def test_step_that_stands_still_places_nothing():
    """Where one line of each epoch has the same step, the epochs' own lines are the series."""
    within = [((100, None, 5.0), (None, float(epoch), 4.0 - epoch)) for epoch in range(1, 8)]
    assert admitted(*(one for pair in within for one in pair))[0] == [5, 1, 0, -1, -2, -3]
    assert admitted((100, None, 5.0), *within[3][1:], (200, None, 4.0), *within[4][1:])[0] == [5, 4]


def test_restarts_are_counted():
    """A step that goes back is a resume; one that wraps into the next epoch is not."""
    assert admitted((10, None, 5.0), (20, None, 4.0), (15, None, 4.5), (16, None, 4.0))[1] == 1
    assert admitted((10, 1.0, 5.0), (20, 1.0, 4.0), (1, 2.0, 4.5))[1] == 0


def test_rewritten_file_counts_once():
    """Of a file that is written anew only what is beyond the furthest step counts."""
    assert admitted(
        (1, None, 5.0), (2, None, 4.0), (1, None, 5.0), (2, None, 4.0), (3, None, 3.0), rewritten=True
    )[0] == [5, 4, 3]


def test_lowest_rank_that_reports():
    """A lower rank takes over at once, a higher one when the followed one is silent."""
    ranks = Ranks()
    assert [ranks.admit(one) for one in (2, 3, 2, 0, 2, 0, None, 0)] == [
        *(True, False, True, True, False, True, True, False)
    ]
    assert [ranks.admit(5) for _ in range(101)].index(True) == 99


def test_epochs_are_numbered_through():
    """Epochs count from 1 unless an epoch 0 was seen."""
    assert Epochs().through(1, 3, 10, 43) == (10, 129)
    assert Epochs().through(3, None, 43, 43) == (129, None)
    from_zero = Epochs()
    assert [from_zero.through(epoch, 3, 10, 43)[0] for epoch in (0, 1, 2)] == [10, 53, 96]
    assert Epochs().through(10**6, 10**9, 10**12, 10**12) == (None, None)


def test_next_incarnation_shows_its_first_sample():
    """After the end of a history the same place counts again: it is the proof that the next one trains."""
    for name in ("auto", "key-value"):
        reader = make_reader(name, FormatOptions())
        lines = [b"step %d loss: %d.5" % (i, 9 - i) for i in range(5)]
        before = reader.read(lines) + reader.finish()
        assert len(before) == 5
        assert [one.step for one in reader.read(lines[-1:])] == [4]


def test_restarted_log():
    """A log that was resumed gives all its values, and says that it was."""
    reader = make_reader("auto", FormatOptions())
    samples = reader.read([b"step %d loss: %d.5" % (i, 9 - i) for i in (1, 2, 3, 4, 3, 4, 5)])
    assert [one.step for one in samples] == [1, 2, 3, 4, 3, 4, 5]
    assert reader.restarts == 1
