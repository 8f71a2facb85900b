"""A number before each line is a rank, unless it only grows: then it counts steps."""

import pytest

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import FormatOptions


def parsed(lines, metric=None):
    parser = KeyValue(FormatOptions(metric=metric))
    return [parser.parse(line.encode()) for line in lines]


def test_a_number_that_only_grows_counts_steps():
    """Known after some lines; until then it might be a rank, and the first one is followed."""
    found = parsed(f"{step}: train_loss {5 / step:.4f} val_loss 2.0" for step in range(10, 1000, 10))
    assert found[0].value == 0.5
    assert [sample.step for sample in found[40:]] == list(range(410, 1000, 10))


@pytest.mark.parametrize("ranks", [4, 40])
def test_ranks_that_print_in_order_stay_ranks(ranks):
    """Also of a job with many: the second round shows it, and none but the lowest is followed then."""
    found = parsed(f"{rank}: step {step} loss {rank + 0.5}" for step in range(3) for rank in range(ranks))
    followed = [sample for sample in found[ranks:] if sample is not None]
    assert [(sample.step, sample.value) for sample in followed] == [(1, 0.5), (2, 0.5)]


@pytest.mark.parametrize(
    ("line", "name", "value", "step"),
    [
        ("Global step: 50; Average loss over last 10 steps: 2.2", "Average loss", 2.2, 50),
        ("2024-05-01 12:00:00 [train] e0 b5/30 loss=2.17", "loss", 2.17, None),
        ("step:50 bits/char 2.18", "bits/char", 2.18, 50),
        ("step 50: bits per dim: 2.18", "bits per dim", 2.18, 50),
    ],
)
def test_what_stands_around_a_name_is_no_part_of_it(line, name, value, step):
    """A stretch of steps, short counters; and rates of compression are errors where there is nothing else."""
    [sample] = parsed([line])
    assert (sample.name, sample.value, sample.step) == (name, value, step)
