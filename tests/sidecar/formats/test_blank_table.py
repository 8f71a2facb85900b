"""Tables with columns that only blanks separate."""

import pytest

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader


def read(text):
    reader = make_reader("auto", FormatOptions())
    return reader, [*reader.read(text.encode().splitlines()), *reader.finish()]


def rows(form, count=12):
    return "".join(form.format(n=n, i=40 * (n % 3), e=n // 3, v=3 - n / 20) + "\n" for n in range(count))


@pytest.mark.parametrize(
    ("heading", "row", "name", "place"),
    [
        ("#  step  rmse_val  rmse_trn  lr", "  {n}  9.0  {v}  1e-3", "rmse_trn", (11, None, None, None)),
        ("Epoch  lr  train_loss", "{n}  1e-3  {v}", "train_loss", (None, 11, None, None)),
        (
            "2021-01-28 11:58:08 [INFO]: Epoch Batch box conf total time",
            "2021-01-28 11:58:08 [INFO]: {e}/29 {i}/120 0.1 0.2 {v} 1.5",
            "total loss",
            (440, 3, 3480, 29),
        ),
    ],
)
def test_rows_below_a_heading(heading, row, name, place):
    """The heading says what the numbers are; `3/29` is the third of 29."""
    reader, samples = read(heading + "\n" + rows(row))
    last = samples[-1]
    assert (reader.chosen, reader.goal, len(samples)) == ("columns", "min", 12)
    assert (last.step, last.epoch, last.total_steps, last.total_epochs) == place
    assert last.name == name
    assert last.value == pytest.approx(2.45)


def test_loss_of_several_parts_is_their_sum():
    """DeepXDE's `loss.dat` names the losses of training and test, and prints the parts of each."""
    text = "# step, loss_train, loss_test, metrics_test\n" + rows("{n} {v} 1e+00 7e+00 8e+00")
    reader, samples = read(text)
    assert (reader.chosen, samples[-1].name, samples[-1].step) == ("columns", "loss_train", 11)
    assert samples[-1].value == pytest.approx(3.45)


@pytest.mark.parametrize(
    "text",
    [
        "name step loss\n" + rows("run{n} {n} {v}"),
        "step used free loss of\n" + rows("{n} 12 {v}"),
        "city total temp humidity\n" + rows("{n} {v} 1 2"),
    ],
)
def test_what_is_no_table_of_a_training(text):
    """Cells with words, rows of another length, and tables without a step are left alone."""
    reader, _ = read(text)
    assert reader.chosen != "columns"


def test_table_of_runs_is_no_log():
    """Where the steps of the rows go up and down they are those of different runs."""
    steps = (4415, 4413, 4414, 4412, 4410, 4419, 4401, 4390, 4400, 4380)
    text = "asset,steps,avg_reward\n" + "".join(f"A{n},{s},0.{n}\n" for n, s in enumerate(steps))
    reader, samples = read(text)
    assert (reader.chosen, samples) == (None, [])
