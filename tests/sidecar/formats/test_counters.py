"""Places without a name: a counter at the head of a line, the bar beside it, a number of something."""

import pytest

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.counters import Counted, counter_of
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader


def read(text):
    reader, splitter = make_reader("auto", FormatOptions()), LineSplitter()
    samples = reader.read(splitter.feed(text.encode()))
    rest = splitter.flush()
    return reader, [*samples, *reader.read([] if rest is None else [rest]), *reader.finish()]


def lines(form, count=30):
    return "".join(form.format(n=n, m=500 * n, v=3 - n / 20) + "\n" for n in range(1, count + 1))


def place(samples):
    last = samples[-1]
    return last.step, last.epoch, last.total_steps, last.total_epochs


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        (b"[021500/50000] WMS | loss 0.19", Counted(21500, 50000)),
        (b"[20 38000/75400] loss 0.2 lr 1.6e-04", Counted(38000, 75400)),
        (b"[22:25:37] [#29806] loss_A: 0.01474", Counted(29806, 0)),
        (b"INFO:3-epoch (99/44660): total loss 11.2", Counted(99, 44660, epoch=3)),
        (b"E 12/500 | Loss:0.7", Counted(12, 500, of_epochs=True)),
        (b"Snapshot 2000 saved", Counted(2000, 0)),
        (b"2026-11-20 10:00:00,123 - INFO - after 31 images", Counted(31, 0)),
        (b"2026-11-20 10:00:00,123 INFO [fit.py:9] Process 100/3161(3.1%) loss: 0.5", Counted(100, 3161)),
        (b"[1900 | 100.12] loss=1.10 avg=1.10", Counted(1900, 0)),
        (b"Training  [  1900/125000]  eta: 2:00:00  total_loss: 0.5", Counted(1900, 125000)),
        (b"Train: [3][ 10/100]\tBT 0.5 (0.5)\tloss 0.5 (0.6)", Counted(10, 100, epoch=3)),
        (b"Average Loss 3.5 after 2091 sentences", Counted(2091, 0)),
        (b"  [    1000 eps] reward=0.5", Counted(1000, 0)),
        (b"[3/25][100/1583] Loss: 0.5", Counted(100, 1583, epoch=3, epochs=25)),
        (b"[E7] loss: 0.5", Counted(7, 0, of_epochs=True)),
        (b"7th epoch, loss: 0.5", Counted(7, 0, of_epochs=True)),
        (b"  12) loss=0.5", Counted(12, 0, weak=True)),
        (b"#12 cost 0.3", Counted(12, 0, weak=True)),
        (b" [====>...........]  Loss: 0.5 | Acc: 30.0% (30/100)   9/391 ", Counted(9, 391)),
        (b"loss: 0.5012  [ 6400/60000]", Counted(6400, 60000)),
        (b"12 s, loss 0.3", None),
        (b"12:30 loss 0.3", None),
        (b"Fold 3 loss 0.2", None),
        (b"gpu 3 | loss 0.2", None),
        (b"12/20 of the loss", None),
    ],
)
def test_counter_of_a_line(line, counted):
    """What counts stands at the head of the line, or behind `after`; folds and devices are not counted."""
    assert counter_of(line) == counted


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("[{n:06}/50] WMS | loss {v} | 97% | batch 16", (30, None, 50, None)),
        ("E {n}/50 | Loss:{v} | VAcc:46.25%", (None, 30, None, 50)),
        ("Snapshot {m} saved, average loss: {v}", (15000, None, None, None)),
        ("Average Train Loss {v} after {m} sentences", (15000, None, None, None)),
        ("[ {m} eps] reward={v}+/-0.2  steps={n}.5", (15000, None, None, None)),
        ("Epoch num {n}| train loss {v}", (None, 30, None, None)),
        ("Episode {n} | reward={v} | steps=200", (30, None, None, None)),
        ("epoch=0 i={n}/50 total loss={v}", (30, 0, None, None)),
        ("[0/25][{n}/1583] Loss: {v}", (30, 0, 39575, 25)),
        ("{m}, loss: {v}", (15000, None, None, None)),
        ("#{n} cost {v}", (30, None, None, None)),
    ],
)
def test_counter_places_the_samples(form, expected):
    """All samples have their place, also those before the counter was seen to grow."""
    _, samples = read(lines(form))
    assert len(samples) == 30
    assert place(samples) == expected
    assert samples[0].step in {1, 500, None}
    assert (samples[0].step, samples[0].epoch) != (None, None)


@pytest.mark.parametrize("back", ["", "\b" * 50])
def test_count_in_the_middle_of_a_bar(back):
    """It is written last, over the bar; the shorter bar of an evaluation is none of the training."""

    def bars(n, loss, batches):
        return "".join(
            f" [{'=' * i}>{'.' * (batches - i)}]  Loss: {loss - i / 99:.3f} | Acc: 9.1% ({i}/99)  "
            f"{back} {i}/{batches} " + ("\n" if i == batches else "\r")
            for i in range(1, batches + 1)
        )

    text = "".join(f"\nEpoch: {n}\n" + bars(n, 3 - n / 5, 25) + bars(n, 9, 10) for n in range(4))
    _, samples = read(text)
    assert len(samples) == 100
    assert (place(samples), samples[-1].value) == (
        (100, 3, None, None),
        pytest.approx(2.4 - 25 / 99, abs=1e-3),
    )


def test_counter_that_stands_still_places_nothing():
    """A number that is always the same counts nothing."""
    _, samples = read(lines("Snapshot 7 saved, loss {v}"))
    assert len(samples) == 30
    assert place(samples) == (None, None, None, None)


def test_bare_number_that_falls_counts_nothing():
    """Bare numbers at the head of lines are places only while they grow: these are folds or ranks."""
    _, samples = read("".join(f"{n % 5} loss {3 - n / 20}\n" for n in range(30)))
    assert place(samples) == (None, None, None, None)


def test_numbered_list_of_scores_is_none_of_a_training():
    """A bare number at the head of a line with a score numbers models as often as steps."""
    reader, samples = read("".join(f"{n}. Accuracy: 0.{80 + n % 5}\n" for n in range(30)))
    assert (reader.chosen, samples) == (None, [])


@pytest.mark.parametrize(
    ("numbers", "step"),
    [(range(100, 8000, 100), 7900), ([*range(16)] * 100, None), ([*range(0, 128, 8)] * 20, None)],
)
def test_number_before_a_colon_is_a_rank_unless_it_counts_on_and_on(numbers, step):
    """`300: loss 0.5` is of rank 300, but not behind 32 lines at even distances."""
    _, samples = read("".join(f"{n}: loss {3 - at / 2000}\n" for at, n in enumerate(numbers)))
    assert place(samples) == (step, None, None, None)


def test_bar_that_goes_with_the_epochs_says_how_many_there_are():
    """`Epoch num 3| train loss 0.5` beside `3/40`."""
    form = ": {p}%|#   | {n}/40 [00:01<00:02, 30.1s/it]\rEpoch num {n}| train loss {v}\n"
    reader, samples = read("".join(form.format(n=n, p=5 * n // 2, v=3 - n / 20) for n in range(30)))
    assert place(samples) == (None, 29, None, 40)
    assert "bar" in reader.total.source


@pytest.mark.parametrize(("ahead", "total"), [(0, 40), (9, None)])
def test_bar_on_the_line_of_the_steps_says_how_many_there_are(ahead, total):
    """Where it goes with them; one that is elsewhere counts something else."""
    text = "".join(
        f"learn:  {n}%|##  | {n + ahead}/40 [00:13<01:00, 1.7s/it][step={n}] episode={n} return={n}.5\n"
        for n in range(1, 31)
    )
    reader, samples = read(text)
    assert place(samples) == (30, None, total, None)
    assert total is None or "bar of 40" in reader.total.source


def test_bar_beside_samples_that_were_given_out_already():
    """With a format that was named, nothing of before is there any more when the bar is understood."""
    text = "".join(f"{n}%|#  | {n}/90 [00:01<00:02, 9.5it/s]\nloss {3 - n / 9}\n" for n in range(1, 9))
    reader = make_reader("key-value", FormatOptions())
    samples = [*reader.read(text.encode().splitlines()), *reader.finish()]
    assert len(samples) == 8
    assert place(samples) == (8, None, 90, None)
