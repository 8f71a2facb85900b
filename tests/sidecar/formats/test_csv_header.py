"""Tables with a header line."""

from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.csv_header import CsvWithHeader
from specon_sidecar.formats.parser import FormatOptions


def read(*lines, metric=None):
    parser = CsvWithHeader(FormatOptions(metric=metric))
    return [
        (sample.name, sample.value, sample.step, sample.epoch)
        for line in lines
        if (sample := parser.parse(line)) is not None
    ]


def test_padded_and_empty_cells():
    """Padding is stripped; a row without a number under the metric gives nothing."""
    rows = read(
        b"   epoch,   step, train_loss,val_acc",
        b" 0,  9, 2.25,",
        b"0,42,,0.55",
        b"1, 50, 2.0,,",
        b"1, 51, 1.5,",
    )
    assert rows == [("train_loss", 2.25, 9, 0.0), ("train_loss", 1.5, 51, 1.0)]


def test_header_may_come_again_with_other_columns():
    """A new header is taken wherever it stands; the same one gives no sample."""
    rows = read(b"step,loss", b"1,3.0", b"step,loss", b"2,2.0", b"step,lr,loss", b"3,0.1,1.0")
    assert rows == [("loss", 3.0, 1, None), ("loss", 2.0, 2, None), ("loss", 1.0, 3, None)]


def test_name_may_begin_with_a_digit():
    """As `2d_loss` does; the losses of a row are added up where there is no other."""
    rows = read(b"step\t2d_loss  \t3d_loss  \t", b"1\t0.5\t0.25\t", b"2\t0.5\t0.125\t")
    assert rows == [("sum of loss parts", 0.75, 1, None), ("sum of loss parts", 0.625, 2, None)]


def test_separators_and_quotes():
    """Semicolons, tabs and quoted cells are read as well."""
    assert read(b"step;loss", b"1;0.5") == [("loss", 0.5, 1, None)]
    assert read(b"step\tloss", b"1\t0.5") == [("loss", 0.5, 1, None)]
    assert read(b'"step","loss","note"', b'1,0.5,"a, b"') == [("loss", 0.5, 1, None)]
    assert read(b"\xef\xbb\xbfstep,loss", b"1,0.5") == [("loss", 0.5, 1, None)]


def test_prose_is_no_header():
    """Numbers without a header, and sentences about losses, give nothing."""
    assert read(b"1,0.5", b"we minimise the loss, as always: with Adam", b"1,0.5") == []
    assert read(b"loss", b"1.0") == []
    assert read(b"loss,0.5", b"1,2") == []


def test_configured_metric():
    """A configured column is taken, a validation loss too."""
    assert read(b"step,loss,val_loss", b"1,3,4", metric="val_loss") == [("val_loss", 4.0, 1, None)]


@given(
    columns=st.permutations(["epoch", "step", "loss", "val_loss", "lr"]),
    rows=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**9), st.floats(allow_nan=False)), max_size=5
    ),
)
def test_round_trip(columns, rows):
    """Rows are read by the names of their columns, in any order."""
    lines = [",".join(columns)]
    for epoch, step, loss in rows:
        cells = {"epoch": epoch, "step": step, "loss": repr(loss), "val_loss": "", "lr": 0.1}
        lines.append(",".join(str(cells[column]) for column in columns))
    assert read(*(line.encode() for line in lines)) == [
        ("loss", loss, step, epoch) for epoch, step, loss in rows
    ]


def test_monitor_of_gym():
    """`r,l,t` are the reward, the length and the end of each episode."""
    parser = CsvWithHeader(FormatOptions())
    assert parser.parse(b'#{"t_start": 1758041572.96, "env_id": "CartPole-v1"}') is None
    assert parser.parse(b"r,l,t") is None
    sample = parser.parse(b"-139.5,99,0.3")
    assert (sample.name, sample.value) == ("reward", -139.5)


def test_length_of_an_episode_is_no_step():
    """Beside an episode, `steps` says how long it was."""
    parser = CsvWithHeader(FormatOptions())
    parser.parse(b"episode,reward,steps")
    assert parser.parse(b"7,1.0,200").step == 7


def test_table_that_compares_is_no_log():
    """A loss of each `id` or `model`, without a step, is no series; with one it is."""
    parser = CsvWithHeader(FormatOptions())
    assert [parser.parse(line) for line in (b",fold,loss", b"0,1,0.5", b"1,2,0.4")] == [None, None, None]
    parser = CsvWithHeader(FormatOptions())
    assert [parser.parse(line) is not None for line in (b"model,step,loss", b"1,1,0.5")] == [False, True]


def test_folds_at_the_same_epoch_are_results():
    """A row of each fold, all of the last epoch, is no curve; the epochs of each fold are."""
    parser = CsvWithHeader(FormatOptions())
    parser.parse(b"fold,epoch,loss")
    assert [parser.parse(b"%d,200,0.5" % n) is not None for n in range(4)] == [True, False, False, False]
    parser = CsvWithHeader(FormatOptions())
    parser.parse(b"fold,epoch,loss")
    assert all(parser.parse(b"%d,%d,0.5" % (fold, n)) for fold in (1, 2) for n in range(3))


def test_rows_that_are_numbered_are_one_training():
    """What differs from row to row compares nothing; folds come again."""
    rows = [(epoch, 5 * epoch + n) for epoch in range(10) for n in range(5)]
    numbered = [b"%d,%d,%.3f" % (at, epoch, 9 / (at + 1)) for epoch, at in rows]
    folds = [b"%d,%d,%.3f" % (at % 5, epoch, 9 / (at + 1)) for epoch, at in rows]
    assert len(read(b"id,epoch,loss", *numbered)) == 46
    assert len(read(b"fold,epoch,loss", *folds)) == 10
